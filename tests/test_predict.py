"""Predictions against times that are known, the rules of the recommendation, and runs that lack something."""

import numpy as np
import pytest

from core import columns as col
from core.errors import InvalidInput, NotMeasured
from core.intervals import Interval
from core.policies import Confidence, FixedGamma, Heuristic, Oracle, Plain, PromptLookup, TransformersDefault
from core.predict import alpha, best_fixed, by_label, default_policies, explain_gap, predict, recommend, sweep
from core.recommend import verdict
from core.trace import repeated_share
from tests import priced

SETTINGS = [Plain(), *(FixedGamma(g) for g in (1, 3, 4, 8)), TransformersDefault(), Heuristic(5, persistent=False), Oracle()]


def speedup(run, policy):
    """Plain over assisted decoding, from the prices themselves."""
    return sum(len(t.answer) - 1 for t in run.traces) / sum(priced.decode_steps(t, policy) for t in run.traces)


@pytest.fixture(scope="module")
def bare():
    return priced.run()


@pytest.fixture(scope="module")
def confirmed():
    return priced.run(confirmed=[FixedGamma(4), TransformersDefault()], noise=0.01)


def rows(table):
    return {row[col.POLICY]: row for row in table.to_dict(orient="records")}


def test_speedups_are_those_of_the_prices(bare):
    table = rows(predict(bare, SETTINGS))
    for policy in SETTINGS[:-1]:
        assert table[policy][col.SPEEDUP] == pytest.approx(speedup(bare, policy))
    assert table[Plain()][col.SPEEDUP] == 1


def test_end_to_end_holds_both_prefills(bare):
    steps = sum(len(t.answer) - 1 for t in bare.traces)
    cost = sum(priced.decode_steps(t, FixedGamma(4)) for t in bare.traces)
    n = len(bare.traces)
    plain_s = n * priced.PREFILL_S + steps * priced.STEP_S
    assisted_s = n * (priced.PREFILL_S + priced.DRAFT_PREFILL_S) + cost * priced.STEP_S
    table = rows(predict(bare, SETTINGS))
    assert table[FixedGamma(4)][col.END_TO_END] == pytest.approx(plain_s / assisted_s)
    assert table[Plain()][col.END_TO_END] == 1


def test_a_measured_run_agrees_with_its_prediction():
    run = priced.run(confirmed=[FixedGamma(4), TransformersDefault()])
    for policy in (FixedGamma(4), TransformersDefault()):
        row = rows(predict(run, SETTINGS))[policy]
        assert row[col.KIND] == "confirmed"
        assert row[col.MEASURED] == pytest.approx(row[col.SPEEDUP]) == pytest.approx(speedup(run, policy))


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
    table = rows(predict(bare, [*policies, Oracle()]))
    assert all(row[col.SPEEDUP] <= table[Oracle()][col.SPEEDUP] + 1e-9 for row in table.values())


def test_the_oracle_of_a_hopeless_draft_is_plain():
    run = priced.run([priced.trace(0.0, 40, s) for s in range(3)])
    assert rows(predict(run, [Oracle()]))[Oracle()][col.SPEEDUP] == pytest.approx(1)


def test_paired_intervals_are_much_tighter():
    """Prompts differ much more from each other than neighbouring settings do."""
    run = priced.run([priced.trace(a, 200, s) for s, a in enumerate(np.linspace(0.5, 0.9, 12))])
    table = predict(run, [FixedGamma(3), FixedGamma(4)]).to_dict(orient="records")
    row = min(table, key=lambda row: row[col.SPEEDUP])
    paired = np.log(row[col.AGAINST_BEST_HIGH] / row[col.AGAINST_BEST_LOW])
    alone = np.log(row[col.TRAFFIC_HIGH] / row[col.TRAFFIC_LOW])
    assert 0 < paired < alone / 2
    assert row[col.AGAINST_BEST_LOW] <= row[col.AGAINST_BEST] <= row[col.AGAINST_BEST_HIGH]


