"""Where the weights of a pair lie and how they are kept: the choices in words, and why one cannot be had on this server.

Everything here is known before torch is: which packages are installed (`importlib.metadata`), and which devices the worker found
when it started. Bytes. What a quantised target takes follows bitsandbytes: one byte per weight in 8 bits, a float32 per row, below a
hundredth, left out; half a byte and one float32 per 64 weights in 4 bits; embeddings, norms and the head keep the run's number format.
Not covered: what one model's files or classes do not support, which loading tells; memory beyond weights.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata

from core.measured import DeviceInfo, Dtype
from core.memory import CacheProfile
from core.runs import Attention, Placement, Quantization, RunSpec

BITSANDBYTES, ACCELERATE, FLASH = "bitsandbytes", "accelerate", "flash-attn"
DTYPE_BYTES: dict[Dtype, int] = {"float32": 4, "bfloat16": 2, "float16": 2}
WEIGHT_BYTES: dict[Quantization, float] = {"8bit": 1.0, "4bit": 0.5 + 4 / 64}

QUANTIZATIONS: dict[Quantization, str] = {"": "As stored", "8bit": "8 bits", "4bit": "4 bits"}
ATTENTIONS: dict[Attention, str] = {"": "The library's choice", "eager": "Eager", "sdpa": "SDPA", "flash_attention_2": "FlashAttention 2"}


@dataclass(frozen=True)
class Asked:
    """What a placement is judged with. devices: those that the worker found, none before one has started: then they are not judged.

    gguf: whether the target is such a file; stored: how the target's files are quantised already, "" where they are not.
    """

    device: str
    dtype: Dtype
    devices: tuple[DeviceInfo, ...] = ()
    gguf: bool = False
    stored: str = ""

    @classmethod
    def of(cls, spec: RunSpec, devices: Sequence[DeviceInfo]) -> "Asked":
        """What a run asks for, as far as its spec tells."""
        return cls(spec.device, spec.dtype, tuple(devices), spec.target.source == "gguf")


def installed(package: str) -> bool:
    """Whether the Python that runs this, and therefore the worker, has the package."""
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def problems(placement: Placement, asked: Asked) -> tuple[str, ...]:
    """A sentence for each choice that this server cannot follow; none when it can follow all."""
    found = (_quantization(placement, asked), _draft_device(placement, asked), _spread(placement, asked), _attention(placement, asked))
    return tuple(sentence for sentence in found if sentence)


def normal(placement: Placement, device: str) -> Placement:
    """The same placement as it is recorded: a draft on the run's own device has no device of its own."""
    return placement.model_copy(update={"draft_device": ""}) if placement.draft_device == device else placement


def words(placement: Placement) -> str:
    """What is not as usual, in a phrase: "target in 4 bits, draft on cuda:1"; "" where everything is as usual."""
    said = [
        f"target in {QUANTIZATIONS[placement.quantization]}" if placement.quantization else "",
        "target over all GPUs" if placement.spread else "",
        f"draft on {placement.draft_device}" if placement.draft_device else "",
        f"{ATTENTIONS[placement.attention]} attention" if placement.attention else "",
    ]
    return ", ".join(each for each in said if each)


def format_words(spec: RunSpec) -> str:
    """The number format of a run and what is special about its placement: "bfloat16, target in 4 bits"."""
    special = words(spec.placement)
    return f"{spec.dtype}, {special}" if special else spec.dtype


def exact(spec: RunSpec) -> bool:
    """Whether greedy answers should be equal with a draft and without: only in float32, and bitsandbytes computes in fewer bits."""
    return spec.dtype == "float32" and not spec.placement.quantization


def devices_of(spec: RunSpec, devices: Iterable[DeviceInfo]) -> tuple[str, ...]:
    """Every device that a run takes up, in a fixed order, so that two runs never wait for each other's."""
    spread = [device.id for device in devices if device.id.startswith("cuda")] if spec.placement.spread else []
    return tuple(sorted({spec.device, spec.placement.draft_device or spec.device, *spread}))


def target_bytes(profile: CacheProfile, tied: bool, dtype: Dtype, quantization: Quantization) -> float:
    """Weights of a target as they are held. tied: whether the head is the embedding."""
    every = profile.parameters * DTYPE_BYTES[dtype]
    if not quantization:
        return every
    kept = profile.embedding_parameters * (1 if tied else 2)
    return kept * DTYPE_BYTES[dtype] + (profile.parameters - kept) * WEIGHT_BYTES[quantization]


def _missing(what: str, *needed: str) -> str:
    lacking = [package for package in needed if not installed(package)]
    if not lacking:
        return ""
    several, it = ("are", "them") if len(lacking) > 1 else ("is", "it")
    return f"{' and '.join(lacking)} {several} not installed on this server, and {what} needs {it}: pip install {' '.join(lacking)}"


def _quantization(placement: Placement, asked: Asked) -> str:
    if not placement.quantization:
        return ""
    bits = QUANTIZATIONS[placement.quantization]
    if asked.gguf:
        return f"The target is a GGUF file, whose weights are unpacked; they cannot be kept in {bits}. Choose the model it was made from."
    if asked.stored:
        return f"The target's files are quantised already ({asked.stored}), so they cannot be kept in {bits}. Choose {QUANTIZATIONS['']!r}."
    if asked.device == "mps":
        return f"Keeping the target in {bits} was tried on CUDA and CPU only, not on {asked.device}. Choose {QUANTIZATIONS['']!r}."
    return _missing(f"keeping the target in {bits}", BITSANDBYTES, ACCELERATE)


def _draft_device(placement: Placement, asked: Asked) -> str:
    known = [device.id for device in asked.devices]
    if not placement.draft_device or not known or placement.draft_device in known:
        return ""
    return f"This server has no device {placement.draft_device!r} for the draft. Choose one of: {', '.join(known)}."


def _spread(placement: Placement, asked: Asked) -> str:
    if not placement.spread:
        return ""
    gpus = [device.id for device in asked.devices if device.id.startswith("cuda")]
    if asked.devices and len(gpus) < 2:
        have = "has one" if gpus else "has none"
        return f"A target can be spread over two or more CUDA GPUs, and this server {have}. Choose a smaller target, or fewer bits."
    if not asked.device.startswith("cuda"):
        return f"A target is spread over GPUs, so it cannot begin on {asked.device}. Choose a CUDA device."
    return _missing("spreading the target over several GPUs", ACCELERATE)


def _attention(placement: Placement, asked: Asked) -> str:
    if placement.attention != "flash_attention_2":
        return ""
    if not asked.device.startswith("cuda"):
        return f"FlashAttention 2 runs on CUDA GPUs only, not on {asked.device}. Choose SDPA, or a CUDA device."
    if asked.dtype == "float32":
        return "FlashAttention 2 computes in 16 bits only. Choose bfloat16 or float16, or another attention."
    if placement.draft_device and not placement.draft_device.startswith("cuda"):
        return f"FlashAttention 2 runs on CUDA GPUs only, and the draft is to run on {placement.draft_device}. Choose SDPA, or another device."
    return _missing("this attention", FLASH)
