"""The page of runs as a browser shows it: rows chosen by a click, deleting taken back, two runs compared, and an address that keeps the question."""

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from playwright.sync_api import Page, expect

from core.settings import Settings
from core.store import open_store
from tests import synthetic
from tests.browser.conftest import Site
from tests.browser.server import SETTLED, serve, visit
from tests.test_history import SUMMARY

ROW, TICK = 36, 15
"""Pixels: height of a row and of the header, and from the left edge to a row's box."""


@pytest.fixture(scope="module")
def listed(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of its own, whose runs may be deleted: first, second and third, the newest on top."""
    folder = tmp_path_factory.mktemp("listed")
    store = open_store(Settings(data=folder))
    for day, name in enumerate(("first", "second", "third")):
        run = synthetic.run(name, draft=f"{name}_draft <b>x</b>", c=0.1 * (day + 1), prompts=8, tokens=24)
        changes = {"created": run.created + timedelta(days=day), "summary": SUMMARY, "tags": ("kept",) if day else ()}
        store.insert(run.model_copy(update=changes))
    store.close()
    with serve(folder, DRAFTGAUGE_TEST_ONLY_SHOWS="1") as url:
        yield url


def tick(page: Page, *rows: int) -> None:
    """Choose rows by their boxes; 0 is the first. The table is drawn on a canvas, after the page stands still, and again after each click."""
    table = page.get_by_test_id("stDataFrame").first
    for row in rows:
        page.wait_for_function(SETTLED)
        expect(table.locator("canvas").first).to_be_visible()
        page.wait_for_timeout(700)
        box = table.bounding_box()
        assert box
        page.mouse.click(box["x"] + TICK, box["y"] + ROW * (row + 1.5))
        page.wait_for_timeout(700)


def test_runs_are_chosen_deleted_brought_back_and_compared(page: Page, listed: str):
    visit(page, f"{listed}/runs")
    expect(page.get_by_role("button", name="Compare")).to_be_disabled()
    tick(page, 0)
    expect(page.get_by_role("link", name="Open big_model with third_draft <b>x</b>")).to_be_visible()
    expect(page.get_by_label("Note")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("Deleted 1 run.")).to_be_visible()
    expect(page.get_by_text("2 runs that ended")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("3 runs that ended")).to_be_visible()
    tick(page, 0, 2)
    expect(page.get_by_role("button", name="Compare")).to_be_enabled()
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url(re.compile(r"compare=third(,|%2C)first&baseline=first"))
    expect(page.get_by_role("heading", level=1).filter(has_text="gains")).to_be_visible()
    page.get_by_role("link", name="All runs").click()
    expect(page.get_by_role("heading", level=1, name="Runs", exact=True)).to_be_visible()


def test_the_question_stays_in_the_address_and_fits_a_phone(page: Page, listed: str):
    visit(page, f"{listed}/runs")
    page.get_by_label("Search", exact=True).fill("kept second")
    page.get_by_label("Search", exact=True).press("Enter")
    expect(page.get_by_text("1 of 3 runs are listed.")).to_be_visible()
    page.wait_for_url(re.compile("find=kept"))
    page.set_viewport_size({"width": 400, "height": 900})
    page.reload()
    expect(page.get_by_text("1 of 3 runs are listed.")).to_be_visible()
    assert page.evaluate("document.querySelector('[data-testid=\"stMain\"]').scrollWidth") <= 400
