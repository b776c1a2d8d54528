"""How the gain of a draft changes when a GPU serves several requests at once.

Everything is divided by one plain decoding step of one sequence. A pass of B sequences, n tokens each, costs

    P(B, n) = p(B n) + s (B - 1),    p(m) = max(p measured, m / knee),    p(1) = 1

p(m): m tokens in one pass. Few tokens cost as much as one, because reading the weights takes the time;
from `knee` tokens on the arithmetic takes longer and p grows with m (roofline; Williams, Waterman and
Patterson 2009). Measured verify ratios v(n) are such points: p(n) = v(n). s: reading one more
sequence's cache. A drafting round of t tokens with k drafts is one target pass over k + 1 tokens and
the rest r (draft passes, loop), which is known from the speedup measured on one sequence, S(1):

    r = t / S(1) - p(k + 1)        S(B) = S(1) (p(k + 1) + r) / (P(B, k + 1) / P(B, 1) + r)

So S(1) is exact, and S falls as the batch fills the arithmetic, towards t / (k + 1 + r) < 1. Speedups
measured on larger batches replace the model where they are given. Not covered: mixtures of experts,
whose batches read more weights (give measured pass prices), and engines that stop drafting under load.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.errors import InvalidInput
from core.intervals import Interval

Floats = NDArray[np.float64]
MOST_SEQUENCES = 65_536
MOST = 1e15
"""No amount in this model is larger; beyond it a value is a slip."""
MOST_FLOPS = 1e20
NOISE = 1.1
"""A measured speedup may exceed what its rounds allow by this factor: both carry noise."""
REACHED = 0.5
"""Assumed share of the vendor's peak arithmetic that narrow passes reach."""


@dataclass(frozen=True)
class Serving:
    """One GPU (or group of GPUs that holds one copy of the target) that decodes plainly.

    tokens_per_s: one sequence alone. prompt_tokens_per_s: prompts read, alone. sequences: most that fit at once.
    knee_tokens: tokens in a pass whose arithmetic takes as long as a plain step. cache_share: share of a plain step
    that goes into reading its sequence's cache. pass_prices: measured (tokens in a pass, price in plain steps).
    """

    tokens_per_s: float
    prompt_tokens_per_s: float
    sequences: int
    knee_tokens: float
    cache_share: float = 0.0
    pass_prices: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        checked("tokens_per_s", self.tokens_per_s)
        checked("prompt_tokens_per_s", self.prompt_tokens_per_s)
        whole("sequences", self.sequences)
        checked("knee_tokens", self.knee_tokens, low=1.0)
        checked("cache_share", self.cache_share, low=0.0, high=0.999)
        _points("pass_prices", self.pass_prices)

    @property
    def step_s(self) -> float:
        """Seconds of one plain step of one sequence."""
        return 1 / self.tokens_per_s


@dataclass(frozen=True)
class Drafting:
    """The same GPU with the draft. speedup: decoding, one sequence, with its interval where known.

    drafted_per_round, tokens_per_round: means; the latter counts the target's own token and is at most drafted + 1.
    sequences: most that fit beside the draft. prompt_share: the draft's pass over the prompt / the target's.
    batch_curve: measured (sequences, speedup) from 2 sequences on.
    """

    speedup: float
    drafted_per_round: float
    tokens_per_round: float
    sequences: int
    interval: Interval | None = None
    prompt_share: float = 0.0
    batch_curve: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        checked("speedup", self.speedup)
        checked("drafted_per_round", self.drafted_per_round, low=0.0)
        checked("tokens_per_round", self.tokens_per_round, low=1.0, high=self.drafted_per_round + 1)
        checked("speedup", self.speedup, high=NOISE * self.tokens_per_round, why=", because a round lasts at least about one plain step")
        whole("sequences", self.sequences)
        checked("prompt_share", self.prompt_share, low=0.0)
        _points("batch_curve", self.batch_curve)
        if self.interval is not None and not 0 < self.interval.low <= self.speedup <= self.interval.high < MOST:
            raise InvalidInput(f"The interval {self.interval.low} to {self.interval.high} must hold the speedup {self.speedup} and be above zero.")


def pass_price(serving: Serving, sequences: Floats, tokens: float) -> Floats:
    """P(B, n): price of one pass over `tokens` tokens of each of B sequences, in plain steps of one sequence."""
    return _price_of(serving, sequences * tokens) + serving.cache_share * (sequences - 1)


