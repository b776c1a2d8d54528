"""The page "Side by side" in every state, through the router, over a real store and a real bench with trivial jobs."""

import re

import pytest
from streamlit.testing.v1 import AppTest

from core import demo
from core.analysis import Analysis
from core.bench import Bench
from core.palette import LIGHT
from core.policies import FixedGamma, PromptLookup, TransformersDefault
from core.runs import Run, RunSpec
from core.side import figures, steps_of, written
from core.store import Store
from core.ui import desk, side_done, side_prompt, tokens
from tests import jobs, side_runs, synthetic
from tests.apps import button, ok, open_page, texts
from tests.benches import under_way

pytestmark = pytest.mark.usefixtures("app_site")


@pytest.fixture(autouse=True)
def example(app_site: None, monkeypatch: pytest.MonkeyPatch) -> Run:
    run = side_runs.run("example")
    monkeypatch.setattr(desk, "side_example", lambda: run)
    side_done._predicted.clear()
    return run


@pytest.fixture
def submitted(cold_bench: Bench, monkeypatch: pytest.MonkeyPatch, store: Store) -> list[RunSpec]:
    """What the page asks the bench to run; nothing is started."""
    asked: list[RunSpec] = []

    def submit(spec: RunSpec, person: str = "") -> str:
        asked.append(spec)
        return store.add(spec, person)

    monkeypatch.setattr(cold_bench, "submit", submit)
    return asked


