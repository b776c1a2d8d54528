"""A pair with other tokens in a browser, from its address to the answer: chosen, really run by a real worker, and shown."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site
from tests.browser.server import serve, visit
from tests.models import write_pair

MEASURED_MS = 60_000


@pytest.fixture(scope="module")
def app(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("ways_site")
    write_pair(folder / "models")  # its tokenizer is one of its own, so its draft has other tokens than the bundled target
    config = folder / "models" / "draft" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"max_position_embeddings": 2048}))
    with serve(folder / "data", DRAFTGAUGE_MODEL_ROOTS=f'["{folder / "models"}"]', HF_HUB_OFFLINE="1") as url:
        yield url
    shutil.rmtree(folder, ignore_errors=True)


def test_other_tokens_are_really_run_and_nothing_is_replayed(page: Page, app: str):
    visit(page, f"{app}/measure?target=demo:target&draft=folder:draft&tokens=8&confirm_s=0")
    start = page.get_by_role("button", name="Run 4 ways for real")
    expect(start).to_be_enabled(timeout=MEASURED_MS)
    number = page.get_by_role("spinbutton", name="Number of prompts")
    number.fill("2")
    number.press("Enter")
    expect(page.get_by_text("Below 8 prompts there is no interval")).to_be_visible()
    start.click()
    expect(page.get_by_role("heading", level=1).filter(has_text=re.compile("Not decided yet|Leave drafting off"))).to_be_visible(timeout=MEASURED_MS)
    expect(page).to_have_url(re.compile(r"/measure\?.*run="))
    expect(page.locator(".st-key-ways")).to_be_visible()
    expect(page.get_by_text("Really run, nothing replayed.")).to_be_visible()
    expect(page.get_by_text("Not to be used")).to_have_count(0)
    assert page.evaluate("document.querySelector('[data-testid=\"stMain\"]').scrollWidth") <= 1440
