"""`Run`: the one record that worker, store, predictions, pages and exports share.

A run is what was asked (`RunSpec`), where it ran (`Environment`), and what was measured: timed
passes, real generations, and one trace per prompt. Only raw measurements are kept; ratios,
speedups and intervals are derived by `core.timing`, `core.replay` and `core.predict`, so that a
better formula also improves old runs. Times are in seconds.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SkipValidation

from core.decoding import Decoding
from core.policies import Policy
from core.record import Imported, Record, Step, Summary
from core.trace import PromptTrace

Status = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]
Stage = Literal["queued", "download", "load", "smoke", "plain", "draft", "timing", "calibrating", "confirming", "writing", "done"]
TIMED: frozenset[Stage] = frozenset({"plain", "draft", "timing", "calibrating", "confirming", "writing"})
"""Stages during which the machine should be left alone; the draft's reading is not timed, but timing follows within seconds."""
Purpose = Literal["answer", "calibration", "confirmation", "smoke", "side_by_side"]
Extent = Literal["full", "smoke", "side_by_side"]
Dtype = Literal["float32", "bfloat16", "float16"]
CONFIRM_S = 60.0
"""Long enough for three settings on the bundled prompts on two cores."""
Label = Annotated[str, Field(max_length=60)]
AnyPolicy = Annotated[Policy, Field(discriminator="kind")]


class Message(Record):
    """One turn of a conversation, by its role in the chat template."""

    role: str
    content: str


class Prompt(Record):
    """A prompt as pasted, and the kind of traffic it stands for.

    text: what is shown, and what the model reads without its chat template. messages: the conversation up to and with the user's
    turn `text`, for the chat template; empty for text that is a single turn. withheld: `text` is a hash in its place (`core.privacy`).
    """

    text: str
    label: Label = ""
    messages: tuple[Message, ...] = ()
    withheld: bool = False


class ModelRef(Record):
    """A model as chosen: the embedded demo, a folder or GGUF file below a configured root, or a Hub repository.

    path: folder or file; for the Hub the repository id. revision: the commit once known, else the branch or tag asked for.
    """

    source: Literal["demo", "folder", "gguf", "hub"]
    name: str
    path: str
    revision: str = ""


class Lane(Record):
    """One column of a side-by-side run: a policy, with the run's draft unless another one is named.

    ensemble_weight: Transformers' `assistant_ensemble_weight`, which lets the draft change the text: lossy. None: the target alone decides.
    """

    policy: AnyPolicy
    draft: ModelRef | None = None
    ensemble_weight: float | None = Field(default=None, gt=0, lt=1)


class RunSpec(Record):
    """What to measure. Everything that changes a result is in here.

    extent: full = a measurement; smoke = only whether the pair runs at all, in eight tokens of the first prompt (`core.smoke`);
    side_by_side = the first prompt written once by each of `lanes` (plain decoding first), one after the other in `order`,
    every round recorded; reference = id of the measurement whose costs predict it, "" for none.
    chat_template: each prompt is a user's turn, put into the target's own template. stop: strings at which the service ends
    an answer; the recorded answers are cut there. group: runs with the same group are drafts for one target and its same answers.
    confirm_s: seconds that the confirmation may take at most; 0 for none, so that everything stays predicted.
    """

    target: ModelRef
    draft: ModelRef
    prompts: tuple[Prompt, ...]
    max_new_tokens: int = 40
    device: str = "cpu"
    dtype: Dtype = "float32"
    seed: int = 0
    extent: Extent = "full"
    lanes: tuple[Lane, ...] = ()
    order: tuple[int, ...] = ()
    reference: str = ""
    decoding: Decoding = Decoding()
    chat_template: bool = False
    stop: tuple[str, ...] = ()
    group: str = ""
    confirm_s: float = Field(default=CONFIRM_S, ge=0, le=86_400, allow_inf_nan=False)


class DeviceInfo(Record):
    """A device as the worker found it when it started: its memory and what was free of it, None where that is not known."""

    id: str
    name: str
    memory_bytes: int | None = None
    free_bytes: int | None = None


PlainKind = Literal["dynamic cache", "static cache, compiled"]


class Carried(Record):
    """What a further draft of a group has from the group's first draft, because it hardly depends on the draft: the loop around the passes.

    draft: whose calibration it was. round_overhead, token_overhead, check_overhead: h, e and the comparison with a threshold in plain
    steps of that run; calibration_error: as there, and that of taking them over. All as in `core.timing.LoopCosts`.
    """

    draft: str
    round_overhead: float
    token_overhead: float
    check_overhead: float
    calibration_error: float | None = None


class Environment(Record):
    """Where and with what a run was measured.

    plain: which plain decoding the speedups are relative to, the fastest that the library offers here. target_bytes,
    draft_bytes: weights and buffers as loaded. peak_bytes: most memory in use at once during the run, on an accelerator that of
    the device, on a CPU that of the worker since it started, so earlier runs count; None before the end. target_peak_bytes,
    draft_peak_bytes: of each model alone in plain decoding and in drafting, its weights included; known on CUDA only.
    carried: None for a run with a calibration of its own.
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


class Sample(Record):
    """Repeated timings of the same thing: median, interquartile range, count."""

    median_s: float
    iqr_s: float
    n: int


class PassTimes(Record):
    """Isolated forward passes with `cache_tokens` tokens in the cache, keyed by their width in tokens.

    `target_one_s[w]` is a one-token target pass timed turn by turn with width w, so that
    `target[w] / target_one_s[w]` does not drift with the machine; the same for the draft's widths.
    reused: `target` and `target_one_s` were kept from the group's first draft; only the draft's widths were timed for this run.
    """

    cache_tokens: int
    target: dict[int, Sample]
    draft: dict[int, Sample]
    target_one_s: dict[int, float]
    target_one_beside_draft_s: dict[int, float]
    reused: bool = False


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
    lane: column of a side-by-side run.
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


class Progress(Record):
    """Where a run is: `done` of `total` steps of a stage, and how much of the whole is behind it (0..1).

    The steps of a download are bytes; download_s is how long it took, or has taken so far, in seconds.
    """

    stage: Stage = "queued"
    done: int = 0
    total: int = 0
    fraction: float = 0.0
    download_s: float = 0.0


class Run(BaseModel):
    """One measurement, whole or partial. `traces` is loaded on request only, and may be shorter than the prompts.

    steps: what a side-by-side run streamed. summary: its answer, once it is done. imported: None for a run that was measured here.
    tags, note: what people wrote about it; edition counts their changes, so that two tabs notice each other. share_id: an address that
    shows the run without its texts.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    id: str
    spec: RunSpec
    status: Status = "queued"
    progress: Progress = Progress()
    created: datetime
    started: datetime | None = None
    finished: datetime | None = None
    error: str = ""
    environment: Environment | None = None
    passes: tuple[PassTimes, ...] = ()
    draft_prefill_s: tuple[float, ...] = ()
    differences: tuple[Difference, ...] = ()
    generations: tuple[Generation, ...] = ()
    disturbed: bool = False
    steps: tuple[Step, ...] = ()
    summary: Summary | None = None
    imported: Imported | None = None
    tags: tuple[str, ...] = ()
    note: str = ""
    edition: int = 0
    share_id: str = ""
    traces: SkipValidation[tuple[PromptTrace, ...]] = Field(default=(), exclude=True, repr=False)
