"""What a measurement leaves: where it ran, timed passes, real generations, and where answers part.

Only raw measurements are kept; ratios and speedups are derived by `core.timing`, `core.replay` and `core.predict`. Times in seconds.
"""

from typing import Annotated, Literal

from pydantic import Field

from core.policies import MeasuredOnly, Policy
from core.record import Record

Purpose = Literal["answer", "calibration", "confirmation", "smoke", "side_by_side", "way"]
Dtype = Literal["float32", "bfloat16", "float16"]
AnyPolicy = Annotated[Policy | MeasuredOnly, Field(discriminator="kind")]


class DeviceInfo(Record):
    """A device as the worker found it when it started: its memory and what was free of it, None where that is not known."""

    id: str
    name: str
    memory_bytes: int | None = None
    free_bytes: int | None = None


PlainKind = Literal["dynamic cache", "static cache, compiled"]


class Carried(Record):
    """What a further draft of a group has from the group's first draft, because it hardly depends on the draft: the loop around the passes.

    draft: whose calibration it was. round_overhead, token_overhead: h and e in plain steps of that run; calibration_error: as there,
    and that of taking them over. All as in `core.timing.LoopCosts`.
    """

    draft: str
    round_overhead: float
    token_overhead: float
    calibration_error: float | None = None


class Environment(Record):
    """Where and with what a run was measured.

    plain: which plain decoding the speedups are relative to, the fastest that the library offers here. target_bytes,
    draft_bytes: weights and buffers as loaded. peak_bytes: most memory in use at once during the run, on an accelerator that of
    the device, on a CPU that of the worker since it started, so earlier runs count; None before the end. target_peak_bytes,
    draft_peak_bytes: of each model alone in plain decoding and in drafting, its weights included; known on CUDA only.
    carried: None for a run with a calibration of its own. notes: sentences on the models that a reader of the times must know.
    attention, draft_attention: the implementations really used; target_devices, draft_devices: where their weights lie; the draft's are
    empty in runs from before placements. target_quantization, draft_quantization: how their weights are kept, "" for the number format.
    device_peak_bytes: peak_bytes of each device, where a run used several of them; peak_bytes is their sum then.
    compile_failed: why compiled plain decoding could not be the rival, "" where it could or is not offered.
    encoder_decoder: whether encoders read the prompts; the layers are those of the decoders then.
    """

    host: str
    device: str
    device_name: str
    platform: str
    python: str
    torch: str
    transformers: str
    dtype: Dtype
    attention: str
    threads: int
    scikit_learn: bool
    target_parameters: int
    draft_parameters: int
    target_layers: int
    draft_layers: int
    plain: PlainKind = "dynamic cache"
    target_bytes: int | None = None
    draft_bytes: int | None = None
    peak_bytes: int | None = None
    target_peak_bytes: int | None = None
    draft_peak_bytes: int | None = None
    carried: Carried | None = None
    notes: tuple[str, ...] = ()
    draft_attention: str = ""
    target_devices: tuple[str, ...] = ()
    draft_devices: tuple[str, ...] = ()
    target_quantization: str = ""
    draft_quantization: str = ""
    device_peak_bytes: dict[str, int] = Field(default_factory=dict)
    compile_failed: str = ""
    encoder_decoder: bool = False


class Sample(Record):
    """Repeated timings of the same thing: median, interquartile range, count."""

    median_s: float
    iqr_s: float
    n: int


class PassTimes(Record):
    """Isolated forward passes with `cache_tokens` tokens in the cache, keyed by their width in tokens.

    `target_one_s[w]` is a one-token target pass timed turn by turn with width w, so that
    `target[w] / target_one_s[w]` does not drift with the machine; the same for the draft's widths.
    check_s: comparing one drafted token's confidence with a threshold, as the library does; None where it was not timed.
    batch: texts that each pass reads at once; the width is of each of them.
    target_prefill_s, draft_prefill_s: reading the `cache_tokens` tokens of one text in one pass; None where that was not timed.
    problem: why nothing was timed here, a sentence; the timings are then empty.
    reused: `target` and `target_one_s` were kept from the group's first draft; only the draft's widths were timed for this run.
    """

    cache_tokens: int
    target: dict[int, Sample]
    draft: dict[int, Sample]
    target_one_s: dict[int, float]
    target_one_beside_draft_s: dict[int, float]
    check_s: float | None = None
    batch: int = 1
    target_prefill_s: float | None = None
    draft_prefill_s: float | None = None
    problem: str = ""
    reused: bool = False


class WayCall(Record):
    """What a call of a run in several ways notes beside its rounds.

    rejected: rounds that ended because a proposal was wrong. draft_prefill_s: the draft's first pass over the prompt, timed by itself; 0 where
    no model drafts, and for heads, which read the prompt when they draft first. prepared_s: outside the call's times, to get a fresh copy of
    a draft that the library edits, with its output layer cut. translated: the draft has other tokens, so proposals were translated.
    """

    rejected: int = 0
    draft_prefill_s: float = 0.0
    prepared_s: float = 0.0
    translated: bool = False


class Generation(Record):
    """One answer by the library's `generate`, timed by a streamer.

    block: generations with the same block number ran directly one after the other.
    total_s: the whole call. first_token_s: until the first token(s) were out.
    rounds: tokens emitted by each round, in order; for a plain run it is all ones and is left empty.
    drafted: tokens drafted in each round, as the target's passes had them; empty in runs from before sampling and for plain.
    equal: whether the tokens equal the plain answer of that prompt; first_difference says where not. None under sampling,
        where texts differ from call to call.
    cpu_share: CPU time / wall time of the call; below 0.95 (one thread) the machine was disturbed.
    budget: the call's max_new_tokens; 0 for the run's own.
    batch: prompts that were written in this call, with every score checked: its times are the whole call's and say
        nothing about speed. 0 for a call of its own as a service would make it.
    reused: kept from an earlier run of this worker; its times are those of then, and so are the passes that they are compared with.
    lane: column of a side-by-side run, or of one in several ways. way: what only the latter notes; None for plain decoding.
    """

    purpose: Purpose
    block: int
    prompt: int
    policy: AnyPolicy
    tokens: int
    total_s: float
    first_token_s: float
    rounds: tuple[int, ...] = ()
    drafted: tuple[int, ...] = ()
    equal: bool | None = None
    first_difference: int | None = None
    cpu_share: float = 1.0
    budget: int = 0
    batch: int = 0
    reused: bool = False
    lane: int = 0
    way: WayCall | None = None

    @property
    def tells_speed(self) -> bool:
        """Whether its times are those of a call as a service would make it."""
        return self.batch == 0


NEAR_TIE: dict[Dtype, float] = {"float32": 0.001, "float16": 0.05, "bfloat16": 0.4}
"""Logits closer than this can come out in either order in that precision: about four roundings of a logit of 16 (1/2048 and 1/256 of it
in 16 bits), and for float32 what different orders of summation leave of a logit after some thirty layers, with a margin."""


class Difference(Record):
    """Where greedy answers with and without a draft part: the token's number from 0, and how nearly both choices tied.

    margin: the largest logit there less that of the worse of both tokens, computed again in float32 after the text they share: for
    the first and second choice the top-2 margin. None where the model did not fit in float32.
    """

    prompt: int
    policy: AnyPolicy
    token: int
    dtype: Dtype
    margin: float | None = None
    lane: int = 0

    @property
    def near_tie(self) -> bool | None:
        """Whether rounding explains it; None when unknown."""
        return None if self.margin is None else self.margin < NEAR_TIE[self.dtype]
