"""What a draft is likely to cost, from configurations alone, before anything is downloaded or measured.

c = draft step / target step, and a step is `core.devices`' reading of weights and cache and its starting of layers. On a GPU under
Transformers starting takes longer than reading up to about 30 billion parameters, so that c is close to the ratio of LAYER counts, far
from that of parameters. The range of c takes every figure of the device at both its ends, for both models alike, and then
`SPREAD` for what the model of a step leaves out. The speedup runs from the worst case (alpha 0.5, dear c, dear verification) to
the best (alpha 0.9, the range of Leviathan et al. 2022, section 4.1), each at its own best gamma by Theorem 3.8 with verification and overhead
(`core.theory`). All of this is an estimate, and pages must say so.

Verification: n tokens in one pass take v(n) plain steps; the pass starts the same kernels, reads the same weights (in a mixture of
experts: those of more experts, as if each token chose independently), and multiplies more.

Checked with `python -m benchmarks.c_estimate`. c on 111 pairs: on GPUs under Transformers 2 % off (median; worst 6 %, 30 pairs), in vLLM
6 % (13 %, 10), in llama.cpp 6 % (19 %, 39), for the paper's T5 on a TPU 3 % (3), on one CPU thread 25 % (28 pairs; a one-layer draft up to 2.7 times
too dear) and 15 % inside the real loop (1); 106 of 111 lie in the range. Of 175 measured speedups 160 lie in theirs, which is wide (the
high end is 2.4-4 times the low one). The layer cost of the GPUs comes from the same speeds, but hardly matters to c where both models are
bound by it. Not covered: alpha itself, batches above 1, several GPUs for one model; a mixture of experts and c inside the GPU's loop were
not checked against anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from core import theory
from core.devices import Device
from core.memory import CacheProfile, kv_cache_bytes

Floats = NDArray[np.float64]

ALPHA_LOW, ALPHA_MIDDLE, ALPHA_HIGH = 0.5, 0.7, 0.9
GAMMAS = range(1, 21)
TIED_BY_DEFAULT = frozenset(
    {
        "bloom",
        "cohere",
        "cohere2",
        "falcon",
        "gemma",
        "gemma2",
        "gemma3",
        "gemma3_text",
        "gemma3n_text",
        "gemma4_text",
        "gpt2",
        "gpt_bigcode",
        "gpt_neo",
        "lfm2",
        "mpt",
        "openai-gpt",
        "opt",
        "smollm3",
        "starcoder2",
    }
)
"""Decoders whose configuration class ties the head to the embedding unless a file says otherwise (transformers 5.24)."""
LOW, LIKELY, HIGH = 0, 1, 2
"""Places in a `Band`."""
SPREAD = 1.1
"""Factor between the model of a step and what is measured, at either side, that the device's bands do not explain."""


@dataclass(frozen=True)
class Load:
    """What one decoding step of a model reads. read: bytes of multiplied weights, at one token; most: with every expert; cache: keys and values."""

    layers: int
    read_bytes: float
    most_bytes: float
    cache_bytes: float = 0.0

    def bytes_for(self, tokens: int) -> float:
        """Bytes that a pass over `tokens` tokens reads: more experts with more tokens, each chosen independently."""
        share = self.read_bytes / self.most_bytes
        return self.most_bytes * (1 - (1 - share) ** tokens) + self.cache_bytes


class Step(NamedTuple):
    """One corner of a device's bands: every figure fixed."""

    bandwidth_bytes_s: float
    layer_s: float
    step_s: float
    overlap: bool

    def seconds(self, load: Load, tokens: int = 1) -> float:
        """A pass of `load` over `tokens` tokens, the arithmetic of the further tokens left out."""
        reading, starting = load.bytes_for(tokens) / self.bandwidth_bytes_s, load.layers * self.layer_s
        return self.step_s + (max(reading, starting) if self.overlap else reading + starting)


@dataclass(frozen=True)
class Estimate:
    """c with its range, and the speedup from the worst case (1.0: best left off) to the best; `middle` at alpha 0.7. Both best gammas; 0 is off.

    why: sentences, most important first.
    """

    c: float
    low: float
    high: float
    speedup_low: float
    speedup_middle: float
    speedup_high: float
    gamma_low: int
    gamma_high: int
    why: tuple[str, ...]

    @property
    def cheap(self) -> bool:
        """Whether c is likely below 0.1, where drafting pays at nearly any acceptance."""
        return self.c < 0.1


