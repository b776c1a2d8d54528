"""The page of a run that timed passes, in every state, and the ways to one."""

import re

import pytest
from streamlit.testing.v1 import AppTest

from core import demo, shapes, shapes_ask
from core.runs import Progress
from core.store import Store
from tests import shape_runs, synthetic
from tests.apps import button, metric, ok, open_page, texts

pytestmark = pytest.mark.usefixtures("app_site")


def opened(store: Store, run, **query: str) -> AppTest:
    return open_page("measure", run=synthetic.keep(store, run), **query)


def said(app: AppTest) -> str:
    return texts(app).replace("\\", "")


def test_the_page_says_which_alpha_is_needed_and_recommends_nothing(store: Store):
    run = shape_runs.run()
    app = opened(store, run)
    found = shapes.results(run)
    needed = shapes.needed(found.costs)
    assert needed is not None
    assert app.title[0].value == f"1.2x needs an acceptance of {needed.alpha:.2f} or more"
    assert f"At gamma {needed.gamma}, with a loop that is free (h = e = 0), which is optimistic" in said(app)
    assert "How often this draft is right is not known, so nothing is recommended." in said(app)
    assert (metric(app, "d1, drafted token"), metric(app, "d2, first of a round")) == ("0.15", "0.20")
    assert metric(app, "v(5), verify") == f"{shape_runs.verify(5, 1, 128):.2f}"
    assert metric(app, "plain step") == "20.0 ms"
    assert metric(app, "weights of both") == "59.8 MB"
    assert "random weights, built from the configs. Single passes, no prompts." in said(app)
    assert "recommend" not in said(app).replace("nothing is recommended", "")
    table = next(frame.value for frame in app.dataframe if "Left out because" in frame.value)
    assert table["d1 (c)"].tolist() == pytest.approx([0.15, 0.15])
    assert "**Next.** Measure how often the draft is right, on your own prompts." in said(app)


def test_a_pair_that_cannot_gain_says_so(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shape_runs, "D1", 2.0)
    monkeypatch.setattr(shape_runs, "D2", 2.1)
    app = opened(store, shape_runs.run())
    assert app.title[0].value == "No acceptance makes this pair 1.2x as fast here"
    assert "Even always right, with a loop that is free" in said(app)


def test_one_text_that_is_dear_to_check_says_so(store: Store, monkeypatch: pytest.MonkeyPatch):
    rule = "It counts as cheap up to v(5) = 2.5"
    assert rule not in said(opened(store, shape_runs.run()))
    monkeypatch.setattr(shape_runs, "SLOPE", 0.5)
    shown = said(opened(store, shape_runs.run("dear")))
    assert "Checking is no longer cheap at batch 1 after 128 tokens" in shown
    assert rule in shown


def test_larger_batches_stand_in_two_grids_with_their_rule(store: Store):
    problem = "The memory of cuda:0 did not suffice."
    app = opened(store, shape_runs.run(batches=(1, 2, 4, 8, 16), lengths=(128, 2048), problems={(16, 2048): problem}))
    shown = said(app)
    assert "Checking is no longer cheap at batch 16 after 128 tokens, at batch 8 after 2,048 tokens. It counts as cheap up to v(5) = 2.5" in shown
    assert "Measured ratios; no speedup is claimed from them." in shown
    assert f"Left out, 1 of 10: {problem}" in shown
    assert not [shown for shown in app.button if shown.label == "Time larger batches and longer texts"]


def test_of_a_measured_pair_only_the_costs_are_shown(store: Store):
    app = opened(store, shape_runs.run(batches=(1, 2), random_weights=False))
    assert app.title[0].value == "Checking stays cheap wherever it was timed"
    assert "no speedup is claimed from them" in said(app)


def test_where_the_pair_was_measured_its_alpha_is_known_and_the_way_leads_back(store: Store):
    answered = synthetic.keep_answered(store, synthetic.run())
    app = opened(store, shape_runs.run(batches=(1, 2), random_weights=False))
    [_, _, _, by_alpha] = [chart.proto.spec for chart in app.get("plotly_chart")]
    assert "alpha, acceptance (measured: 0.72)" in by_alpha
    assert "**Next.** Set this beside what the pair reached on your prompts, one request at a time." in said(app)
    link = next(link.proto for link in app.get("page_link") if link.proto.label == "**Open the measurement**")
    assert link.query_string == f"run={answered}"


