"""A run leaves by a real download and comes in by a real upload."""

from pathlib import Path

from playwright.sync_api import Page, expect

from core.imports_json import from_json
from tests.browser.conftest import Site
from tests.browser.server import visit

SCRIPT = "<img src=x onerror=alert(1)>"


def test_a_downloaded_run_is_uploaded_again_and_opens(page: Page, site: Site, tmp_path: Path):
    visit(page, f"{site.url}/measure?run={site.good}")
    title = page.get_by_role("heading", level=1).inner_text()
    with page.expect_download() as download:
        page.get_by_role("button", name="Whole run (JSON)").click()
    file = tmp_path / "run.json"
    download.value.save_as(file)
    assert all(prompt.withheld for prompt in from_json(file.read_bytes()).spec.prompts)
    file.write_text(file.read_text(encoding="utf-8").replace('"big_model"', f'"{SCRIPT}"'), encoding="utf-8")
    visit(page, f"{site.url}/runs")
    page.get_by_text("Import a run, an engine's record, or two numbers").click()
    page.locator('input[type="file"]').set_input_files(file)
    expect(page.get_by_text("The file was edited after it was exported", exact=False)).to_be_visible(timeout=60_000)
    page.get_by_role("button", name="Import", exact=True).click()
    page.wait_for_url("**/measure?run=*", timeout=60_000)
    expect(page.get_by_role("heading", level=1, name=title, exact=True)).to_be_visible(timeout=30_000)
    expect(page.get_by_text(f"target {SCRIPT}")).to_be_visible()
