"""What only a browser can show of the memory page: the address that survives a reload, the copied sentence, an edited price, narrow and dark."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.server import choose, serve, visit
from tests.test_memory_page import DRAFT, TARGET

PAIR = f"target={TARGET}&draft={DRAFT}"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[str]:
    with serve(tmp_path_factory.mktemp("memory"), DRAFTGAUGE_TEST_ONLY_SHOWS="1") as address:
        yield f"{address}/memory_cost"


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 1400}, permissions=["clipboard-read", "clipboard-write"])
    tab = context.new_page()
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    yield tab
    context.close()
    assert errors == []


def query(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def fill(page: Page, label: str, value: str) -> None:
    field = page.get_by_role("textbox", name=label)
    field.fill(value)
    field.press("Enter")


def heading(page: Page):
    return page.get_by_role("heading", level=1)


def test_every_field_is_in_the_address_and_survives_a_reload(page: Page, url: str):
    visit(page, f"{url}?{PAIR}")
    fill(page, "Context, tokens", "4,096")
    fill(page, "Sequences", "32")
    page.get_by_text("Prices and assumptions").click()
    fill(page, "Or your price", "4.29")
    fill(page, "Other currency", "EUR")
    fill(page, "Rate per USD", "0.92")
    fill(page, "Overhead, GiB", "3")
    expect(page).to_have_url(re.compile("overhead=3"))
    choose(page, "Cache format", "fp8")
    expect(page).to_have_url(re.compile("kv=fp8"))
    wanted = {"context": "4,096", "sequences": "32", "price": "4.29", "currency": "EUR", "rate": "0.92", "overhead": "3", "kv": "fp8"}
    assert {name: query(page)[name] for name in wanted} == {name: [value] for name, value in wanted.items()}
    assert query(page)["target"] == [TARGET]
    # 2,471,628,800 bytes and 32 x 4,096 x 16 KiB make 4.6 GB; 4.29 USD x 720 hours x (1 - 1 / 1.3) make 713 USD.
    expect(heading(page)).to_have_text("What if 1.30x: the draft takes 4.6 GB and saves 713 USD a month")
    page.reload()
    expect(heading(page)).to_have_text("What if 1.30x: the draft takes 4.6 GB and saves 713 USD a month")
    expect(page.get_by_text("656 EUR at 0.92")).to_be_visible()


def test_values_survive_a_visit_to_another_page(page: Page, url: str):
    visit(page, f"{url}?{PAIR}&sequences=32&context=4096&price=4.29")
    page.get_by_role("link", name="Choose gamma").first.click()
    expect(heading(page)).to_contain_text("What if")
    page.get_by_role("link", name="Memory and cost").first.click()
    expect(heading(page)).to_have_text("What if 1.30x: the draft takes 6.8 GB and saves 713 USD a month")
    assert query(page)["target"] == [TARGET]


def test_the_sentence_is_copied_as_it_is_shown(page: Page, url: str):
    visit(page, f"{url}?{PAIR}&gpu=H100+SXM&price=4.29&speedup=1.52")
    shown = page.get_by_test_id("stText").filter(has_text="On one H100 SXM").inner_text()
    page.get_by_role("button", name="Copy as sentence").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == shown
    assert "at one request at a time it saves 1,057 USD a month (4.29 USD per GPU-hour; what-if speedup 1.52x, not measured)." in copied


def test_one_primary_button_reachable_by_keyboard(page: Page, url: str):
    visit(page, f"{url}?{PAIR}")
    expect(page.get_by_test_id("stBaseButton-primary")).to_have_count(0)
    button = page.get_by_role("button", name="Copy as sentence")
    button.wait_for()
    expect(button).to_have_count(1)
    button.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Copied")).to_be_visible()


def test_prices_are_downloaded_as_csv(page: Page, url: str):
    visit(page, f"{url}?{PAIR}")
    with page.expect_download() as started:
        page.get_by_role("button", name="Prices as CSV").click()
    text = Path(started.value.path()).read_text("utf-8")
    assert text.startswith("provider,instance,gpu,gpus,usd_per_hour,dated,source\n")
    assert "Lambda,1x H100 SXM,H100 SXM,1,4.29," in text


@pytest.mark.parametrize(("rest", "theme"), [("", "dark"), ("&requests=200000", "light"), ("&gpu=A10&sequences=64&price=4,29", "light")])
def test_nothing_runs_over_the_edge_at_400_pixels(page: Page, url: str, rest: str, theme: str):
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    page.set_viewport_size({"width": 400, "height": 900})
    visit(page, f"{url}?{PAIR}{rest}")
    assert page.evaluate("document.querySelector('[data-testid=\"stMain\"]').scrollWidth") <= 400


def test_an_edited_price_is_used_and_said_to_live_in_the_session(page: Page, url: str):
    visit(page, f"{url}?{PAIR}&gpu=A10&context=1024&sequences=1&speedup=2")
    expect(heading(page)).to_contain_text("saves 464 USD a month")  # 1.29 x 720 / 2
    page.get_by_text("Prices and assumptions").click()
    page.get_by_text("Price table").scroll_into_view_if_needed()
    expect(page.get_by_text("The shipped prices, each with its date and source")).to_be_visible()
    # The first row below the header, in the fifth column: the A10 of Lambda.
    page.get_by_test_id("stDataFrame").last.dblclick(position={"x": 700, "y": 52})
    cell = page.locator("#portal textarea")
    cell.fill("2.58")
    cell.press("Enter")
    expect(heading(page)).to_contain_text("saves 929 USD a month", timeout=15_000)
    expect(page.get_by_text("these prices are kept in this session only")).to_be_visible()
    page.get_by_role("link", name="Choose gamma").first.click()
    expect(heading(page)).to_contain_text("What if: ")
    page.get_by_role("link", name="Memory and cost").first.click()
    expect(heading(page)).to_contain_text("saves 929 USD a month")


def test_waiting_ends_by_itself(page: Page, url: str):
    """The demo pair is not known to this planner at first: its sizes are really read and computed."""
    visit(page, f"{url}?target=demo:target&draft=demo:draft&sequences=32")
    expect(heading(page)).to_contain_text("What if 1.30x: the draft takes", timeout=90_000)
    expect(page.get_by_role("textbox", name="Sequences")).to_have_value("32")
    expect(page.get_by_role("textbox", name="Context, tokens")).to_have_value("1,024")  # the demo target's limit
