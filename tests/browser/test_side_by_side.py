"""The demo pair side by side in Chromium: what is streamed, counted and timed on the page is what was recorded, and the library's own."""

import json
import re
from collections.abc import Iterator

import pytest
import torch
from playwright.sync_api import Browser, FrameLocator, Page, expect

from core import side
from core.palette import LIGHT
from core.runs import Run
from core.settings import Settings
from core.store import Store, open_store
from core.worker.generate import run_policy
from core.worker.inputs import encode_prompts
from tests.browser.conftest import Site
from tests.browser.server import serve, visit
from tests.pairs import load_pair

WAIT_MS = 120_000
TOKENS = 300
WRITTEN = """() => [...document.querySelectorAll('.side')].map(lane => lane.querySelector('dd').textContent).map(Number)"""
OVER_THE_EDGE = "document.querySelector('[data-testid=\"stMain\"]').scrollWidth"


@pytest.fixture(scope="module")
def app(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Store]]:
    folder = tmp_path_factory.mktemp("side_site")
    with serve(folder) as url:
        store = open_store(Settings(data=folder))
        yield url, store
        store.close()


def begin(page: Page, url: str, tokens: int) -> None:
    """The demo pair from the bundled measurement, up to a run that writes."""
    visit(page, f"{url}/side_by_side?from=example")
    field = page.get_by_role("spinbutton", name="Most new tokens")
    field.fill(str(tokens))
    field.press("Enter")
    expect(page.get_by_role("combobox", name="Policy")).to_have_value(re.compile("Recommended:"))
    page.get_by_role("button", name="Run side by side").click()
    page.wait_for_url(re.compile(r"/side_by_side\?run=\w+$"), timeout=WAIT_MS)


def run_of(page: Page, store: Store) -> Run:
    return store.get(page.url.split("run=")[1], traces=True)


def streaming(page: Page, at_least: int) -> list[int]:
    """Tokens in each column once together there are enough of them."""
    page.wait_for_function(f"() => ({WRITTEN})().reduce((a, b) => a + b, 0) >= {at_least}", timeout=WAIT_MS)
    return page.evaluate(WRITTEN)


def finished(page: Page) -> FrameLocator:
    expect(page.get_by_role("heading", level=1).filter(has_text="Same answer")).to_be_visible(timeout=WAIT_MS)
    return page.frame_locator("iframe")


def test_what_the_page_shows_is_what_was_recorded_and_nothing_of_the_stream_is_lost(page: Page, app: tuple[str, Store]):
    url, store = app
    begin(page, url, TOKENS)
    before = sum(streaming(page, at_least=5))
    page.get_by_text("Show rejected drafts").click()
    assert sum(streaming(page, at_least=before)) >= before, "a switch"
    page.get_by_role("link", name="Start").first.click()
    expect(page.get_by_role("heading", level=1).filter(has_text="Which draft model")).to_be_visible()
    page.get_by_role("link", name="Side by side").first.click()
    page.wait_for_selector(".side, iframe", timeout=WAIT_MS)
    page.reload()
    player = finished(page)
    run = run_of(page, store)
    check_against_the_record(player, run)
    check_speed(page, run)
    check_library(run)
    check_export(page, run)
    check_widths(page, player)


def check_against_the_record(player: FrameLocator, run: Run) -> None:
    """Both texts, and the writer of every token, counted from the page."""
    answers = [player.locator(f'[data-lane="{lane}"] .tk') for lane in range(2)]
    texts = [answer.evaluate("e => [...e.querySelectorAll('span[data-writer]')].map(s => s.textContent).join('')") for answer in answers]
    assert texts[0] == texts[1] == "".join(run.traces[0].pieces)
    found = side.written(side.steps_of(run.steps, 1), run.spec.lanes[1].policy)
    for writer in ("draft", "target", "bonus"):
        assert answers[1].locator(f'span[data-writer="{writer}"]').count() == sum(token.writer == writer for token in found)
    tints = answers[1].locator('span[data-writer="draft"]').evaluate_all("all => [...new Set(all.map(e => getComputedStyle(e).backgroundColor))]")
    red, green, blue = (int(LIGHT.draft_tint[at : at + 2], 16) for at in (1, 3, 5))
    assert tints == [f"rgb({red}, {green}, {blue})"]
    rounds = player.locator('[data-lane="1"] .rl button').evaluate_all("all => all.map(e => Number(e.dataset.accepted))")
    assert rounds == [step.accepted for step in side.steps_of(run.steps, 1)]


