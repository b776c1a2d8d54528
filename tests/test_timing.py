"""The prices are found again in runs that were made from them."""

from typing import cast

import numpy as np
import pytest

from core.calibration import fit, own_rounds
from core.errors import NotMeasured
from core.measured import Generation
from core.policies import Confidence, FixedGamma, Heuristic, Plain, Policy, TransformersDefault
from core.replay import replay_prompt, rounds_of
from core.rounds import total
from core.timing import LoopCosts, beside, calibration_rows, median_cache, passes_of
from core.widths import between_widths, rising
from tests import priced


def test_the_prices_are_found_again():
    costs = LoopCosts.from_run(priced.run())
    assert costs.plain_step_s == pytest.approx(priced.STEP_S)
    assert costs.verify[1:] == pytest.approx(priced.verify(np.arange(1, 22)))
    assert (costs.draft_first, costs.draft_next) == pytest.approx((priced.D2, priced.D1))
    assert (costs.round_overhead, costs.token_overhead) == pytest.approx((priced.H, priced.E))
    assert costs.calibration_error == pytest.approx(0, abs=1e-9)
    assert costs.mismatched == 0


def test_a_drifting_machine_changes_nothing_but_the_seconds():
    costs = LoopCosts.from_run(priced.run(drift=0.3))
    assert (costs.round_overhead, costs.token_overhead) == pytest.approx((priced.H, priced.E), abs=0.05)
    assert costs.plain_step_s > 1.1 * priced.STEP_S


@pytest.mark.parametrize("policy", [FixedGamma(1), FixedGamma(7), FixedGamma(20), TransformersDefault(), Heuristic(5), Confidence(0.6, 9)])
def test_a_prompt_costs_what_its_rounds_add_up_to(policy):
    costs = LoopCosts.from_run(priced.run())
    one = priced.trace(0.6, 80, 99)
    assert sum(costs.parts(replay_prompt(one, policy))) == pytest.approx(priced.decode_steps(one, policy))


def test_noise_shows_in_the_calibration_error():
    noisy = LoopCosts.from_run(priced.run(noise=0.05))
    assert 0.002 < (noisy.calibration_error or 0) < 0.2
    assert LoopCosts.from_run(priced.run(gammas=(4,))).calibration_error is None


def test_overheads_are_never_negative():
    rows = calibration_rows(priced.run())[0]
    assert fit(rows) == pytest.approx((priced.H, priced.E))
    cheap = [row._replace(measured=row.passes * 0.9) for row in rows]
    assert fit(cheap) == (0.0, 0.0)
    no_round = [row._replace(measured=row.passes - 0.05 * row.rounds + 0.2 * row.drafted) for row in rows]
    h, e = fit(no_round)
    assert h == 0
    assert e > 0


def test_cache_lengths_are_interpolated():
    run = priced.run()
    assert median_cache(run) == 130
    two = run.model_copy(update={"passes": (priced.passes(230, factor=3.0), priced.passes(30, factor=1.0))})
    assert passes_of(two, 130).verify[21] == pytest.approx(1 + 2 * (priced.verify(21) - 1))
    beyond = run.model_copy(update={"passes": (priced.passes(10), priced.passes(20, factor=5.0))})
    assert passes_of(beyond, 130).verify[21] == pytest.approx(1 + 5 * (priced.verify(21) - 1))


def test_between_widths_that_disagree_the_dearer_counts():
    filled = between_widths([1, 2, 4, 8], np.array([1.0, 1.0, 1.1, 2.0]))
    assert filled[3] == pytest.approx(1.05)
    assert filled[[5, 6, 7]].tolist() == [2.0, 2.0, 2.0]
    assert filled[8] == 2.0


def test_wider_than_measured_goes_on_with_the_slope():
    costs = LoopCosts.from_run(priced.run())
    assert costs.verify_up_to(30)[-1] == pytest.approx(priced.verify(31))
    assert len(costs.round(30)) == 31


def test_the_theory_s_c_and_overhead_price_a_round_alike():
    costs = LoopCosts.from_run(priced.run())
    for gamma in (1, 5, 12):
        assert costs.verify_up_to(gamma)[gamma] + costs.overhead + gamma * costs.c == pytest.approx(costs.round(gamma)[gamma])


def test_a_calibration_run_with_other_rounds_counts_with_its_own():
    """In 16-bit precision every answer may differ from the trace; the prices are found all the same."""
    run = priced.run()
    others = [priced.trace(0.5, 60, 100 + s) for s in range(10)]
    calibrated = [
        priced.generation(others, g.prompt, cast("Policy", g.policy), g.block, g.purpose, 1.0) if g.purpose == "calibration" else g
        for g in run.generations
    ]
    costs = LoopCosts.from_run(run.model_copy(update={"generations": tuple(calibrated)}))
    assert costs.mismatched == 12
    assert (costs.round_overhead, costs.token_overhead) == pytest.approx((priced.H, priced.E))


@pytest.mark.parametrize("gamma", [1, 4, 12])
def test_own_rounds_are_those_of_the_replay(gamma):
    one = priced.trace(0.7, 60, 3)
    replayed = replay_prompt(one, FixedGamma(gamma))
    own = total(own_rounds([r.emitted for r in rounds_of(one, FixedGamma(gamma))], gamma, one.budget))
    for name in ("rounds", "drafted", "accepted", "rejected", "tokens"):
        assert getattr(own, name) == getattr(replayed, name)
    assert own.rounds_by_drafted.tolist() == replayed.rounds_by_drafted.tolist()


def slower(sample, factor):
    return sample.model_copy(update={"median_s": sample.median_s * factor})


