"""A side-by-side run in figures: who wrote which token, how fast each column was, and whether the answers are the same.

Everything follows from the streamed rounds (`core.record.Step`) and the finished calls. Times in seconds since the column's call
began. Speedup is decode only, as everywhere: plain (T - first token) / (N - 1) against assisted (T - both prefills) / (N - 1). The
target's prefill is the plain column's time to its first token; the draft's is what the first round's draft passes took beyond the
usual time of its later tokens, because the run has no timing of its own for it; together never more than the column's own time to its
first tokens, so that a disturbance of the plain call does not make another one faster. End to end is the second figure: seconds per token
of the whole calls. One prompt, run once: nothing here has an interval. Not covered: the prediction (`core.side_prediction`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from core.measured import AnyPolicy, Generation
from core.policies import Drafting, PromptLookup
from core.record import Step
from core.runs import Run

Writer = Literal["plain", "draft", "copied", "target", "bonus"]
Equality = Literal["equal", "near tie", "real difference", "unexplained", "sampled", "lossy", "unfinished"]


@dataclass(frozen=True)
class Written:
    """One token of an answer: its exact text, who wrote it, and its round, from 1 on.

    copied: taken over from earlier text by prompt lookup. target: the target's own after a rejected proposal; bonus: its own after a
    round in which every proposal was right, or nothing was proposed. rejected: texts thrown away in its round; with its last token.
    """

    text: str
    writer: Writer
    round: int
    rejected: tuple[str, ...] = ()


@dataclass(frozen=True)
class LaneFigures:
    """One column so far. seconds: of the whole call, until its last token while it is written. drafted: proposed tokens, copies included.

    first_token_s: until the first token or tokens were out; None before. ended_wrong: rounds that ended in a rejection.
    draft_s, verify_s: spent in the draft's and in the target's passes. done: whether the call has ended.
    """

    tokens: int
    seconds: float
    first_token_s: float | None
    rounds: int
    drafted: int
    accepted: int
    ended_wrong: int
    draft_s: float
    verify_s: float
    done: bool

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens of the whole call per second of it."""
        return self.tokens / self.seconds if self.seconds > 0 else None

    @property
    def tokens_per_round(self) -> float | None:
        """Emitted tokens / rounds; the target's own token counts."""
        return self.tokens / self.rounds if self.rounds else None

    @property
    def examined(self) -> int:
        """Accepted tokens and the first wrong one of each round; what stands behind a wrong one is never looked at."""
        return self.accepted + self.ended_wrong

    @property
    def acceptance(self) -> float | None:
        """Accepted / examined: alpha_examined; None when nothing was examined."""
        return self.accepted / self.examined if self.examined else None

    @property
    def utilisation(self) -> float | None:
        """Accepted / drafted, what engines call acceptance rate; None when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def shares(self) -> tuple[float, float, float] | None:
        """Draft, verify and rest of the time, adding up to 1; None before any time has passed."""
        if self.seconds <= 0:
            return None
        draft, verify = self.draft_s / self.seconds, self.verify_s / self.seconds
        return draft, verify, max(0.0, 1 - draft - verify)


@dataclass(frozen=True)
class Comparison:
    """A column's answer beside the plain one; under sampling only whether the setting is lossy.

    token: number from 0 of the first that differs, None where none does or none is compared.
    margin: as in `core.measured.Difference`.
    """

    equality: Equality
    token: int | None = None
    margin: float | None = None


def steps_of(steps: Sequence[Step], lane: int) -> list[Step]:
    """The steps of one column, in order."""
    return [step for step in steps if step.lane == lane]


def call_of(run: Run, lane: int) -> Generation | None:
    """A column's finished call; None while it is written, or when it never ended."""
    return next((g for g in run.generations if g.purpose == "side_by_side" and g.lane == lane), None)


def written(steps: Sequence[Step], policy: AnyPolicy) -> list[Written]:
    """Every token of one column with its writer."""
    proposed: Writer = "copied" if isinstance(policy, PromptLookup) else "draft"
    out: list[Written] = []
    for number, step in enumerate(steps, 1):
        last = len(step.pieces) - 1
        for place, text in enumerate(step.pieces):
            if place < min(step.accepted, last):
                out.append(Written(text, proposed, number))
            else:
                own: Writer = "plain" if policy.kind == "plain" else "target" if step.rejected else "bonus"
                out.append(Written(text, own, number, step.rejected if place == last else ()))
    return out


