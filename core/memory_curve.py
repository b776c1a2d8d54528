"""How memory grows with the context, and where it crosses what a GPU has. Units: bytes and tokens of one GPU, as `core.memory_fit`."""

from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import InvalidInput
from core.memory_cache import CacheProfile, Engine, whole
from core.memory_fit import DEFAULT_OVERHEAD_BYTES, GpuMemory, ModelMemory, budget_bytes, largest, requirement


@dataclass(frozen=True)
class Curve:
    """Bytes used at each of `contexts` by `sequences` requests; crossing: the longest context within the budget, None if none crosses.

    crossing 0: not even one token fits.
    """

    sequences: int
    contexts: tuple[int, ...]
    used_bytes: tuple[int, ...]
    budget_bytes: int
    crossing: int | None


def memory_curve(
    target: ModelMemory | CacheProfile,
    draft: ModelMemory | CacheProfile | None,
    gpu: GpuMemory,
    *,
    contexts: Sequence[int],
    sequences: int,
    utilisation: float = 0.9,
    overhead: int = DEFAULT_OVERHEAD_BYTES,
    engine: Engine = "vLLM",
    gamma: int = 5,
) -> Curve:
    """Memory at each context, which must rise. The crossing is searched up to the last of them. Contexts beyond the model's limit are drawn too.

    Raises InvalidInput as `fit` does.
    """
    if not contexts or list(contexts) != sorted(set(contexts)):
        raise InvalidInput("The contexts of a memory curve must rise, and there must be at least one.")

    whole("sequences", sequences, 1)
    need, budget = requirement(target, draft, engine, whole("gamma", gamma, 1, 1000), overhead), budget_bytes(gpu, utilisation)
    sizes = tuple(need.total(sequences, whole("context", context, 1)) for context in contexts)
    crossing = None if sizes[-1] <= budget else largest(lambda context: need.total(sequences, context) <= budget, contexts[-1])
    return Curve(sequences, tuple(contexts), sizes, budget, crossing)
