"""Everything that the page `pair` shows of a target and its drafts, as far as it is known by now.

Each part of each model stands for itself: known with its age, still awaited, or failed with a sentence. One dead
model therefore never holds up another. Nothing is read here: `ask` is the planner's door, which never waits.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

from core.memory import CacheProfile
from core.model_info import ModelInfo
from core.planner import Answer, Failed, Ready, Waiting
from core.vocab import VocabVerdict

T = TypeVar("T")
Ask = Callable[[str, dict[str, Any]], Answer]

MOST_DRAFTS = 6

_INFO: TypeAdapter[ModelInfo] = TypeAdapter(ModelInfo)
_PROFILE: TypeAdapter[CacheProfile] = TypeAdapter(CacheProfile)
_VERDICT: TypeAdapter[VocabVerdict] = TypeAdapter(VocabVerdict)


@dataclass(frozen=True)
class Known(Generic[T]):
    """A part that was read `age_s` seconds ago."""

    value: T
    age_s: float


Part = Known[T] | Waiting | Failed
"""A part's three states."""


@dataclass(frozen=True)
class Model:
    """One model: its metadata, and the sizes that its config implies. A part that needs a failed one is None."""

    address: str
    info: Part[ModelInfo]
    profile: Part[CacheProfile] | None = None

    @property
    def name(self) -> str:
        """A short name: the last part of a Hub id, or what the model is called here."""
        if isinstance(self.info, Known) and self.info.value.ref.source != "hub":
            return self.info.value.ref.name
        return self.address.split("@")[0].rsplit("/", 1)[-1] or self.address

    @property
    def problem(self) -> str:
        """Why it cannot be read or used at all, a sentence; "" when it can, or when that is not known yet."""
        if isinstance(self.info, Failed):
            return self.info.sentence
        return self.info.value.refusal if isinstance(self.info, Known) else ""

    @property
    def usable(self) -> ModelInfo | None:
        """Its metadata, once read and not refused."""
        return self.info.value if isinstance(self.info, Known) and not self.info.value.refusal else None

    @property
    def sizes(self) -> CacheProfile | None:
        """Its sizes, once known."""
        return self.profile.value if isinstance(self.profile, Known) else None


@dataclass(frozen=True)
class Candidate:
    """One draft beside the target. `verdict` is None where either side has no metadata."""

    model: Model
    verdict: Part[VocabVerdict] | None = None


@dataclass(frozen=True)
class View:
    """The whole page: the target and each draft in the order chosen."""

    target: Model
    drafts: tuple[Candidate, ...]

    def parts(self) -> Iterator[Part[Any]]:
        """Every part that was asked for."""
        for model in (self.target, *(draft.model for draft in self.drafts)):
            yield model.info
            if model.profile is not None:
                yield model.profile
        yield from (draft.verdict for draft in self.drafts if draft.verdict is not None)

    @property
    def waiting(self) -> bool:
        """Whether any part is still awaited."""
        return any(isinstance(part, Waiting) for part in self.parts())


def gather(ask: Ask, target: str, drafts: Sequence[str]) -> View:
    """What is known now of `target` and of the first six `drafts` (addresses); asks for what is not."""
    chosen = _model(ask, target)
    return View(chosen, tuple(_candidate(ask, chosen, _model(ask, draft)) for draft in drafts[:MOST_DRAFTS]))


def _model(ask: Ask, address: str) -> Model:
    model = Model(address, _part(ask("describe", {"model": address}), _INFO))
    info = model.usable
    if info is None or not info.config:
        return model
    return Model(address, model.info, _part(ask("profile", {"config": info.config}), _PROFILE))


def _candidate(ask: Ask, target: Model, draft: Model) -> Candidate:
    if target.usable is None or draft.usable is None:
        return Candidate(draft)
    for info in (target.usable, draft.usable):
        if not info.vocabulary:
            return Candidate(draft, Failed(info.vocabulary_problem))
    return Candidate(draft, _part(ask("compare", {"target": target.usable.vocabulary, "draft": draft.usable.vocabulary}), _VERDICT))


def _part(answer: Answer, kind: TypeAdapter[T]) -> Part[T]:
    return Known(kind.validate_python(answer.data), answer.age_s) if isinstance(answer, Ready) else answer
