"""What a policy's rounds come to: the numbers that a replay returns and the time model needs.

Counts are expected values (whole numbers when the outcomes are known, as in greedy decoding).
Unit: tokens and rounds of one prompt's answer. Words as in Draftgauge's documents: a round drafts
0 or more tokens, accepts some of them, and emits one more than it accepts.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Round(NamedTuple):
    """One round of a known text: where it starts in the answer, and what it drafted, accepted and emitted.

    drafted is the most it can have been; it is exact when drafted_low is the same.
    rejected: whether it ended because a draft was wrong.
    """

    start: int
    drafted: int
    accepted: int
    emitted: int
    rejected: bool
    drafted_low: int


@dataclass(frozen=True)
class Rounds:
    """All rounds of one prompt under one policy, added up.

    tokens: the answer's length; always accepted + rounds.
    rounds, drafted, accepted: sums over the answer; an accepted end of text is cropped by the
        library and counts as the target's own token, not as accepted.
    rejected: rounds that ended because a draft was wrong.
    drafted_low: least number of drafted tokens; below `drafted` where the trace does not say what
        the draft would have written after a wrong token. `drafted` is the highest possible, so
        that a prediction never promises too much.
    rounds_by_drafted: (K+1,) rounds that drafted 0, 1, ... K tokens.
    first_by_drafted: (K+1,) the same for the first round alone, whose target pass is the prefill.
    reached: (K,) rounds that drafted at least 1, 2, ... K tokens.
    passed: (K,) rounds that accepted at least 1, 2, ... K tokens.
    rounds_error: standard error of `rounds` where it comes from a Monte Carlo, else 0.
    """

    tokens: float
    rounds: float
    drafted: float
    accepted: float
    rejected: float
    drafted_low: float
    rounds_by_drafted: Floats
    first_by_drafted: Floats
    reached: Floats
    passed: Floats
    rounds_error: float = 0.0

    @property
    def survival(self) -> Floats:
        """a_k for k = 1..K: of the rounds that drafted at least k tokens, the share that accepted at least k."""
        return np.divide(self.passed, self.reached, out=np.zeros_like(self.passed), where=self.reached > 0)

    @property
    def tokens_per_round(self) -> float:
        """Emitted tokens / rounds."""
        return self.tokens / self.rounds

    @property
    def utilisation(self) -> float | None:
        """Accepted / drafted; None when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def alpha_examined(self) -> float | None:
        """Accepted / (accepted + rejected), all that counters can tell of alpha; None when nothing was examined."""
        examined = self.accepted + self.rejected
        return self.accepted / examined if examined else None


class Walk(NamedTuple):
    """The rounds of one known text as arrays of one entry per round, and the limit carried to the next call."""

    start: Ints
    drafted: Ints
    accepted: Ints
    rejected: NDArray[np.bool_]
    drafted_low: Ints
    carried: int


def total(walk: Walk) -> Rounds:
    """The sums over a walk's rounds."""
    count = len(walk.start)
    longest = int(walk.drafted.max())
    by_drafted = np.bincount(walk.drafted, minlength=longest + 1).astype(np.float64)
    by_accepted = np.bincount(walk.accepted, minlength=longest + 1).astype(np.float64)
    first = np.zeros(longest + 1)
    first[walk.drafted[0]] = 1.0
    accepted = int(walk.accepted.sum())
    return Rounds(
        tokens=accepted + count,
        rounds=float(count),
        drafted=float(walk.drafted.sum()),
        accepted=float(accepted),
        rejected=float(walk.rejected.sum()),
        drafted_low=float(walk.drafted_low.sum()),
        rounds_by_drafted=by_drafted,
        first_by_drafted=first,
        reached=at_least(by_drafted),
        passed=at_least(by_accepted),
    )


def totals(walk: Walk, begins: Ints) -> list[Rounds]:
    """The same for each of several texts that were walked as one (`core.walk.join`); begins: (T,) where each begins, and so a round."""
    texts, size = len(begins), int(walk.drafted.max()) + 1
    firsts = np.searchsorted(walk.start, begins)
    text = np.repeat(np.arange(texts), np.diff([*firsts, len(walk.start)]))

    def counted(values: Ints) -> Floats:
        return np.bincount(text * size + values, minlength=texts * size).reshape(texts, size).astype(np.float64)

    def added(values: NDArray[Any]) -> list[float]:
        return np.bincount(text, values, texts).tolist()

    by_drafted, first = counted(walk.drafted), np.zeros((texts, size))
    first[np.arange(texts), walk.drafted[firsts]] = 1.0
    reached, passed = (counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:] for counts in (by_drafted, counted(walk.accepted)))
    rounds, drafted, accepted, rejected, low = map(added, (np.ones(len(text)), walk.drafted, walk.accepted, walk.rejected, walk.drafted_low))
    longest = np.maximum.reduceat(walk.drafted, firsts).tolist()
    return [
        Rounds(
            tokens=accepted[at] + rounds[at],
            rounds=rounds[at],
            drafted=drafted[at],
            accepted=accepted[at],
            rejected=rejected[at],
            drafted_low=low[at],
            rounds_by_drafted=by_drafted[at, : most + 1],
            first_by_drafted=first[at, : most + 1],
            reached=reached[at, :most],
            passed=passed[at, :most],
        )
        for at, most in enumerate(longest)
    ]


def at_least(counts: Floats) -> Floats:
    """Counts of exactly 0..K as counts of at least 1..K."""
    return counts[::-1].cumsum()[::-1][1:]


def mean(samples: list[Rounds]) -> Rounds:
    """The mean of replays of the same prompt, with the standard error of its rounds."""
    rounds = np.array([sample.rounds for sample in samples])
    width = max(len(sample.rounds_by_drafted) for sample in samples)

    def average(name: str, length: int) -> Floats:
        rows = np.zeros((len(samples), length))
        for row, sample in zip(rows, samples, strict=True):
            values = getattr(sample, name)
            row[: len(values)] = values
        return rows.mean(axis=0)

    return Rounds(
        tokens=samples[0].tokens,
        rounds=float(rounds.mean()),
        drafted=float(np.mean([sample.drafted for sample in samples])),
        accepted=float(np.mean([sample.accepted for sample in samples])),
        rejected=float(np.mean([sample.rejected for sample in samples])),
        drafted_low=float(np.mean([sample.drafted_low for sample in samples])),
        rounds_by_drafted=average("rounds_by_drafted", width),
        first_by_drafted=average("first_by_drafted", width),
        reached=average("reached", width - 1),
        passed=average("passed", width - 1),
        rounds_error=float(rounds.std(ddof=1) / np.sqrt(len(samples))),
    )
