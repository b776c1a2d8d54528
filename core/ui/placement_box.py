"""Where the weights of a run lie and how they are kept: folded, because most runs leave it as it is; what is set is named below.

In the session and in the address, as the other settings are. What this server cannot follow gets its sentence before anything starts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import streamlit as st

from core.estimate import tied_embedding
from core.measured import DeviceInfo, Dtype
from core.memory import CacheProfile
from core.model_info import ModelInfo
from core.placement import ATTENTIONS, QUANTIZATIONS, Asked, normal, problems, target_bytes, words
from core.planner import Ready
from core.runs import ModelRef, Placement, RunSpec
from core.ui import desk, look, numbers

T = TypeVar("T", bound=str)
SAME = "Same as the target"
KEPT: dict[str, Any] = {"persist_state": "session", "bind": "query-params"}
BITS_HELP = "bitsandbytes keeps the target's layers in fewer bits: less memory, and other answers than the whole model's. The draft stays whole."
DRAFT_HELP = "Each round then carries token ids and scores between both devices; the measurement includes it."
SPREAD_HELP = "For a target larger than one GPU: its layers are shared out (device_map auto), and each token passes them one GPU after the other."
ATTENTION_HELP = (
    "The library's implementation, for both models. Eager is plain PyTorch, SDPA picks a fused kernel, FlashAttention 2 has its own package."
)
GGUF = (
    ":material/unarchive: Weights of a GGUF file are unpacked here: times are those of an unpacked model, not those of engines that keep them "
    "packed, such as llama.cpp."
)


@dataclass(frozen=True)
class Chosen:
    """What was chosen. ready: whether this server can follow it."""

    placement: Placement
    ready: bool


def placement_box(target: ModelRef | None, model: ModelInfo | None, device: str, dtype: Dtype, devices: Sequence[DeviceInfo]) -> Chosen:
    """The folded box, and below it what is set and what stands in its way. model: the target's metadata, once known."""
    with st.expander("Placement and precision", icon=":material/developer_board:"):
        placement = normal(_choices([each.id for each in devices]), device)
    gguf = target is not None and target.source == "gguf"
    stored = model.weights.quantisation if model and model.weights and not gguf else ""
    found = problems(placement, Asked(device, dtype, tuple(devices), gguf, stored))
    for problem in found:
        st.error(look.plain(problem), icon=":material/error:")
    if words(placement) and not found:
        look.note(f"Placement: {look.plain(words(placement))}.{_weights(placement, model, dtype)}")
    if gguf:
        look.note(GGUF)
    return Chosen(placement, ready=not found)


def take(spec: RunSpec) -> None:
    """A run's placement into the box. A callback."""
    how = spec.placement
    values = {"quantization": QUANTIZATIONS[how.quantization], "draft_device": how.draft_device or SAME, "spread": how.spread}
    for name, value in {**values, "attention": ATTENTIONS[how.attention]}.items():
        st.session_state[name] = value


def _choices(known: list[str]) -> Placement:
    """The widgets. A device that this server lacks stays chosen, so that its absence can be said."""
    wanted = st.session_state.get("draft_device")
    beside = list(dict.fromkeys([SAME, *known, *([wanted] if wanted else [])]))
    with st.container(horizontal=True):
        bits = st.selectbox("Target's weights", list(QUANTIZATIONS.values()), key="quantization", help=BITS_HELP, **KEPT)
        draft_device = st.selectbox("Draft runs on", beside, key="draft_device", help=DRAFT_HELP, **KEPT)
    with st.container(horizontal=True, vertical_alignment="bottom"):  # three beside each other would cut their words off
        attention = st.selectbox("Attention", list(ATTENTIONS.values()), key="attention", help=ATTENTION_HELP, **KEPT)
        spread = st.toggle("Spread the target over all GPUs", key="spread", help=SPREAD_HELP, **KEPT)
    return Placement(
        quantization=_named(QUANTIZATIONS, bits),
        draft_device="" if draft_device == SAME else draft_device,
        spread=spread,
        attention=_named(ATTENTIONS, attention),
    )


def _named(names: Mapping[T, str], chosen: str) -> T:
    return next(name for name, shown in names.items() if shown == chosen)


def _weights(placement: Placement, model: ModelInfo | None, dtype: Dtype) -> str:
    """What fewer bits leave of the target's weights, where its sizes are known."""
    if not placement.quantization or model is None or not model.config:
        return ""
    known = desk.planner().ask("profile", {"config": model.config})
    if not isinstance(known, Ready):
        return ""
    profile, tied = CacheProfile.from_json(known.data), tied_embedding(model.config)
    kept, whole = (numbers.file_size(round(target_bytes(profile, tied, dtype, bits))) for bits in (placement.quantization, ""))
    return f" About {kept} of weights instead of {whole} {look.ORIGINS['estimate']}"