def speedup_at(serving: Serving, drafting: Drafting, sequences: Floats) -> Floats:
    """S(B) for each number of sequences (1 or more): measured where a curve is given, on its line between, by the model beyond."""
    known = sorted({(1.0, drafting.speedup), *drafting.batch_curve})
    at, values = (np.array(column, dtype=np.float64) for column in zip(*known, strict=True))
    measured = np.interp(np.log(sequences), np.log(at), values)
    beyond = values[-1] * _modelled(serving, drafting, sequences) / _modelled(serving, drafting, at[-1:])
    return np.where(sequences > at[-1], beyond, measured)


def knee_tokens(tokens_per_s: float, active_parameters: float, flops_per_s: float, reached: float = REACHED) -> float:
    """Tokens whose arithmetic (two operations per parameter, at a share of the vendor's peak) fills one plain step; at least 1.

    An assumption, for want of a measured batch. Raises InvalidInput unless all are above zero, and reached at most 1.
    """
    work = 2 * checked("active_parameters", active_parameters) * checked("tokens_per_s", tokens_per_s)
    return max(1.0, checked("flops_per_s", flops_per_s, high=MOST_FLOPS) * checked("reached", reached, high=1.0) / work)


def cache_share(weight_bytes: float, cache_bytes: float) -> float:
    """Share of a plain step that reads the cache of one sequence, when reading memory is all that takes time."""
    return checked("cache_bytes", cache_bytes, low=0.0) / (checked("weight_bytes", weight_bytes) + cache_bytes)


def ceiling_tokens_per_s(bandwidth_bytes_per_s: float, weight_bytes: float, cache_bytes: float = 0.0) -> float:
    """The most that one sequence can decode: every token reads all weights and the cache once. An upper bound, no measurement."""
    read = checked("weight_bytes", weight_bytes) + checked("cache_bytes", cache_bytes, low=0.0)
    return checked("bandwidth_bytes_per_s", bandwidth_bytes_per_s) / read


def checked(name: str, value: float, low: float | None = None, high: float = MOST, why: str = "") -> float:
    """`value` when finite, at least `low` (None: above zero) and at most `high`. Raises InvalidInput naming it."""
    enough = value > 0 if low is None else value >= low
    if not (math.isfinite(value) and enough and value <= high):
        least = "above zero" if low is None else f"at least {low:g}"
        raise InvalidInput(f"{name} is {value}; it must be {least} and at most {high:g}{why}.")
    return float(value)


def whole(name: str, sequences: int) -> None:
    """Raise InvalidInput unless a number of sequences is at least 1 and within reason."""
    if not 1 <= sequences <= MOST_SEQUENCES:
        raise InvalidInput(
            f"{name} is {sequences}; at least one must fit and at most {MOST_SEQUENCES:,} are counted. Choose a larger GPU or less context."
        )


def _price_of(serving: Serving, tokens: Floats) -> Floats:
    """p(m). Measured prices never fall as the pass grows; beyond the widest they rise on the line from one token to it."""
    known = sorted({(1.0, 1.0), *serving.pass_prices})
    at, prices = (np.array(column, dtype=np.float64) for column in zip(*known, strict=True))
    prices = np.maximum.accumulate(np.maximum(prices, 1.0))
    slope = (prices[-1] - 1) / (at[-1] - 1) if len(at) > 1 else 0.0
    measured = np.interp(tokens, at, prices) + slope * np.maximum(tokens - at[-1], 0)
    return np.maximum(measured, tokens / serving.knee_tokens)


def _modelled(serving: Serving, drafting: Drafting, sequences: Floats) -> Floats:
    """S(B) from the speedup of one sequence and the prices of passes."""
    width = drafting.drafted_per_round + 1
    alone = float(pass_price(serving, np.ones(1), width)[0])
    rest = max(0.0, drafting.tokens_per_round / drafting.speedup - alone)
    crowded = pass_price(serving, sequences, width) / pass_price(serving, sequences, 1)
    return drafting.speedup * (alone + rest) / (crowded + rest)


def _points(name: str, points: tuple[tuple[float, float], ...]) -> None:
    """Raise InvalidInput unless each point has more than one sequence or token, once, and a value above zero."""
    for at, value in points:
        checked(f"{name} at {at:g}", value)
        if not (math.isfinite(at) and at > 1):
            raise InvalidInput(f"{name} has a value at {at:g}; give values from 2 on, because 1 is known.")
    if len({at for at, _ in points}) < len(points):
        raise InvalidInput(f"{name} has two values for the same number. Keep one.")