def check_speed(page: Page, run: Run) -> None:
    """The speedup in the headline, by hand from recorded tokens and seconds."""
    plain, own = (next(g for g in run.generations if g.lane == lane) for lane in range(2))
    steps = [step for step in run.steps if step.lane == 1]
    each_s = sum(step.draft_s for step in steps[1:]) / sum(step.drafted for step in steps[1:])
    reading_s = steps[0].draft_s - (steps[0].drafted - 1) * each_s
    assisted_s = (own.total_s - min(plain.first_token_s + reading_s, own.first_token_s)) / (own.tokens - 1)
    speed = (plain.total_s - plain.first_token_s) / (plain.tokens - 1) / assisted_s
    expect(page.get_by_role("heading", level=1).filter(has_text=f"{speed:.2f}x the speed of plain")).to_be_visible()
    expect(page.get_by_text(f"{plain.total_s / own.total_s:.2f}x end to end")).to_be_visible()


def check_library(run: Run) -> None:
    """The library's own call, here and now, has the rounds that were shown."""
    torch.set_num_threads(1)
    pair = load_pair(run.spec)
    timed = run_policy(pair, encode_prompts(pair, run.spec)[0], run.spec.lanes[1].policy, run.spec.max_new_tokens)
    assert timed.rounds == tuple(len(step.tokens) for step in run.steps if step.lane == 1)
    assert timed.tokens.tolist() == side.tokens_of(run, 0) == side.tokens_of(run, 1)


def check_export(page: Page, run: Run) -> None:
    """The replay leaves as one file, without any text unless asked for."""
    page.get_by_role("button", name="Export the replay").click()
    for label, texts in (("With texts", True), ("Without texts", False)):
        with page.expect_download() as got:
            page.get_by_role("button", name=label).click()
        document = got.value.path().read_text()
        assert document.startswith("<!doctype html>")
        assert (json.dumps(run.spec.prompts[0].text)[1:60] in document) == texts
    page.keyboard.press("Escape")


def check_widths(page: Page, player: FrameLocator) -> None:
    for theme in ("dark", "light"):
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": 400, "height": 900})
        page.reload()
        expect(player.locator('[data-lane="1"] .tk')).to_be_visible(timeout=WAIT_MS)
        assert page.evaluate(OVER_THE_EDGE) <= 400


def test_two_people_each_see_their_own_run_and_stop_ends_one_of_them(page: Page, browser: Browser, app: tuple[str, Store]):
    url, store = app
    begin(page, url, 800)  # long enough to be still written when it is stopped, on a busy machine too
    other = browser.new_page(viewport={"width": 1440, "height": 1000})
    begin(other, url, 16)
    expect(other.get_by_role("heading", level=1).filter(has_text="Waiting for the device")).to_be_visible()
    expect(other.get_by_text("Next in the queue")).to_be_visible()
    streaming(page, at_least=5)
    mine = run_of(page, store).id
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("heading", level=1).filter(has_text="Not finished")).to_be_visible(timeout=WAIT_MS)
    kept = run_of(page, store)
    assert (kept.id, kept.status) == (mine, "cancelled")
    expect(page.get_by_text(f"Kept: {sum(len(step.tokens) for step in kept.steps)} tokens")).to_be_visible()
    finished(other)
    assert run_of(other, store).id != mine
    assert page.url.endswith(mine)
    other.close()
