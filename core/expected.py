"""Expected rounds when it is chance whether a draft is accepted: speculative sampling.

Given the text, the draft's token at position i is accepted with probability `accept[i]`,
independently, and each position is examined at most once. Constant schedules follow by exact
dynamic programming over where rounds start; schedules whose limit depends on the past, and the
oracle, by averaging walks over seeded draws of the outcomes. Under sampling `confidence` is the
draft's probability of the answer's own token, and `stop_rejected` the probability that drafting
stops at a token that is going to be rejected. Source: Leviathan et al. 2022, Algorithm 1; the
loop of Transformers 5.24. Not covered: the scikit-learn adaptation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from core.rounds import Floats, Ints, Rounds, Walk, at_least, mean, total
from core.walk import FAR, Path, prepare


@dataclass(frozen=True)
class Chances:
    """One sampled text for one threshold. All arrays have the answer's length N.

    accept: probability that the draft's token is accepted. stops: drafting stops after the token if
    it is the answer's. stop_rejected: probability that it stops after one that will be rejected;
    None when unknown (then anything from "always" to "never" is possible). unsure: whether there is a threshold, so that
    drafting may stop at any token behind those; without one only an end of text could, which is neglected.
    """

    accept: Floats
    stops: NDArray[np.bool_]
    stop_rejected: Floats | None
    budget: int
    unsure: bool = True


def expected_constant(chances: Chances, limit: int) -> Rounds:
    """Exact expectation for at most `limit` drafts per round."""
    length = len(chances.accept)
    place = np.arange(length)
    room = np.minimum(limit, chances.budget - 1 - place)
    stop = np.minimum.accumulate(np.where(chances.stops, place, FAR)[::-1])[::-1]
    most = np.minimum(room, stop - place + 1)  # drafts if none is rejected
    ends = _endings(chances.accept, most, limit)  # (N, limit + 1)
    weight = _starts(ends)
    missed = weight[:, None] * np.where(np.arange(limit + 1) < most[:, None], ends, 0.0)  # by drafts accepted before it
    behind = np.arange(limit + 1) >= length - place[:, None]  # all accepted, and drafted on behind a cut text
    rejected = np.where(behind, 0.0, missed)
    full = weight * ends[place, most] + np.where(behind, missed, 0.0).sum(axis=1)
    cropped = np.minimum(most, length - 1 - place)
    by_accepted = np.bincount(cropped, full, limit + 1) + rejected.sum(axis=0)
    by_drafted, low = _drafted(chances, full, rejected, most, room)
    first = _drafted(chances, full * (place == 0), rejected * (place == 0)[:, None], most, room)[0]
    rounds = float(weight.sum())
    return Rounds(
        tokens=length,
        rounds=rounds,
        drafted=float(by_drafted @ np.arange(limit + 1)),
        accepted=length - rounds,
        rejected=float(rejected.sum()),
        drafted_low=low,
        rounds_by_drafted=by_drafted,
        first_by_drafted=first,
        reached=at_least(by_drafted),
        passed=at_least(by_accepted),
    )


def _endings(accept: Floats, most: Ints, limit: int) -> Floats:
    """(N, limit+1): chance that a round starting at each position has its first j drafts accepted and then ends."""
    padded = np.concatenate([accept, np.zeros(limit + 1)])
    ahead = sliding_window_view(padded, limit + 1)[: len(accept)]  # accept[i + j]
    before = np.cumprod(np.concatenate([np.ones((len(accept), 1)), ahead[:, :-1]], axis=1), axis=1)
    column = np.arange(limit + 1)
    return np.where(column < most[:, None], before * (1 - ahead), np.where(column == most[:, None], before, 0.0))


def _starts(ends: Floats) -> Floats:
    """(N,) probability that a round starts at each position."""
    length, width = ends.shape
    weight = np.zeros(length + width + 1)
    weight[0] = 1.0
    for at in range(length):
        weight[at + 1 : at + 1 + width] += weight[at] * ends[at]
    return weight[:length]


def _drafted(chances: Chances, full: Floats, rejected: Floats, most: Ints, room: Ints) -> tuple[Floats, float]:
    """Rounds by drafted length, (limit+1,), at most; and the least total that is possible."""
    limit = np.size(rejected, 1) - 1
    before = np.arange(limit + 1)
    at = np.minimum(np.arange(len(most))[:, None] + before, len(most) - 1)
    stop = np.zeros_like(rejected) if chances.stop_rejected is None else chances.stop_rejected[at]
    stopped, going_on = rejected * stop, rejected * (1 - stop)
    counts: Floats = np.zeros(limit + 1)
    np.add.at(counts, most, full)
    np.add.at(counts, room, going_on.sum(axis=1))
    counts[1:] += stopped.sum(axis=0)[:-1]
    shortest, last = np.full(limit + 1, limit), most
    if chances.unsure:
        shortest = before + (1 if chances.stop_rejected is None else 2)
        last = np.minimum(most, len(most) - np.arange(len(most)) + 1)
    low = (full * last).sum() + (stopped * (before + 1)).sum() + (going_on * np.minimum(shortest, room[:, None])).sum()
    return counts, float(low)


def average(chances: Chances, walk: Callable[[Path], Walk], samples: int, seed: int) -> Rounds:
    """The mean of `samples` walks over seeded draws of the outcomes, with its standard error."""
    return mean([total(each) for each in draw(chances, [walk] * samples, seed)])


def draw(chances: Chances, walks: Sequence[Callable[[Path], Walk]], seed: int) -> list[Walk]:
    """Each of `walks` over a draw of the outcomes of its own."""
    random = np.random.default_rng(seed)
    length = len(chances.accept)
    stop = 0.0 if chances.stop_rejected is None else chances.stop_rejected
    least = FAR if not chances.unsure else 0 if chances.stop_rejected is None else 1
    tails = np.full(length, least), np.full(length, FAR)

    def one(walk: Callable[[Path], Walk]) -> Walk:
        accepted = random.random(length) < chances.accept
        stops = np.where(accepted, chances.stops, random.random(length) < stop)
        return walk(prepare(accepted, stops, tails, chances.budget))

    return [one(walk) for walk in walks]
