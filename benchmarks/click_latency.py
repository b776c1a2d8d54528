"""How long a click takes to be answered in the browser while a measurement runs on the same machine.

    python -m benchmarks.click_latency

A stand-in pair of tiny models is measured on many prompts, so that the worker is busy all the while;
on the gamma page of a finished run the map is switched between its two costs, and the time runs from
the click until the other map is drawn (server, network and browser together). Reported: median and
worst of CLICKS, in milliseconds. The goal is well under half a second. Needs Debian's chromium.
"""

import os
import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from core.settings import Settings
from core.store import open_store
from tests import synthetic
from tests.browser.server import launch, serve, visit
from tests.models import spec_of, write_pair

CLICKS, PROMPTS, TOKENS = 20, 400, 128
DRAWN = "label => [...document.querySelectorAll('.st-key-map .annotation-text')].some(text => text.textContent === label)"


def main() -> None:
    """Start the measurement, click, print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        busy, finished = prepare(folder)
        with serve(folder, DRAFTGAUGE_MODEL_ROOTS=f'["{folder / "models"}"]') as url, sync_playwright() as playwright:
            browser = launch(playwright)
            page = browser.new_page(viewport={"width": 1440, "height": 1400})
            visit(page, f"{url}/gamma?run={finished}")  # the first visit makes the bench, which starts the waiting run
            store = open_store(Settings(data=folder))
            while store.get(busy, results=False).progress.stage in ("queued", "load"):
                time.sleep(0.2)
            times_s = [click_s(page, number % 2 == 0) for number in range(CLICKS + 2)][2:]
            stage = store.get(busy, results=False).progress.stage
            store.close()
            browser.close()
    print(f"{os.cpu_count()} cores; the measurement beside it is at stage {stage!r}")
    print(f"{CLICKS} clicks: median {1000 * statistics.median(times_s):.0f} ms, worst {1000 * max(times_s):.0f} ms")


def prepare(folder: Path) -> tuple[str, str]:
    """Ids of a run that waits for the server and of a finished one, in a fresh store."""
    (folder / "models").mkdir()
    spec = spec_of(write_pair(folder / "models"))
    long = spec.model_copy(update={"prompts": spec.prompts * (PROMPTS // len(spec.prompts)), "max_new_tokens": TOKENS})
    store = open_store(Settings(data=folder))
    ids = store.add(long), synthetic.keep(store, synthetic.run())
    store.close()
    return ids


def click_s(page: Page, to_formula: bool) -> float:
    """Seconds from the click on one of the map's two costs until its label for the run is drawn."""
    label = "this run, passes alone" if to_formula else "this run"
    began = time.perf_counter()
    page.get_by_role("radio", name="formula" if to_formula else "this run's v, h").click()
    page.wait_for_function(DRAWN, arg=label)  # looks at every frame; `expect` would look again only after 0.1, 0.25, 0.5 s
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
