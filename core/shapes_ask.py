"""What a run that times passes is asked to do: which batches and lengths, and whether that can be run at all.

Lengths are tokens in the cache; a pass over up to 21 tokens follows them. Those beyond the models' context, and those that do not fit into
memory, are left out by the worker with a sentence each. Not covered: the models themselves, which the worker builds or loads.
"""

from collections.abc import Sequence

from core.errors import InvalidInput
from core.estimate_time import BATCH, BATCH_STEP, LEAST_ROUNDS, LOAD_BYTES_S, LOAD_S, PASSES_S, PREFILL_TOKENS, Speed
from core.measured import Dtype
from core.runs import ModelRef, Run, RunSpec
from core.shapes import FEW_WIDTHS, WIDTHS

LENGTHS = {"cpu": (128, 512), "other": (512, 4096)}
LONG_LENGTHS = {"cpu": (128, 512, 2048), "other": (512, 4096, 16_384)}
"""A CPU reads a few dozen tokens a second of a large model, so its lengths are shorter."""
BATCHES = (1, 2, 4, 8, 16)
MOST_ROUNDS = 16
MOST_BATCH, MOST_CACHED, MOST_COMBINATIONS = 256, 1_000_000, 40


def from_configs(target: ModelRef, draft: ModelRef, device: str, dtype: Dtype) -> RunSpec:
    """The pair built from its configurations alone, one text at a time."""
    lengths = LENGTHS[_kind(device)]
    return RunSpec(
        target=target, draft=draft, prompts=(), device=device, dtype=dtype, extent="shapes", random_weights=True, batches=(1,), cache_lengths=lengths
    )


def wider(run: Run) -> RunSpec:
    """The pair of `run` at larger batches and longer texts, on the same device; with the weights that it had."""
    spec, shapes = run.spec, run.spec.extent == "shapes"
    return RunSpec(
        target=spec.target,
        draft=spec.draft,
        prompts=(),
        device=spec.device,
        dtype=spec.dtype,
        extent="shapes",
        reference=spec.reference if shapes else run.id,
        random_weights=spec.random_weights,
        placement=spec.placement,
        batches=BATCHES,
        cache_lengths=LONG_LENGTHS[_kind(spec.device)],
    )


def check(spec: RunSpec) -> None:
    """Raise InvalidInput unless the combinations are few, each a size that can be tried, and random weights are asked for plainly."""
    for name, values, most in (("batch size", spec.batches, MOST_BATCH), ("cache length", spec.cache_lengths, MOST_CACHED)):
        _check_sizes(name, values, most)
    combinations = len(spec.batches) * len(spec.cache_lengths)
    if combinations > MOST_COMBINATIONS:
        raise InvalidInput(f"{combinations} combinations of batch and length are too many. Ask for at most {MOST_COMBINATIONS}.")
    if spec.random_weights and (spec.placement.quantization or spec.placement.spread):
        what = "quantised" if spec.placement.quantization else "spread over several devices"
        raise InvalidInput(f"Models that are built from their configurations cannot be {what} here. Time them on one device, in 16 or 32 bits.")


def seconds(spec: RunSpec, speed: Speed) -> float:
    """About how long such a run takes: loading or building, both models' reading of each length, and rounds over the widths of each combination.

    A pass over m tokens of all texts together is taken to grow evenly with m, as fast as a batch of 16 does. A guess within a factor of two.
    """
    kind = spec.device.partition(":")[0]
    slope = (BATCH_STEP.get(kind, BATCH_STEP["cpu"]) - 1) / (BATCH - 1)
    both_s = speed.target_s + speed.draft_s
    total_s = LOAD_S + speed.load_bytes / LOAD_BYTES_S
    total_s += 2 * sum(spec.cache_lengths) / PREFILL_TOKENS.get(kind, PREFILL_TOKENS["cpu"]) * both_s
    for batch in spec.batches:
        widths = WIDTHS if batch == min(spec.batches) else FEW_WIDTHS
        steps = sum(2 + slope * (batch * (width + 1) - 2) for width in widths)
        one = 1 + slope * (batch - 1)
        round_s = (steps + 2 * one) * speed.target_s + (2 * one + 1 + slope * (2 * batch - 1)) * speed.draft_s
        total_s += len(spec.cache_lengths) * (
            LEAST_ROUNDS * round_s if LEAST_ROUNDS * round_s > PASSES_S else min(MOST_ROUNDS * round_s, PASSES_S + round_s)
        )
    return total_s


def default_dtype(device: str) -> Dtype:
    """Float32 on a CPU, as measurements there; 16 bits elsewhere, as models are served."""
    return "float32" if device == "cpu" else "bfloat16"


def _check_sizes(name: str, values: Sequence[int], most: int) -> None:
    if not values:
        raise InvalidInput(f"There is no {name} to time. Ask for at least one.")
    for value in values:
        if not 1 <= value <= most:
            raise InvalidInput(f"{value:,} is no {name} that can be timed. Choose between 1 and {most:,}.")
    if len(set(values)) < len(values):
        raise InvalidInput(f"The same {name} is asked for twice ({', '.join(f'{value:,}' for value in values)}). Ask for each once.")


def _kind(device: str) -> str:
    return "cpu" if device == "cpu" else "other"