def test_without_a_confirmation_the_answer_is_predicted(bare):
    answer = recommend(bare)
    assert not answer.confirmed
    assert "predicted" in answer.reasons[0]
    assert answer.for_traffic is not None


def test_only_what_was_run_is_recommended(confirmed):
    answer = recommend(confirmed)
    assert answer.confirmed
    assert answer.policy in (FixedGamma(4), TransformersDefault())
    row = rows(predict(confirmed, default_policies(confirmed)))[answer.policy]
    assert answer.speedup == pytest.approx(row[col.MEASURED])
    assert answer.on_these_prompts == (row[col.MEASURED_LOW], row[col.MEASURED_HIGH])
    assert answer.runner_up in (FixedGamma(4), TransformersDefault())
    assert "predicted" not in answer.reasons[0]


def test_a_better_setting_that_was_not_run_is_named():
    run = priced.run(confirmed=[FixedGamma(20)])
    assert recommend(run).policy == FixedGamma(20)
    assert any("was not run" in reason for reason in recommend(run).reasons)


def test_among_equals_the_fewest_drafted_tokens(bare):
    answer = recommend(predict(bare, [FixedGamma(g) for g in range(1, 21)]))
    table = rows(predict(bare, [FixedGamma(g) for g in range(1, 21)]))
    best = max(row[col.SPEEDUP] for row in table.values())
    flat = {policy for policy, row in table.items() if row[col.SPEEDUP] >= best / 1.02}
    assert set(answer.flat) == flat
    assert answer.policy == min(flat, key=lambda policy: table[policy][col.DRAFTED_PER_TOKEN])
    assert best_fixed(bare) == answer.policy


@pytest.mark.parametrize(
    ("interval", "says"),
    [
        (Interval(1.01, 1.9), "use"),
        (Interval(0.5, 1.01), "leave_off"),
        (Interval(0.95, 1.08), "leave_off"),
        (Interval(0.9, 1.3), "undecided"),
        (Interval(1.0, 1.4), "undecided"),
        (None, "undecided"),
    ],
)
def test_verdicts(interval, says):
    assert verdict(interval) == says


def test_a_good_draft_is_used_and_a_bad_one_left_off():
    good = recommend(priced.run([priced.trace(0.95, 120, s) for s in range(12)], confirmed=[FixedGamma(8)], noise=0.005))
    assert good.verdict == "use"
    bad = recommend(priced.run([priced.trace(0.15, 120, s) for s in range(12)], confirmed=[FixedGamma(1)], noise=0.005))
    assert (bad.verdict, bad.prompts_needed) == ("leave_off", None)
    assert bad.speedup < 1


def test_undecided_says_how_many_more_prompts():
    alphas = [0.05, 0.95] * 4
    answer = recommend(priced.run([priced.trace(a, 60, s) for s, a in enumerate(alphas)], confirmed=[FixedGamma(3)]))
    assert answer.verdict == "undecided"
    assert answer.prompts_needed is not None
    assert answer.prompts_needed > 8
    assert str(answer.prompts_needed) in answer.reasons[1]


def test_more_prompts_than_asked_for_are_enough():
    """The number of prompts still needed is about right: with that many, the interval is about +-10 %."""
    alphas = np.random.default_rng(0).uniform(0.3, 0.95, 200)
    few = recommend(predict(priced.run([priced.trace(a, 60, s) for s, a in enumerate(alphas[:10])]), SETTINGS))
    assert few.prompts_needed is not None
    more = priced.run([priced.trace(a, 60, s) for s, a in enumerate(alphas[: 10 + few.prompts_needed])])
    enough = recommend(predict(more, SETTINGS))
    assert enough.for_traffic is not None
    assert 0.05 < np.log(enough.for_traffic.high / enough.for_traffic.low) / 2 < 0.15


