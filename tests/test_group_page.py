"""Several drafts on the page `measure`: found in the store, watched, ranked, extended; over synthetic runs with known costs."""

import pytest
from pandas import DataFrame
from streamlit.testing.v1 import AppTest

from core import demo
from core.analysis import analyse
from core.bench import Bench
from core.estimate_time import estimate_time, known_speed
from core.group import rank
from core.runs import Progress, Run, RunSpec
from core.store import Store
from core.ui import group_rank, more_prompts, numbers
from tests import jobs, synthetic
from tests.apps import button, ok, open_page, texts
from tests.benches import ended, under_way
from tests.test_page_states import check_no_markup

ID = "0123456789ab"
DRAFTS = {"cheap_draft": (0.1, 4), "middling_draft": (0.3, 2), "dear_draft": (0.8, 1)}
pytestmark = pytest.mark.usefixtures("app_site")


def run_of(draft: str, **how: object) -> Run:
    c, best = DRAFTS[draft]
    return synthetic.run(draft, c=c, best=best, draft=draft, group=ID, **how)  # pyright: ignore[reportArgumentType]


def ranking_table(app: AppTest) -> DataFrame:
    return next(frame.value for frame in app.dataframe if "Paired interval" in frame.value)


def test_the_store_finds_a_group_and_nothing_else(store: Store):
    ids = [synthetic.keep(store, run_of(draft)) for draft in DRAFTS]
    quoting = synthetic.run()
    prompt = quoting.spec.prompts[0].model_copy(update={"text": f'"group":"{ID}"'})
    synthetic.keep(store, quoting.model_copy(update={"spec": quoting.spec.model_copy(update={"prompts": (prompt,)})}))
    synthetic.keep(store, synthetic.run(group="ffff"))
    assert [run.id for run in store.group(ID)] == ids
    for strange in ("", "%", "0123%", ID[:6], '"', "gone"):
        assert store.group(strange) == []


def test_the_page_has_one_ranking_and_a_way_to_each_run(store: Store):
    ids = {draft: synthetic.keep(store, run_of(draft)) for draft in reversed(DRAFTS)}
    app = open_page("measure", group=ID)
    assert app.title[0].value == "Use cheap\\_draft with the library's default (20, 0.4): :green[2.12x the speed of plain]"
    assert "Next best: middling_draft with the library's default (20, 0.4): 1.44x" in texts(app).replace("\\", "")
    table = ranking_table(app)
    assert list(table["Draft"][:2]) == ["cheap_draft", "middling_draft"]
    assert set(table["Draft"]) == {*DRAFTS, "Prompt lookup", "No draft"}
    assert table["Speedup"].is_monotonic_decreasing
    assert table["c"].iloc[0] == pytest.approx(0.12, abs=0.002)
    assert list(table["Paired interval"][:2]) == ["", "[0.62, 0.74]"], "as wide as holds for all three comparisons together"
    assert table["Beside the fastest"].iloc[1] == pytest.approx(1.442 / 2.122, abs=0.001)
    button(app, "Choose gamma")
    links = {link.proto.label: link.proto.query_string for link in app.get("page_link")}
    assert [links[f"**{draft.replace('_', chr(92) + '_')}**"] for draft in ids] == [f"run={run_id}" for run_id in ids.values()]


def test_drafts_of_one_name_are_told_apart_and_names_stay_text(store: Store):
    for at, draft in enumerate(("cheap_draft", "middling_draft")):
        run = run_of(draft)
        named = run.spec.draft.model_copy(update={"source": "hub", "name": "<b>x</b>", "path": f"org{at}/x"})
        synthetic.keep(store, run.model_copy(update={"spec": run.spec.model_copy(update={"draft": named})}))
    app = open_page("measure", group=ID)
    assert list(ranking_table(app)["Draft"])[:2] == ["org0/x", "org1/x"]
    [chart] = [chart.proto for chart in app.get("plotly_chart")]
    assert "org0/x 2.12x, org1/x 1.44x" in chart.alt
    assert "<b>x</b>" not in chart.spec
    check_no_markup(app)