def html(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def box(app: AppTest, label: str):
    return next(shown for shown in app.selectbox if shown.label == label)


def test_a_cold_link_opens_the_form_with_the_recorded_example():
    app = ok(AppTest.from_file("../pages/side_by_side.py", default_timeout=30).run())
    assert app.title[0].value == "Watch plain and assisted side by side"
    assert any("A recorded example: Same answer, :green[1.71x the speed of plain]" in shown.value for shown in app.subheader)
    assert len(app.get("iframe")) == 1
    assert not button(app, "Run side by side").disabled


def test_an_empty_and_an_endless_prompt_get_a_sentence_and_no_button():
    app = open_page("side_by_side")
    app.text_area(key=side_prompt.TEXT).set_value("  ").run()
    assert button(ok(app), "Run side by side").disabled
    app.text_area(key=side_prompt.TEXT).set_value("x" * 100_000).run()
    assert "100,000 characters; at most 50,000" in texts(ok(app)).replace("\\", "")
    assert button(app, "Run side by side").disabled


def test_typed_text_is_found_again_after_a_reload_and_is_not_in_the_address():
    app = open_page("side_by_side")
    app.text_area(key=side_prompt.TEXT).set_value("my secret $x$").run()
    saved = app.query_params["text"]
    assert "secret" not in str(dict(app.query_params))
    again = open_page("side_by_side", text=saved[0] if isinstance(saved, list) else saved)
    assert again.text_area(key=side_prompt.TEXT).value == "my secret $x$"


def test_the_form_asks_for_plain_and_its_columns_in_a_drawn_order(submitted: list[RunSpec]):
    app = open_page("side_by_side")
    app.text_area(key=side_prompt.TEXT).set_value("def f():").run()
    box(app, "Policy").set_value("fixed").run()
    next(field for field in app.number_input if field.label == "Gamma").set_value(7).run()
    box(app, "Third column").set_value("lookup").run()
    button(ok(app), "Run side by side").click().run()
    (asked,) = submitted
    assert [lane.policy for lane in asked.lanes[1:]] == [FixedGamma(7), PromptLookup(10, 2)]
    assert sorted(asked.order) == [0, 1, 2]
    assert (asked.extent, asked.prompts[0].text, asked.reference) == ("side_by_side", "def f():", "")
    assert ok(app).title[0].value == "Waiting for the device"


def test_an_address_holds_the_columns(submitted: list[RunSpec]):
    columns = {"side_policy_assisted": "Fixed gamma", "side_gamma_assisted": "7", "side_third": "Prompt lookup", "side_lookup_tokens": "5"}
    app = open_page("side_by_side", **columns)
    app.text_area(key=side_prompt.TEXT).set_value("def f():").run()
    button(ok(app), "Run side by side").click().run()
    assert [lane.policy for lane in submitted[0].lanes[1:]] == [FixedGamma(7), PromptLookup(5, 2)]


def test_the_lossy_option_is_off_until_it_is_set_and_then_said(submitted: list[RunSpec]):
    app = open_page("side_by_side")
    assert "lossy" not in texts(app)
    next(field for field in app.number_input if field.label == "Ensemble weight").set_value(0.3).run()
    assert ":orange-badge[:material/blur_on: lossy]" in texts(ok(app))
    button(app, "Run side by side").click().run()
    assert submitted[0].lanes[1].ensemble_weight == pytest.approx(0.3)


def test_begun_from_a_measurement_its_pair_settings_and_advice_are_taken(submitted: list[RunSpec], store: Store, monkeypatch: pytest.MonkeyPatch):
    measured = synthetic.run(best=3)
    spec = measured.spec.model_copy(update={"target": demo.TARGET, "draft": demo.DRAFT, "max_new_tokens": 24, "seed": 5})
    reference = synthetic.keep(store, measured.model_copy(update={"spec": spec}))
    app = open_page("side_by_side", **{"from": reference})
    found = desk.analysis(store.get(reference, traces=True))
    assert isinstance(found, Analysis)
    assert box(app, "Policy").value == "recommended"
    assert app.text_area(key=side_prompt.TEXT).value == synthetic.HARD_PROMPT
    button(app, "Run side by side").click().run()
    (asked,) = submitted
    assert (asked.lanes[1].policy, asked.reference, asked.seed, asked.max_new_tokens) == (found.advice.policy, reference, 5, 24)


def test_without_a_measurement_the_library_default_is_chosen(submitted: list[RunSpec]):
    button(open_page("side_by_side"), "Run side by side").click().run()
    assert submitted[0].lanes[1].policy == TransformersDefault()


def test_a_waiting_run_tells_its_place_and_its_drawn_order(store: Store):
    run = side_runs.run()
    store.add(run.spec)
    app = open_page("side_by_side", run=store.add(run.spec))
    assert app.title[0].value == "Waiting for the device"
    assert "Assisted first, then Plain. The order was drawn at random." in texts(app)
    assert "2nd in the queue" in texts(app)
    assert html(app).count("Waits for the device") == 2


def test_a_running_column_shows_its_exact_text_and_every_writer(store: Store):
    run = side_runs.run(steps=25, status="running")
    app = open_page("side_by_side", run=side_runs.keep(store, run))
    assert app.title[0].value == "Writing side by side"
    shown = next(element.proto.body for element in app.get("html") if 'data-lane="1"' in element.proto.body)
    answer = written(steps_of(run.steps, 1), run.spec.lanes[1].policy)
    for writer in ("draft", "target", "bonus"):
        assert shown.count(f'<span class="{writer}" ') == sum(token.writer == writer for token in answer)
    assert "&lt;" in shown
    own = figures(steps_of(run.steps, 1))
    counts = f"{own.drafted} tokens proposed, {own.examined} examined, {own.accepted} accepted"
    assert f"25 rounds, {own.tokens_per_round:.2f} tokens per round; {counts}: acceptance {own.acceptance:.2f}, utilisation" in shown
    assert "still writing" in shown
    draft, verify, rest = map(int, re.findall(r"(\d+) %", shown))
    assert draft + verify + rest == 100


def test_moving_a_switch_and_changing_pages_loses_nothing_of_the_stream(store: Store):
    run = side_runs.run(steps=60, status="running")
    begun = side_runs.keep(store, run.model_copy(update={"steps": run.steps[:40], "generations": ()}))
    app = open_page("side_by_side", run=begun)
    app.toggle(key="side_rejected").set_value(True).run()
    assert 'class="rejected"' in html(ok(app))
    store.steps(begun, run.steps[40:])
    app.switch_page("pages/start.py").run()
    app.switch_page("pages/side_by_side.py")
    assert app.run().query_params["run"] in (begun, [begun])
    assert sum(step.lane == 0 for step in run.steps) == 23
    assert "23 steps" in html(app)
    assert "37 rounds" in html(app)


def test_stop_cancels_the_run(store: Store, cold_bench: Bench, spec: RunSpec):
    asked = side_runs.run().spec.model_copy(update={"target": spec.target, "draft": spec.draft, "seed": jobs.SLEEP})
    run_id = cold_bench.submit(asked)
    under_way(store, run_id)
    app = open_page("side_by_side", run=run_id)
    button(app, "Stop").click().run()
    for _ in range(200):
        if store.status(run_id) == "cancelled":
            break
        app.run()
    assert store.status(run_id) == "cancelled"
    assert "**This run was stopped.** Nothing had been written." in texts(ok(app.run()))


def test_a_finished_run_says_same_answer_with_speed_rounds_prediction_and_origin(store: Store):
    reference = synthetic.keep(store, synthetic.run(best=3))
    app = open_page("side_by_side", run=side_runs.keep(store, side_runs.run(reference=reference)))
    assert app.title[0].value == "Same answer, :green[1.71x the speed of plain]"
    shown = texts(app)
    assert "96 tokens in 37 rounds, acceptance 0.73, **1.71x** in decoding, **1.66x** end to end" in shown
    assert "Predicted for this prompt: **1.71x**" in shown
    assert "outputs equal" in shown
    assert "the rounds are the same, 37;" in shown.replace("\\", "")
    assert len(app.get("iframe")) == 1
    offered = [shown.proto.label for shown in app.get("download_button")]
    assert offered[:3] == ["With texts", "Without texts", "Whole run (JSON)"]


def test_a_slower_draft_is_said_to_be_slower(store: Store):
    app = open_page("side_by_side", run=side_runs.keep(store, side_runs.run(c=0.9, alpha=0.3)))
    assert app.title[0].value == "Same answer, :orange[0.34x the speed of plain]: slower with this draft"


def test_a_real_difference_is_red_and_names_the_token(store: Store):
    app = open_page("side_by_side", run=side_runs.keep(store, side_runs.run(differ_at=30, margin=0.5)))
    assert app.title[0].value.startswith("Not the same answer, ")
    assert "parts from plain at token 31: ` = ` became" in app.error[0].value
    assert "0.5 apart in float32" in app.error[0].value


def test_a_near_tie_is_no_error(store: Store):
    app = open_page("side_by_side", run=side_runs.keep(store, side_runs.run(differ_at=30, margin=1e-5)))
    assert app.title[0].value.startswith("Same answer up to a near tie, ")
    assert not app.error
    assert "Rounding decides there" in texts(app)


def test_sampled_texts_are_never_called_the_same(store: Store):
    shown = texts(open_page("side_by_side", run=side_runs.keep(store, side_runs.run(sampled=True))))
    assert "Two answers drawn at random" in shown
    assert "the same seed does not mean the same text" in shown
    assert "outputs equal" not in shown
    assert "Same answer" not in shown


def test_a_lossy_setting_is_said_to_be_lossy_under_sampling_too(store: Store):
    run = side_runs.run(sampled=True)
    weighted = run.spec.lanes[1].model_copy(update={"ensemble_weight": 0.3})
    spec = run.spec.model_copy(update={"lanes": (run.spec.lanes[0], weighted)})
    shown = texts(open_page("side_by_side", run=side_runs.keep(store, run.model_copy(update={"spec": spec}))))
    assert "lossy setting" in shown
    assert "it is not drawn as the target would draw it" in shown
    assert "parts from plain" not in shown


def test_each_column_has_its_own_badge_where_they_came_to_different_ends(store: Store):
    shown = texts(open_page("side_by_side", run=side_runs.keep(store, side_runs.run(lookup=True, differ_at=30, margin=0.5))))
    assert "Assisted: real difference" in shown
    assert "Prompt lookup: outputs equal" in shown


@pytest.mark.parametrize(("status", "said"), [("failed", "This run failed"), ("cancelled", "This run was stopped"), ("interrupted", "interrupted")])
def test_what_was_written_stays_when_a_run_ends_early(store: Store, status: str, said: str):
    run = side_runs.run(steps=50, status=status).model_copy(update={"error": "Out of memory: use a shorter prompt."})
    app = open_page("side_by_side", run=side_runs.keep(store, run))
    written_tokens = sum(len(step.tokens) for step in run.steps)
    assert app.title[0].value == "Not finished"
    assert said in texts(app)
    assert f"Kept: {written_tokens} tokens" in texts(app)
    assert "Out of memory" in texts(app)
    assert len(app.get("iframe")) == 1


def test_continue_adds_the_answer_to_the_text_where_there_is_no_template(store: Store):
    app = open_page("side_by_side", run=side_runs.keep(store, side_runs.run()))
    button(app, "Continue").click().run()
    assert ok(app).text_area(key=side_prompt.TEXT).value == side_runs.PROMPT + "".join(side_runs.TEXT)
    assert "run" not in app.query_params


def test_change_and_run_again_brings_back_what_was_asked(store: Store, submitted: list[RunSpec]):
    run = side_runs.run()
    spec = run.spec.model_copy(update={"target": demo.TARGET, "draft": demo.DRAFT, "seed": 9})
    app = open_page("side_by_side", run=side_runs.keep(store, run.model_copy(update={"spec": spec})))
    button(app, "Change and run again").click().run()
    next(field for field in ok(app).number_input if field.label == "Gamma").set_value(5).run()
    button(ok(app), "Run side by side").click().run()
    (asked,) = submitted
    assert (asked.prompts, asked.seed, asked.max_new_tokens) == (spec.prompts, 9, len(side_runs.TEXT))
    assert asked.lanes[1].policy == FixedGamma(5)


def test_change_and_run_again_brings_back_the_third_column_and_the_lossy_option(store: Store, submitted: list[RunSpec]):
    run = side_runs.run(lookup=True)
    plain, second, third = run.spec.lanes
    lanes = (plain, second.model_copy(update={"ensemble_weight": 0.3}), third)
    spec = run.spec.model_copy(update={"target": demo.TARGET, "draft": demo.DRAFT, "lanes": lanes})
    app = open_page("side_by_side", run=side_runs.keep(store, run.model_copy(update={"spec": spec})))
    button(app, "Change and run again").click().run()
    button(ok(app), "Run side by side").click().run()
    assert submitted[0].lanes == lanes


def test_an_unknown_run_is_said_to_be_unknown_and_the_page_still_opens(store: Store):
    app = open_page("side_by_side", run="0123456789")
    assert app.title[0].value == "There is no such run here"
    del app.query_params["run"]
    assert app_title(ok(app.run())) == "Watch plain and assisted side by side"


def test_a_measurement_that_cannot_be_begun_from_is_said_so(store: Store):
    failed = store.insert(synthetic.run().model_copy(update={"status": "failed"}))
    said = "names a measurement that is not here or has not finished"
    for address in (failed, "0123456789"):
        app = open_page("side_by_side", **{"from": address})
        assert said in texts(app)
        assert box(app, "Target").value == "demo:target"
    assert said not in texts(open_page("side_by_side"))


def test_a_chosen_pair_is_not_replaced_by_the_run_last_looked_at(store: Store):
    app = open_page("measure")
    assert box(app, "Target").value == "demo:target"
    app.query_params["run"] = synthetic.keep(store, synthetic.run())
    ok(app.switch_page("pages/gamma.py").run())
    app.query_params.clear()
    app.switch_page("pages/side_by_side.py")
    assert box(ok(app.run()), "Target").value == "demo:target"


def test_continue_with_a_template_shows_the_turns_before(store: Store):
    run = side_runs.run()
    chat = run.model_copy(update={"spec": run.spec.model_copy(update={"chat_template": True})})
    app = open_page("side_by_side", run=side_runs.keep(store, chat))
    button(app, "Continue").click().run()
    assert app.text_area(key=side_prompt.TEXT).value == ""
    assert [shown.label for shown in ok(app).expander if "turns before" in shown.label] == ["2 turns before this one"]


def test_a_measurement_leads_here_and_its_id_opens_the_form(store: Store):
    measured = synthetic.keep(store, synthetic.run())
    assert app_title(open_page("side_by_side", run=measured)) == "Watch plain and assisted side by side"
    side = side_runs.keep(store, side_runs.run())
    links = [link.proto.label for link in open_page("measure", run=measured).get("page_link")]
    assert "Watch it side by side" in links
    assert app_title(open_page("measure", run=side)) == "Same answer, :green[1.71x the speed of plain]"


def app_title(app: AppTest) -> str:
    return app.title[0].value


def test_lists_of_runs_take_a_side_by_side_run(store: Store):
    side = side_runs.keep(store, side_runs.run())
    for name in ("start", "measure"):
        open_page(name)
    assert "no timed passes" in texts(open_page("gamma", run=side)), "it says nothing about a curve"


def test_a_shared_link_names_the_place_of_a_difference_without_its_tokens(store: Store):
    run_id = side_runs.keep(store, side_runs.run(differ_at=30, margin=0.5))
    app = open_page("side_by_side", run=store.get(run_id).share_id)
    assert app.error[0].value.startswith("Assisted parts from plain at token 31. Both choices are 0.5 apart")


def test_streamed_text_is_escaped_and_rejected_drafts_come_on_demand():
    run = side_runs.run()
    answer = written(steps_of(run.steps, 1), FixedGamma(3))
    assert "<b>" not in tokens.streamed(answer)
    assert 'class="rejected"' not in tokens.streamed(answer)
    assert tokens.streamed(answer, rejected=True).count('class="rejected"') == sum(bool(step.rejected) for step in steps_of(run.steps, 1))
    assert tokens.ruler(LIGHT, tokens.of_written(answer)).count("<div title=") == 37


def test_a_shared_link_shows_the_race_without_its_texts(store: Store):
    run_id = side_runs.keep(store, side_runs.run())
    app = open_page("side_by_side", run=store.get(run_id).share_id)
    assert app_title(app) == "Same answer, :green[1.71x the speed of plain]"
    assert side_runs.PROMPT not in html(app) + texts(app) + str([shown.value for shown in app.code])
    assert "Continue" not in [shown.label for shown in app.button]
