"""What only a browser can show of the replay: what is on the page at each moment of the clock, and that hostile texts do nothing.

The documents are opened as files, as an exported replay is; the clock is the browser's own, moved by the tests.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from core import side
from core.player import player
from core.runs import ModelRef, Prompt, Run
from tests import side_runs
from tests.browser.conftest import Site
from tests.browser.server import visit

INVISIBLE = str.maketrans({"\n": "\u21b5", "\t": "\u21e5"})
BETRAY = "</script><script>window.betrayed=1</script><img src=x onerror='window.betrayed=1'>$x$ <b>"
LANE = """lane => {
  const spans = [...lane.querySelectorAll('.tk [data-step] [data-writer]')];
  const texts = thrown => spans.filter(each => (each.dataset.writer === 'rejected') === thrown).map(each => each.textContent);
  const figures = [...lane.querySelectorAll('[data-figure]')];
  return {writers: spans.map(each => each.dataset.writer), text: texts(false).join(''), rejected: texts(true),
    figures: Object.fromEntries(figures.map(each => [each.dataset.figure, Number(each.dataset.value)])),
    shown: figures.map(each => each.textContent),
    rounds: [...lane.querySelectorAll('.rl button')].map(each => Number(each.dataset.accepted))};
}"""
NOW = """() => {
  const out = '.tk [data-step]:not(.ahead) [data-writer]:not([data-writer=rejected])';
  const text = lane => [...lane.querySelectorAll(out)].map(each => each.textContent).join('');
  const lanes = [...document.querySelectorAll('.lane')].map(lane => ({written: Number(lane.dataset.written), text: text(lane)}));
  return {clock: Number(player.dataset.clock), state: player.dataset.state, height: document.documentElement.scrollHeight, lanes};
}"""


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A tab with a clock that stands still; errors, messages and requests beyond the opened file fail the test."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, reduced_motion="no-preference")
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []

    def note(request: Request) -> None:
        if not request.is_navigation_request():
            asked.append(request.url)

    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", note)
    page.clock.install(time=0)
    yield page
    context.close()
    assert said == []
    assert asked == []


@pytest.fixture
def opened(tab: Page, tmp_path: Path) -> Callable[..., Page]:
    """Write a run's replay to a file and open it."""

    def show(run: Run, **options: Any) -> Page:
        file = tmp_path / "replay.html"
        file.write_text(player(run, **options), encoding="utf-8")
        tab.goto(file.as_uri())
        tab.clock.pause_at(1000)
        return tab

    return show


def test_the_page_shows_what_was_recorded(opened: Callable[..., Page]):
    run = side_runs.run(lookup=True)
    page = opened(run)
    expect(page.locator("#player")).to_have_attribute("data-state", "finished")
    ends = page.locator(".end").evaluate_all("all => all.map(each => Number(each.dataset.seconds))")
    for place, lane in enumerate(run.spec.lanes):
        found, figures = page.locator(f'[data-lane="{place}"]').evaluate(LANE), side.lane_figures(run, place)
        steps = side.steps_of(run.steps, place)
        assert found["writers"] == [
            writer for token in side.written(steps, lane.policy) for writer in (*("rejected" for _ in token.rejected), token.writer)
        ]
        assert found["text"] == "".join(side_runs.TEXT)
        assert found["rejected"] == [text.translate(INVISIBLE) for step in steps for text in step.rejected]
        assert found["rounds"] == ([step.accepted for step in steps] if place else [])
        assert found["figures"]["tokens"] == figures.tokens
        assert found["figures"]["time"] == ends[place] == figures.seconds
        assert found["figures"]["rate"] == pytest.approx(figures.tokens_per_s)
        assert found["figures"]["first"] == figures.first_token_s
        assert found["shown"][1] == f"{figures.seconds:.2f} s"
    assert page.locator("h1").inner_text() == f"Same answer, {side.speedup(run, 1):.2f}x the speed of plain"
    own = side.lane_figures(run, 1)
    counts = f"{own.drafted} tokens proposed, {own.examined} examined, {own.accepted} accepted"
    rates = f"acceptance {own.acceptance:.2f}, utilisation {own.utilisation:.2f}"
    expect(page.locator('[data-lane="1"] .note').first).to_have_text(f"37 rounds, {own.tokens_per_round:.2f} tokens per round; {counts}: {rates}")
    shares = own.shares
    assert shares
    draft, verify = (round(100 * share) for share in shares[:2])
    words = f"draft {draft} %, verify {verify} %, rest {100 - draft - verify} % of the time"
    expect(page.locator('[data-lane="1"] .note').nth(1)).to_have_text(words)


