"""Calls that stood still are left out wherever a run's times are used, and nothing else is."""

import numpy as np
import pytest

from core import columns as col
from core.policies import FixedGamma, Plain
from core.predict import predict
from core.stalled import keeps_moving
from core.timing import LoopCosts
from tests import priced

CONFIRMED = (FixedGamma(3), FixedGamma(5))


def stalled(run, wanted, by_s=60.0):
    """The run with `by_s` more in the first call for which `wanted` says so: before its first token for plain calls, amid it for others."""
    calls = list(run.generations)
    at = next(at for at, g in enumerate(calls) if wanted(g))
    calls[at] = calls[at].model_copy(update={"total_s": calls[at].total_s + by_s, "cpu_share": 0.01})
    return run.model_copy(update={"generations": tuple(calls)})


def measured(run, gamma):
    row = priced.rows(predict(run, CONFIRMED))[FixedGamma(gamma)]
    return row[col.MEASURED], row[col.MEASURED_LOW], row[col.MEASURED_HIGH]


@pytest.mark.parametrize("policy", [FixedGamma(3), Plain()])
def test_one_confirmation_call_that_stood_still_moves_nothing(policy):
    run = priced.run(confirmed=CONFIRMED, noise=0.003)
    broken = stalled(run, lambda g: g.purpose == "confirmation" and g.policy == policy and g.prompt == 2)
    for gamma in (3, 5):
        value, low, high = measured(broken, gamma)
        assert value == pytest.approx(measured(run, gamma)[0], rel=0.03), "one prompt less, and no more than that"
        assert low < value < high < 1.1 * low


def test_the_prompt_of_such_a_call_counts_as_not_run():
    run = priced.run(confirmed=CONFIRMED, noise=0.003)
    broken = stalled(run, lambda g: g.purpose == "confirmation" and g.policy == FixedGamma(3) and g.prompt == 2)
    rows = priced.rows(predict(broken, CONFIRMED))
    assert np.flatnonzero(rows[FixedGamma(3)][col.MEASURED_ASSISTED] == 0).tolist() == [2]
    assert (rows[FixedGamma(5)][col.MEASURED_ASSISTED] > 0).all()


@pytest.mark.parametrize("policy", [FixedGamma(4), Plain()])
def test_the_calibration_does_without_such_a_call(policy):
    broken = stalled(priced.run(), lambda g: g.purpose == "calibration" and g.policy == policy)
    costs = LoopCosts.from_run(broken)
    assert costs.plain_step_s == pytest.approx(priced.STEP_S)
    assert (costs.round_overhead, costs.token_overhead) == pytest.approx((priced.H, priced.E))


def test_only_what_is_beyond_a_factor_of_the_median_is_left_out():
    values = np.array([1.0, 1.1, 0.9, 1.9, 2.3, 0.45, 80.0])
    assert keeps_moving(values).tolist() == [True, True, True, True, False, False, False]
    assert keeps_moving(values, 3.0).tolist() == [True, True, True, True, True, True, False]


def test_two_values_cannot_tell_which_of_them_stood_still():
    assert keeps_moving(np.array([1.0, 100.0])).all()
    assert keeps_moving(np.array([])).tolist() == []
