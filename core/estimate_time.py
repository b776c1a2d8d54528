"""How long a measurement will take, stage by stage, before it is started. An estimate: pages must say so.

The speed of the pair comes from its last run on the same device in the same precision, where there is one; else it is a guess
from the models' sizes: a step reads every weight once, at the device's usual bandwidth, and starts every layer. The shares of a
batch, of the draft's reading and of the calibration are those of this program's own measurements on a CPU (within a factor of two
there; on a GPU unproven). Times in seconds. Not covered: waiting in the queue, downloads, a busy machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

from core.measured import Dtype
from core.policies import Plain
from core.runs import Run, RunSpec, Stage
from core.timing import per_step

Origin = Literal["measured", "guess"]

BATCH = 16
BATCH_STEP = {"cpu": 3.5, "cuda": 1.5, "mps": 3.0}
"""A step of a batch of 16 / a single step."""
PREFILL_TOKENS = {"cpu": 12.0, "cuda": 500.0, "mps": 100.0}
"""Prompt tokens that a pass reads in the time of a single step."""
PASS_ROUND_STEPS, LEAST_ROUNDS, PASSES_S = 34.0, 6, 3.0
"""One round over all widths in single steps; rounds at least; and seconds that are filled up with further ones."""
FURTHER_ROUNDS = 10
"""Rounds over a further draft's widths alone, each beside two steps of the target."""
CALIBRATION = (3, 24, 8.0)
"""Prompts, tokens of each call, and calls of a block in plain ones: five plain, four assisted at about 1.35x."""
LOAD_S, LOAD_BYTES_S = 2.0, 0.7e9
BANDWIDTH_BYTES_S = {"cpu": 10e9, "cuda": 700e9, "mps": 150e9}
LAYER_S = {"cpu": 0.1e-3, "cuda": 0.6e-3, "mps": 0.4e-3}
BYTES: dict[Dtype, int] = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class Speed:
    """One step of target and draft, and the bytes that loading reads."""

    target_s: float
    draft_s: float
    load_bytes: float
    origin: Origin


@dataclass(frozen=True)
class TimeEstimate:
    """Seconds of each stage in order, and where the speed comes from. `stages["confirming"]` is the most it may take."""

    stages: dict[Stage, float]
    origin: Origin

    @property
    def total_s(self) -> float:
        """All stages together."""
        return sum(self.stages.values())


def known_speed(runs: Sequence[Run], spec: RunSpec) -> Speed | None:
    """The pair's speed in its newest run (with results) on this device in this precision; None when there is none."""
    for run in sorted(runs, key=lambda run: run.created, reverse=True):
        where = [(each.target, each.draft, each.device, each.dtype, each.placement) for each in (run.spec, spec)]
        alike = where[0] == where[1]
        plain = [g for g in run.generations if isinstance(g.policy, Plain) and g.tells_speed and g.tokens > 1 and g.purpose != "smoke"]
        if alike and plain and run.passes and run.environment:
            first = run.passes[0]
            step_s = per_step(plain)
            parameters = run.environment.target_parameters + run.environment.draft_parameters
            return Speed(step_s, step_s * first.draft[1].median_s / first.target[1].median_s, parameters * BYTES[spec.dtype], "measured")
    return None


def guessed_speed(device: str, dtype: Dtype, target: tuple[float, int], draft: tuple[float, int]) -> Speed:
    """From parameters and layers of each model. Raises nothing: an unknown kind of device counts as a CPU."""
    kind = _kind(device)

    def step_s(parameters: float, layers: int) -> float:
        return parameters * BYTES[dtype] / BANDWIDTH_BYTES_S[kind] + layers * LAYER_S[kind]

    return Speed(step_s(*target), step_s(*draft), (target[0] + draft[0]) * BYTES[dtype], "guess")


def estimate_time(
    spec: RunSpec, prompt_tokens: Sequence[int], speed: Speed, *, known_answers: int = 0, loaded: bool = False, further: bool = False
) -> TimeEstimate:
    """Seconds per stage. prompt_tokens: of each prompt; known_answers: how many the worker has kept; loaded: the pair is warm.

    further: not the first draft of its group, so that the target's passes and the calibration are known, unless the first was disturbed.
    Answers are taken to use up the budget, so that the estimate errs on the long side.
    """
    kind, prompts, tokens = _kind(spec.device), len(prompt_tokens), spec.max_new_tokens
    steps_per_token = 1 / PREFILL_TOKENS[kind]
    reading = sum(prompt_tokens) * steps_per_token
    new = max(0, prompts - known_answers)
    written = ceil(new / BATCH) * tokens * BATCH_STEP[kind] + reading * new / max(1, prompts)
    read = (reading + prompts * tokens * steps_per_token) * (2 if spec.decoding.sample else 1)
    rolled_out = 0.0 if spec.decoding.sample else prompts * ceil(0.3 * tokens / BATCH) * 20 * BATCH_STEP[kind] / 2
    passes_s = max(PASSES_S, LEAST_ROUNDS * PASS_ROUND_STEPS * speed.target_s)
    if further:
        rolled_out /= 2  # only as far as thresholds need it
        passes_s = (2 * FURTHER_ROUNDS + reading / max(1, prompts)) * speed.target_s + 4 * FURTHER_ROUNDS * speed.draft_s
    blocks, length, calls = CALIBRATION
    prefill = reading / max(1, prompts)
    block_s = calls * (min(tokens, length) + prefill) * speed.target_s
    plain_s = prompts * (tokens + prefill) * speed.target_s
    return TimeEstimate(
        {
            "load": 0.0 if loaded else LOAD_S + speed.load_bytes / LOAD_BYTES_S,
            "plain": written * speed.target_s,
            "draft": (read * (speed.target_s if spec.decoding.sample else speed.draft_s)) + rolled_out * speed.draft_s,
            "timing": passes_s + (1 if further else 2) * reading * speed.draft_s,
            "calibrating": 0.0 if further else min(blocks, prompts) * block_s,
            "confirming": (min(spec.confirm_s, 6 * 2.5 * plain_s) if spec.confirm_s else 0.0) + passes_s,
        },
        speed.origin,
    )


def _kind(device: str) -> str:
    name = device.partition(":")[0]
    return name if name in BATCH_STEP else "cpu"
