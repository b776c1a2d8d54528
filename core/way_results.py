"""A run in several ways in figures: how fast each lane really was beside plain decoding, and whether it wrote the same.

Nothing is replayed: every number is of calls that were really made, each beside plain calls of the same prompt in the same block.
Speedup is decode only, as everywhere: plain (T - first token) / (N - 1) against assisted (T - both prefills) / (N - 1); the draft's
prefill was timed by itself (`WayCall.draft_prefill_s`). Heads draft nothing in the first round, so its time is the target's prefill, with
whatever the library loads before it; their own reading of the prompt counts as decoding. End to end is the second figure: seconds per
token of the whole calls. Ratios of sums over the prompts. *On these prompts*: how calls of the same prompt scatter in several turns; under
sampling that holds what was drawn, too. *For traffic*: a t interval with the prompts as the unit, 8 at least. Times in seconds.
Not covered: alpha and c, which only a replay tells; memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Literal

from core import way_calls
from core.intervals import LEAST_PROMPTS
from core.measured import Generation
from core.numbers import counted
from core.policies import Drafting, OwnHeads, Plain, describe
from core.recommend import verdict
from core.runs import Lane, Run
from core.way_calls import Speed, beside_plain

Verdict = Literal["plain", "use", "leave_off", "undecided", "lossy", "unfinished"]
TRANSLATED_SAMPLING = (
    "The draft has other tokens, and Transformers 5.24 confuses its probabilities when it samples, so the text is not drawn from the target's "
    "distribution."
)


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
    notes: what must be known to read its numbers rightly, sentences.
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
    notes: tuple[str, ...] = ()

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


def results(run: Run) -> tuple[WayResult, ...]:
    """Every lane of the spec in order, plain first, from what was measured so far."""
    return tuple(_result(run, lane) for lane in range(len(run.spec.lanes)))


def _result(run: Run, number: int) -> WayResult:
    lane, calls = run.spec.lanes[number], way_calls.calls(run, number)
    noted = [g.way for g in calls if g.way is not None]
    translated = any(way.translated for way in noted)
    equality = _equality(run, number, calls)
    lossless, why = _lossless(run, lane, translated, equality)
    timed = beside_plain(run, number)
    said, reason = _verdict(lane, timed.decode, lossless, why, len(set(timed.prompt.tolist())))
    plain = isinstance(lane.policy, Plain)
    return WayResult(
        lane=number,
        name=way_name(lane),
        draft=draft_name(run, lane),
        translated=translated,
        prompts=len({g.prompt for g in calls}),
        calls=len(calls),
        tokens=sum(g.tokens for g in calls),
        rounds=sum(g.tokens if plain else len(g.rounds) for g in calls),
        drafted=sum(sum(g.drafted) for g in calls),
        accepted=0 if plain else sum(g.tokens - len(g.rounds) for g in calls),
        rejected=sum(way.rejected for way in noted),
        tokens_per_s=sum(g.tokens for g in calls) / sum(g.total_s for g in calls) if calls else None,
        decode=timed.decode,
        end_to_end=timed.end_to_end,
        stalled=timed.stalled,
        compared=equality.compared,
        equal=equality.equal,
        near_ties=equality.near_ties,
        real=equality.real,
        unexplained=equality.unexplained,
        lossless=lossless,
        lossless_reason=why,
        prepared_s=median(way.prepared_s for way in noted) if noted else 0.0,
        verdict=said,
        reason=reason,
        notes=tuple(_notes(run, lane, calls, timed.stalled)),
    )


def way_name(lane: Lane) -> str:
    """The lane in words, without its draft."""
    weight = "" if lane.ensemble_weight is None else f", ensemble weight {lane.ensemble_weight:g}"
    return f"{describe(lane.policy)}{weight}"


def draft_name(run: Run, lane: Lane) -> str:
    """The model that proposes in a lane; "" where none does."""
    proposes = isinstance(lane.policy, Drafting) or (isinstance(lane.policy, OwnHeads) and lane.policy.method == "dflash")
    return (lane.draft or run.spec.draft).name if proposes else ""


def _notes(run: Run, lane: Lane, calls: list[Generation], stalled: int) -> Iterator[str]:
    prepared = [g.way.prepared_s for g in calls if g.way and g.way.prepared_s]
    if prepared:
        yield f"Each call had a fresh copy of the draft, because the library edits it: {median(prepared):.2g} s outside these times."
    if isinstance(lane.policy, OwnHeads) and calls:
        first_s, plain_s = (median(g.first_token_s for g in some) for some in (calls, way_calls.calls(run, 0) or calls))
        loads = "Transformers 5.24 reads the heads' weights anew in every call, which end to end holds: " if lane.policy.method == "mtp" else ""
        yield f"{loads}{'the' if loads else 'The'} first token came after {first_s:.2g} s, plain {plain_s:.2g} s."
        yield "The heads' own reading of the prompt counts as decoding."
    if stalled:
        yield f"{counted(stalled, 'call')} stood still, or the plain one beside it did, and {'is' if stalled == 1 else 'are'} left out."


@dataclass(frozen=True)
class _Equality:
    """Prompts whose answers could be compared with the plain one, and what came of it."""

    compared: int
    equal: int
    near_ties: int
    real: int

    @property
    def unexplained(self) -> int:
        return self.compared - self.equal - self.near_ties - self.real


def _equality(run: Run, number: int, calls: list[Generation]) -> _Equality:
    compared = {g.prompt for g in calls if g.equal is not None}
    parted = {g.prompt for g in calls if g.equal is False}
    told = {difference.prompt: difference.near_tie for difference in run.differences if difference.lane == number and difference.prompt in parted}
    ties = list(told.values())
    return _Equality(len(compared), len(compared - parted), ties.count(True), ties.count(False))


def _lossless(run: Run, lane: Lane, translated: bool, equality: _Equality) -> tuple[bool, str]:
    """Whether the target alone decides the text, by what the library does and by what was seen."""
    if isinstance(lane.policy, Plain):
        return True, "The target alone writes."
    if lane.ensemble_weight is not None:
        return False, "The ensemble weight lets the draft change the text."
    if run.spec.decoding.sample:
        if translated:
            return False, TRANSLATED_SAMPLING
        return True, "Proposals are kept with the probability that leaves the target's distribution as it is."
    if equality.real:
        return (
            False,
            f"{counted(equality.real, 'answer')} of {equality.compared:,} really {'differs' if equality.real == 1 else 'differ'} from plain.",
        )
    open_ = f"; {counted(equality.unexplained, 'difference')} could not be explained" if equality.unexplained else ""
    ties = f"; {counted(equality.near_ties, 'answer')} parted at a near tie" if equality.near_ties else ""
    return True, f"The target decides every token: {equality.equal:,} of {counted(equality.compared, 'answer')} equal to plain{ties}{open_}."


def _verdict(lane: Lane, speed: Speed | None, lossless: bool, why: str, prompts: int) -> tuple[Verdict, str]:
    if isinstance(lane.policy, Plain):
        return "plain", "What the others are compared with."
    if not lossless:
        return "lossy", f"Not recommended, however fast. {why}"
    if speed is None:
        return "unfinished", "Not timed beside plain decoding yet."
    said = verdict(speed.traffic)
    return said, traffic_line(said, speed, prompts)


def traffic_line(said: Verdict, speed: Speed, prompts: int) -> str:
    """What the interval for traffic says, in a sentence."""
    if speed.traffic is None:
        return f"{counted(prompts, 'prompt')} {'says' if prompts == 1 else 'say'} too little about other traffic; {LEAST_PROMPTS} are the least."
    low, high = speed.traffic
    words: dict[Verdict, str] = {
        "use": "faster than plain throughout",
        "leave_off": "no gain worth having" if high >= 1 else "slower than plain throughout",
    }
    return f"For traffic like these prompts {low:.2f}x to {high:.2f}x: {words.get(said, 'too wide to decide')}."