def test_a_wider_pass_is_never_cheaper():
    """Timing noise can say so; then h + d2 - d1 would be negative, and v(2) below a plain step."""
    bare = priced.passes(130)
    noisy = bare.model_copy(
        update={
            "target": bare.target | {2: slower(bare.target[2], 0.9), 6: slower(bare.target[6], 0.95)},
            "draft": {1: bare.draft[2], 2: bare.draft[1]},
        }
    )
    costs = passes_of(priced.run().model_copy(update={"passes": (noisy,)}), 130)
    assert costs.draft_first == costs.draft_next == pytest.approx((priced.D1 + priced.D2) / 2)
    assert costs.overhead >= 0
    assert (np.diff(costs.verify[1:]) >= 0).all()
    assert costs.verify[1:3].tolist() == [1, 1]
    assert costs.verify[5] == costs.verify[6] < priced.verify(6)


def test_rising_pools_what_falls():
    assert rising(np.array([1.0, 3.0, 2.0, 4.0])).tolist() == [1.0, 2.5, 2.5, 4.0]
    assert rising(np.array([3.0, 2.0, 1.0])).tolist() == [2.0, 2.0, 2.0]
    assert rising(np.array([1.0, 4.0, 3.0, 2.0])).tolist() == [1.0, 3.0, 3.0, 3.0]


def test_each_prompt_has_the_prices_of_its_own_cache_length():
    short, long = priced.trace(0.7, 60, 1, prompt_tokens=0), priced.trace(0.7, 60, 2, prompt_tokens=200)
    run = priced.run([short, short, long]).model_copy(update={"passes": (priced.passes(30, factor=1.0), priced.passes(230, factor=3.0))})
    one, _, three = LoopCosts.from_run(run).by_prompt(run)
    assert one.verify[21] == pytest.approx(priced.verify(21))
    assert three.verify[21] == pytest.approx(1 + 3 * (priced.verify(21) - 1))
    assert one.round_overhead == three.round_overhead


@pytest.mark.parametrize(
    ("without", "says"),
    [
        ({"passes": ()}, "no timed passes"),
        ({"traces": ()}, "has read no answer"),
        ({"generations": ()}, "no plain generation"),
    ],
)
def test_a_partial_run_says_what_is_missing(without, says):
    with pytest.raises(NotMeasured, match=says):
        LoopCosts.from_run(priced.run().model_copy(update=without))


def test_a_run_stopped_before_its_calibration():
    run = priced.run()
    answers = tuple(g for g in run.generations if g.purpose == "answer")
    with pytest.raises(NotMeasured, match="no usable calibration"):
        LoopCosts.from_run(run.model_copy(update={"generations": answers}))


def test_a_calibration_run_is_compared_with_the_plain_runs_next_to_it():
    order = [Plain(), FixedGamma(1), Plain(), FixedGamma(4), Plain()]
    block = [
        Generation(purpose="calibration", block=0, prompt=0, policy=policy, tokens=9, total_s=1.0 + at, first_token_s=0.1)
        for at, policy in enumerate(order)
    ]
    assert beside(block, 1) == [block[0], block[2]]
    assert beside(block, 3) == [block[2], block[4]]
    assert beside([block[1], block[3], block[1], block[4]], 0) == [block[4]]


def with_drafted(run, first_token=0.0):
    """The run as one that noted what it drafted, where more in the first pass costs time."""

    def dearer(g):
        if g.policy == Plain():
            return g
        rounds = rounds_of(run.traces[g.prompt], g.policy)
        more_s = priced.STEP_S * first_token * rounds[0].drafted
        return g.model_copy(update={"drafted": tuple(r.drafted for r in rounds), "total_s": g.total_s + more_s})

    return run.model_copy(update={"generations": tuple(dearer(g) for g in run.generations)})


def test_tokens_checked_beside_the_prompt_cost_what_prompt_tokens_do():
    """A prompt of 100 tokens takes 3 plain steps, one of which is the step itself."""
    costs = LoopCosts.from_run(with_drafted(priced.run(), first_token=0.02))
    assert costs.first_token == pytest.approx(0.02)
    assert (costs.round_overhead, costs.token_overhead) == pytest.approx((priced.H, priced.E))
    one = priced.trace(0.7, 60, 0)
    extra = sum(costs.parts(replay_prompt(one, FixedGamma(5)))) - priced.decode_steps(one, FixedGamma(5))
    assert extra == pytest.approx(0.02 * 5)


def test_comparing_with_a_threshold_costs_what_was_timed_for_it():
    run = with_drafted(priced.run(), first_token=0.02)
    timed = [each.model_copy(update={"check_s": 0.07 * priced.STEP_S}) for each in run.passes]
    costs = LoopCosts.from_run(run.model_copy(update={"passes": tuple(timed)}))
    assert costs.check_overhead == pytest.approx(0.07)
    rounds = replay_prompt(run.traces[0], TransformersDefault())
    assert sum(costs.parts(rounds, checks=True)) - sum(costs.parts(rounds)) == pytest.approx(0.07 * rounds.drafted)


def test_calls_with_a_threshold_say_nothing_of_the_loop():
    """Earlier versions calibrated with the library's default too."""
    run = priced.run(default=True)
    calls = [g.model_copy(update={"total_s": g.total_s * (2 if getattr(g.policy, "threshold", 0) else 1)}) for g in run.generations]
    costs = LoopCosts.from_run(run.model_copy(update={"generations": tuple(calls)}))
    assert (costs.round_overhead, costs.token_overhead) == pytest.approx((priced.H, priced.E))


def test_runs_that_did_not_note_what_they_drafted_are_priced_as_before():
    costs = LoopCosts.from_run(priced.run())
    assert (costs.first_token, costs.check_overhead) == (0.0, 0.0)