def test_where_all_lose_it_is_left_off(store: Store):
    synthetic.keep(store, run_of("dear_draft"))
    synthetic.keep(store, synthetic.run(c=0.9, best=1, draft="dearer_draft", group=ID, alpha=0.3))
    app = open_page("measure", group=ID)
    assert app.title[0].value.startswith("Leave drafting off: the best of these reaches")


def test_five_prompts_decide_nothing(store: Store):
    for draft in ("cheap_draft", "middling_draft"):
        synthetic.keep(store, run_of(draft, prompts=5))
    app = open_page("measure", group=ID)
    assert app.title[0].value.startswith("Not decided yet: cheap\\_draft leads with 2.")
    assert "too few prompts for an interval" in texts(app)
    assert set(ranking_table(app)["Paired interval"]) == {""}


def test_what_is_slower_than_no_draft_does_not_lead(store: Store):
    synthetic.keep(store, synthetic.run(c=0.7, prompts=5, best=1, tokens=24, draft="dear_draft", group=ID))
    app = open_page("measure", group=ID)
    best = "prompt lookup of 2, n-gram 2 reaches :orange[0.97x the speed of plain]"
    assert app.title[0].value == f"Leave drafting off unless more prompts or a real run say otherwise: {best}"
    assert ranking_table(app)["Draft"].iloc[0] == "No draft"


def test_among_equals_the_smaller_draft_is_taken():
    twins = [run_of("cheap_draft"), synthetic.run("twin", c=0.1, best=4, draft="small_twin", group=ID)]
    where = twins[1].environment
    assert where
    twins[1] = twins[1].model_copy(update={"environment": where.model_copy(update={"draft_parameters": 1000})})
    assert group_rank.chosen(rank(twins), twins).name == "small_twin"
    middling = [twins[1], run_of("cheap_draft").model_copy(update={"id": "dearer"})]
    assert group_rank.chosen(rank([run_of("cheap_draft"), run_of("middling_draft")]), middling).name == "cheap_draft"


def test_a_run_leads_back_to_its_group_and_new_begins_anew(store: Store):
    run_id = synthetic.keep(store, run_of("cheap_draft"))
    app = open_page("measure", run=run_id)
    assert any(link.proto.query_string == f"group={ID}" for link in app.get("page_link"))
    app = open_page("measure", group=ID)
    button(app, "New measurement").click()
    assert ok(app.run()).title[0].value == "Measure a pair"
    assert "group" not in app.query_params


def test_a_draft_that_failed_says_why_beside_the_ranking_of_the_others(store: Store):
    synthetic.keep(store, run_of("cheap_draft"))
    broken = run_of("middling_draft", status="failed")
    synthetic.keep(store, broken.model_copy(update={"generations": (), "passes": (), "traces": (), "error": "The draft broke."}))
    app = open_page("measure", group=ID)
    assert app.title[0].value.startswith("Use cheap")
    assert any("The draft broke" in warning.value.replace("\\", "") for warning in app.warning)
    assert any("Not ranked: middling_draft" in warning.value.replace("\\", "") for warning in app.warning)
    assert "middling_draft" not in list(ranking_table(app)["Draft"])
    assert button(app, "Measure 1 draft again")


def test_a_group_of_which_nothing_was_measured_has_a_sentence(store: Store):
    broken = run_of("cheap_draft", status="failed")
    synthetic.keep(store, broken.model_copy(update={"generations": (), "passes": (), "traces": (), "error": "The draft broke."}))
    app = open_page("measure", group=ID)
    assert app.title[0].value == "No ranking from these runs"
    assert "The draft broke" in texts(app)


def test_of_a_draft_measured_twice_the_last_run_counts(store: Store):
    synthetic.keep(store, run_of("cheap_draft", status="cancelled").model_copy(update={"generations": (), "traces": ()}))
    synthetic.keep(store, run_of("cheap_draft"))
    app = open_page("measure", group=ID)
    assert not app.warning
    assert list(ranking_table(app)["Draft"]).count("cheap_draft") == 1


@pytest.mark.parametrize("text", ["gone", "![x](http://host/a.png)", "%"])
def test_an_unknown_group_gets_a_sentence(text: str):
    assert open_page("measure", group=text).title[0].value == "There is no such group here"


