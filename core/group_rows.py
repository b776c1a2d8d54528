"""The rows of a ranking of drafts and ways (`core.group`), and how their prompts are told apart."""

from dataclasses import dataclass
from typing import Literal

from core.intervals import Interval
from core.measured import AnyPolicy
from core.policies import HEADS, EarlyExit, OwnHeads
from core.recommend import Verdict
from core.runs import ModelRef, Prompt, Run

Kind = Literal["draft", "lookup", "way", "plain"]
Key = tuple[Prompt, int]
"""A prompt, and the how many-th of its like it is in the run."""


@dataclass(frozen=True, eq=False)
class Contender:
    """One row. speedup, intervals and verdict as in `core.recommend.Recommendation`; 1 without any for plain.

    kind: draft = by replay, and confirmed where it was really run; way = only really run, with a draft model or without.
    run_id: the run it comes from; "" for plain. draft: None where no model drafts. against_best: its speedup / that of the
    first row, on the `shared` prompts that both have; `between` is its paired interval, None below 8 of them.
    measured_only: from a run in several ways, so that nothing of it can be replayed.
    """

    kind: Kind
    run_id: str
    draft: ModelRef | None
    policy: AnyPolicy
    speedup: float
    confirmed: bool
    on_these_prompts: Interval | None
    for_traffic: Interval | None
    verdict: Verdict
    against_best: float
    between: Interval | None
    shared: int
    reasons: tuple[str, ...]
    measured_only: bool = False

    @property
    def name(self) -> str:
        """What is ranked."""
        if self.draft:
            return self.draft.name
        if isinstance(self.policy, OwnHeads):
            return HEADS[self.policy.method].capitalize().replace("(mtp)", "(MTP)")
        if isinstance(self.policy, EarlyExit):
            return "Early exit"
        return "No draft" if self.kind == "plain" else "Prompt lookup"


@dataclass(frozen=True, eq=False)
class Row:
    """A contender with its plain and assisted amounts, in one unit of its own, by prompt; empty for plain."""

    contender: Contender
    amounts: dict[Key, tuple[float, float]]


def keys(run: Run) -> list[Key]:
    """One key per prompt of the run, in order."""
    seen: dict[Prompt, int] = {}
    found: list[Key] = []
    for prompt in run.spec.prompts:
        seen[prompt] = seen.get(prompt, -1) + 1
        found.append((prompt, seen[prompt]))
    return found
