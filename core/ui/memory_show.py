"""What the memory page draws of a fit: the bar, the curves, the models' table, the layers one by one. Weights in GB (1e9), cache in GiB and MiB."""

from collections import Counter

import pandas as pd
import streamlit as st

from core import memory_figures as figs
from core import prices
from core.memory import CacheProfile, Engine, Fit, GpuMemory, LayerCache, ModelMemory, formula_kv_bytes_per_token, kv_cache_bytes
from core.memory_figures import GIB
from core.memory_fit import TIGHT_SHARE, Verdict
from core.memory_gain import cache as sized
from core.memory_served import POINTS, SEQUENCES, Setting, contexts, fitted, growth, parts
from core.ui import look, numbers

GB, MIB = 1e9, 2**20
BADGES: dict[Verdict, str] = {
    "fits": ":green-badge[:material/check: {}]",
    "tight": ":orange-badge[:material/warning: {}, tight]",
    "does not fit": ":gray-badge[:material/close: {}]",
}


def bar(found: Fit) -> None:
    """What fills the GPU, with its table behind."""
    pieces, budget = parts(found), found.gpu.usable_bytes - found.parts.held_back_bytes
    load = f"{numbers.counted(found.sequences, 'sequence')} of {found.context:,} tokens"
    subtitle = f"GiB of {budget / GIB:.1f} usable; {load}"
    alt = f"Memory on one {found.gpu.name}: " + ", ".join(f"{piece.name} {sized(piece.bytes)}" for piece in pieces) + "."
    look.show(look.drawn(figs.memory_bar, look.palette(), pieces, usable_bytes=budget, subtitle=subtitle), "bar", alt)
    held = found.parts
    rows = [
        ("target weights", held.target_weights_bytes),
        ("target cache", held.target_kv_bytes),
        ("draft weights", held.draft_weights_bytes),
        ("draft cache", held.draft_kv_bytes),
        ("logits", held.logits_bytes),
        ("overhead", held.overhead_bytes),
        ("free", held.free_bytes),
        ("left to others by the usable share", held.held_back_bytes),
        ("missing", held.missing_bytes),
    ]
    table = pd.DataFrame([(name, size, size / GB, size / GIB) for name, size in rows], columns=["Part", "Bytes", "GB", "GiB"])
    look.behind("The bar as a table", table, alt, {"Bytes": "localized", "GB": "%.2f", "GiB": "%.2f"})