def figures(steps: Sequence[Step], call: Generation | None = None) -> LaneFigures:
    """The figures of one column from its steps, and from its call once that has ended."""
    return LaneFigures(
        tokens=sum(len(step.tokens) for step in steps),
        seconds=call.total_s if call else (steps[-1].at_s if steps else 0.0),
        first_token_s=steps[0].at_s if steps else None,
        rounds=len(steps),
        drafted=sum(step.drafted for step in steps),
        accepted=sum(step.accepted for step in steps),
        ended_wrong=sum(bool(step.rejected) for step in steps),
        draft_s=sum(step.draft_s for step in steps),
        verify_s=sum(step.verify_s for step in steps),
        done=call is not None,
    )


def lane_figures(run: Run, lane: int) -> LaneFigures:
    """The figures of one column of a run."""
    return figures(steps_of(run.steps, lane), call_of(run, lane))


def draft_prefill_s(steps: Sequence[Step]) -> float:
    """What the draft's reading of the prompt took: its first round less the usual price of the tokens it proposed there but one."""
    if not steps or not steps[0].drafted:
        return 0.0
    later, drafted = sum(step.draft_s for step in steps[1:]), sum(step.drafted for step in steps[1:])
    each_s = later / drafted if drafted else 0.0
    return max(0.0, steps[0].draft_s - (steps[0].drafted - 1) * each_s)


def decode_s_per_token(run: Run, lane: int) -> float | None:
    """Decoding seconds per token after the first, both prefills left out; None unless plain and this column ended with two tokens or more."""
    plain, call = call_of(run, 0), call_of(run, lane)
    if plain is None or call is None or min(plain.tokens, call.tokens) < 2:
        return None
    reading_s = draft_prefill_s(steps_of(run.steps, lane)) if isinstance(call.policy, Drafting) else 0.0
    decode_s = call.total_s - min(plain.first_token_s + reading_s, call.first_token_s)
    return decode_s / (call.tokens - 1) if decode_s > 0 else None


def speedup(run: Run, lane: int) -> float | None:
    """Decode only, against the plain column; None while that cannot be said."""
    plain, own = decode_s_per_token(run, 0), decode_s_per_token(run, lane)
    return plain / own if plain and own else None


def end_to_end(run: Run, lane: int) -> float | None:
    """Seconds per token of the whole plain call against the whole call of this column; None while either is missing or empty."""
    plain, call = call_of(run, 0), call_of(run, lane)
    if plain is None or call is None or not plain.tokens or not call.tokens:
        return None
    return (plain.total_s / plain.tokens) / (call.total_s / call.tokens)


def comparison(run: Run, lane: int) -> Comparison:
    """Whether a column wrote what plain decoding wrote, token by token."""
    if call_of(run, 0) is None or call_of(run, lane) is None:
        return Comparison("unfinished")
    lossy = run.spec.lanes[lane].ensemble_weight is not None
    if run.spec.decoding.sample:
        return Comparison("lossy" if lossy else "sampled")
    token = first_difference(tokens_of(run, 0), tokens_of(run, lane))
    if token is None:
        return Comparison("equal")
    if lossy:
        return Comparison("lossy", token)
    found = next((one for one in run.differences if one.lane == lane and one.token == token), None)
    words: dict[bool | None, Equality] = {True: "near tie", False: "real difference", None: "unexplained"}
    return Comparison(words[found.near_tie if found else None], token, found.margin if found else None)


def tokens_of(run: Run, lane: int) -> list[int]:
    """The token ids of one column."""
    return [token for step in steps_of(run.steps, lane) for token in step.tokens]


def answer_of(run: Run) -> str:
    """The plain answer as the next turn should read it: without the token that ends it, which only a call that kept to its budget lacks."""
    pieces = [piece for step in steps_of(run.steps, 0) for piece in step.pieces]
    call = call_of(run, 0)
    ended = call is not None and call.tokens < call.budget
    return "".join(pieces[:-1] if ended else pieces)


def first_difference(ours: Sequence[int], theirs: Sequence[int]) -> int | None:
    """Number from 0 of the first token that differs, the shorter one's end included; None for equal texts."""
    at = next((at for at, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other), min(len(ours), len(theirs)))
    return None if at == len(ours) == len(theirs) else at