def test_the_loop_of_a_real_measurement_takes_the_place_of_nothing(store: Store):
    measured = synthetic.run()
    synthetic.keep_answered(store, measured)
    app = opened(store, shape_runs.run(target=measured.spec.target, draft=measured.spec.draft))
    assert "with the loop of its measurement (h 0." in said(app)
    c = re.search(r"^c \*\*(0\.\d\d)\*\* \(d1 0\.15 and the loop's e\), v\(5\)", said(app), re.MULTILINE)
    assert c is not None
    assert float(c[1]) > 0.15
    assert [shown for shown in app.get("plotly_chart") if f"acceptance at c {c[1]};" in shown.proto.alt], "the map's own c"
    assert "Measured for real, its alpha was 0.72." in said(app)
    free = shapes.needed(shapes.results(shape_runs.run()).costs)
    assert free is not None
    assert float(app.title[0].value.split(" of ")[1].split()[0]) > free.alpha + 0.02


def test_what_a_reader_must_know_of_the_models_stands_above_the_figures(store: Store):
    note = "The target is a mixture of experts, and which experts a token wakes depends on values."
    assert note in said(opened(store, shape_runs.run(notes=(note,))))


@pytest.mark.parametrize(("status", "says"), [("cancelled", "This run was cancelled."), ("interrupted", "This run was interrupted.")])
def test_what_was_timed_before_the_end_is_kept(store: Store, status: str, says: str):
    app = opened(store, shape_runs.run(batches=(1, 2), status=status, timed=1))
    assert says in app.warning[0].value
    assert "Kept: 1 of 4 combinations." in app.warning[0].value


def test_a_run_that_failed_before_anything_was_timed_says_why(store: Store):
    run = shape_runs.run(status="failed", timed=0).model_copy(update={"error": "The target keeps a running state (mamba)."})
    app = opened(store, run)
    assert app.title[0].value == "No timings from this run"
    assert "The target keeps a running state (mamba)." in said(app)


def test_while_it_runs_the_combinations_are_counted(store: Store):
    run = shape_runs.run(status="running").model_copy(update={"progress": Progress(stage="shapes", done=2, total=10, fraction=0.2)})
    app = opened(store, run)
    assert app.title[0].value == "Timing passes"
    assert "Please keep the machine quiet" in said(app)
    assert "Calibrating" not in said(app)


def test_a_finished_measurement_leads_to_larger_batches(store: Store):
    run = synthetic.run()
    spec = run.spec.model_copy(update={"target": demo.TARGET, "draft": demo.DRAFT})
    app = open_page("measure", run=synthetic.keep_answered(store, run.model_copy(update={"spec": spec})))
    pressed = button(app, "Time larger batches and longer texts")
    assert re.search(r"Takes about \d+ s, an estimate from this run's own steps\.", pressed.help.replace("\\", ""))
    pressed.click()
    ok(app.run())
    asked = store.get(store.queued()[0]).spec
    assert (asked.extent, asked.batches, asked.random_weights) == ("shapes", shapes_ask.BATCHES, False)


def test_lists_comparison_and_other_pages_bear_such_runs(store: Store):
    one, other = (synthetic.keep(store, shape_runs.run(batches=batches)) for batches in ((1,), (1, 2)))
    answered = synthetic.keep_answered(store, synthetic.run())
    listed = open_page("runs")
    assert "Passes timed" in next(frame.value for frame in listed.dataframe if "Answer" in frame.value)["Answer"].tolist()
    compared = open_page("runs", compare=f"{one},{other},{answered}")
    assert "A run that timed single passes" in said(compared)
    for page in ("gamma", "memory_cost", "side_by_side", "start"):
        open_page(page, run=one)
    open_page("measure", run=one, more="prompts")
