"""Published pairs equal the tables they come from, and situations the note's."""

import csv
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.published import PAPERS, published, t5_pairs
from core.situations import ACCEPTED, CHEAP, SITUATIONS, place, situation

DATA = Path(__file__).parent / "data"


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_t5_pairs_equal_the_papers_tables_and_the_formula_is_as_recomputed():
    known = rows("leviathan_table2_table4.csv")
    assert len(known) == len(t5_pairs()) == 12
    for row, pair in zip(known, t5_pairs(), strict=True):
        assert (pair.task, pair.target, pair.draft, pair.gamma) == (row["task"], row["target"], row["draft"], int(row["gamma"]))
        assert (pair.temperature, pair.alpha, pair.c) == (float(row["temperature"]), float(row["alpha"]), float(row["c"]))
        assert pair.speedup == float(row["paper_measured_speedup"])
        assert pair.formula == pytest.approx(float(row["recomputed_thm38"]), abs=1e-4)
        assert pair.gap == pytest.approx(1 / (1 + float(row["measured_over_recomputed_minus_1"])) - 1, abs=1e-3)
        assert pair.paper is PAPERS["leviathan2022"]


def test_the_formula_is_off_by_15_percent_in_the_median_and_47_at_worst():
    gaps = [abs(pair.gap or 0.0) for pair in t5_pairs()]
    assert median(gaps) == pytest.approx(0.15, abs=0.01)
    assert max(gaps) == pytest.approx(0.47, abs=0.005)


def test_dynamic_speculation_equals_its_table_and_has_no_formula():
    known = rows("hf_dynamic_speculation.csv")
    pairs = [pair for pair in published() if pair.paper is PAPERS["hf2024"]]
    assert len(pairs) == 2 * len(known)
    for at, row in enumerate(known):
        heuristic, dynamic = pairs[2 * at : 2 * at + 2]
        assert (heuristic.setting, heuristic.speedup) == ("heuristic", float(row["speedup_heuristic"]))
        assert (dynamic.setting, dynamic.speedup) == ("dynamic", float(row["speedup_dynamic"]))
        assert {(pair.target, pair.draft, pair.task) for pair in (heuristic, dynamic)} == {(row["target"], row["draft"], row["task"])}
        assert [dynamic.alpha, dynamic.c, dynamic.gamma, dynamic.formula, dynamic.gap] == [None] * 5


def test_situations_are_those_of_the_note():
    assert [(row.situation, row.draft, row.setting) for row in SITUATIONS] == [
        (row["situation"], row["draft"], row["gamma_setting"]) for row in rows("situations.csv")
    ]


@pytest.mark.parametrize(
    ("alpha", "c", "key"),
    [(0.75, 0.02, "small_draft"), (0.8, 0.04, "small_draft"), (0.82, 0.11, "large_draft"), (0.7, 0.32, "large_draft"), (0.53, 0.02, "little_gain")],
)
def test_a_pair_stands_by_its_numbers(alpha: float, c: float, key: str):
    assert place(alpha, c).situation.key == key
    assert f"alpha {alpha:.2f}, c {c:.2f}" in place(alpha, c).reason


def test_other_facts_come_before_the_numbers():
    assert place(0.9, 0.01, same_vocabulary=False, fits=False, lookup_is_best=True).situation.key == "no_draft"
    assert place(0.9, 0.01, fits=False, lookup_is_best=True).situation.key == "tight_memory"
    assert place(0.9, 0.01, lookup_is_best=True).situation.key == "copying"
    assert "cannot pay" in place(0.7, 0.8).reason
    assert "cannot pay" not in place(0.7, 0.6).reason


@given(st.floats(0, 1), st.floats(0, 3))
def test_every_pair_stands_within_the_ranges_of_its_row(alpha: float, c: float):
    row = place(alpha, c).situation
    assert row.alpha
    assert row.c
    assert row.alpha[0] <= alpha <= row.alpha[1]
    assert row.c[0] <= c <= row.c[1]


@pytest.mark.parametrize(("alpha", "c"), [(-0.1, 0.1), (1.1, 0.1), (0.5, -1.0), (float("nan"), 0.1), (0.5, float("inf"))])
def test_numbers_that_cannot_be_are_refused(alpha: float, c: float):
    with pytest.raises(ValueError, match="must lie in"):
        place(alpha, c)


def test_the_limits_agree_with_the_notes_table_of_best_gammas():
    """The setting that each row advises holds for the table's own entries in its range."""
    for row in rows("optimal_gamma.csv"):
        alpha, c, gamma = float(row["alpha"]), float(row["c"]), int(row["best_gamma_1_to_20"])
        where = place(alpha, c).situation.key
        if where == "little_gain":
            assert gamma <= 4
        elif where == "small_draft":
            assert gamma >= 4
    assert situation("small_draft").c == (0.0, CHEAP)
    assert situation("little_gain").alpha == (0.0, ACCEPTED)
