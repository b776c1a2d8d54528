"""Sampled runs on every page: three ways to say alpha, no claim that texts are equal, nothing that breaks; and texts that part."""

import contextlib

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from core.acceptance import alpha_greedy_draft
from core.analysis import Analysis, analyse, conditional_acceptance
from core.measured import Difference, Environment
from core.planner import Planner, Task
from core.policies import FixedGamma, Plain
from core.runs import Run
from core.settings import Settings
from core.store import Store
from core.ui import memory_pair, memory_prices
from tests import synthetic
from tests.apps import metric, open_page, texts
from tests.test_memory_page import BIG, BIG_BYTES, SMALL, SMALL_BYTES, known

pytestmark = pytest.mark.usefixtures("app_site")


@pytest.fixture(autouse=True)
def unfolded(monkeypatch: pytest.MonkeyPatch) -> None:
    """AppTest cannot open an expander; here they all begin open."""
    expander = st.expander
    monkeypatch.setattr(st, "expander", lambda label, **how: expander(label, **{**how, "expanded": True}))


def provenance(app: AppTest) -> dict[str, str]:
    table = next(frame.value for frame in app.dataframe if list(frame.value.columns) == ["What", "Value"])
    return dict(zip(table["What"], table["Value"], strict=True))


def where(run: Run) -> Environment:
    assert run.environment
    return run.environment


def test_the_result_says_alpha_in_three_ways(store: Store):
    run = synthetic.run(sampled=True)
    found = analyse(run)
    assert isinstance(found, Analysis)
    app = open_page("measure", run=synthetic.keep(store, run))
    overlap = sum(float(trace.sampled.overlap.sum()) for trace in run.traces if trace.sampled) / sum(len(trace.answer) for trace in run.traces)
    accept = sum(float(trace.accept.sum()) for trace in run.traces) / sum(len(trace.answer) for trace in run.traces)
    assert metric(app, "alpha, acceptance") == f"{overlap:.2f}"
    shown = texts(app).replace("\\", "")
    assert f"**{overlap:.2f}** from how far both distributions overlap, and **{accept:.2f}** on the tokens that were drawn" in shown
    greedy = alpha_greedy_draft(run)
    assert greedy.for_traffic
    assert f"would accept **{greedy.value:.2f} [{greedy.for_traffic.low:.2f}, {greedy.for_traffic.high:.2f}]**" in shown
    assert abs(overlap + synthetic.OVERLAP_LESS - accept) < 1e-6
    assert "temperature 0.7, top-p 0.9" in shown
    assert "greedy." not in shown.split("Under sampling")[0]
    assert app.title[0].value == "Draft 4 tokens at a time: :green[1.69x the speed of plain]"


def test_one_draw_is_shown_as_one_of_many_with_the_expected_rounds(store: Store):
    run = synthetic.run(sampled=True)
    found = analyse(run)
    assert isinstance(found, Analysis)
    shown = texts(open_page("measure", run=synthetic.keep(store, run)))
    expected = found.rounds(FixedGamma(4))[0].rounds
    assert f"One of many ways: under sampling it is chance which drafts are accepted. {expected:.1f} rounds are expected." in shown


def test_nothing_is_claimed_to_be_equal(store: Store):
    run_id = synthetic.keep(store, synthetic.run(sampled=True))
    measured = open_page("measure", run=run_id)
    assert provenance(measured)["Assisted answers equal to plain"] == "not compared: sampled texts are drawn anew in every call"
    gamma = texts(open_page("gamma", run=run_id))
    assert "the text is the same" not in gamma
    assert "the distribution of texts is the same" in gamma
    assert "In float32 the text is the same" in texts(open_page("gamma", run=synthetic.keep(store, synthetic.run())))


def test_gamma_has_every_part_and_warns_of_engines_that_draft_greedily(store: Store):
    run = synthetic.run(sampled=True)
    app = open_page("gamma", run=synthetic.keep(store, run))
    charts = [chart.proto.alt for chart in app.get("plotly_chart")]
    for beginning in (
        "Speedup against gamma",
        "Best gamma for every",
        "Of the rounds that drafted",
        "Replayed speedup for every limit",
        "Mean acceptance",
    ):
        assert any(alt.startswith(beginning) for alt in charts), beginning
    assert f"vLLM by default drafts greedily whatever the temperature: expect an alpha of {alpha_greedy_draft(run).value:.2f} [" in texts(app)