def load_of(profile: CacheProfile, *, bytes_per_parameter: float, tied: bool, cache_tokens: int = 1024, cache_dtype: str = "bfloat16") -> Load:
    """The load of a model whose weights are held at `bytes_per_parameter`, with `cache_tokens` tokens cached.

    tied: whether the embedding is also the head (`tied_embedding`), so that every step multiplies it; else it is only looked up.
    """
    looked_up = 0 if tied else profile.embedding_parameters
    cache = kv_cache_bytes(profile, cache_tokens, dtype=cache_dtype).minimum + profile.fixed_bytes_per_sequence
    active, every = profile.active_parameters - looked_up, profile.parameters - looked_up
    return Load(profile.layers, active * bytes_per_parameter, every * bytes_per_parameter, cache)


def tied_embedding(config: Mapping[str, Any]) -> bool:
    """Whether the embedding is also the head, so that every step multiplies it, from a raw config: its own word, else the architecture's default."""
    text = config.get("text_config")
    inner: Mapping[str, Any] = cast("Mapping[str, Any]", text) if isinstance(text, Mapping) else config
    default = str(inner.get("model_type", "")) in TIED_BY_DEFAULT
    return bool(inner.get("tie_word_embeddings", config.get("tie_word_embeddings", default)))


def estimate(target: Load, draft: Load, device: Device, draft_device: Device | None = None) -> Estimate:
    """The likely c of `draft` in front of `target` on `device`, and the speedups that it allows; `draft_device`: where else the draft runs."""
    likely, apart = _likely(device), draft_device not in (None, device)
    beside = _likely(draft_device) if draft_device else likely
    corners = product(_corners(draft_device), _corners(device)) if draft_device and apart else ((corner, corner) for corner in _corners(device))
    ratios = [drafts.seconds(draft) / targets.seconds(target) for drafts, targets in corners]
    c = beside.seconds(draft) / likely.seconds(target)
    low, high = min(ratios) / SPREAD, max(ratios) * SPREAD
    worst = _best(device, target, ALPHA_LOW, high, HIGH)
    middle = _best(device, target, ALPHA_MIDDLE, c, LIKELY)
    best = _best(device, target, ALPHA_HIGH, low, LOW)
    where = (f"The draft runs on {draft_device.name}, the target on {device.name}.",) if draft_device and apart else ()
    why = where or _why(target, draft, device, likely, c)
    return Estimate(c, low, high, float(worst.speedup), float(middle.speedup), float(best.speedup), int(worst.gamma), int(best.gamma), why)


def verify_ratios(device: Device, target: Load, end: int) -> Floats:
    """(20,) v(gamma + 1) for gamma 1..20 at one end of the bands: LOW (experts shared by all tokens), LIKELY or HIGH (each token chooses its own)."""
    likely, further = _likely(device), np.array(GAMMAS)
    passes = [likely.seconds(target, 1 if end == LOW else 1 + gamma) / likely.seconds(target) for gamma in GAMMAS]
    return np.array(passes) + device.verify_jump[end] + device.verify_slope[end] * further


def _corners(device: Device) -> list[Step]:
    """Every combination of low and high figures."""
    ends = [(band.low, band.high) for band in (device.bandwidth_bytes_s, device.layer_s, device.step_s)]
    return [Step(bandwidth, layer, step, device.overlap) for bandwidth, layer, step in product(*ends)]


def _likely(device: Device) -> Step:
    return Step(device.bandwidth_bytes_s.likely, device.layer_s.likely, device.step_s.likely, device.overlap)


def _best(device: Device, target: Load, alpha: float, c: float, end: int) -> theory.BestGamma:
    """The best gamma and its speedup with the price of verification and rounds at one end of its band."""
    overhead = device.round_s[end] / _likely(device).seconds(target)
    return theory.best_gamma(alpha, c, GAMMAS, verify_ratios(device, target, end), overhead)


def _why(target: Load, draft: Load, device: Device, likely: Step, c: float) -> tuple[str, ...]:
    """What decides c, in words."""
    read = draft.read_bytes / target.read_bytes
    sentences = [f"A draft step reads {_percent(read)} of the target's weights and starts {draft.layers} layers against {target.layers}."]
    if _starting(draft, likely) > 1:
        bound = "both models" if _starting(target, likely) > 1 else "the draft"
        sentences.append(
            f"On {device.name} starting layers takes longer than reading weights for {bound}: the layer count decides, not the parameters."
        )
    if c > 3 * read:
        sentences.append(f"c is therefore about {c:.2f}, far above the ratio of weights, {read:.3f}.")
    if target.most_bytes > 1.5 * target.read_bytes:
        sentences.append("Checking several tokens wakes more experts than one token does, so that the target's pass grows with gamma.")
    return tuple(sentences)


def _starting(load: Load, likely: Step) -> float:
    """Time to start a step's layers / time to read its bytes."""
    return load.layers * likely.layer_s / (load.bytes_for(1) / likely.bandwidth_bytes_s)


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"
