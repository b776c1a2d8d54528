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
    return expected_together([chances], limit)[0]


def expected_together(texts: Sequence[Chances], limit: int) -> list[Rounds]:
    """The same for each of several texts, which takes much less time."""
    most = [_most(chances, limit) for chances in texts]
    ends = [_endings(chances.accept, longest, limit) for chances, longest in zip(texts, most, strict=True)]
    return [_expected(*each, limit) for each in zip(texts, most, ends, _starts(ends), strict=True)]


def _most(chances: Chances, limit: int) -> Ints:
    """(N,) drafts of a round from each position on if none is rejected."""
    place = np.arange(len(chances.accept))
    stop = np.minimum.accumulate(np.where(chances.stops, place, FAR)[::-1])[::-1]
    return np.minimum(np.minimum(limit, chances.budget - 1 - place), stop - place + 1)


def _expected(chances: Chances, most: Ints, ends: Floats, weight: Floats, limit: int) -> Rounds:
    """ends: (N, limit + 1) of `_endings`; weight: (N,) of `_starts`."""
    length = len(chances.accept)
    place = np.arange(length)
    room = np.minimum(limit, chances.budget - 1 - place)
    rejected = weight[:, None] * ends  # by drafts accepted before it
    full = rejected[place, most].copy()
    rejected[place, most] = 0.0
    if (most >= length - place).any():  # all accepted, and drafted on behind a cut text
        behind = np.arange(limit + 1) >= length - place[:, None]
        full += np.where(behind, rejected, 0.0).sum(axis=1)
        rejected = np.where(behind, 0.0, rejected)
    cropped = np.minimum(most, length - 1 - place)
    by_accepted = np.bincount(cropped, full, limit + 1) + rejected.sum(axis=0)
    by_drafted, low = _drafted(chances, full, rejected, most, room)
    first, _ = _drafted(chances, full[:1], rejected[:1], most[:1], room[:1])
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
    ahead, place = _ahead(accept, limit), np.arange(len(accept))
    before = np.ones_like(ahead)
    np.cumprod(ahead[:, :-1], axis=1, out=before[:, 1:])
    ends = before * (1 - ahead)
    ends[place, most] = before[place, most]
    ends[np.arange(limit + 1) > most[:, None]] = 0.0
    return ends


def _ahead(values: Floats, limit: int) -> Floats:
    """(N, limit+1): values[i + j], 0 behind the end."""
    return sliding_window_view(np.concatenate([values, np.zeros(limit)]), limit + 1)


def _starts(ends: Sequence[Floats]) -> list[Floats]:
    """(N,) probability that a round starts at each position of each text; all texts together, position by position."""
    longest, width = max(len(each) for each in ends), ends[0].shape[1]
    padded = np.zeros((longest, len(ends), width))
    for text, each in enumerate(ends):
        padded[: len(each), text] = each
    weight = np.zeros((len(ends), longest + width + 1))
    weight[:, 0] = 1.0
    for at in range(longest):
        weight[:, at + 1 : at + 1 + width] += weight[:, at, None] * padded[at]
    return [weight[text, : len(each)] for text, each in enumerate(ends)]


def _drafted(chances: Chances, full: Floats, rejected: Floats, most: Ints, room: Ints) -> tuple[Floats, float]:
    """Rounds by drafted length, (limit+1,), at most; and the least total that is possible. All for the first positions of the text."""
    limit, length = np.size(rejected, 1) - 1, len(chances.accept)
    before = np.arange(limit + 1)
    stop = _ahead(np.zeros(length) if chances.stop_rejected is None else chances.stop_rejected, limit)[: len(most)]
    stopped = rejected * stop
    going_on = rejected - stopped
    counts = (np.bincount(most, full, limit + 1) + np.bincount(room, going_on.sum(axis=1), limit + 1)).astype(np.float64)
    counts[1:] += stopped.sum(axis=0)[:-1]
    shortest, last = np.full(limit + 1, limit), most
    if chances.unsure:
        shortest = before + (1 if chances.stop_rejected is None else 2)
        last = np.minimum(most, length - np.arange(len(most)) + 1)
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
