"""The rules of the recommendation, on runs whose times are known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from core import columns as col
from core.intervals import Interval
from core.policies import FixedGamma, Heuristic, TransformersDefault
from core.predict import best_fixed, default_policies, predict, recommend
from core.recommend import NARROW, _traffic_line, verdict
from tests import priced

SETTINGS = [*(FixedGamma(g) for g in (1, 3, 4, 8)), TransformersDefault(), Heuristic(5, persistent=False)]


@pytest.fixture(scope="module")
def bare():
    return priced.run()


@pytest.fixture(scope="module")
def confirmed():
    return priced.run(confirmed=[FixedGamma(4), TransformersDefault()], noise=0.01)


def test_the_runner_up_is_compared_on_the_same_prompts():
    run = priced.uneven(confirmed=[FixedGamma(3), FixedGamma(12)])
    answer = recommend(run)
    assert answer.runner_up in (FixedGamma(3), FixedGamma(12))
    ratio = priced.speedup(run, answer.runner_up) / priced.speedup(run, answer.policy)
    [line] = [reason for reason in answer.reasons if "same prompts" in reason]
    assert f"{ratio:.2f}x its speed [" in line


def test_without_a_confirmation_the_answer_is_predicted(bare):
    answer = recommend(bare)
    assert not answer.confirmed
    assert "predicted" in answer.reasons[0]
    assert answer.for_traffic is not None


def test_only_what_was_run_is_recommended(confirmed):
    answer = recommend(confirmed)
    assert answer.confirmed
    assert answer.policy in (FixedGamma(4), TransformersDefault())
    row = priced.rows(predict(confirmed, default_policies(confirmed)))[answer.policy]
    assert answer.speedup == pytest.approx(row[col.MEASURED])
    assert answer.on_these_prompts == (row[col.MEASURED_LOW], row[col.MEASURED_HIGH])
    assert answer.runner_up in (FixedGamma(4), TransformersDefault())
    assert "predicted" not in answer.reasons[0]


def test_the_answer_says_the_same_number_as_its_row_when_another_setting_lacks_prompts(confirmed):
    """A call that stood still leaves its setting without that prompt; chosen on the shared ones, told of all."""
    table = predict(confirmed, default_policies(confirmed)).copy()
    full = priced.rows(table)
    answer = recommend(table)
    other = next(policy for policy in (FixedGamma(4), TransformersDefault()) if policy != answer.policy)
    at = next(at for at, policy in enumerate(table[col.POLICY]) if policy == other)
    fewer = full[other][col.MEASURED_ASSISTED].copy()
    fewer[:2] = 0
    table.at[at, col.MEASURED_ASSISTED] = fewer
    again = recommend(table)
    assert again.policy == answer.policy
    assert again.speedup == pytest.approx(full[answer.policy][col.MEASURED], rel=1e-12)
    assert f"on {len(fewer)} prompts" in again.reasons[0]


def test_a_better_setting_that_was_not_run_is_named():
    run = priced.run(confirmed=[FixedGamma(20)])
    assert recommend(run).policy == FixedGamma(20)
    assert any("was not run" in reason for reason in recommend(run).reasons)


def test_among_equals_the_fewest_drafted_tokens(bare):
    answer = recommend(predict(bare, [FixedGamma(g) for g in range(1, 21)]))
    table = priced.rows(predict(bare, [FixedGamma(g) for g in range(1, 21)]))
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
    assert (answer.on_these_prompts is None) == (prompts == 1), "one timed block says nothing about timing noise"


def cut_after(run, prompts, policy=None):
    """The run, cancelled when so many prompts were confirmed (under one policy, or all)."""
    kept = [g for g in run.generations if g.purpose != "confirmation" or g.prompt < prompts or policy not in (None, g.policy)]
    return run.model_copy(update={"generations": tuple(kept)})


def test_a_partial_confirmation_compares_shared_prompts(confirmed):
    answer = recommend(cut_after(confirmed, 9, TransformersDefault()))
    assert answer.confirmed
    assert answer.for_traffic is not None
    assert "measured, on 9 prompts" in answer.reasons[0]


@pytest.mark.parametrize("prompts", [1, 3, 7])
def test_a_confirmation_of_too_few_prompts_does_not_hide_what_the_trace_says(bare, prompts):
    """More data must not give a worse answer: 3 of 10 confirmed prompts decide nothing, all 10 predicted ones do."""
    whole = priced.run(confirmed=[FixedGamma(4), TransformersDefault()])
    answer, without = recommend(cut_after(whole, prompts)), recommend(bare)
    assert not answer.confirmed
    assert (answer.policy, answer.verdict) == (without.policy, without.verdict)
    assert answer.verdict == "use"
    assert "predicted" in answer.reasons[0]
    assert f"cut short after {prompts} prompt" in answer.reasons[-1]


def test_a_short_run_that_was_confirmed_whole_stays_confirmed():
    answer = recommend(priced.run([priced.trace(0.7, 60, s) for s in range(5)], confirmed=[FixedGamma(4)]))
    assert answer.confirmed
    assert not any("cut short" in reason for reason in answer.reasons)


def test_more_prompts_do_not_cure_a_prediction_s_own_error(bare):
    """Two of the three settings' errors have nothing to do with prompts."""
    alphas = [0.3, 0.9] * 5
    table = predict(priced.run([priced.trace(a, 60, s) for s, a in enumerate(alphas)]), [FixedGamma(3)])

    def needed(model_half):
        return recommend(table.assign(**{col.MODEL_HALF: pd.Series([model_half], dtype=object)})).prompts_needed

    sure, less, unsure = needed(None), needed(0.06), needed(0.2)
    assert unsure is None
    assert sure is not None
    assert less is not None
    room = (NARROW**2 - 0.06**2) / NARROW**2
    assert (less + 10) == pytest.approx((sure + 10) / room, abs=1)


def test_an_undecided_prediction_that_more_prompts_cannot_help_says_what_does():
    alphas = [0.05, 0.95] * 5
    table = predict(priced.run([priced.trace(a, 60, s) for s, a in enumerate(alphas)]), [FixedGamma(3)])
    answer = recommend(table.assign(**{col.MODEL_HALF: pd.Series([0.3], dtype=object)}))
    assert (answer.verdict, answer.prompts_needed) == ("undecided", None)
    assert "more prompts would not help, but really running this setting on all of them would." in answer.reasons[1]
    assert "None" not in answer.reasons[1]


def test_one_more_prompt_is_one_prompt():
    answer = recommend(priced.run([priced.trace(0.7, 60, s) for s in range(10)]))
    assert "About 1 more prompt would" in _traffic_line(replace(answer, verdict="use", prompts_needed=1), 10)
    assert "About 2 more prompts would" in _traffic_line(replace(answer, verdict="use", prompts_needed=2), 10)
