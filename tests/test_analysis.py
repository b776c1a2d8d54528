"""What pages take from a run: sums over prompts, shares, positions, and which policies are listed."""

import dataclasses

import numpy as np
import pytest

from core.analysis import Analysis, Unfinished, accepted_shares, alpha_by_position, analyse, conditional_acceptance, together
from core.policies import FixedGamma, Oracle, Plain, TransformersDefault
from tests import synthetic


def finished(**how: float) -> Analysis:
    found = analyse(synthetic.run(**how))  # pyright: ignore[reportArgumentType]
    assert isinstance(found, Analysis)
    return found


def test_rounds_of_all_prompts_add_up_to_a_count_by_hand():
    run = synthetic.run()
    found = finished()
    rounds = together(found.rounds(FixedGamma(3)))
    walked = [pair for trace in run.traces for pair in synthetic.walk(trace, FixedGamma(3))]
    assert rounds.rounds == len(walked)
    assert rounds.drafted == sum(drafted for _, drafted in walked)
    shares = accepted_shares(rounds)
    counted = np.bincount([emitted - 1 for emitted, _ in walked], minlength=4) / len(walked)
    np.testing.assert_allclose(shares, counted)


def test_alpha_by_position_averages_to_alpha():
    found = finished()
    start, alpha = alpha_by_position(found.run)
    assert start.tolist() == list(range(0, 64, 8))
    assert alpha.mean() == pytest.approx(found.alpha.value), "every block holds as many tokens here"


def test_confirmed_replay_and_formula_tell_the_known_story():
    found = finished(c=0.1)
    [point] = found.confirmed
    assert point.gamma == 4
    assert point.speedup == pytest.approx(found.replay.mid[3], rel=0.01)
    assert found.formula[3] > point.speedup, "the formula takes verify and loop for free"
    assert found.replay.low[3] < found.replay.mid[3] < found.replay.high[3]


def test_the_answer_comes_first_and_the_oracle_last():
    good, bad = finished(c=0.1), finished(c=0.8, best=1)
    assert good.policies()[0] == good.advice.policy
    assert bad.policies()[:2] == [Plain(), bad.advice.policy]
    for found in (good, bad):
        assert found.policies()[-1] == Oracle()
        assert len(set(found.policies())) == len(found.policies())
        ranking = found.ranking()
        assert "Plain" in [row.name for row in ranking]
        assert sum(row.known == "confirmed" for row in ranking) == 1 + sum(found.is_confirmed(policy) for policy in found.policies())
        assert [row.speedup for row in ranking] == sorted((row.speedup for row in ranking), reverse=True)


def test_a_slow_setting_that_was_really_run_is_ranked():
    assert "Fixed gamma 20" in [row.name for row in finished(c=0.1, best=20).ranking() if row.known == "confirmed"]


def test_a_setting_without_a_gamma_is_a_level():
    found = finished(c=0.1)
    assert found.advice.policy == TransformersDefault()
    assert found.level == ("the library's default (20, 0.4)", pytest.approx(found.advice.speedup))


def test_the_sweep_holds_the_fixed_gammas_in_its_first_row():
    found = finished()
    assert found.sweep[0, 2] == pytest.approx(found.replay.mid[2])
    assert found.sweep.shape == (10, 11)


def test_conditional_acceptance_is_a_count_by_hand():
    run = synthetic.run()
    found = conditional_acceptance(run, FixedGamma(4))
    for place in range(1, 5):
        examined = accepted = 0
        for trace in run.traces:
            at = 0
            for emitted, drafted in synthetic.walk(trace, FixedGamma(4)):
                right = trace.accept[at : at + drafted] > 0
                if drafted >= place and right[: place - 1].all():
                    examined += 1
                    accepted += bool(right[place - 1])
                at += emitted
        assert found[place - 1] == pytest.approx(accepted / examined)


def test_the_best_of_the_sweep_is_listed_with_its_row():
    found = finished(c=0.3)
    best = found.best_of_sweep
    assert best in found.policies()
    assert found.row(best)["speedup"] == pytest.approx(found.sweep.max())
    assert not found.is_confirmed(best)


def test_a_trace_without_confidence_is_a_sentence():
    run = synthetic.run()
    blind = tuple(dataclasses.replace(trace, confidence=np.full_like(trace.confidence, np.nan)) for trace in run.traces)
    found = analyse(run.model_copy(update={"traces": blind}))
    assert isinstance(found, Unfinished)
    assert found.missing.startswith("confidence is nan")


@pytest.mark.parametrize("lacks", ["passes", "traces", "generations"])
def test_a_run_that_lacks_a_part_says_which(lacks: str):
    found = analyse(synthetic.run().model_copy(update={lacks: ()}))
    assert isinstance(found, Unfinished)
    assert found.missing.endswith(".")
    assert (found.alpha is None) == (lacks == "traces")
