"""Whether a target and its draft fit one GPU, how many requests then run at once, and how many of them the draft costs.

Units: bytes of ONE GPU, the fullest: with tensor parallelism a draft may sit on fewer ranks than its target. Usable memory is
what the driver reports, less than the label ("24 GB" of an A10 is 21.99 GiB). Capacities are found by search, never by dividing
by a per-token rate, because windows, pages and running states do not grow in proportion. Not covered: activations and CUDA
graphs (the caller's `overhead`), prefix caching, requests of different lengths.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from core import memory_engines as engines
from core.errors import InvalidInput
from core.memory_cache import ENGINES, CacheProfile, Engine, whole
from core.model_info import Weights

Verdict = Literal["fits", "tight", "does not fit"]
WeightOrigin = Literal["safetensors", "file sizes", "parameters x dtype"]
WeightDtype = Literal["float32", "bfloat16", "float16", "fp8", "int8", "int4"]

TIGHT_SHARE = 0.05
"""Less than this share of the budget free is called tight: a longer prompt or another driver uses it up."""
DEFAULT_OVERHEAD_BYTES = 2 * 2**30
"""Activations, CUDA context and graphs. An 8B model in vLLM took 2.42 GiB (vllm-project/vllm issue 10517) and 3.05 GiB (pull request 10511)."""
MOST_SEQUENCES = 2**20

_WEIGHT_BITS: dict[str, int] = {"float32": 32, "bfloat16": 16, "float16": 16, "fp8": 8, "int8": 8, "int4": 4}


@dataclass(frozen=True)
class GpuMemory:
    """One GPU. label: as sold ("24 GB"); usable_bytes: as the driver reports it."""

    name: str
    usable_bytes: int
    label: str = ""


@dataclass(frozen=True)
class ModelMemory:
    """A model as it is served. weight_bytes: all of it; ranks: GPUs that share it (tensor parallelism)."""

    profile: CacheProfile
    weight_bytes: int
    weight_origin: WeightOrigin
    kv_dtype: str = "bfloat16"
    ranks: int = 1


@dataclass(frozen=True)
class Parts:
    """The memory of one GPU, from the first weight to the last free byte; they add up to its usable bytes, `missing_bytes` aside.

    held_back: the share that `utilisation` leaves to others. missing: what would be needed on top, 0 when all fits.
    """

    target_weights_bytes: int
    draft_weights_bytes: int
    target_kv_bytes: int
    draft_kv_bytes: int
    logits_bytes: int
    overhead_bytes: int
    free_bytes: int
    held_back_bytes: int
    missing_bytes: int

    @property
    def used_bytes(self) -> int:
        """Everything that is taken."""
        kv = self.target_kv_bytes + self.draft_kv_bytes
        return self.target_weights_bytes + self.draft_weights_bytes + kv + self.logits_bytes + self.overhead_bytes


@dataclass(frozen=True)
class Room:
    """sequences: most requests of the full context at once; kv_tokens: theirs, and those of one more that is shorter."""

    sequences: int
    kv_tokens: int


@dataclass(frozen=True)
class Fit:
    """The answer for one GPU. `parts` and `verdict` are for `sequences` requests of `context` tokens; reason is a sentence.

    alone: without the draft; together: with it (equal without one). notes: where engines differ, and where numbers come from.
    """

    verdict: Verdict
    reason: str
    gpu: GpuMemory
    engine: Engine
    context: int
    sequences: int
    gamma: int
    parts: Parts
    alone: Room
    together: Room
    notes: tuple[str, ...]

    @property
    def concurrency_lost(self) -> float | None:
        """Share of the concurrent requests that the draft costs, 0..1; None where not one fits without it."""
        return 1 - self.together.sequences / self.alone.sequences if self.alone.sequences else None


def model_memory(
    profile: CacheProfile, weights: Weights | None = None, *, dtype: WeightDtype = "bfloat16", kv_dtype: str = "bfloat16", ranks: int = 1
) -> ModelMemory:
    """The model with its stored bytes when they are known, else parameters x dtype. Raises InvalidInput for an unknown dtype."""
    if weights is not None:
        return ModelMemory(profile, weights.bytes, "safetensors" if weights.origin == "headers" else "file sizes", kv_dtype, ranks)
    if dtype not in _WEIGHT_BITS:
        raise InvalidInput(f"The weight dtype {dtype!r} is not known. Use one of {', '.join(_WEIGHT_BITS)}.")
    return ModelMemory(profile, profile.parameters * _WEIGHT_BITS[dtype] // 8, "parameters x dtype", kv_dtype, ranks)


def fit(
    target: ModelMemory | CacheProfile,
    draft: ModelMemory | CacheProfile | None,
    gpu: GpuMemory,
    *,
    context: int,
    utilisation: float = 0.9,
    overhead: int = DEFAULT_OVERHEAD_BYTES,
    engine: Engine = "vLLM",
    gamma: int = 5,
    sequences: int = 1,
) -> Fit:
    """How `sequences` requests of `context` tokens fit `gpu` when `draft` proposes `gamma` tokens a round.

    utilisation: share of the usable memory that the engine may take; overhead: bytes of activations, context and graphs. A bare
    profile is taken in bf16. An encoder's input is taken as long as the context. Raises InvalidInput for impossible numbers and
    for a context beyond the target's limit.
    """
    _check(context, gamma, sequences)
    need, budget = requirement(target, draft, engine, gamma, overhead), budget_bytes(gpu, utilisation)
    _check_limit(need.target, context)
    parts = _parts(need, gpu, budget, context, sequences)
    alone = _room(Need(need.target, None, engine, 0, overhead), budget, context)
    together = alone if need.draft is None else _room(need, budget, context)
    verdict: Verdict = "does not fit" if parts.missing_bytes else "tight" if parts.free_bytes < TIGHT_SHARE * budget else "fits"
    reason = _reason(verdict, parts, gpu, context, sequences)
    return Fit(verdict, reason, gpu, engine, context, sequences, need.gamma, parts, alone, together, tuple(need.notes(context)))


@dataclass(frozen=True)
class Need:
    """What one GPU must hold, part by part, in bytes."""

    target: ModelMemory
    draft: ModelMemory | None
    engine: Engine
    gamma: int
    overhead: int

    def per_gpu_weights(self, model: ModelMemory | None) -> int:
        """The share of one of its ranks."""
        return 0 if model is None else -(-model.weight_bytes // model.ranks)

    def cache(self, model: ModelMemory | None, tokens: int) -> int:
        """Keys, values and running states of one sequence."""
        if model is None:
            return 0
        kv = engines.kv_bytes(model.profile, tokens, dtype=model.kv_dtype, engine=self.engine, ranks=model.ranks)
        return kv + engines.state_bytes(model.profile, engine=self.engine, gamma=self.gamma, ranks=model.ranks)

    def logits(self, sequences: int) -> int:
        """fp32 logits of gamma + 1 positions for the target, and the draft's probabilities of gamma positions, kept for the acceptance test."""
        drafted = self.draft.profile.vocab_size * self.gamma if self.draft else 0
        return 4 * sequences * (self.target.profile.vocab_size * (self.gamma + 1) + drafted)

    def total(self, sequences: int, tokens: int) -> int:
        """Everything, for `sequences` requests of `tokens` tokens."""
        fixed = self.per_gpu_weights(self.target) + self.per_gpu_weights(self.draft) + self.overhead + self.logits(sequences)
        return fixed + sequences * (self.cache(self.target, tokens) + self.cache(self.draft, tokens))

    def notes(self, context: int) -> list[str]:
        """Sentences: where the numbers come from, where engines differ, what cannot work."""
        found: list[str] = []
        for name, model in (("Target", self.target), ("Draft", self.draft)):
            if model is None:
                continue
            if model.weight_origin == "parameters x dtype":
                found.append(f"{name}: weights estimated as parameters x dtype; the files may differ.")
            found += engines.notes(model.profile, name, engine=self.engine, gamma=self.gamma)
            found += engines.dtype_notes(name, model.kv_dtype, engine=self.engine)
        if self.draft and self.engine == "transformers" and self.target.profile.fixed_bytes_per_sequence:
            found.append(f"Target: {engines.STATELESS_ONLY}")
        limit = self.draft.profile.context if self.draft else None
        if limit is not None and context > limit:
            found.append(f"Draft: it reads at most {limit:,} tokens; beyond them nothing can be drafted.")
        return found


