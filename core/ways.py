"""A run in several ways in figures: how fast each lane really was beside plain decoding, and whether it wrote the same.

Nothing is replayed: every number is of calls that were really made, each beside plain calls of the same prompt in the same block.
Speedup is decode only, as everywhere: plain (T - first token) / (N - 1) against assisted (T - both prefills) / (N - 1); the draft's
prefill was timed by itself (`WayCall.draft_prefill_s`). Heads draft nothing in the first round, so its time is the target's prefill, with
whatever the library loads before it; their own reading of the prompt counts as decoding. End to end is the second figure: seconds per
token of the whole calls. Ratios of sums over the prompts. *On these prompts*: how calls of the same prompt scatter in several turns; under
sampling that holds what was drawn, too. *For traffic*: a t interval with the prompts as the unit, 8 at least. Times in seconds.
Not covered: alpha and c, which only a replay tells; memory.
"""

from dataclasses import dataclass
from typing import Literal

from core.intervals import Interval
from core.record import Summary
from core.runs import Run

Verdict = Literal["plain", "use", "leave_off", "undecided", "lossy", "unfinished"]


@dataclass(frozen=True)
class Speed:
    """A ratio to plain decoding, above 1 where it is faster.

    these: interval on these prompts; None where each prompt was run once only. traffic: for traffic like these; None below 8 prompts.
    """

    value: float
    these: Interval | None
    traffic: Interval | None


@dataclass(frozen=True)
class WayResult:
    """One lane. Counts are sums over its calls.

    name: the policy in words. draft: name of the model that proposes, "" where none does. translated: that model has other tokens than the
    target. prompts, calls: written so far. drafted: proposed tokens, copies included. accepted: of those, the ones that were kept;
    rejected: rounds that ended because a proposal was wrong. decode: speedup decode only; end_to_end: of the whole calls, prefills included;
    both None for plain, and while nothing was timed beside plain. stalled: calls that stood still, or whose plain call did, and were left out.
    compared: answers that could be compared with the plain one, none under sampling; equal of those are the same token by token.
    near_ties, real, unexplained: what came of the others. lossless: whether the text is what the target alone would write, or drawn as
    from the target alone, with the reason in a sentence. prepared_s: median outside the timed calls, for a fresh copy of a draft that the
    library edits; 0 where none is needed. verdict: of this lane alone; lossy is never recommended. reason: the verdict in a sentence.
    """

    lane: int
    name: str
    draft: str
    translated: bool
    prompts: int
    calls: int
    tokens: int
    rounds: int
    drafted: int
    accepted: int
    rejected: int
    tokens_per_s: float | None
    decode: Speed | None
    end_to_end: Speed | None
    stalled: int
    compared: int
    equal: int
    near_ties: int
    real: int
    unexplained: int
    lossless: bool
    lossless_reason: str
    prepared_s: float
    verdict: Verdict
    reason: str

    @property
    def tokens_per_round(self) -> float | None:
        """Emitted tokens / rounds; the target's own token counts."""
        return self.tokens / self.rounds if self.rounds else None

    @property
    def alpha_examined(self) -> float | None:
        """Accepted / (accepted + rejected), all that counters can tell of alpha; None when nothing was examined."""
        examined = self.accepted + self.rejected
        return self.accepted / examined if examined else None

    @property
    def utilisation(self) -> float | None:
        """Accepted / drafted, what engines call acceptance rate; None when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None


@dataclass(frozen=True)
class Choice:
    """The answer of the whole run. lane: the one to use, or that came closest; None where no lossless lane was timed.

    name, draft: of that lane. speed: its speedup decode only, its interval for traffic wide enough for having chosen the best of several.
    prompts: that all lanes of the choice share. prompts_needed: about how many more would narrow it to +-10 %; None when it is narrow enough.
    flat: lanes within 2 % of the best on the same prompts, this one among them. reasons: sentences.
    """

    verdict: Literal["use", "leave_off", "undecided"]
    lane: int | None
    name: str
    draft: str
    speed: Speed | None
    prompts: int
    prompts_needed: int | None
    flat: tuple[int, ...]
    reasons: tuple[str, ...]


def results(run: Run) -> tuple[WayResult, ...]:
    """Every lane of the spec in order, plain first, from what was measured so far."""
    raise NotImplementedError


def choice(run: Run, found: tuple[WayResult, ...] | None = None) -> Choice:
    """Which lane to use, if any; never a lossy one, nor a heuristic that carries its length from prompt to prompt. found: `results(run)`."""
    raise NotImplementedError


def summary(run: Run) -> Summary | None:
    """The answer in short, for lists of runs; None where no lossless lane was timed. alpha and c are None: nothing tells them."""
    raise NotImplementedError
