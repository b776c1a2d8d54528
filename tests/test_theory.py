"""The formulas against every value of the published tables, and against their own definition."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import theory

DATA = Path(__file__).parent / "data"


def rows(name):
    with (DATA / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_best_gamma_table():
    for row in rows("optimal_gamma.csv"):
        best = theory.best_gamma(float(row["alpha"]), float(row["c"]))
        assert best.gamma == int(row["best_gamma_1_to_20"])
        assert best.speedup == pytest.approx(float(row["speedup"]), abs=0.005)


def test_speedup_curve():
    for row in rows("speedup_curve_alpha_0.7.csv"):
        for c in (0.02, 0.1, 0.2):
            assert theory.speedup(0.7, int(row["gamma"]), c) == pytest.approx(float(row[f"c_{c}"]), abs=0.06)


def test_paper_table_1_to_its_printed_digits():
    for row in rows("leviathan_table1.csv"):
        alpha, gamma, c = float(row["alpha"]), int(row["gamma"]), float(row["c"])
        assert round(float(theory.operations_factor(alpha, gamma, c)), 2) == float(row["paper_operations_x"])
        assert round(float(theory.speedup(alpha, gamma, c)), 2) == float(row["paper_speed_x"])


def test_paper_tables_2_and_4():
    for row in rows("leviathan_table2_table4.csv"):
        got = theory.speedup(float(row["alpha"]), int(row["gamma"]), float(row["c"]))
        assert got == pytest.approx(float(row["paper_expected_speedup"]), abs=0.07)
        assert got == pytest.approx(float(row["recomputed_thm38"]), abs=5e-5)
        best = theory.best_gamma(float(row["alpha"]), float(row["c"]))
        assert best.gamma == int(row["recomputed_optimal_gamma"])


@given(st.floats(0, 1), st.integers(0, 40))
def test_tokens_per_round_is_the_sum_of_powers(alpha, gamma):
    assert theory.tokens_per_round(alpha, gamma) == pytest.approx(sum(alpha**k for k in range(gamma + 1)), rel=1e-9)


def test_limits_are_exact():
    assert theory.tokens_per_round(0, 5) == 1
    assert theory.tokens_per_round(1, 5) == 6
    assert theory.tokens_per_round(0, 0) == 1
    assert theory.operations_factor(1, 4, 0) == 1


@given(st.floats(0, 1), st.integers(1, 20), st.floats(0, 1), st.floats(0.5, 3), st.floats(0, 1), st.floats(0.01, 1))
def test_speedup_falls_as_any_price_rises(alpha, gamma, c, verify, overhead, more):
    base = theory.speedup(alpha, gamma, c, verify, overhead)
    assert theory.speedup(alpha, gamma, c + more, verify, overhead) < base
    assert theory.speedup(alpha, gamma, c, verify + more, overhead) < base
    assert theory.speedup(alpha, gamma, c, verify, overhead + more) < base


def test_broadcasting_and_verify_per_gamma():
    alpha, c = np.linspace(0, 1, 5)[:, None], np.array([0.0, 0.1, 2.0])
    best = theory.best_gamma(alpha, c, gammas=[1, 2, 3], verify=[1.0, 9.0, 9.0])
    assert best.gamma.shape == best.speedup.shape == (5, 3)
    assert set(np.unique(best.gamma)) == {0, 1}
    for index in np.ndindex(5, 3):
        single = theory.best_gamma(alpha[index[0], 0], c[index[1]], gammas=[1, 2, 3], verify=[1.0, 9.0, 9.0])
        assert (single.gamma, single.speedup) == (best.gamma[index], best.speedup[index])


def test_nothing_beats_plain():
    assert theory.best_gamma(0.1, 0.5) == (0, 1.0)
    assert theory.best_gamma(0.2, 0.2) == (0, 1.0)


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (lambda: theory.tokens_per_round(1.2, 3), "1.2"),
        (lambda: theory.tokens_per_round(float("nan"), 3), "nan"),
        (lambda: theory.tokens_per_round(0.5, -1), "-1"),
        (lambda: theory.speedup(0.5, 3, -0.1), "-0.1"),
        (lambda: theory.speedup(0.5, 3, 0.1, verify=-2), "-2"),
        (lambda: theory.speedup(0.5, 3, 0.1, overhead=float("nan")), "nan"),
        (lambda: theory.operations_factor(0.5, 3, -4), "-4"),
        (lambda: theory.best_gamma([0.5, -0.5], 0.1), "-0.5"),
        (lambda: theory.best_gamma(0.5, 0.1, gammas=[]), "empty"),
        (lambda: theory.alpha_from_counts(-3, 1), "-3"),
        (lambda: theory.alpha_from_counts(0, 0), "0"),
        (lambda: theory.alpha_from_histogram([4]), "[4]"),
    ],
)
def test_impossible_input_names_the_value(call, value):
    with pytest.raises(ValueError, match=re.escape(value)):
        call()


def test_alpha_from_counts_and_histogram_agree():
    assert theory.alpha_from_counts(8, 2) == 0.8
    assert theory.alpha_from_histogram([2, 1, 3]) == theory.alpha_from_counts(7, 3)
    assert theory.alpha_from_histogram([[0, 5], [5, 0]]).tolist() == [1.0, 0.0]
    alpha, gamma = 0.8, 5
    expected = [(1 - alpha) * alpha**k for k in range(gamma)] + [alpha**gamma]
    assert theory.alpha_from_histogram(expected) == pytest.approx(alpha)