def test_memory_and_cost_takes_the_gain_of_a_sampled_run(store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch):
    known(settings, "folder:big_model", BIG, BIG_BYTES)
    known(settings, "folder:small_model", SMALL, SMALL_BYTES)
    refuse = Task("tests.plan_jobs:refuse", 20)
    with contextlib.closing(Planner(settings, tasks={"describe": refuse, "profile": refuse, "prices": refuse}, light=1)) as made:
        for module in (memory_pair, memory_prices):
            monkeypatch.setattr(module, "planner", lambda: made)
        app = open_page("memory_cost", run=synthetic.keep(store, synthetic.run(sampled=True)))
    assert "at 1.69x measured elsewhere" in app.title[0].value
    assert "confirmed" in texts(app)


def test_conditional_acceptance_of_draws_is_near_the_chance_of_acceptance():
    run = synthetic.run(sampled=True, alpha=0.7)
    assert conditional_acceptance(run, FixedGamma(4)) == pytest.approx([0.7] * 4, abs=0.03)


def test_the_start_page_lists_it(store: Store):
    synthetic.keep_answered(store, synthetic.run(sampled=True))
    assert "**use**: fixed gamma 4, 1.69x" in texts(open_page("start"))


def test_the_card_says_how_it_was_measured(store: Store):
    run = synthetic.run()
    answers = [g.model_copy(update={"purpose": "answer", "batch": 4, "reused": at < 3}) for at, g in enumerate(run.generations[:12])]
    spec = run.spec.model_copy(update={"stop": ("\n\n",), "chat_template": True})
    environment = where(run).model_copy(
        update={"plain": "static cache, compiled", "peak_bytes": 1_500_000_000, "target_bytes": 54_800_000, "target_peak_bytes": 900_000_000}
    )
    kept = run.model_copy(update={"spec": spec, "environment": environment, "generations": (*answers, *run.generations)})
    app = open_page("measure", run=synthetic.keep(store, kept))
    card = provenance(app)
    assert card["Decoding"] == "greedy"
    assert card["Chat template"] == "applied"
    assert card["Stop strings"] == r"'\n\n': 0 of 12 answers cut there for the replay; real runs write on"
    assert card["Plain decoding, the rival"] == "static cache, compiled, the fastest that the library offers here"
    assert card["Answers written"] == "12 in batches of up to 4, 3 of them reused from an earlier run"
    assert card["Peak memory"] == (
        "target alone 900.0 MB, whole run 1.50 GB; alone: weights, and by how much resident memory grew in a call of eight tokens; "
        "whole run: the worker since it started"
    )
    assert card["Target size"] == "13.7M parameters, 32 layers, 54.8 MB of weights"
    assert "Plain is the fastest that the library offers here: static cache, compiled." in texts(app)


def parted(dtype: str, margin: float | None, run: Run | None = None) -> Run:
    """One assisted answer of prompt 3 parts at its 18th token."""
    run = run or synthetic.run()
    at = next(at for at, g in enumerate(run.generations) if not isinstance(g.policy, Plain) and g.prompt == 2)
    wrong = run.generations[at].model_copy(update={"equal": False, "first_difference": 17})
    difference = Difference(prompt=2, policy=wrong.policy, token=17, dtype=dtype, margin=margin)  # pyright: ignore[reportArgumentType]
    generations = (*run.generations[:at], wrong, *run.generations[at + 1 :])
    spec = run.spec.model_copy(update={"dtype": dtype})
    return run.model_copy(update={"spec": spec, "generations": generations, "differences": (difference,)})


@pytest.mark.parametrize("name", ["measure", "gamma"])
def test_a_near_tie_is_a_note(store: Store, name: str):
    app = open_page(name, run=synthetic.keep(store, parted("bfloat16", 0.02)))
    assert not app.warning
    shown = texts(app)
    assert "**Assisted answers that differ from plain decoding: 1 of 42.**" in shown
    assert "at a near tie at token 18 of prompt 3: in float32 both choices lie 0.02 apart, and bfloat16 can turn anything below 0.4" in shown


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_real_difference_is_a_warning(store: Store, dtype: str):
    [warning] = open_page("measure", run=synthetic.keep(store, parted(dtype, 1.25))).warning
    assert "A real difference at token 18 of prompt 3" in warning.value
    assert "in float32 both choices lie 1.2 apart" in warning.value


def test_an_unknown_margin_is_a_warning_in_float32_and_a_note_in_16_bits(store: Store):
    assert "In float32 all should be equal" in open_page("measure", run=synthetic.keep(store, parted("float32", None))).warning[0].value
    app = open_page("measure", run=synthetic.keep(store, parted("float16", None)))
    assert not app.warning
    assert "float16 rounds differently" in texts(app)
