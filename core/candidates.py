"""Everything that the page `pair` shows of a target and its drafts, as far as it is known by now.

Each part of each model stands for itself: known with its age, still awaited, or failed with a sentence. One dead
model therefore never holds up another. Nothing is read here: `ask` is the planner's door, which never waits.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from pydantic import TypeAdapter

from core import advice_cost, advice_runs, suggest
from core.advice import Advice, Pair, Side, Traffic, advise
from core.devices import CPU, Device
from core.estimate import Estimate, Load, estimate, load_of, tied_embedding
from core.measured import Dtype
from core.memory import CacheProfile
from core.model_info import ModelInfo
from core.planner import Answer, Failed, Ready, Waiting
from core.vocab import VocabVerdict

T = TypeVar("T")
Ask = Callable[[str, dict[str, Any]], Answer]


class AskAgain(Protocol):
    """The planner's door with its way to do a job anew."""

    def __call__(self, task: str, arguments: dict[str, Any], *, again: bool = False) -> Answer:
        """The answer so far."""
        ...


MOST_DRAFTS = 6
LONGEST_NAME = 60

_INFO: TypeAdapter[ModelInfo] = TypeAdapter(ModelInfo)
_PROFILE: TypeAdapter[CacheProfile] = TypeAdapter(CacheProfile)
_VERDICT: TypeAdapter[VocabVerdict] = TypeAdapter(VocabVerdict)

RULES = (*advice_runs.RULES, *advice_cost.RULES)


@dataclass(frozen=True)
class Setting:
    """Where and for which traffic the pair is to run. draft_device: where the draft runs, None for the target's device."""

    device: Device = CPU
    traffic: Traffic | None = None
    draft_device: Device | None = None

    @property
    def of_draft(self) -> "Setting":
        """The same with the draft's device for all."""
        return Setting(self.draft_device or self.device, self.traffic)

    @property
    def dtype(self) -> Dtype:
        """Float32 on a CPU, as measurements here; 16 bit on a GPU."""
        return "float32" if self.device is CPU else "bfloat16"


@dataclass(frozen=True)
class Known(Generic[T]):
    """A part that was read `age_s` seconds ago."""

    value: T
    age_s: float


Part = Known[T] | Waiting | Failed
"""A part's three states."""


class Shape(NamedTuple):
    """A model's size in a few figures; bytes_per_token: cache in bf16."""

    parameters: int
    layers: int
    bytes_per_token: int


@dataclass(frozen=True)
class Model:
    """One model: its metadata, and the sizes that its config implies. A part that needs a failed one is None."""

    address: str
    info: Part[ModelInfo]
    profile: Part[CacheProfile] | None = None

    @property
    def name(self) -> str:
        """A short name: the last part of a Hub id, or what the model is called here; cut where somebody typed a novel."""
        if isinstance(self.info, Known) and self.info.value.ref.source != "hub":
            name = self.info.value.ref.name
        else:
            name = self.address.split("@")[0].rsplit("/", 1)[-1] or self.address
        return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"

    @property
    def problem(self) -> str:
        """Why it cannot be read or used at all, a sentence; "" when it can, or when that is not known yet."""
        if isinstance(self.info, Failed):
            return self.info.sentence
        return self.refusal

    @property
    def refusal(self) -> str:
        """Why its own files say that it cannot be used; "" where they do not, or could not be read."""
        if isinstance(self.profile, Failed) and self.profile.unbuildable:
            return f"{self.name} cannot be made into a model: {self.profile.sentence}"
        return self.info.value.refusal if isinstance(self.info, Known) else ""

    @property
    def usable(self) -> ModelInfo | None:
        """Its metadata, once read and not refused."""
        return self.info.value if isinstance(self.info, Known) and not self.info.value.refusal else None

    @property
    def sizes(self) -> CacheProfile | None:
        """Its sizes, once known."""
        return self.profile.value if isinstance(self.profile, Known) else None

    @property
    def listed(self) -> suggest.Known | None:
        """Its row in the table of families, for when its files cannot be read, as without a network."""
        return suggest.find(self.address) if isinstance(self.info, Failed) else None

    @property
    def shape(self) -> Shape | None:
        """What pages show of its size: from its files, else from the table of families."""
        row = self.listed
        if row is not None:
            return Shape(row.parameters, row.layers, row.bytes_per_token)
        return Shape(self.sizes.parameters, self.sizes.layers, self.sizes.bytes_per_token) if self.sizes else None


@dataclass(frozen=True)
class Candidate:
    """One draft beside the target. `verdict` is None where either side has no metadata, `estimate` until both sizes are known.

    pair: both sides as the rules see them. advice: what the rules say so far, most important first.
    """

    model: Model
    verdict: Part[VocabVerdict] | None = None
    estimate: Estimate | None = None
    pair: Pair | None = None
    advice: tuple[Advice, ...] = ()

    @property
    def refusals(self) -> tuple[Advice, ...]:
        """Why the pair must not be measured as it stands."""
        return tuple(said for said in self.advice if said.level == "refusal")

    @property
    def verdict_value(self) -> VocabVerdict | None:
        """The verdict, once known."""
        return self.verdict.value if isinstance(self.verdict, Known) else None

    @property
    def problem(self) -> str:
        """Why there is no verdict and will be none, a sentence; "" otherwise."""
        return self.model.problem or (self.verdict.sentence if isinstance(self.verdict, Failed) else "")

    @property
    def fits(self) -> bool:
        """Whether the pair runs natively, and so can be measured here."""
        return self.verdict_value is not None and self.verdict_value.native and not (self.refusals or self.model.refusal)

    @property
    def translates(self) -> bool:
        """Whether the pair has other tokens that Transformers can carry over as text, so that it can only be really run."""
        found = self.verdict_value
        return found is not None and not found.native and found.target_size != found.draft_size and not (self.refusals or self.model.refusal)


