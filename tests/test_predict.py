"""Predictions against times that are known, and runs that lack something."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import columns as col
from core.analysis import Analysis, analyse
from core.errors import InvalidInput, NotMeasured
from core.evidence import gather
from core.intervals import paired_ratio
from core.policies import Confidence, FixedGamma, Heuristic, Oracle, Plain, PromptLookup, TransformersDefault
from core.predict import alpha, by_label, default_policies, explain_gap, predict, recommend, sweep
from core.replay import rounds_of
from core.runs import Prompt
from core.trace import repeated_share
from tests import priced

SETTINGS = [Plain(), *(FixedGamma(g) for g in (1, 3, 4, 8)), TransformersDefault(), Heuristic(5, persistent=False), Oracle()]


@pytest.fixture(scope="module")
def bare():
    return priced.run()


@pytest.fixture(scope="module")
def confirmed():
    return priced.run(confirmed=[FixedGamma(4), TransformersDefault()], noise=0.01)


def test_speedups_are_those_of_the_prices(bare):
    table = priced.rows(predict(bare, SETTINGS))
    for policy in SETTINGS[:-1]:
        assert table[policy][col.SPEEDUP] == pytest.approx(priced.speedup(bare, policy))
    assert table[Plain()][col.SPEEDUP] == 1


def test_end_to_end_holds_both_prefills(bare):
    steps = sum(len(t.answer) - 1 for t in bare.traces)
    cost = sum(priced.decode_steps(t, FixedGamma(4)) for t in bare.traces)
    n = len(bare.traces)
    plain_s = n * priced.PREFILL_S + steps * priced.STEP_S
    assisted_s = n * (priced.PREFILL_S + priced.DRAFT_PREFILL_S) + cost * priced.STEP_S
    table = priced.rows(predict(bare, SETTINGS))
    assert table[FixedGamma(4)][col.END_TO_END] == pytest.approx(plain_s / assisted_s)
    assert table[Plain()][col.END_TO_END] == 1


def test_a_measured_run_agrees_with_its_prediction():
    run = priced.run(confirmed=[FixedGamma(4), TransformersDefault()])
    for policy in (FixedGamma(4), TransformersDefault()):
        row = priced.rows(predict(run, SETTINGS))[policy]
        assert row[col.KIND] == "confirmed"
        assert row[col.MEASURED] == pytest.approx(row[col.SPEEDUP]) == pytest.approx(priced.speedup(run, policy))


def test_every_value_is_a_number_or_none(confirmed):
    table = predict(confirmed, default_policies(confirmed))
    assert list(table[col.POLICY]) == list(default_policies(confirmed))
    for name in col.FOR_PEOPLE:
        for value in table[name]:
            assert value is None or isinstance(value, str) or np.isfinite(value)


def test_shares_add_up(bare):
    for row in predict(bare, SETTINGS).to_dict(orient="records"):
        assert row[col.DRAFT_SHARE] + row[col.VERIFY_SHARE] + row[col.REST_SHARE] == pytest.approx(1)
        assert min(row[col.DRAFT_SHARE], row[col.VERIFY_SHARE], row[col.REST_SHARE]) >= 0


def test_the_oracle_is_never_slower(bare):
    policies = [*sweep(range(1, 21, 3), (0.0, 0.4, 0.8)), Heuristic(3), Plain()]
    table = priced.rows(predict(bare, [*policies, Oracle()]))
    assert all(row[col.SPEEDUP] <= table[Oracle()][col.SPEEDUP] + 1e-9 for row in table.values())


def test_the_oracle_of_a_hopeless_draft_is_plain():
    run = priced.run([priced.trace(0.0, 40, s) for s in range(3)])
    assert priced.rows(predict(run, [Oracle()]))[Oracle()][col.SPEEDUP] == pytest.approx(1)


def test_paired_intervals_are_much_tighter():
    """Prompts differ much more from each other than neighbouring settings do."""
    table = predict(priced.uneven(), [FixedGamma(3), FixedGamma(4)])
    steps, cost = (np.array(list(table[name])) for name in (col.STEPS, col.COST))
    ratio, span = paired_ratio(steps, cost)
    assert span is not None
    alone = np.log(table[col.TRAFFIC_HIGH][0] / table[col.TRAFFIC_LOW][0])
    assert 0 < np.log(span.high / span.low) < alone / 2
    assert span.low < ratio < span.high
    assert ratio == pytest.approx(table[col.SPEEDUP][0] / table[col.SPEEDUP][1])
    assert paired_ratio(steps[:, :7], cost[:, :7])[1] is None


def test_a_measured_interval_is_timing_noise_and_a_predicted_one_adds_the_calibration_error(confirmed):
    table = priced.rows(predict(confirmed, SETTINGS))[FixedGamma(4)]
    predicted, measured = (np.log(table[high] / table[low]) for low, high in ((col.THESE_LOW, col.THESE_HIGH), (col.MEASURED_LOW, col.MEASURED_HIGH)))
    assert 0 < measured < predicted


def test_a_measured_interval_holds_the_truth(confirmed):
    row = priced.rows(predict(confirmed, SETTINGS))[FixedGamma(4)]
    assert row[col.MEASURED_LOW] < row[col.MEASURED] < row[col.MEASURED_HIGH]
    assert row[col.MEASURED_LOW] < priced.speedup(confirmed, FixedGamma(4)) < row[col.MEASURED_HIGH]
    quiet = priced.rows(predict(priced.run(confirmed=[FixedGamma(4)]), SETTINGS))[FixedGamma(4)]
    assert quiet[col.MEASURED_HIGH] - quiet[col.MEASURED_LOW] < 1e-6


def test_a_run_with_fewer_traces_than_prompts(bare):
    part = bare.model_copy(update={"traces": bare.traces[:5], "generations": tuple(g for g in bare.generations if g.prompt < 5)})
    assert priced.rows(predict(part, SETTINGS))[FixedGamma(4)][col.TRAFFIC_LOW] is None


def test_what_cannot_be_predicted_says_so(bare):
    with pytest.raises(NotMeasured, match="no timed passes"):
        recommend(bare.model_copy(update={"passes": ()}))
    with pytest.raises(NotMeasured, match="has read no answer"):
        predict(bare.model_copy(update={"traces": ()}), SETTINGS)
    with pytest.raises(NotMeasured, match="no setting"):
        recommend(predict(bare, [Plain(), Oracle()]))
    with pytest.raises(InvalidInput, match="not recorded"):
        predict(bare, [PromptLookup(4, ngram=7)])


def test_one_token_answers_have_nothing_to_compare():
    with pytest.raises(NotMeasured, match="two or more tokens"):
        predict(priced.run([priced.trace(0.7, 1, s) for s in range(3)]), SETTINGS)


def test_default_policies(confirmed):
    policies = default_policies(confirmed)
    assert policies[0] == Plain()
    assert policies[-1] == Oracle()
    assert {FixedGamma(1), FixedGamma(20), TransformersDefault(), PromptLookup(10)} <= set(policies)
    assert len(set(policies)) == len(policies)
    assert not any(isinstance(p, PromptLookup) for p in default_policies(confirmed.model_copy(update={"traces": ()})))


def test_sweep_is_limit_by_threshold():
    assert sweep((1, 2), (0.0, 0.4)) == (FixedGamma(1), Confidence(0.4, 1), FixedGamma(2), Confidence(0.4, 2))


def test_by_label(bare):
    prose, code = by_label(bare, FixedGamma(4)).to_dict(orient="records")
    assert (prose["label"], code["label"]) == ("prose", "code")
    assert prose["prompts"] + code["prompts"] == 10
    even = [t for n, t in enumerate(bare.traces) if n % 2 == 0]
    assert prose["alpha"] == pytest.approx(np.concatenate([t.accept for t in even]).mean())
    expected = sum(len(t.answer) - 1 for t in even) / sum(priced.decode_steps(t, FixedGamma(4)) for t in even)
    assert prose["speedup"] == pytest.approx(expected)


def test_alpha_has_an_interval_from_eight_prompts_on(bare):
    found = alpha(bare)
    assert found.value == pytest.approx(np.concatenate([t.accept for t in bare.traces]).mean())
    assert found.for_traffic is not None
    assert 0 < found.for_traffic.low < found.value < found.for_traffic.high < 1
    assert alpha(bare.model_copy(update={"traces": bare.traces[:7]})).for_traffic is None
    assert alpha(priced.run([priced.trace(1.0, 30, s) for s in range(9)])).for_traffic is None
    with pytest.raises(NotMeasured):
        alpha(bare.model_copy(update={"traces": ()}))


def test_alpha_covers():
    random = np.random.default_rng(4)
    run, trials, covered = priced.run(), 600, 0
    for _ in range(trials):
        alphas = random.beta(8, 4, 12)
        traces = tuple(priced.trace(a, 50, int(random.integers(1 << 30))) for a in alphas)
        found = alpha(run.model_copy(update={"traces": traces})).for_traffic
        assert found is not None
        covered += found.low <= 8 / 12 <= found.high
    assert 0.92 <= covered / trials <= 0.98


def test_gaps_are_explained():
    assert "within its error of 5.1%" in explain_gap(1.3, 1.27, half=0.05).sentence
    far = explain_gap(1.3, 1.0, half=0.05)
    assert far.relative == pytest.approx(0.3)
    assert "30.0% above" in far.sentence
    assert "cost more" in far.sentence
    assert "disturbed" in explain_gap(1.3, 1.0, half=0.05, disturbed=True).sentence
    assert "below" in explain_gap(0.9, 1.0).sentence


def test_repeated_share():
    assert repeated_share(np.arange(20, dtype=np.int32)) == 0
    assert repeated_share(np.array([1, 2] * 10, dtype=np.int32), n=2) == pytest.approx(17 / 19)
    assert repeated_share(np.arange(3, dtype=np.int32)) == 0


def test_one_answer_of_two_tokens_does_not_spoil_the_run(monkeypatch):
    """One round that costs nothing beside the prefills has no speedup of its own, but the sums do; with little else they have none."""
    monkeypatch.setattr(priced, "H", 0.0)
    monkeypatch.setattr(priced, "E", 0.0)
    long, short = [priced.trace(0.8, 60, s) for s in range(9)], [priced.trace(1.0, 2, 9)]
    run = priced.run([*long, *short])
    row = priced.rows(predict(run, [FixedGamma(1)]))[FixedGamma(1)]
    assert row[col.SPEEDUP] == pytest.approx(priced.speedup(run, FixedGamma(1)))
    assert np.isfinite(row[col.TRAFFIC_HIGH])
    alone = run.model_copy(update={"spec": run.spec.model_copy(update={"prompts": (*run.spec.prompts[:9], Prompt(text="short", label="short"))})})
    assert by_label(alone, FixedGamma(1))["speedup"].isna().tolist() == [False, False, True]
    found = analyse(run)
    assert isinstance(found, Analysis)
    assert found.per_prompt(FixedGamma(1))["predicted speedup"].isna().tolist() == [False] * 9 + [True]
    with pytest.raises(NotMeasured, match="so short"):
        predict(priced.run([*long[:1], *short]), [FixedGamma(1)])


def test_a_call_that_took_less_than_its_prefills_is_left_out():
    run = priced.run(confirmed=[FixedGamma(4)])
    broken = tuple(
        g.model_copy(update={"total_s": 0.01}) if g.policy == FixedGamma(4) and g.prompt == 2 and g.purpose != "answer" else g
        for g in run.generations
    )
    row = priced.rows(predict(run.model_copy(update={"generations": broken}), [FixedGamma(4)]))[FixedGamma(4)]
    assert row[col.MEASURED_ASSISTED].tolist()[2] == 0
    assert row[col.MEASURED] == pytest.approx(priced.speedup(run, FixedGamma(4)), rel=0.05)


def test_two_blocks_of_one_prompt_are_no_certainty():
    """Their scatter has one degree of freedom, so the interval is wide; it was taken as if the noise were known."""
    run = priced.run([priced.trace(0.7, 60, 0)], confirmed=[FixedGamma(4)], noise=0.02)
    again = [g.model_copy(update={"block": g.block + 1000, "total_s": g.total_s * 1.01}) for g in run.generations if g.purpose == "confirmation"]
    [one] = gather(run.model_copy(update={"generations": (*run.generations, *again)}), [FixedGamma(4)]).policies
    assert one.measured is not None
    assert one.measured.noise is not None
    assert one.measured.noise.freedom == 1
    row = priced.rows(predict(run.model_copy(update={"generations": (*run.generations, *again)}), [FixedGamma(4)]))[FixedGamma(4)]
    half = np.log(row[col.MEASURED_HIGH] / row[col.MEASURED_LOW]) / 2
    assert half >= 12.7 * one.measured.noise.error


def test_a_heuristic_that_carries_its_length_has_no_interval_and_is_no_answer(bare):
    table = predict(bare, [Heuristic(), Heuristic(persistent=False)])
    assert table[col.TRAFFIC_LOW][0] is None
    assert table[col.TRAFFIC_LOW][1] is not None
    assert "order" in table[col.NOTE][0]
    assert recommend(table).policy == Heuristic(persistent=False)


@given(alpha=st.floats(0, 1), length=st.integers(3, 70), budget=st.integers(0, 30), h=st.floats(0, 0.3), d=st.floats(0.001, 0.5))
@settings(max_examples=40, deadline=None)
def test_no_policy_of_this_draft_beats_the_oracle(alpha, length, budget, h, d):
    """On the product's own prices, prompt by prompt, also those that draft more than 20 tokens."""
    one = priced.trace(alpha, length, 7)
    ended = replace(one, ended="eos", budget=length + budget) if budget else one
    run = priced.run([priced.trace(0.9, 60, 1), priced.trace(0.6, 60, 2), ended])
    passes = priced.passes(130).model_copy(update={"draft": {1: priced.passes(130).draft[1], 2: priced.passes(130).draft[1]}})
    slower = passes.model_copy(update={"draft": {w: s.model_copy(update={"median_s": d * priced.STEP_S}) for w, s in passes.draft.items()}})
    calls = tuple(g.model_copy(update={"total_s": g.total_s + h * priced.STEP_S * len(g.rounds)}) for g in run.generations)
    policies = [*map(FixedGamma, (1, 5, 20, 40)), Heuristic(), Heuristic(20, persistent=False), TransformersDefault(), Plain()]
    oracle, *others = gather(run.model_copy(update={"generations": calls, "passes": (slower,)}), [Oracle(), *policies]).policies
    for other in others:
        assert (oracle.cost <= other.cost + 1e-9).all()


def test_a_draft_that_is_always_right_may_draft_more_than_20():
    run = priced.run([priced.trace(1.0, 120, s) for s in range(3)])
    table = priced.rows(predict(run, [Oracle(), Oracle(20), Heuristic(20, persistent=False)]))
    assert table[Oracle(20)][col.SPEEDUP] < table[Heuristic(20, persistent=False)][col.SPEEDUP] < table[Oracle()][col.SPEEDUP]
    assert "this draft" in table[Oracle()][col.NOTE]


def test_prompt_lookup_costs_the_rounds_of_the_loop_but_no_draft(bare):
    lookup = PromptLookup(5)
    row = priced.rows(predict(bare, [lookup]))[lookup]
    cost = sum(priced.H + (priced.verify(each.drafted + 1) if number else 0) for t in bare.traces for number, each in enumerate(rounds_of(t, lookup)))
    assert row[col.SPEEDUP] == pytest.approx(sum(len(t.answer) - 1 for t in bare.traces) / cost)
    assert row[col.DRAFT_SHARE] == 0
    assert "not timed itself" in row[col.NOTE]
