"""Comparing runs in a real browser: what the address asks for, a baseline chosen on the page, and that both stay after a reload."""

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import Site
from tests.browser.server import choose, visit


def test_a_comparison_lives_in_its_address(site: Site, page: Page):
    visit(page, f"{site.url}/runs?compare={site.good},{site.bad}&baseline={site.bad}")
    expect(page.get_by_role("heading", level=1).filter(has_text="A, small_model, gains most")).to_be_visible()
    expect(page.get_by_text(re.compile(r"Beside the baseline: .* of the speedup of B on 12 prompts of both; gains more"))).to_be_visible()
    expect(page.locator(".js-plotly-plot")).to_have_count(3)
    choose(page, "Baseline", re.compile("^A: "))
    expect(page).to_have_url(re.compile(f"compare={site.good}(,|%2C){site.bad}&baseline={site.good}"))
    page.reload()
    expect(page.get_by_role("heading", name="Best setting beside that of A")).to_be_visible()
    page.set_viewport_size({"width": 400, "height": 900})
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    page.wait_for_timeout(500)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 400
