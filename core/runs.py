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
from core.measured import AnyPolicy, Difference, Dtype, Environment, Generation, PassTimes
from core.record import Imported, Record, Step, Summary
from core.trace import PromptTrace

Status = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]
Stage = Literal["queued", "download", "load", "smoke", "plain", "draft", "timing", "calibrating", "confirming", "writing", "ways", "shapes", "done"]
TIMED: frozenset[Stage] = frozenset({"plain", "draft", "timing", "calibrating", "confirming", "writing", "ways", "shapes"})
"""Stages during which the machine should be left alone; the draft's reading is not timed, but timing follows within seconds."""
Extent = Literal["full", "smoke", "side_by_side", "ways", "shapes"]
Quantization = Literal["", "8bit", "4bit"]
Attention = Literal["", "eager", "sdpa", "flash_attention_2"]
CONFIRM_S = 60.0
"""Long enough for three settings on the bundled prompts on two cores."""
Label = Annotated[str, Field(max_length=60)]


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


class Placement(Record):
    """Where the weights lie and how they are kept, where that is not the run's device and dtype.

    quantization: of the target, by bitsandbytes; "" for none. draft_device: "" for the run's own. spread: the target over all devices
    (`device_map="auto"`). attention: the library's implementation for both models; "" for its own choice.
    """

    quantization: Quantization = ""
    draft_device: str = ""
    spread: bool = False
    attention: Attention = ""


class RunSpec(Record):
    """What to measure. Everything that changes a result is in here.

    extent: full = a measurement; smoke = only whether the pair runs at all, in eight tokens of the first prompt (`core.smoke`);
    side_by_side = the first prompt written once by each of `lanes` (plain decoding first), one after the other in `order`,
    every round recorded; reference = id of the measurement whose costs predict it, "" for none;
    ways = every prompt written by each of `lanes` (plain decoding first), really run and timed, nothing replayed;
    shapes = only passes are timed, at the batch sizes `batches` and after `cache_lengths` tokens, whatever the weights are:
    random_weights = both models are built from their configurations, and nothing else of them is needed.
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
    random_weights: bool = False
    batches: tuple[int, ...] = ()
    cache_lengths: tuple[int, ...] = ()
    placement: Placement = Placement()
    confirm_s: float = Field(default=CONFIRM_S, ge=0, le=86_400, allow_inf_nan=False)


class Progress(Record):
    """Where a run is: `done` of `total` steps of a stage, and how much of the whole is behind it (0..1).

    The steps of a download are bytes; download_s is how long it took, or has taken so far, in seconds. At the stage "queued" there is one
    step, not done, while a worker that has begun the run waits for another program to let go of the device.
    """

    stage: Stage = "queued"
    done: int = 0
    total: int = 0
    fraction: float = 0.0
    download_s: float = 0.0

    @property
    def held(self) -> bool:
        """Whether a run that its worker has begun waits for another program to let go of the device."""
        return self.stage == "queued" and self.total > 0


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