def test_progress_of_all_is_shown_and_all_can_be_cancelled(store: Store, cold_bench: Bench, spec: RunSpec):
    done = synthetic.keep(store, run_of("cheap_draft"))
    running = cold_bench.submit(spec.model_copy(update={"seed": jobs.SLEEP, "group": ID}))
    under_way(store, running)
    waiting = cold_bench.submit(spec.model_copy(update={"seed": jobs.QUICK, "group": ID, "draft": spec.target}))
    app = open_page("measure", group=ID)
    assert app.title[0].value == "Measuring 3 drafts: 1 done"
    bars = [bar.proto.text for bar in app.get("progress")]
    assert bars[0].startswith("The target writes its answers")
    assert bars[1].startswith("Waiting for the device: next in the queue")
    assert "The target's answers are written once" in texts(app)
    button(app, "Cancel all").click()
    ok(app.run())
    assert ended(store, running).status == ended(store, waiting).status == "cancelled"
    assert store.get(waiting).started is None
    assert store.status(done) == "done"


def test_alpha_is_shown_while_the_draft_reads(store: Store):
    run = synthetic.run(status="running")
    reused = [g.model_copy(update={"purpose": "answer", "reused": True, "batch": 4}) for g in run.generations[:5]]
    part = run.model_copy(update={"traces": run.traces[:9], "generations": tuple(reused)})
    run_id = synthetic.keep(store, part)
    store.progress(run_id, Progress(stage="draft", done=9, total=12, fraction=0.2))
    shown = texts(open_page("measure", run=run_id))
    found = analyse(part).alpha
    assert found
    assert found.for_traffic
    low, high = found.for_traffic
    assert f"**alpha {found.value:.2f} [{low:.2f}, {high:.2f}]** so far, 9 of 12 prompts" in shown
    assert "5 answers of 12 reused from an earlier run" in shown


def test_more_prompts_extend_a_run(store: Store):
    run = synthetic.run(prompts=8)
    spec = run.spec.model_copy(update={"prompts": run.spec.prompts[:6], "seed": 3})
    run_id = synthetic.keep(store, run.model_copy(update={"spec": spec, "traces": run.traces[:6]}))
    app = open_page("measure", run=run_id)
    button(app, "Measure more prompts").click()
    assert ok(app.run()).title[0].value == "Add to the 6 prompts of this run"
    assert "6 of 12 are in the run already and count once" in texts(app)
    assert not button(app, "Measure 6 + 6 prompts").disabled
    button(app, "Back to the result").click()
    assert "Add to" not in ok(app.run()).title[0].value


def test_extended_runs_keep_their_settings_and_several_belong_together_anew():
    run = synthetic.run(prompts=8, group=ID)
    spec = run.spec.model_copy(update={"prompts": run.spec.prompts[:6], "seed": 3, "chat_template": True})
    [alone] = more_prompts.extended([spec], run.spec.prompts[6:])
    assert alone == spec.model_copy(update={"prompts": run.spec.prompts, "group": ""})
    both = more_prompts.extended([spec, spec], run.spec.prompts[6:])
    assert both[0].group == both[1].group
    assert both[0].group not in ("", ID)


def test_the_time_is_estimated_before_the_start_and_from_a_run_when_there_is_one(store: Store):
    guess = texts(open_page("measure"))
    assert "About " in guess
    assert "a guess from sizes" in guess
    run = synthetic.run()
    pair = run.spec.model_copy(update={"target": demo.TARGET, "draft": demo.DRAFT})
    synthetic.keep(store, run.model_copy(update={"spec": pair}))
    shown = texts(open_page("measure"))
    spec = pair.model_copy(update={"prompts": run.spec.prompts, "max_new_tokens": 40})
    speed = known_speed([run.model_copy(update={"spec": pair})], spec)
    assert speed
    expected = estimate_time(spec, [round(len(prompt.text) / 3.5) for prompt in spec.prompts], speed)
    assert f"About {numbers.duration(expected.total_s)}, at most {numbers.duration(expected.stages['confirming'])} of it" in shown
    assert "from earlier runs of this pair here" in shown
