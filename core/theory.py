"""The classical model of speculative decoding, so that a measurement can be shown beside its formula.

Every draft token has the same chance alpha to be accepted. All times are divided by one plain
target step: c is one draft token, `verify` the target's pass over gamma + 1 tokens, `overhead`
what else a round costs. Source: Leviathan, Kalman and Matias 2022 (arXiv:2211.17192), Theorems
3.8 and 3.11, equation 1. Not covered: tokens with unequal chances and schedules that move gamma;
those are replayed from a trace (`core.replay`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

HALVINGS = 60
"""Of the interval from 0 to 1: more than a double can tell apart."""


class BestGamma(NamedTuple):
    """The best draft length and its speedup; gamma 0 and 1.0 where nothing beats plain decoding. Arrays, or scalars for scalars."""

    gamma: NDArray[np.int64]
    speedup: Floats


class NeededAlpha(NamedTuple):
    """The smallest alpha at which a speedup is reached, and the draft length that reaches it."""

    alpha: float
    gamma: int


def _checked(name: str, value: ArrayLike, low: float, high: float) -> Floats:
    """`value` as floats, all within [low, high]; ValueError names the first that is not."""
    array = np.asarray(value, dtype=np.float64)
    wrong = ~((array >= low) & (array <= high))
    if wrong.any():
        limits = f"at least {low:g}" if high == np.inf else f"from {low:g} to {high:g}"
        raise ValueError(f"{name} is {array[wrong].flat[0]}; it must be {limits}.")
    return array


def _tokens(alpha: Floats, gamma: Floats) -> Floats:
    """(1 - alpha^(gamma+1)) / (1 - alpha) without cancellation near 1, and gamma + 1 at alpha = 1."""
    miss = 1.0 - alpha
    with np.errstate(divide="ignore", invalid="ignore"):
        tokens = -np.expm1((gamma + 1) * np.log1p(-miss)) / miss
    return np.where(miss == 0, gamma + 1, tokens)


def tokens_per_round(alpha: ArrayLike, gamma: ArrayLike) -> Floats:
    """Expected tokens emitted per round, the target's own token included (equation 1).

    alpha in 0..1, gamma >= 0; they broadcast. Raises ValueError for anything else.
    """
    return _tokens(_checked("alpha", alpha, 0, 1), _checked("gamma", gamma, 0, np.inf))[()]


def speedup(alpha: ArrayLike, gamma: ArrayLike, c: ArrayLike, verify: ArrayLike = 1.0, overhead: ArrayLike = 0.0) -> Floats:
    """Speedup over plain decoding (Theorem 3.8), with the target's pass and the loop at their real price.

    c: one draft token, its share of the loop included; verify: the target's pass over gamma + 1 tokens;
    overhead: the rest of a round; all in plain target steps. All broadcast. Raises ValueError for
    alpha outside 0..1 and for negative or missing values.
    """
    length = _checked("gamma", gamma, 0, np.inf)
    price = length * _checked("c", c, 0, np.inf) + _checked("verify", verify, 0, np.inf) + _checked("overhead", overhead, 0, np.inf)
    return (_tokens(_checked("alpha", alpha, 0, 1), length) / price)[()]


def best_gamma(
    alpha: ArrayLike,
    c: ArrayLike,
    gammas: Sequence[int] = range(1, 21),
    verify: ArrayLike = 1.0,
    overhead: ArrayLike = 0.0,
) -> BestGamma:
    """The draft length with the largest speedup; the smallest one where several are equally good.

    alpha, c and overhead broadcast; `verify` is a number or one value per entry of `gammas`.
    Raises ValueError as `speedup` does, and when `gammas` is empty.
    """
    if len(gammas) == 0:
        raise ValueError("gammas is empty; give at least one draft length.")
    shape = np.broadcast_shapes(np.shape(alpha), np.shape(c), np.shape(overhead))
    down = (-1, *[1] * len(shape))
    lengths = np.asarray(gammas)
    price = np.broadcast_to(np.asarray(verify, dtype=np.float64), lengths.shape).reshape(down)
    curve = speedup(np.asarray(alpha), lengths.reshape(down), np.asarray(c), price, overhead)  # (gammas, *shape)
    top = curve.max(axis=0)
    gains = top > 1.0
    return BestGamma(np.where(gains, lengths[curve.argmax(axis=0)], 0)[()], np.where(gains, top, 1.0)[()])


def alpha_needed(wanted: float, c: float, gammas: Sequence[int] = range(1, 21), verify: ArrayLike = 1.0, overhead: float = 0.0) -> NeededAlpha | None:
    """The smallest alpha at which some draft length makes decoding `wanted` times as fast; None where not even alpha 1 does.

    `verify` is a number or one value per entry of `gammas`. `speedup` rises with alpha, so it is inverted by halving, to the last digit.
    Raises ValueError as `speedup` does, and when `gammas` is empty.
    """
    if len(gammas) == 0:
        raise ValueError("gammas is empty; give at least one draft length.")
    lengths = np.asarray(gammas)
    low, high = np.zeros(lengths.shape), np.ones(lengths.shape)
    reachable = speedup(high, lengths, c, verify, overhead) >= wanted
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        reached = speedup(middle, lengths, c, verify, overhead) >= wanted
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    if not reachable.any():
        return None
    at = int(np.where(reachable, high, np.inf).argmin())
    return NeededAlpha(float(high[at]), int(lengths[at]))


def operations_factor(alpha: ArrayLike, gamma: ArrayLike, c_ops: ArrayLike) -> Floats:
    """How many times the arithmetic of plain decoding is spent (Theorem 3.11).

    c_ops: arithmetic of one draft token / of one target token. Broadcasts; ValueError as `speedup`.
    """
    length = _checked("gamma", gamma, 0, np.inf)
    work = length * _checked("c_ops", c_ops, 0, np.inf) + length + 1
    return (work / _tokens(_checked("alpha", alpha, 0, 1), length))[()]


def alpha_from_counts(accepted: ArrayLike, rejected_rounds: ArrayLike) -> Floats:
    """Accepted drafts / drafts that were examined: each round examines one more than it accepts if it ends in a rejection.

    Raises ValueError for negative counts, and when nothing was examined.
    """
    taken = _checked("accepted", accepted, 0, np.inf)
    examined = taken + _checked("rejected_rounds", rejected_rounds, 0, np.inf)
    if (examined == 0).any():
        raise ValueError("accepted and rejected_rounds are both 0; no draft was examined, so there is no alpha.")
    return (taken / examined)[()]


def alpha_from_histogram(histogram: ArrayLike) -> Floats:
    """Alpha from the number of rounds with 0, 1, ... gamma accepted drafts (last axis).

    Raises ValueError for negative counts, fewer than two entries, and when there was no round.
    """
    counts = _checked("histogram", histogram, 0, np.inf)
    if counts.ndim == 0 or np.size(counts, -1) < 2:
        raise ValueError(f"histogram is {histogram}; it needs one count for each of 0, 1, ... gamma accepted drafts.")
    lengths = np.arange(np.size(counts, -1))
    accepted: Floats = np.sum(counts * lengths, axis=-1)
    return alpha_from_counts(accepted, np.sum(counts[..., :-1], axis=-1))
