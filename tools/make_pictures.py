"""Take the README's two pictures of the bundled examples, into `tools/pictures/`.

`python tools/make_pictures.py`; needs requirements-dev.txt and Debian's chromium. Nothing of the user's own data is shown: the
server runs over an empty folder.
"""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.browser.server import launch, serve, visit  # noqa: E402

PLACE = Path(__file__).with_name("pictures")
PICTURES = {"gamma": ("/gamma?run=example", 860), "side_by_side": ("/side_by_side?run=example", 980)}
WIDTH = 1280


def main() -> None:
    """One picture per page, its first screen, in the light theme."""
    PLACE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, serve(Path(folder)) as url, sync_playwright() as player:
        browser = launch(player)
        for name, (address, height) in PICTURES.items():
            page = browser.new_page(viewport={"width": WIDTH, "height": height}, color_scheme="light")
            visit(page, url + address)
            page.wait_for_timeout(5000)  # charts are drawn after the text
            page.screenshot(path=PLACE / f"{name}.png")
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
