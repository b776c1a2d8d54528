"""The pair page in a browser: the address, a reload, search as one types, a Hub that is slow, the way on; against a Hub on this machine."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from core import demo
from tests import pair_models
from tests.browser.conftest import Site
from tests.browser.server import serve, visit
from tests.hub_server import HubServer, Repo, hub_server, silence

CUT_OFF = """() => [...document.querySelectorAll('[data-testid="stMetricValue"] p, [data-testid="stMetricDelta"] p, .gtitle tspan')]
    .filter(part => part.getBoundingClientRect().right > document.querySelector('h1').getBoundingClientRect().right - 16)
    .map(part => part.textContent)"""
"""Figures on cards and charts' headings that reach into the cards' padding, where they are cut off."""
ROW = {"pipeline_tag": "text-generation", "tags": ["safetensors"]}
WAIT_MS = 30_000


@pytest.fixture(scope="module")
def hub() -> Iterator[HubServer]:
    with hub_server() as server:
        for at, (name, folder) in enumerate((("acme/target", demo.TARGET.path), ("acme/draft", demo.DRAFT.path), ("acme/silent", demo.DRAFT.path))):
            files = {file.name: file for file in Path(folder).iterdir() if file.is_file()}
            server.repos[name] = Repo(dict(files), extra=ROW | {"downloads": at})
        server.faults["/api/models/acme/silent"] = silence
        yield server


@pytest.fixture(scope="module")
def app(hub: HubServer, site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("pair_site")
    pair_models.make(folder / "models")
    roots, home = f'["{folder / "models"}"]', str(folder / "hf")
    with serve(folder / "data", DRAFTGAUGE_MODEL_ROOTS=roots, HF_ENDPOINT=hub.url, HF_HOME=home, HF_HUB_OFFLINE="0") as url:
        yield url
    shutil.rmtree(folder, ignore_errors=True)


def headline(page: Page, text: str) -> None:
    expect(page.get_by_role("heading", level=1).filter(has_text=text)).to_be_visible(timeout=WAIT_MS)


def test_the_demo_pair_is_chosen_kept_on_reload_and_leads_to_measuring(page: Page, app: str):
    visit(page, f"{app}/pair")
    page.get_by_role("button", name="See 1 draft").first.click()
    headline(page, "Demo draft fits and looks worth measuring")
    expect(page).to_have_url(re.compile(r"target=demo(:|%3A)target&draft=demo(:|%3A)draft"))
    page.reload()
    headline(page, "Demo draft fits and looks worth measuring")
    expect(page.locator(".st-key-expected")).to_be_visible()
    page.get_by_role("button", name="Measure 1 draft").click()
    headline(page, "Measure a pair")
    expect(page).to_have_url(re.compile(r"/measure\?target=demo(:|%3A)target&draft=demo(:|%3A)draft"))
    expect(page.get_by_role("button", name="Measure", exact=True)).to_be_enabled()


def test_a_search_finds_models_while_one_types(page: Page, app: str):
    visit(page, f"{app}/pair")
    page.get_by_role("button", name="Search the Hub").click()
    box = page.get_by_placeholder("smollm2")
    box.press_sequentially("acme", delay=30)  # no Enter, no blur
    found = page.get_by_role("button", name="Target", exact=True)
    expect(found).to_have_count(3, timeout=WAIT_MS)
    expect(page.get_by_test_id("stPopoverBody").get_by_text("acme/silent")).to_be_visible()
    found.nth(2).click()
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile("target=acme(/|%2F)target"))
    headline(page, "Which draft for target?")


def test_a_slow_model_holds_up_no_other(page: Page, app: str):
    visit(page, f"{app}/pair?target=acme/target&draft=acme/draft&draft=acme/silent")
    headline(page, "One of two drafts fits; draft looks worth measuring")
    expect(page.get_by_text("1 of 2 drafts read so far.")).to_be_visible()
    expect(page.get_by_test_id("stMarkdown").filter(has_text=re.compile("^silent .*reading$"))).to_have_count(1)
    expect(page.get_by_role("button", name="Measure 1 draft")).to_be_enabled()
    expect(page.get_by_text("MB to download, unless already here")).to_be_visible()


def test_a_refused_pair_has_a_reason_instead_of_a_button(page: Page, app: str):
    visit(page, f"{app}/pair?target=demo:target&draft=folder:permuted")
    headline(page, "This draft does not fit as it is")
    expect(page.get_by_role("button", name="Measure", exact=True)).to_be_disabled()
    expect(page.get_by_text("Refused: the sizes are equal but the ids stand for other tokens.")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_runs_over_the_edge_at_400_pixels(page: Page, app: str, theme: str):
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    page.set_viewport_size({"width": 400, "height": 900})
    visit(page, f"{app}/pair?target=demo:target&draft=demo:draft&draft=folder:permuted&draft=folder:padded&draft=folder:torn&draft=folder:headless")
    headline(page, "Two of five drafts fit")
    expect(page.get_by_text("not known", exact=True).first).to_be_visible(timeout=WAIT_MS)
    assert page.evaluate("document.querySelector('[data-testid=\"stMain\"]').scrollWidth") <= 400
    assert page.evaluate(CUT_OFF) == []


def test_reasons_and_exact_calls_unfold(page: Page, app: str):
    visit(page, f"{app}/pair?target=demo:target&draft=demo:draft")
    headline(page, "Demo draft fits and looks worth measuring")
    page.get_by_text("Why", exact=True).click()
    expect(page.get_by_text("drafts about a hundred times smaller did best in the paper")).to_be_visible(timeout=WAIT_MS)
    page.get_by_text("Exact calls, reasons and sources").click()
    expect(page.get_by_text("target.generate(**inputs, assistant_model=draft)")).to_be_visible(timeout=WAIT_MS)
