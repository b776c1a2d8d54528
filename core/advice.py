"""What to know about a target and a draft before measuring them: each rule with its reason and its source.

A rule looks at what is known of the pair and gives one piece of advice, or None: nothing to say, or not known yet. Levels:
`refusal` the pair cannot run, or must not be measured, as it stands; `warning` it may well be slower than plain; `note` worth
knowing. Rules live in `core.advice_runs` (whether the pair runs) and `core.advice_cost` (whether it pays). The facts about
Transformers were read in the sources of 5.24 or tried there. Not covered: memory (`core.memory`) and engines other than Transformers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from core.estimate import Estimate
from core.memory import CacheProfile
from core.model_info import ModelInfo
from core.vocab import VocabVerdict

Level = Literal["refusal", "warning", "note"]
LEVELS: tuple[Level, ...] = ("refusal", "warning", "note")
"""Most important first."""


class Advice(NamedTuple):
    """One piece of advice: what to know, in one sentence; why it is so; who says it."""

    level: Level
    sentence: str
    why: str
    source: str


@dataclass(frozen=True)
class Side:
    """One model as far as it is known; `profile` is None while its sizes are being computed. device: where it is to run, "" if that is open."""

    info: ModelInfo
    profile: CacheProfile | None = None
    device: str = ""

    @property
    def name(self) -> str:
        """What the model is called in sentences."""
        return self.info.ref.name

    @property
    def config(self) -> dict[str, Any]:
        """The decoder's part of the raw configuration."""
        text = self.info.config.get("text_config")
        return text if isinstance(text, dict) else self.info.config  # pyright: ignore[reportUnknownVariableType]

    @property
    def model_types(self) -> frozenset[str]:
        """Its architecture's names: of the whole, and of its decoder."""
        named = {str(config.get("model_type", "")) for config in (self.info.config, self.config)}
        return frozenset(named | {self.profile.model_type} if self.profile else named) - {""}

    @property
    def parameters(self) -> int | None:
        """All parameters: as built, else as the files' headers count them."""
        if self.profile:
            return self.profile.parameters
        return self.info.weights.parameters if self.info.weights else None

    @property
    def active(self) -> int | None:
        """Parameters that one token passes through."""
        return self.profile.active_parameters if self.profile else self.parameters

    @property
    def quantised(self) -> str:
        """The quantisation of its weights; "" for none."""
        return self.info.weights.quantisation if self.info.weights else ""


@dataclass(frozen=True)
class Traffic:
    """The longest prompt and answer expected, in tokens; requests in one batch."""

    prompt_tokens: int
    output_tokens: int
    batch: int = 1

    @property
    def tokens(self) -> int:
        """The longest text."""
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True)
class Pair:
    """A target and a draft with everything known about them together; None where it is not known yet."""

    target: Side
    draft: Side
    verdict: VocabVerdict | None = None
    estimate: Estimate | None = None
    traffic: Traffic | None = None


Rule = Callable[[Pair], Advice | None]


def advise(pair: Pair, rules: Sequence[Rule]) -> list[Advice]:
    """What the rules say of a pair, refusals first, then warnings, then notes; in the rules' order within each."""
    said = [advice for rule in rules if (advice := rule(pair)) is not None]
    return sorted(said, key=lambda advice: LEVELS.index(advice.level))