@pytest.mark.parametrize("prompts", [1, 2, 7])
def test_few_prompts_have_no_interval_for_traffic(prompts):
    answer = recommend(priced.run([priced.trace(0.7, 60, s) for s in range(prompts)], confirmed=[FixedGamma(4)]))
    assert answer.for_traffic is None
    assert answer.verdict == "undecided"
    assert answer.prompts_needed is not None
    assert answer.prompts_needed >= 8 - prompts
    assert answer.on_these_prompts is not None


def test_intervals_hold_timing_noise_and_calibration_error(confirmed):
    row = rows(predict(confirmed, SETTINGS))[FixedGamma(4)]
    assert row[col.MEASURED_LOW] < row[col.MEASURED] < row[col.MEASURED_HIGH]
    assert row[col.MEASURED_LOW] < speedup(confirmed, FixedGamma(4)) < row[col.MEASURED_HIGH]
    quiet = rows(predict(priced.run(confirmed=[FixedGamma(4)]), SETTINGS))[FixedGamma(4)]
    assert quiet[col.MEASURED_HIGH] - quiet[col.MEASURED_LOW] < 1e-6


def test_a_partial_confirmation_compares_shared_prompts():
    run = priced.run(confirmed=[FixedGamma(4), TransformersDefault()])
    cut = [g for g in run.generations if not (g.purpose == "confirmation" and g.prompt > 5 and g.policy == TransformersDefault())]
    answer = recommend(run.model_copy(update={"generations": tuple(cut)}))
    assert answer.confirmed
    assert answer.for_traffic is None
    assert "6 prompts" in answer.reasons[0]


def test_a_run_with_fewer_traces_than_prompts(bare):
    part = bare.model_copy(update={"traces": bare.traces[:5], "generations": tuple(g for g in bare.generations if g.prompt < 5)})
    assert rows(predict(part, SETTINGS))[FixedGamma(4)][col.TRAFFIC_LOW] is None


def test_what_cannot_be_predicted_says_so(bare):
    with pytest.raises(NotMeasured, match="no timed passes"):
        recommend(bare.model_copy(update={"passes": ()}))
    with pytest.raises(NotMeasured, match="no trace"):
        predict(bare.model_copy(update={"traces": ()}), SETTINGS)
    with pytest.raises(NotMeasured, match="no setting"):
        recommend(predict(bare, [Plain(), Oracle()]))
    with pytest.raises(InvalidInput, match="not recorded"):
        predict(bare, [PromptLookup(4, ngram=7)])


def test_one_token_answers_have_nothing_to_compare():
    run = priced.run()
    single = run.model_copy(update={"traces": tuple(priced.trace(0.7, 1, s) for s in range(3))})
    with pytest.raises(NotMeasured):
        predict(single, SETTINGS)


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


def test_answers_of_two_tokens_without_overhead_are_too_short(monkeypatch):
    """One round that costs nothing beside the prefills would be infinitely fast."""
    monkeypatch.setattr(priced, "H", 0.0)
    monkeypatch.setattr(priced, "E", 0.0)
    long = [priced.trace(1.0, 60, s) for s in range(3)]
    with pytest.raises(NotMeasured, match="so short"):
        predict(priced.run([*long, priced.trace(1.0, 2, 9)]), [FixedGamma(1)])


def test_a_call_that_took_less_than_its_prefills_is_left_out():
    run = priced.run(confirmed=[FixedGamma(4)])
    broken = tuple(
        g.model_copy(update={"total_s": 0.01}) if g.policy == FixedGamma(4) and g.prompt == 2 and g.purpose != "answer" else g
        for g in run.generations
    )
    row = rows(predict(run.model_copy(update={"generations": broken}), [FixedGamma(4)]))[FixedGamma(4)]
    assert row[col.MEASURED_ASSISTED].tolist()[2] == 0
    assert row[col.MEASURED] == pytest.approx(speedup(run, FixedGamma(4)), rel=0.05)