def _model(given: ModelMemory | CacheProfile) -> ModelMemory:
    return model_memory(given) if isinstance(given, CacheProfile) else given


def requirement(target: ModelMemory | CacheProfile, draft: ModelMemory | CacheProfile | None, engine: Engine, gamma: int, overhead: int) -> Need:
    """What the pair needs of one GPU. Raises InvalidInput for impossible numbers and an unknown engine."""
    big, small = _model(target), None if draft is None else _model(draft)
    whole("overhead", overhead, 0, 10**15)
    for model in (big, small):
        if model is not None:
            whole("ranks", model.ranks, 1, 4096)
            whole("weight bytes", model.weight_bytes, 1, 10**16)
    if engine not in ENGINES:
        raise InvalidInput(f"The engine {engine!r} is not known. Use one of {', '.join(ENGINES)}.")
    if small is not None and small.ranks > big.ranks:
        raise InvalidInput(f"The draft is on {small.ranks} GPUs and the target on {big.ranks}; the draft must be on as many or fewer.")
    return Need(big, small, engine, gamma if small else 0, overhead)


def budget_bytes(gpu: GpuMemory, utilisation: float) -> int:
    """What the engine may take of the GPU. Raises InvalidInput for a utilisation outside 0..1."""
    if not 0 < utilisation <= 1:
        raise InvalidInput(f"utilisation is {utilisation!r}; it must be above 0 and at most 1, such as 0.9.")
    return int(whole("usable memory", gpu.usable_bytes, 1, 10**15) * utilisation)


