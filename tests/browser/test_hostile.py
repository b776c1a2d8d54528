"""Every text of every record, drawn by a real browser on every page and in the files that leave the app, stays a text.

The runs are those of `tests.hostile`. A page is opened, everything folded on it is unfolded and every tab is chosen, and then it must show
none of what the texts try to become; that the hostile run is really on it is asserted too. Two more pages are asked for by hostile addresses.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Browser, Dialog, Page, Request, expect

from core.analysis import Analysis, analyse
from core.player import player
from core.prompt_draft import Draft
from core.record import Imported
from core.report_html import report
from core.settings import Settings
from core.store import open_store
from tests import side_runs, synthetic
from tests.browser.conftest import Site
from tests.browser.server import SETTLED, serve
from tests.hostile import BEGIN, HOST, PAGE_PROBES, filled, hostile_folder, hostile_run, text
from tests.test_history import SUMMARY

NAME = "<img src=x onerror=betray() data-betrayed=folder>"
UNFOLD = """() => {
  for (const each of document.querySelectorAll('details:not([open]) > summary')) each.click();
  for (const each of document.querySelectorAll('[role=tab][aria-selected=false]')) each.click();
}"""


@dataclass(frozen=True)
class Shown:
    """The address of a server whose runs are all hostile."""

    url: str


@pytest.fixture(scope="module")
def shown(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder = tmp_path_factory.mktemp("hostile")
    hostile_folder(folder / "models", NAME)
    store = open_store(Settings(data=folder))
    full = synthetic.run(c=0.1, prompts=8, tokens=48, group="pairs").model_copy(update={"summary": SUMMARY})
    store.insert(hostile_run(full, "full"))
    store.insert(hostile_run(synthetic.run(c=0.3, prompts=8, tokens=48, group="pairs", draft="b").model_copy(update={"summary": SUMMARY}), "other"))
    store.insert(hostile_run(side_runs.run(differ_at=5, margin=2.0), "side"))
    ended = synthetic.run().model_copy(update={"traces": (), "generations": (), "passes": ()})
    store.insert(hostile_run(ended.model_copy(update={"status": "failed", "error": "x"}), "failed"))
    known = Imported(source="vllm", alpha=0.6, gamma=3, definition="x", reference="x")
    store.insert(hostile_run(ended.model_copy(update={"imported": known}), "imported"))
    pasted = f'{{"prompt": "{"x" * 3}", "label": "<b data-betrayed=label>"}}\n' + text("pasted")
    store.save_prompts("draft", filled(Draft(pasted="x")).model_copy(update={"pasted": pasted}).saved())
    store.save_prompts("side-text", text("side"))
    store.close()
    with serve(folder, DRAFTGAUGE_MODEL_ROOTS=f'["{folder / "models"}"]', DRAFTGAUGE_TEST_ONLY_SHOWS="1") as url:
        yield Shown(url)


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A tab in which a betrayal is remembered, and which no content policy protects; dialogs and requests to the texts' host fail the test."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, reduced_motion="reduce", bypass_csp=True)
    context.add_init_script(BEGIN)
    page = context.new_page()
    caught: list[str] = []

    def dialog(opened: Dialog) -> None:
        caught.append(opened.message)
        opened.dismiss()

    def asked(request: Request) -> None:
        if urlsplit(request.url).hostname == HOST:
            caught.append(request.url)

    page.on("dialog", dialog)
    page.on("request", asked)
    yield page
    context.close()
    assert caught == []


def betrayed(page: Page) -> list[str]:
    return [found for frame in page.frames for found in frame.evaluate(PAGE_PROBES)]


PAGES = {
    "/": "data-betrayed='spec.target.name'",
    "/measure?run=full": "data-betrayed='spec.target.name'",
    "/measure?run=failed": "data-betrayed='error'",
    "/measure?run=imported": "data-betrayed='imported.definition'",
    "/measure?pasted=draft": "data-betrayed=label",
    "/gamma?run=full": "data-betrayed='spec.target.name'",
    "/memory_cost?run=full": "data-betrayed='spec.target.name'",
    "/side_by_side?run=side": "data-betrayed='spec.target.name'",
    "/runs?compare=full,other": "data-betrayed='spec.target.name'",
    f"/runs?find={quote(text('find'))}&tag_is={quote(text('tag_is'))}": "Draftgauge",
    f"/pair?target={quote('folder:' + NAME)}&draft={quote(text('draft'))}": NAME,
    f"/measure?run={quote(text('run'))}": "data-betrayed='run'",
    f"/gamma?run={quote(text('run'))}&alpha={quote(text('alpha'))}": "data-betrayed='run'",
}


@pytest.mark.parametrize("address", PAGES, ids=lambda address: address[:24])
def test_no_text_becomes_more_than_a_text(tab: Page, shown: Shown, address: str):
    tab.goto(shown.url + address)
    tab.wait_for_selector('[data-testid="stMain"] h1')
    tab.wait_for_function(SETTLED)
    tab.evaluate(UNFOLD)
    tab.wait_for_timeout(300)
    tab.wait_for_function(SETTLED)
    assert betrayed(tab) == []
    assert tab.get_by_test_id("stException").count() == 0
    if PAGES[address] != "Draftgauge":
        expect(tab.locator("body")).to_contain_text(PAGES[address], use_inner_text=True, timeout=30_000)  # else the page shows no such text


@pytest.mark.parametrize("what", ["report", "replay"])
def test_no_text_of_an_exported_file_becomes_more_than_a_text(tab: Page, what: str, tmp_path: Path):
    file = tmp_path / f"{what}.html"
    if what == "report":
        found = analyse(hostile_run(synthetic.run(prompts=8, tokens=48), "full"))
        assert isinstance(found, Analysis)
        file.write_text(report(found, texts=True, link=text("link"), made=text("made")), encoding="utf-8")
    else:
        file.write_text(player(hostile_run(side_runs.run(differ_at=5, margin=2.0), "side")), encoding="utf-8")
    tab.goto(file.as_uri())
    tab.wait_for_timeout(500)
    assert betrayed(tab) == []
    assert "data-betrayed='spec.target.name'" in tab.locator("body").inner_text()


def test_the_probes_notice_what_they_are_for(tab: Page):
    """Nothing above would mean anything if these texts, drawn as HTML, were not noticed."""
    tab.set_content(text("probe"))
    tab.wait_for_timeout(200)
    found = betrayed(tab)
    assert "a script ran" in found
    assert "an element of probe" in found
