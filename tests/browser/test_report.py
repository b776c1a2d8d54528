"""The report as people get it: downloaded from a run's page, opened from disk without a network, drawn whole, narrow, and on paper."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Site
from tests.browser.server import visit

CHARTS = ["curve", "map", "ranking"]
MARKS = "place.querySelectorAll('.cartesianlayer path, .heatmaplayer image').length"
DRAWN = f"[...document.querySelectorAll('[data-chart]')].every(place => {MARKS} > 0)"
RIGHT = "place.querySelector('.main-svg').getBoundingClientRect().right"
INSIDE = f"[...document.querySelectorAll('[data-chart]')].every(place => {RIGHT} <= document.documentElement.clientWidth)"
WIDE = "document.querySelector('[data-chart=curve] .main-svg').getBoundingClientRect().width > 900"


def until(page: Page, holds: str) -> None:
    """Wait for a JavaScript condition; Playwright's own way needs `eval` in the page, which the report's policy refuses."""
    for _ in range(100):
        if page.evaluate(holds):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"never true: {holds}")


@pytest.fixture(scope="module")
def file(browser: Browser, site: Site, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the good run, asked for and downloaded on its page, without texts."""
    page = browser.new_page()
    visit(page, f"{site.url}/measure?run={site.good}")
    page.get_by_role("button", name="Report (HTML)").click()
    ready = page.get_by_role("button", name="Download the report (HTML)")
    expect(ready).to_be_visible(timeout=120_000)
    with page.expect_download() as download:
        ready.click()
    kept = tmp_path_factory.mktemp("report") / download.value.suggested_filename
    download.value.save_as(kept)
    page.close()
    return kept


@pytest.fixture
def offline(browser: Browser, file: Path) -> Iterator[Page]:
    """The report, opened from disk with the network off; anything it asks for, refuses or throws fails the test."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, offline=True)
    page = context.new_page()
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(file.as_uri())
    until(page, DRAWN)
    yield page
    context.close()
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [file.as_uri()]
    assert said == []


def test_every_chart_is_drawn_without_a_network(offline: Page):
    assert offline.locator("[data-chart]").evaluate_all("places => places.map(place => place.dataset.chart)") == CHARTS
    expect(offline.locator(".js-plotly-plot")).to_have_count(len(CHARTS))
    expect(offline.get_by_role("heading", level=1)).to_have_text(re.compile(r"^Keep the library's default: \d\.\d\dx the speed of plain$"))
    expect(offline.get_by_text("The sizes of both models were not at hand.")).to_be_visible()
    plot = offline.locator("[data-chart=curve] .nsewdrag").first
    plot.hover()
    plot.hover(position={"x": 300, "y": 120})
    expect(offline.locator("[data-chart=curve] .hoverlayer")).to_contain_text("gamma")
    assert offline.get_by_text("bold").count() == 0, "a prompt is in it"


def test_it_fits_a_phone(offline: Page):
    offline.set_viewport_size({"width": 400, "height": 900})
    until(offline, INSIDE)
    assert offline.evaluate("document.documentElement.scrollWidth") == 400


def test_a_foreign_script_may_not_run(offline: Page, file: Path, browser: Browser, tmp_path: Path):
    """The policy in the file holds: a script that somebody added does nothing."""
    changed = tmp_path / "changed.html"
    changed.write_text(file.read_text().replace("</main>", "</main><script>document.title = 'taken'</script>", 1))
    page = browser.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(changed.as_uri())
    until(page, DRAWN)
    assert page.title() == "big_model with small_model: Draftgauge report"
    assert any("Content Security Policy" in text for text in refused)
    page.close()


def test_on_paper_charts_are_whole_and_there_are_no_buttons(offline: Page):
    """A printed page ends at charts, never in them; Chromium lays the pages out, so the PDF is asked how many there are."""
    offline.emulate_media(media="print")
    offline.evaluate("dispatchEvent(new Event('beforeprint'))")
    widths = offline.locator("[data-chart] .main-svg:first-child").evaluate_all("all => all.map(svg => svg.getBoundingClientRect().width)")
    assert widths == [660.0] * len(CHARTS)
    assert offline.locator("figure.chart").evaluate_all("all => all.map(each => getComputedStyle(each).breakInside)") == ["avoid"] * len(CHARTS)
    assert offline.locator(".modebar").evaluate_all("all => all.every(each => getComputedStyle(each).display === 'none')")
    assert offline.locator("button:visible").count() == 0
    for size in ("A4", "Letter"):
        pdf = offline.pdf(format=size, print_background=True)
        assert pdf.startswith(b"%PDF")
        assert 3 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 6
    offline.evaluate("dispatchEvent(new Event('afterprint'))")
    offline.emulate_media(media="screen")
    until(offline, WIDE)
