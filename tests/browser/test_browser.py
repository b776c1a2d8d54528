"""What only a browser can show: cold links, the click on the map, the address, narrow and dark pages, no outbound calls."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from benchmarks import click_latency
from core.settings import Settings
from core.store import open_store
from tests.benches import until
from tests.browser.conftest import Site
from tests.browser.server import serve, visit


@pytest.fixture
def page(page: Page) -> Page:
    """Without animations, which are drawn by the processor here."""
    page.emulate_media(reduced_motion="reduce")
    return page


def width_of_content(page: Page) -> int:
    return page.evaluate("document.querySelector('[data-testid=\"stMain\"]').scrollWidth")


@pytest.mark.parametrize("path", ["/", "/pair", "/measure", "/gamma", "/memory_cost", "/measure?run={good}", "/gamma?run={good}"])
def test_cold_link_opens_the_page_with_its_navigation(page: Page, site: Site, path: str):
    visit(page, site.url + path.format(good=site.good))
    for name in ("Start", "Pair", "Measure", "Choose gamma", "Memory and cost"):
        expect(page.get_by_role("link", name=name, exact=False).first).to_be_visible()
    expect(page.get_by_text("Page not found")).to_have_count(0)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/", "/pair", "/measure?run={bad}", "/gamma?run={good}", "/memory_cost"])
def test_nothing_runs_over_the_edge_at_400_pixels(page: Page, site: Site, path: str, theme: str):
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    page.set_viewport_size({"width": 400, "height": 900})
    visit(page, site.url + path.format(good=site.good, bad=site.bad))
    assert width_of_content(page) <= 400
    background = page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
    assert background == ("rgb(18, 21, 28)" if theme == "dark" else "rgb(255, 255, 255)")


@pytest.mark.parametrize("width", [400, 1440])
def test_a_click_on_the_map_goes_into_the_sliders_the_curve_and_the_address(page: Page, site: Site, width: int):
    page.set_viewport_size({"width": width, "height": 1400})
    visit(page, f"{site.url}/gamma?run={site.good}")
    plot = page.locator(".st-key-map .nsewdrag").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box
    # Column 3 of 12 from the left, row 4 of 14 from the top: c 0.026, alpha 0.80.
    page.mouse.click(box["x"] + box["width"] * 2.5 / 12, box["y"] + box["height"] * 3.5 / 14)
    page.wait_for_url(re.compile(r"alpha=0\.8&c=0\.026"), timeout=10_000)
    expect(page.locator(".st-key-curve .legendtext", has_text="what-if")).to_have_count(1)
    expect(page.get_by_role("slider").first).to_have_value("0.8")


def test_what_if_link_survives_a_reload(page: Page, site: Site):
    visit(page, f"{site.url}/gamma?alpha=0.9&c=0.05")
    expect(page.get_by_role("heading", level=1).filter(has_text="draft 13 tokens at a time")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", level=1).filter(has_text="draft 13 tokens at a time")).to_be_visible()


def test_pasted_prompts_survive_a_page_change_and_a_reload(page: Page, site: Site):
    visit(page, f"{site.url}/measure")
    page.get_by_text("Your prompts").click()
    area = page.get_by_role("textbox", name="Prompts")
    area.fill("$x$ <b>one</b>\ntwo")
    area.blur()
    expect(page.get_by_text("2 prompts", exact=True)).to_be_visible()
    page.get_by_role("link", name="Start").first.click()
    expect(page.get_by_role("heading", level=1).filter(has_text="Which draft model")).to_be_visible()
    page.get_by_role("link", name="Measure").first.click()
    expect(area).to_have_value("$x$ <b>one</b>\ntwo")
    page.wait_for_url(re.compile("pasted="))
    page.reload()
    expect(area).to_have_value("$x$ <b>one</b>\ntwo")


def test_tokens_are_shown_as_text(page: Page, site: Site):
    visit(page, f"{site.url}/measure?run={site.good}")
    written = page.locator(".tk").inner_text()
    assert "$y$" in written
    assert "&amp;" in written
    assert page.locator(".tk b").count() == 0


def test_navigation_keeps_the_run(page: Page, site: Site):
    visit(page, f"{site.url}/measure?run={site.good}")
    page.get_by_role("link", name="Choose gamma").first.click()
    expect(page).to_have_url(re.compile(f"/gamma.*run={site.good}"))
    expect(page.get_by_text("Policies")).to_be_visible()


def test_costs_of_the_map_and_other_runs_go_into_the_address(page: Page, site: Site):
    visit(page, f"{site.url}/gamma?run={site.good}")
    page.get_by_role("radio", name="formula").click()
    expect(page.locator(".st-key-map").get_by_text("this run, passes alone", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile("costs=formula"))
    page.get_by_role("combobox", name="Other runs on the map").click()
    page.get_by_role("option").first.click()
    expect(page).to_have_url(re.compile(f"with={site.bad}"))
    page.reload()
    expect(page.locator(".st-key-map").get_by_text("this run, passes alone", exact=True)).to_be_visible()
    expect(page.get_by_text("1: big_model with small_model")).to_be_visible()


def test_a_folded_part_is_drawn_when_it_is_opened(page: Page, site: Site):
    visit(page, f"{site.url}/gamma?run={site.good}")
    expect(page.locator(".st-key-sweep")).to_have_count(0)
    page.get_by_text("Limit x threshold sweep").click()
    expect(page.locator(".st-key-sweep")).to_be_visible()


def test_a_click_is_answered_while_a_measurement_runs(browser: Browser, tmp_path: Path):
    """Only that it is answered; `benchmarks.click_latency` says how fast."""
    busy, finished = click_latency.prepare(tmp_path)
    with serve(tmp_path, DRAFTGAUGE_MODEL_ROOTS=f'["{tmp_path / "models"}"]') as url:
        tab = browser.new_page(viewport={"width": 1440, "height": 1400})
        visit(tab, f"{url}/measure?run={busy}")  # still waiting for its worker: the headline has to follow
        expect(tab.get_by_role("heading", name="Measuring")).to_be_visible(timeout=60_000)
        visit(tab, f"{url}/gamma?run={finished}")
        store = open_store(Settings(data=tmp_path))
        until(lambda: store.get(busy).progress.stage == "plain")
        click_latency.click_s(tab, to_formula=True)
        assert store.status(busy) == "running"
        store.close()
        tab.close()
