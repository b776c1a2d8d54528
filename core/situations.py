"""The method note's table of situations, and the place of a measured pair in it.

The note names the situations and what to do in them; it gives no limits. Those here are drawn where its own tables change: its table of
best gammas (alpha 0.5 to 0.9, c 0.02 to 0.2) recommends 4 or more for c up to 0.05 and 6 or less from 0.1 on once alpha is 0.6, and 3 or
less at alpha 0.5 unless the draft costs next to nothing; size ratios do not bound c, so c decides, not size. Alpha and c as in `core.theory`.
Not covered: what the note says about the traffic by its name; a run only knows the numbers that it left.
"""

from dataclasses import dataclass
from math import inf, isfinite
from typing import Literal

Key = Literal["small_draft", "large_draft", "copying", "little_gain", "no_draft", "tight_memory"]

CHEAP = 0.07
"""c up to which a draft counts as small: the geometric middle of the note's columns 0.05 and 0.1."""
ACCEPTED = 0.6
"""alpha below which little is gained whatever the draft costs."""


@dataclass(frozen=True)
class Situation:
    """One row. alpha, c: the ranges (low, high) that a measured pair of this row has; None where other facts decide."""

    key: Key
    situation: str
    draft: str
    setting: str
    alpha: tuple[float, float] | None = None
    c: tuple[float, float] | None = None


SITUATIONS: tuple[Situation, ...] = (
    Situation(
        "small_draft",
        "same family has a model 1/50 to 1/100 the size",
        "that model",
        "6-10 from the table, or the dynamic default",
        (ACCEPTED, 1.0),
        (0.0, CHEAP),
    ),
    Situation(
        "large_draft",
        "smallest in the family is 1/5 to 1/10",
        "try it, but measure c",
        "fixed 3 or less, or the dynamic default",
        (ACCEPTED, 1.0),
        (CHEAP, inf),
    ),
    Situation(
        "copying",
        "mostly summarisation, translation, code edits",
        "prompt lookup first",
        "prompt_lookup_num_tokens about 5",
    ),
    Situation(
        "little_gain",
        "high-temperature creative writing or chat",
        "little gain; measure first",
        "small (2-3)",
        (0.0, ACCEPTED),
        (0.0, inf),
    ),
    Situation(
        "no_draft",
        "no small model with the same vocabulary",
        "universal assisted decoding, or distil a draft",
        "computed from measured alpha and c",
    ),
    Situation("tight_memory", "target fills a 24 GB card", "a smaller draft, or n-gram", "-"),
)


@dataclass(frozen=True)
class Placed:
    """The row where a pair stands, and why, in a sentence."""

    situation: Situation
    reason: str


def situation(key: Key) -> Situation:
    """The row of this key."""
    return next(row for row in SITUATIONS if row.key == key)


def place(alpha: float, c: float, *, lookup_is_best: bool = False, same_vocabulary: bool = True, fits: bool = True) -> Placed:
    """Where a measured pair stands. Facts that rule a draft out come first, then prompt lookup that beat it, then alpha and c.

    alpha: 0..1; c: one drafted token in plain steps, at least 0. Raises ValueError outside.
    """
    if not 0 <= alpha <= 1 or c < 0 or not isfinite(c):
        raise ValueError(f"alpha is {alpha} and c is {c}; alpha must lie in 0..1 and c be a number from 0 on.")
    if not same_vocabulary:
        return Placed(situation("no_draft"), "Target and draft have different vocabularies.")
    if not fits:
        return Placed(situation("tight_memory"), "Target and draft together do not fit into the device's memory.")
    if lookup_is_best:
        return Placed(situation("copying"), "Prompt lookup was faster than the draft on these prompts.")
    numbers = f"alpha {alpha:.2f}, c {c:.2f}"
    if alpha < ACCEPTED:
        return Placed(
            situation("little_gain"), f"{numbers}: fewer than {ACCEPTED:.0%} of the draft's tokens are accepted, whatever the reason is here."
        )
    if c <= CHEAP:
        return Placed(situation("small_draft"), f"{numbers}: a drafted token costs at most {CHEAP:g} of a plain step, like a far smaller model's.")
    dear = "" if alpha > c else " As alpha is not above c, drafting cannot pay at all."
    return Placed(
        situation("large_draft"),
        f"{numbers}: a drafted token costs more than {CHEAP:g} of a plain step, like a not much smaller model's.{dear}",
    )