def promised(target: Model, draft: Candidate) -> Estimate | None:
    """The estimate where its speedup may be shown: for a pair that runs as it is, or that the table of families gives one tokenizer
    while a side cannot be read. With other tokens the acceptance, and with re-encoding the cost, would be another one.
    """
    unread = bool(target.problem or draft.problem)
    return draft.estimate if draft.fits or (unread and _one_family(target, draft.model)) else None


def _one_family(target: Model, draft: Model) -> bool:
    own, other = suggest.find(target.address), suggest.find(draft.address)
    return own is not None and other is not None and own.group == other.group


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

    @property
    def best(self) -> Candidate | None:
        """The draft that fits and is likely to gain most at a middling acceptance; any that fits where no estimate is known yet."""
        return max((draft for draft in self.drafts if draft.fits), key=_promise, default=None)


def gather(ask: Ask, target: str, drafts: Sequence[str], setting: Setting) -> View:
    """What is known now of `target` and of the first six `drafts` (addresses); asks for what is not."""
    chosen = _model(ask, target)
    return View(chosen, tuple(_candidate(ask, chosen, _model(ask, draft), setting) for draft in drafts[:MOST_DRAFTS]))


def read_again(ask: AskAgain, target: str, address: str) -> None:
    """Read a model's metadata anew, and do the jobs again that failed with what is known of it."""
    chosen, model = _model(ask, target), _model(ask, address)
    jobs: list[tuple[str, dict[str, Any]]] = []
    if chosen.usable and model.usable:
        jobs = [("profile", {"config": info.config}) for info in (chosen.usable, model.usable)]
        jobs.append(("compare", {"target": chosen.usable.vocabulary, "draft": model.usable.vocabulary}))
    for task, arguments in jobs:
        if isinstance(ask(task, arguments), Failed):
            ask(task, arguments, again=True)
    ask("describe", {"model": address}, again=True)


def bytes_per_parameter(info: ModelInfo, setting: Setting) -> float:
    """As a model is held when it decodes: quantised weights as stored, others, and those of GGUF files (unpacked by Transformers), in the
    setting's format.
    """
    weights = info.weights
    if info.ref.source != "gguf" and weights is not None and weights.quantisation and weights.parameters:
        return weights.bytes / weights.parameters
    return unpacked_bytes(setting)


def unpacked_bytes(setting: Setting) -> float:
    """Bytes of a parameter that is not quantised."""
    return 4.0 if setting.dtype == "float32" else 2.0


def load(model: Model, setting: Setting) -> Load | None:
    """What a decoding step of the model reads there; None until its sizes are known."""
    info, sizes, row = model.usable, model.sizes, model.listed
    if row is not None:
        return row.load(unpacked_bytes(setting))
    if info is None or sizes is None:
        return None
    each = bytes_per_parameter(info, setting)
    return load_of(sizes, bytes_per_parameter=each, tied=tied_embedding(info.config), cache_dtype=setting.dtype)


def _model(ask: Ask, address: str) -> Model:
    model = Model(address, _part(ask("describe", {"model": address}), _INFO))
    info = model.usable
    if info is None or not info.config:
        return model
    return Model(address, model.info, _part(ask("profile", {"config": info.config}), _PROFILE))


def _candidate(ask: Ask, target: Model, draft: Model, setting: Setting) -> Candidate:
    if target.usable is None or draft.usable is None:
        return Candidate(draft, estimate=_estimate(target, draft, setting))
    verdict, found = _verdict(ask, target.usable, draft.usable), _estimate(target, draft, setting)
    compared = verdict.value if isinstance(verdict, Known) else None
    own = Side(target.usable, target.sizes, setting.device.name)
    other = Side(draft.usable, draft.sizes, setting.of_draft.device.name)
    pair = Pair(own, other, compared, found, setting.traffic)
    return Candidate(draft, verdict, found, pair, tuple(advise(pair, RULES)))


def _verdict(ask: Ask, target: ModelInfo, draft: ModelInfo) -> Part[VocabVerdict]:
    for info in (target, draft):
        if not info.vocabulary:
            return Failed(info.vocabulary_problem)
    return _part(ask("compare", {"target": target.vocabulary, "draft": draft.vocabulary}), _VERDICT)


def _promise(draft: Candidate) -> float:
    return draft.estimate.speedup_middle if draft.estimate else 0.0


def _estimate(target: Model, draft: Model, setting: Setting) -> Estimate | None:
    own, other = load(target, setting), load(draft, setting.of_draft)
    return estimate(own, other, setting.device, setting.draft_device) if own and other else None


def _part(answer: Answer, kind: TypeAdapter[T]) -> Part[T]:
    return Known(kind.validate_python(answer.data), answer.age_s) if isinstance(answer, Ready) else answer
