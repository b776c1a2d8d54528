"""The ways to draft, as plain values.

`Drafting` has exactly the knobs of Transformers: how many tokens at most, how that limit moves
from round to round (the schedule), and the confidence below which drafting stops. The presets
at the end are functions that return one.
"""

from dataclasses import dataclass
from typing import Literal

Schedule = Literal["constant", "heuristic", "heuristic_transient"]


@dataclass(frozen=True)
class Plain:
    """No draft: one target step per token."""

    kind: Literal["plain"] = "plain"


@dataclass(frozen=True)
class Drafting:
    """A draft model proposes up to `limit` tokens per round."""

    limit: int
    schedule: Schedule = "constant"
    threshold: float = 0.0
    kind: Literal["drafting"] = "drafting"


@dataclass(frozen=True)
class PromptLookup:
    """Copies up to `tokens` tokens that followed the last `ngram` tokens earlier in the text; no draft model."""

    tokens: int
    ngram: int = 2
    kind: Literal["lookup"] = "lookup"


@dataclass(frozen=True)
class Oracle:
    """The cheapest schedule that knows every outcome beforehand; an upper limit, it cannot be run."""

    limit: int = 20
    kind: Literal["oracle"] = "oracle"


Policy = Plain | Drafting | PromptLookup | Oracle


def FixedGamma(gamma: int) -> Drafting:
    """Always `gamma` tokens."""
    return Drafting(limit=gamma)


def TransformersDefault() -> Drafting:
    """What Transformers does when nothing is set: up to 20 tokens, stop below a confidence of 0.4."""
    return Drafting(limit=20, threshold=0.4)
