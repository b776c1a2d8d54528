"""A pair as it is served, and what pages and reports show of its memory: the fit, the pieces of the bar, the lines of the curve.

Bytes and tokens of one GPU, as in `core.memory_fit`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from core.memory import Engine, Fit, GpuMemory, ModelMemory, fit, memory_curve
from core.memory_figures import Growth, Part

DEFAULT_GPU = "H100 SXM"
DEFAULT_CONTEXT = 8192
DEFAULT_SEQUENCES = 16
DEFAULT_UTILISATION = 0.9
DEFAULT_GAMMA = 5
SEQUENCES = (1, 4, 16, 64)
POINTS = 33


@dataclass(frozen=True)
class Setting:
    """A pair as served: everything that a fit needs beside the GPU."""

    target: ModelMemory
    draft: ModelMemory
    context: int
    sequences: int
    utilisation: float
    overhead_bytes: int
    engine: Engine
    gamma: int


def fitted(setting: Setting, gpu: GpuMemory) -> Fit:
    """The pair on one GPU. Raises InvalidInput for impossible numbers."""
    return fit(
        setting.target,
        setting.draft,
        gpu,
        context=setting.context,
        utilisation=setting.utilisation,
        overhead=setting.overhead_bytes,
        engine=setting.engine,
        gamma=setting.gamma,
        sequences=setting.sequences,
    )


def parts(found: Fit) -> list[Part]:
    """The pieces of the bar in their order; the free rest last."""
    held = found.parts
    pieces = [
        Part("target weights", held.target_weights_bytes, "target"),
        Part("target cache", held.target_kv_bytes, "target_soft"),
        Part("draft weights", held.draft_weights_bytes, "draft"),
        Part("draft cache", held.draft_kv_bytes, "draft_soft"),
        Part("logits and overhead", held.logits_bytes + held.overhead_bytes, "other"),
    ]
    return [*pieces, Part("free", held.free_bytes, "free")] if held.free_bytes else pieces


def contexts(setting: Setting) -> list[int]:
    """The contexts at which the curve is drawn: up to the target's limit, or four times the context asked for."""
    limit = setting.target.profile.context or setting.context * 2
    end = min(limit, max(4 * setting.context, 8192))
    return sorted({max(1, round(end * at / (POINTS - 1))) for at in range(POINTS)})


def growth(setting: Setting, gpu: GpuMemory, contexts: Sequence[int], sequences: int) -> Growth:
    """Memory of so many sequences at rising contexts, and where it meets the budget."""
    line = memory_curve(
        setting.target,
        setting.draft,
        gpu,
        contexts=contexts,
        sequences=sequences,
        utilisation=setting.utilisation,
        overhead=setting.overhead_bytes,
        engine=setting.engine,
        gamma=setting.gamma,
    )
    return Growth(sequences, line.contexts, line.used_bytes, line.crossing)