def curve(setting: Setting, gpu: GpuMemory) -> None:
    """Memory against context for 1, 4, 16 and 64 sequences, with the table behind: some contexts, and those where a line meets the limit."""
    drawn = contexts(setting)
    lines = [growth(setting, gpu, drawn, sequences) for sequences in SEQUENCES]
    budget = int(gpu.usable_bytes * setting.utilisation)
    met = [f"{numbers.counted(line.sequences, 'sequence')} fit up to {line.fits_tokens:,} tokens" for line in lines if line.fits_tokens is not None]
    alt = f"Memory against context for 1, 4, 16 and 64 sequences on {gpu.name}, {budget / GIB:.1f} GiB usable. {'; '.join(met)}"
    look.show(look.drawn(figs.memory_curve, look.palette(), lines, usable_bytes=budget, gpu=gpu.name), "context_curve", alt)
    listed = sorted({*drawn[:: (POINTS - 1) // 8], *(line.fits_tokens for line in lines if line.fits_tokens)})
    table = pd.DataFrame({"Context, tokens": listed})
    for line in lines:
        sizes = growth(setting, gpu, listed, line.sequences).bytes
        table[f"{numbers.counted(line.sequences, 'sequence')}, GiB"] = [size / GIB for size in sizes]
    look.behind("The curves as a table", table, alt, {"Context, tokens": "localized"} | dict.fromkeys(list(table.columns[1:]), "%.1f"))


def badges(setting: Setting) -> None:
    """One badge per known GPU: fits, tight, or does not fit; from the largest memory down."""
    known = sorted(prices.gpus(), key=lambda gpu: -gpu.planning_bytes)
    fits = [fitted(setting, GpuMemory(gpu.name, gpu.planning_bytes)) for gpu in known]
    st.markdown(f"**Which GPUs hold {numbers.counted(setting.sequences, 'sequence')} of {setting.context:,} tokens**")
    st.markdown(" ".join(BADGES[found.verdict].format(look.plain(found.gpu.name)) for found in fits))
    if any(found.verdict == "tight" for found in fits):
        look.note(f"Tight: less than {TIGHT_SHARE:.0%} of what the engine may take is free.".replace("%", " %"))


def kinds(layers: tuple[LayerCache, ...]) -> str:
    """The layers in words: 16 full, 16 sliding (4,096)."""
    counts = Counter((layer.kind, layer.window) for layer in layers)
    return ", ".join(f"{count} {kind}{f' ({window:,})' if window else ''}" for (kind, window), count in counts.items())


def models(named: list[tuple[str, str, ModelMemory]], found: Fit) -> None:
    """Both models side by side: (name, role, memory) each; the cache as the fit has it, per sequence."""
    cache = f"Cache at {found.context:,}, MiB"
    each = (found.parts.target_kv_bytes / found.sequences, found.parts.draft_kv_bytes / found.sequences)
    rows = [
        (name, role, model.profile.parameters, model.weight_bytes / GB, model.weight_origin, kinds(model.profile.per_layer),
         _token_bytes(model, found.engine), round(size / MIB, 1))
        for (name, role, model), size in zip(named, each, strict=True)
    ]  # fmt: skip
    columns = ["Model", "Role", "Parameters", "Weights, GB", "Weights from", "Layers", "Cache, bytes per token", cache]
    formats = {"Parameters": "localized", "Weights, GB": "%.3f", "Cache, bytes per token": "localized", cache: "localized"}
    look.table(pd.DataFrame(rows, columns=columns), "Weights and cache of both models", formats)


def _token_bytes(model: ModelMemory, engine: Engine) -> int:
    """Bytes that one more token adds below every window, in the cache's own format."""
    return kv_cache_bytes(model.profile, 1, dtype=model.kv_dtype, engine=engine).minimum


def layers(named: list[tuple[str, str, ModelMemory]]) -> None:
    """What each layer keeps of a sequence, one by one; and why the textbook formula is not enough."""
    for name, role, model in named:
        st.markdown(f"**{look.plain(name)}**, {role}, {model.profile.architecture}")
        rows = [
            (at, layer.kind, layer.kv_heads or None, layer.key_width or None, layer.value_width or None, layer.window,
             layer.bytes_per_token, layer.state_bytes or None, layer.cross_bytes_per_source_token or None)
            for at, layer in enumerate(model.profile.per_layer)
        ]  # fmt: skip
        columns = [
            "Layer",
            "Kind",
            "KV heads",
            "K width",
            "V width",
            "Window",
            "bf16 bytes per token",
            "State, bytes",
            "Cross, bytes per source token",
        ]
        counts = dict.fromkeys((name for name in columns if name not in ("Layer", "Kind")), "localized")
        look.table(pd.DataFrame(rows, columns=columns), f"Layers of the {role}", counts, height=280 if len(rows) > 7 else None)
        look.note(textbook(model.profile))


def textbook(profile: CacheProfile) -> str:
    """The textbook formula with this model's numbers, whether it is right here, and what it does not know of."""
    first = next((layer for layer in profile.per_layer if layer.kv_heads and layer.kind != "latent"), None)
    beside = _beside(profile)
    if first is None:
        return f"The textbook formula knows no layers of this kind: built layer by layer it is {profile.bytes_per_token:,} bytes per token{beside}."
    said = formula_kv_bytes_per_token(profile.layers, first.kv_heads, first.key_width)
    heads = numbers.counted(first.kv_heads, "KV head")
    product = f"2 x {numbers.counted(profile.layers, 'layer')} x {heads} x {first.key_width} wide x 2 bytes = {said:,} bytes per token"
    if said == profile.bytes_per_token:
        return f"The textbook formula holds here: {product}{beside}."
    return f"The textbook formula would say {product}; built layer by layer it is {profile.bytes_per_token:,}{beside}."


def _beside(profile: CacheProfile) -> str:
    """What a sequence keeps besides its bytes per token, or where they end."""
    found: list[str] = []
    if any(layer.window for layer in profile.per_layer):
        found.append("up to the window, beyond which window layers keep no more")
    if profile.fixed_bytes_per_sequence:
        found.append(f"and {profile.fixed_bytes_per_sequence:,} bytes of running state per sequence")
    if profile.cross_bytes_per_source_token:
        found.append(f"and {profile.cross_bytes_per_source_token:,} per token of the encoder's input")
    return "".join(f", {part}" for part in found)


def encoder_notes(named: list[tuple[str, str, ModelMemory]]) -> list[str]:
    """How long an encoder's input is taken to be, which no field asks for."""
    return [
        f"{role.capitalize()}: an encoder-decoder. Its input is taken as long as the context, so "
        f"{model.profile.cross_bytes_per_source_token:,} bytes per token come on top of the cache of its answer."
        for _, role, model in named
        if model.profile.cross_bytes_per_source_token
    ]
