"""Money from time: what a GPU costs a month, what a speedup saves of it, and what a million tokens cost.

Units: USD, hours, tokens per second; a month is 720 hours (30 days) unless said otherwise. At one
request at a time the GPU time of the same traffic falls to 1 / speedup, so the saving is
cost x (1 - 1 / speedup): an extra cost, negative, below 1. Not covered: batches, where the gain
shrinks (`core.fleet`), taxes, discounts, storage and traffic fees.
"""

import math
import re

from core.errors import InvalidInput
from core.intervals import Interval

HOURS_PER_MONTH = 720.0
MOST_HOURS = 744.0
"""Hours of the longest month."""
_PLAIN = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?|\.[0-9]{1,12}")
_CURRENCY = re.compile(r"[$€£¥₩₹₽₿]|[A-Za-z]")


def monthly_cost(usd_per_hour: float, hours: float = HOURS_PER_MONTH) -> float:
    """USD for `hours` at an hourly price. Raises InvalidInput unless both are finite and above zero, hours at most 744."""
    return _positive("usd_per_hour", usd_per_hour) * _hours(hours)


def monthly_saving(usd_per_hour: float, speedup: float, hours: float = HOURS_PER_MONTH) -> float:
    """USD a month that a speedup saves of `monthly_cost`; negative below 1. Raises InvalidInput as it does."""
    return monthly_cost(usd_per_hour, hours) * (1 - 1 / _positive("speedup", speedup))


def saving_interval(usd_per_hour: float, speedup: Interval, hours: float = HOURS_PER_MONTH) -> Interval:
    """The interval of the saving from that of the speedup: the saving rises with the speedup, so end goes to end.

    Raises InvalidInput as `monthly_saving` does, and when low is above high.
    """
    low, high = (monthly_saving(usd_per_hour, end, hours) for end in speedup)
    if low > high:
        raise InvalidInput(f"The interval of the speedup runs from {speedup.low} to {speedup.high}. Give the lower end first.")
    return Interval(low, high)


def usd_per_million_tokens(usd_per_hour: float, tokens_per_second: float) -> float:
    """USD for a million tokens written at a steady speed. Raises InvalidInput unless both are finite and above zero."""
    return _positive("usd_per_hour", usd_per_hour) / 3600 / _positive("tokens_per_second", tokens_per_second) * 1e6


def converted(usd: float, units_per_usd: float) -> float:
    """An amount in another currency at a rate that a person typed. Raises InvalidInput unless the rate is finite and above zero."""
    return _finite("usd", usd) * _positive("units_per_usd", units_per_usd)


def parse_amount(text: str, name: str = "price", most: float = 1e6, unit: str = "in USD") -> float:
    """A typed amount, such as 1.29. Raises InvalidInput with a sentence for anything that is not one plain number above zero.

    unit: what the sentence asks for where letters were typed.

    Commas are never guessed at: 1,234 may mean either of two amounts.
    """
    typed = text.strip()
    if not typed:
        raise InvalidInput(f"The {name} is empty. Type a number such as 1.29.")
    wrong = _wrong(typed, unit)
    if wrong:
        raise InvalidInput(f"The {name} is {typed[:40]!r}, {wrong}.")
    amount = float(typed)
    if amount == 0:
        raise InvalidInput(f"The {name} is {typed[:40]!r}; it must be above zero. Leave it out where it is not known.")
    if amount > most:
        raise InvalidInput(f"The {name} is {typed[:40]!r}; it must be at most {most:,.0f}.")
    return amount


def _wrong(typed: str, unit: str) -> str:
    """What is wrong with a typed amount and what to do, or nothing."""
    if _PLAIN.fullmatch(typed):
        return ""
    if typed.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return "which is not an amount. Type a number such as 1.29"
    if _CURRENCY.search(typed):
        return f"with a currency or other letters. Type the number alone, {unit}"
    if "," in typed:
        return "with a comma, which may part thousands or decimals. Write it with a point and no separators, such as 1234.5"
    if typed.startswith(("-", "\N{MINUS SIGN}")):
        return "which is negative; it must be above zero"
    return "which is not a number. Type one such as 1.29"


def _positive(name: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise InvalidInput(f"{name} is {value}; it must be a finite number above zero.")
    return float(value)


def _finite(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise InvalidInput(f"{name} is {value}; it must be a finite number.")
    return float(value)


def _hours(hours: float) -> float:
    if _positive("hours", hours) > MOST_HOURS:
        raise InvalidInput(f"hours is {hours}; a month has at most {MOST_HOURS:.0f}.")
    return hours