def _check(context: int, gamma: int, sequences: int) -> None:
    whole("context", context, 1)
    whole("sequences", sequences, 1, MOST_SEQUENCES)
    whole("gamma", gamma, 1, 1000)


def _check_limit(target: ModelMemory, context: int) -> None:
    limit = target.profile.context
    if limit is not None and context > limit:
        raise InvalidInput(f"A context of {context:,} tokens is beyond the target's limit of {limit:,}. Choose at most that.")


def _parts(need: Need, gpu: GpuMemory, budget: int, context: int, sequences: int) -> Parts:
    left = budget - need.total(sequences, context)
    return Parts(
        target_weights_bytes=need.per_gpu_weights(need.target),
        draft_weights_bytes=need.per_gpu_weights(need.draft),
        target_kv_bytes=sequences * need.cache(need.target, context),
        draft_kv_bytes=sequences * need.cache(need.draft, context),
        logits_bytes=need.logits(sequences),
        overhead_bytes=need.overhead,
        free_bytes=max(0, left),
        held_back_bytes=gpu.usable_bytes - budget,
        missing_bytes=max(0, -left),
    )


def _room(need: Need, budget: int, context: int) -> Room:
    count = largest(lambda n: need.total(n, context) <= budget, MOST_SEQUENCES)
    full = need.total(count, context)
    one = need.total(1, 1) - need.total(0, 1) - need.cache(need.target, 1) - need.cache(need.draft, 1)  # logits of one more
    rest = largest(lambda t: full + one + need.cache(need.target, t) + need.cache(need.draft, t) <= budget, context - 1)
    return Room(count, count * context + rest)


def largest(holds: Callable[[int], bool], most: int) -> int:
    """The largest n from 0 to `most` with holds(n), for a condition that stays false once it is; 0 also when holds(1) is false."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _reason(verdict: Verdict, parts: Parts, gpu: GpuMemory, context: int, sequences: int) -> str:
    what = f"{sequences:,} request{'s' if sequences > 1 else ''} of {context:,} tokens"
    if verdict == "does not fit":
        return f"{what} would need {parts.missing_bytes / 2**30:.2f} GiB more than the {gpu.name} may give."
    return f"{what} leave {parts.free_bytes / 2**30:.2f} GiB free on the {gpu.name}."
