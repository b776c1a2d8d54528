"""The calls of a run in several ways, each beside plain ones: the seconds that its speedups are ratios of.

A call is compared with the plain calls directly before and after it in its block. Both are asked for the same number of tokens: the plain
step's seconds times the call's own tokens. Calls that stood still amid their work (`core.stalled`), told by what one of their rounds
cost, are left out. Times in seconds.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.intervals import Floats, Interval, interval, log_ratio, ratio_interval, t_quantile
from core.measured import Generation
from core.policies import Plain
from core.runs import Run
from core.stalled import PLAIN_FACTOR, keeps_moving
from core.timing import beside, blocks, per_step

PURPOSE = "way"


@dataclass(frozen=True)
class Speed:
    """A ratio to plain decoding, above 1 where it is faster.

    these: interval on these prompts; None where each prompt was run once only. traffic: for traffic like these; None below 8 prompts.
    """

    value: float
    these: Interval | None
    traffic: Interval | None


@dataclass(frozen=True, eq=False)
class Beside:
    """One lane's calls, all arrays (n,). prompt: number of each one's prompt.

    plain_s, own_s: decoding alone, for the same number of tokens; whole_plain_s, whole_s: whole calls. stalled: calls that were left out.
    """

    prompt: NDArray[np.int64]
    plain_s: Floats
    own_s: Floats
    whole_plain_s: Floats
    whole_s: Floats
    stalled: int

    def by_prompt(self, seconds: Floats, prompts: int) -> Floats:
        """(n,) -> (prompts,) sums; 0 where the prompt was not written."""
        return _sums(self.prompt, seconds, prompts)

    @property
    def decode(self) -> Speed | None:
        """Speedup of decoding alone; None without a call."""
        return self._speed(self.plain_s, self.own_s)

    @property
    def end_to_end(self) -> Speed | None:
        """Speedup of the whole calls; None without a call."""
        return self._speed(self.whole_plain_s, self.whole_s)

    def _speed(self, plain_s: Floats, own_s: Floats) -> Speed | None:
        if not len(self.prompt):
            return None
        written, place = np.unique(self.prompt, return_inverse=True)
        above, below = (_sums(place, seconds, len(written)) for seconds in (plain_s, own_s))
        value = float(log_ratio(above, below))
        return Speed(float(np.exp(value)), _these(self.prompt, plain_s, own_s, value), ratio_interval(above, below))


def _these(prompt: NDArray[np.int64], plain_s: Floats, own_s: Floats, value: float) -> Interval | None:
    """How calls of the same prompt scatter, weighted by the time they take; None where no prompt was written twice."""
    found, place, count = np.unique(prompt, return_inverse=True, return_counts=True)
    freedom = len(prompt) - len(found)
    if freedom < 1:
        return None
    logs = np.log(plain_s / own_s)
    scatter = logs - (_sums(place, logs, len(found)) / count)[place]
    variance = float(scatter @ scatter) / freedom
    share = own_s / own_s.sum()
    return interval(value, t_quantile(freedom) * float(np.sqrt(variance * (share @ share))))


def _sums(place: NDArray[np.int64], values: Floats, size: int) -> Floats:
    """(n,) -> (size,) sums by place."""
    sums: Floats = np.zeros(size)
    np.add.at(sums, place, values)
    return sums


def calls(run: Run, lane: int) -> list[Generation]:
    """All calls of a lane, in the order they were made."""
    return [g for g in run.generations if g.purpose == PURPOSE and g.lane == lane]


def beside_plain(run: Run, lane: int) -> Beside:
    """The calls of a lane that decoded something and have plain ones beside them."""
    rows = [row for block in blocks(run, PURPOSE) for at, g in enumerate(block) if g.lane == lane and (row := _row(g, beside(block, at)))]
    moved = keeps_moving(np.array([own_s / cost_s for _, _, own_s, _, _, cost_s in rows]), PLAIN_FACTOR)
    kept = [row for row, moves in zip(rows, moved, strict=True) if moves]
    columns = [np.array(column, dtype=np.float64) for column in zip(*kept, strict=True)] if kept else [np.zeros(0)] * 6
    prompt, plain_s, own_s, whole_plain_s, whole_s, _ = columns
    return Beside(prompt.astype(np.int64), plain_s, own_s, whole_plain_s, whole_s, len(rows) - len(kept))


def _row(g: Generation, plain: list[Generation]) -> tuple[int, float, float, float, float, float] | None:
    """Prompt, plain and own decoding seconds, plain and own seconds of the whole, and what its rounds would take if each were a plain step."""
    plain = [p for p in plain if p.tokens > 1]
    if isinstance(g.policy, Plain) or not plain or g.tokens < 2:
        return None
    step_s, own_s = per_step(plain), decode_s(g, plain)
    if own_s <= 0 or step_s <= 0:  # a call of a few tokens, shorter than its prefills by timing noise: it says nothing
        return None
    whole_s = sum(p.total_s for p in plain) / sum(p.tokens for p in plain) * g.tokens
    return g.prompt, step_s * (g.tokens - 1), own_s, whole_s, g.total_s, step_s * len(g.rounds)


def decode_s(g: Generation, plain: list[Generation]) -> float:
    """Decoding seconds of an assisted call after its first token: the whole less both prefills, which never exceed the time to its first tokens.

    A first round in which nothing was drafted is the target's prefill itself, with whatever the library prepared before it.
    """
    if g.drafted and not g.drafted[0]:
        return g.total_s - g.first_token_s
    prefill_s = sum(p.first_token_s for p in plain) / len(plain) + (g.way.draft_prefill_s if g.way else 0.0)
    return g.total_s - min(prefill_s, g.first_token_s)
