"""The t interval of a ratio of sums covers what it promises."""

import numpy as np
import pytest

from core.intervals import in_quadrature, jackknife_error, leave_one_out, ratio_interval, t_quantile


@pytest.mark.parametrize(("freedom", "value"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (7, 2.3646), (10, 2.2281), (30, 2.0423), (120, 1.9799)])
def test_t_quantiles_of_the_tables(freedom, value):
    assert t_quantile(freedom) == pytest.approx(value, abs=5e-5)


def test_t_needs_two_units():
    with pytest.raises(ValueError, match="0"):
        t_quantile(0)


@pytest.mark.parametrize("prompts", [8, 12, 24])
def test_coverage_is_93_to_97_percent(prompts):
    """Answers of random length, each prompt with its own speed around 1.4x."""
    random = np.random.default_rng(prompts)
    trials, covered = 4000, 0
    for _ in range(trials):
        plain = random.uniform(0.5, 1.5, prompts)
        assisted = plain / 1.4 * random.gamma(20, 1 / 20, prompts)
        found = ratio_interval(plain, assisted)
        assert found is not None
        covered += found.low <= 1.4 <= found.high
    assert 0.93 <= covered / trials <= 0.97


def test_no_interval_below_eight_prompts():
    assert ratio_interval(np.ones(7), np.ones(7)) is None
    assert ratio_interval(np.ones(8), np.ones(8)) == (1.0, 1.0)


def test_jackknife_is_the_textbook_error_of_a_mean():
    values = np.array([1.0, 2.0, 4.0, 7.0])
    left_out = (values.sum() - values) / 3
    assert jackknife_error(left_out) == pytest.approx(values.std(ddof=1) / 2)


def test_leave_one_out_by_hand():
    above, below = np.array([1.0, 2.0, 3.0]), np.array([[1.0, 1.0, 2.0], [2.0, 2.0, 2.0]])
    expected = np.log([[5 / 3, 4 / 3, 3 / 2], [5 / 4, 4 / 4, 3 / 4]])
    assert leave_one_out(above, below) == pytest.approx(expected)


def test_quadrature():
    assert in_quadrature(3.0, None, 4.0) == 5.0
    assert in_quadrature(None, None) is None