def test_a_column_that_never_began_shows_no_figures(opened: Callable[..., Page]):
    page = opened(side_runs.run(steps=20, status="cancelled"))
    expect(page.locator(".end")).to_have_text(["not begun", re.compile(r"[\d.]+ s")])
    expect(page.locator('[data-lane="0"] dd')).to_have_text(["\u2013"] * 4)
    expect(page.locator('[data-lane="0"] .tk')).to_have_count(0)
    expect(page.locator('[data-lane="1"] .note').first).to_contain_text("20 rounds")
    page.get_by_role("button", name="Replay").click()
    page.clock.run_for(300)
    assert page.evaluate(NOW)["state"] == "playing"


def test_rejected_drafts_are_shown_on_demand(opened: Callable[..., Page]):
    run = side_runs.run()
    page = opened(run)
    steps = side.steps_of(run.steps, 1)
    inline = page.locator(".tk [data-step] .rejected")
    expect(inline.first).to_be_hidden()
    page.get_by_role("switch", name="Show rejected drafts").check()
    expect(inline.first).to_be_visible()
    assert inline.first.evaluate("each => getComputedStyle(each).textDecorationLine") == "line-through"
    page.get_by_role("button", name="Round 1:").focus()
    page.keyboard.press("ArrowRight")
    box = page.locator(".round")
    expect(box).to_have_attribute("data-round", "1")
    expect(box).to_contain_text(f"Round 2: {steps[1].accepted} of {steps[1].drafted} proposed tokens accepted")
    assert box.locator(".rejected").all_inner_texts() == [text.translate(INVISIBLE) for text in steps[1].rejected]
    page.locator('[data-lane="1"] .tk [data-step="4"] [data-writer=draft]').first.hover()
    expect(box).to_have_attribute("data-round", "4")


def test_lanes_stay_in_step_with_one_clock(opened: Callable[..., Page]):
    run = side_runs.run(lookup=True)
    page = opened(run)
    end = max(call.total_s for call in run.generations)
    before = page.evaluate(NOW)
    page.get_by_role("button", name="Replay").click()
    clocks: list[float] = []
    for _ in range(5):
        page.clock.run_for(150)
        now = page.evaluate(NOW)
        clocks.append(now["clock"])
        assert now["state"] == "playing"
        assert now["height"] == before["height"]
        for place, lane in enumerate(now["lanes"]):
            steps = [step for step in side.steps_of(run.steps, place) if step.at_s <= now["clock"]]
            assert lane == {"written": len(steps), "text": "".join(piece for step in steps for piece in step.pieces)}
    assert clocks == pytest.approx([0.15, 0.30, 0.45, 0.60, 0.75], abs=0.04)
    page.get_by_role("button", name="Pause").click()
    page.clock.run_for(1000)
    assert page.evaluate(NOW)["clock"] == clocks[-1]
    page.get_by_role("button", name="Resume").click()
    page.clock.run_for(int(1000 * (end - clocks[-1])) + 50)
    assert page.evaluate(NOW) == before
    expect(page.get_by_role("status")).to_have_text(
        f"Finished. Plain: 96 tokens in {end:.2f} s; Assisted: 96 tokens in 0.59 s; Prompt lookup: 96 tokens in 0.77 s."
    )


@pytest.mark.parametrize(("speed", "takes"), [("2x", 0.5), ("0.5x", 2.0)])
def test_the_speed_is_that_of_the_clock(opened: Callable[..., Page], speed: str, takes: float):
    run = side_runs.run()
    page = opened(run)
    whole_ms = 1000 * max(call.total_s for call in run.generations) * takes
    page.get_by_text(speed, exact=True).click()
    page.get_by_role("button", name="Replay").click()
    page.clock.run_for(int(whole_ms * 0.9))
    expect(page.locator("#player")).to_have_attribute("data-state", "playing")
    page.clock.run_for(int(whole_ms * 0.15))
    expect(page.locator("#player")).to_have_attribute("data-state", "finished")


