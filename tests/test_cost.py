"""Monthly money against the published table to its printed digits, and typed amounts against what people type."""

import csv
import math
import re
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import cost, prices
from core.errors import InvalidInput
from core.intervals import Interval

DATA = Path(__file__).parent / "data"
SPEEDUPS = st.floats(0.05, 20)
BAD = [0.0, -1.29, math.nan, math.inf, -math.inf]


def test_published_table_with_the_shipped_prices():
    a10, h100 = (next(p for p in prices.load() if (p.provider, p.instance) == ("Lambda", f"1x {name}")) for name in ("A10", "H100 SXM"))
    assert a10.dated == h100.dated == date(2026, 11, 5)
    with (DATA / "monthly_cost.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3
    for row in rows:
        speedup = float(row["speedup"])
        assert round(100 * (1 - 1 / speedup), 1) == float(row["gpu_time_saved_percent"])
        for price, name in ((a10, "A10"), (h100, "H100")):
            assert round(cost.monthly_cost(price.usd_per_hour), 2) == float(row[f"{name}_month_usd"])
            assert round(cost.monthly_saving(price.usd_per_hour, speedup), 1) == float(row[f"{name}_saving_usd"])


def test_below_one_is_an_extra_cost():
    assert cost.monthly_saving(4.29, 0.5) == pytest.approx(-3088.8)
    assert cost.monthly_saving(4.29, 1) == 0


def test_hours_and_tokens():
    assert cost.monthly_cost(2, hours=10) == 20
    assert cost.usd_per_million_tokens(3.6, 1000) == pytest.approx(1.0)
    assert cost.converted(-10, 0.92) == pytest.approx(-9.2)


@given(st.floats(0.01, 100), SPEEDUPS, SPEEDUPS)
def test_interval_keeps_its_order_and_holds_the_saving(usd, one, other):
    interval = cost.saving_interval(usd, Interval(min(one, other), max(one, other)))
    assert interval.low <= cost.monthly_saving(usd, math.sqrt(one * other)) + 1e-9
    assert cost.monthly_saving(usd, math.sqrt(one * other)) <= interval.high + 1e-9
    assert interval == (cost.monthly_saving(usd, min(one, other)), cost.monthly_saving(usd, max(one, other)))


def test_interval_the_wrong_way_round():
    with pytest.raises(InvalidInput, match=re.escape("from 1.5 to 1.2")):
        cost.saving_interval(1, Interval(1.5, 1.2))


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(
    "call",
    [
        cost.monthly_cost,
        lambda bad: cost.monthly_cost(1, bad),
        lambda bad: cost.monthly_saving(bad, 1.2),
        lambda bad: cost.monthly_saving(1, bad),
        lambda bad: cost.usd_per_million_tokens(bad, 1),
        lambda bad: cost.usd_per_million_tokens(1, bad),
        lambda bad: cost.converted(1, bad),
        lambda bad: cost.saving_interval(1, Interval(bad, bad)),
    ],
)
def test_impossible_values_are_named(call, bad):
    with pytest.raises(InvalidInput, match=re.escape(str(bad))):
        call(bad)


def test_no_month_is_longer_than_31_days():
    assert cost.monthly_cost(1, 744) == 744
    with pytest.raises(InvalidInput, match="745"):
        cost.monthly_cost(1, 745)


@pytest.mark.parametrize(("typed", "amount"), [("1.29", 1.29), (" 4 ", 4.0), (".5", 0.5), ("007", 7.0)])
def test_plain_amounts(typed, amount):
    assert cost.parse_amount(typed) == amount


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("", "is empty"),
        ("1,29", "with a comma"),
        ("1.234,56", "with a comma"),
        ("1,234.56", "with a comma"),
        ("$1.29", "currency"),
        ("1.29 USD", "currency"),
        ("€1,29", "currency"),
        ("₩1700", "currency"),
        ("1e3", "letters"),
        ("0", "above zero"),
        ("0.00", "above zero"),
        ("-1.29", "negative"),
        ("\N{MINUS SIGN}1", "negative"),
        ("nan", "not an amount"),
        ("-inf", "not an amount"),
        ("1_000", "not a number"),
        ("1 000", "not a number"),
        ("1.2.3", "not a number"),
        ("\N{FULLWIDTH DIGIT ONE}", "not a number"),
        ("99999999", "at most 1,000,000"),
        ("1" * 5000, "not a number"),
    ],
)
def test_other_amounts_get_a_sentence_with_the_value(typed, sentence):
    with pytest.raises(InvalidInput, match=re.escape(sentence)) as caught:
        cost.parse_amount(typed)
    assert typed[:40] in str(caught.value)
    assert len(str(caught.value)) < 250


@given(st.text(max_size=30))
def test_any_text_is_an_amount_or_a_sentence(typed):
    try:
        amount = cost.parse_amount(typed)
    except InvalidInput:
        return
    assert 0 < amount <= 1e6
    assert amount == float(typed.strip())