def test_the_scrubber_goes_to_a_moment_and_back_to_the_end(opened: Callable[..., Page]):
    run = side_runs.run()
    page = opened(run)
    end = max(call.total_s for call in run.generations)
    scrubber = page.get_by_role("slider", name="Time")
    scrubber.fill("500")
    now = page.evaluate(NOW)
    assert (now["clock"], now["state"]) == (end / 2, "paused")
    assert [lane["written"] for lane in now["lanes"]] == [sum(step.at_s <= end / 2 for step in side.steps_of(run.steps, place)) for place in (0, 1)]
    expect(scrubber).to_have_attribute("aria-valuetext", f"{end / 2:.2f} s of {end:.2f} s")
    scrubber.press("End")
    assert page.evaluate(NOW)["state"] == "finished"


def test_hostile_texts_do_nothing(opened: Callable[..., Page]):
    run = side_runs.run()
    model = ModelRef(source="folder", name=BETRAY, path="")
    steps = tuple(step.model_copy(update={"pieces": (BETRAY,) * len(step.pieces), "rejected": (BETRAY,) * len(step.rejected)}) for step in run.steps)
    spec = run.spec.model_copy(update={"target": model, "draft": model, "prompts": (Prompt(text=BETRAY),)})
    page = opened(run.model_copy(update={"spec": spec, "steps": steps, "error": BETRAY}))
    page.get_by_text("Prompt", exact=True).click()
    assert page.locator(".prompt-text").inner_text() == BETRAY
    assert page.locator(".settings b").first.inner_text() == f"target {BETRAY}"
    page.get_by_role("button", name="Round 1:").click()
    expect(page.locator('[data-lane="1"] [data-writer=target]').first).to_have_text(BETRAY)
    assert page.title() == f"{BETRAY} with {BETRAY}, side by side"
    assert page.evaluate("window.betrayed") is None
    assert page.locator("img, main script").count() == 0


@pytest.mark.parametrize("texts", [True, False])
def test_narrow_dark_and_with_less_motion(opened: Callable[..., Page], texts: bool):
    page = opened(side_runs.run(lookup=True), texts=texts)
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    page.set_viewport_size({"width": 400, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 21, 28)"
    boxes = [box for lane in page.locator(".lane").all() if (box := lane.bounding_box())]
    assert len(boxes) == 3
    assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]
    assert page.get_by_text("Texts left out.").count() == (0 if texts else 3)
    page.get_by_role("button", name="Replay").click()
    page.clock.run_for(100)
    assert page.evaluate(NOW)["clock"] <= 0.05
    page.clock.run_for(300)
    assert 0.2 <= page.evaluate(NOW)["clock"] <= 0.4


@pytest.mark.parametrize("width", [400, 1440])
def test_in_the_page_the_frame_is_as_high_as_the_replay_and_stays_so(page: Page, site: Site, width: int):
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text) if "Content Security Policy" in message.text else None)
    page.set_viewport_size({"width": width, "height": 1000})
    visit(page, f"{site.url}/side_by_side?run=example")
    frame, replay = page.locator("iframe.stIFrame"), page.frame_locator("iframe.stIFrame")
    expect(replay.locator("#player")).to_have_attribute("data-state", "finished")
    page.wait_for_function("() => document.querySelector('iframe.stIFrame').clientHeight > 600")
    box = frame.bounding_box()
    replay.get_by_role("button", name="Replay").click()
    replay.get_by_role("slider", name="Time").fill("500")
    expect(replay.locator("#player")).to_have_attribute("data-state", "playing")
    assert frame.bounding_box() == box
    inside = replay.locator("html").evaluate("each => [each.scrollHeight - each.clientHeight, each.scrollWidth - each.clientWidth]")
    assert inside == [0, 0]
    expect(replay.locator("header")).to_be_hidden()
    assert refused == []
