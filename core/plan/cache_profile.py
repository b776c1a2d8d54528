"""How much memory a model's weights and cache take, asked of the library instead of derived from its config.

The model is built without weights and run over 8 and over 24 tokens; what its cache then holds is counted. Units: bytes with
weights and cache in bf16 (running states as the library keeps them, often fp32). Checked against published parameter counts and
against reports of wrong estimates (tests/data). Not covered: code of a repository, and caches that do not grow token by token.
"""

from collections.abc import Mapping
from typing import Any

from torch import nn
from transformers import PretrainedConfig

from core.errors import DraftgaugeError, InvalidInput, ModelError
from core.memory_cache import CacheProfile, LayerCache, LayerKind
from core.plan import skeleton
from core.plan.model_config import Resolved, resolve, why
from core.plan.skeleton import LONG, PADDED_LONG, PADDED_SHORT, SHORT, LayerTensors, Skeleton
from core.settings import Settings

_LINEAR = ("Delta", "Lightning", "LinearAttention")
_EXPERTS_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "moe_top_k", "moe_topk", "moe_k", "top_k_experts", "router_top_k", "top_k")


def profile(arguments: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The planner's job: {"config": config.json} -> `CacheProfile.to_json`. Raises as `cache_profile`."""
    if "config" not in arguments:
        raise InvalidInput("No config was given to size a cache from.")
    return cache_profile(arguments["config"]).to_json()


def cache_profile(config: Mapping[str, Any] | PretrainedConfig) -> CacheProfile:
    """The sizes of the architecture that `config` (config.json, or the library's object) describes, without weights or network.

    Takes seconds and some 100 MB whatever the model's size. Raises InvalidInput when it is no config, ModelError when the
    architecture is unknown, is no language model, or cannot be built or run here; never guesses.
    """
    try:
        return _read_off(skeleton.build(resolve(config)))
    except DraftgaugeError:
        raise
    except Exception as error:  # a config or an architecture of a kind that was not thought of
        raise ModelError(f"The memory of this model cannot be estimated ({why(error)}).") from error


def _read_off(built: Skeleton) -> CacheProfile:
    resolved, counted = built.resolved, _counted(built)  # counted first: a run may lengthen a table of positions
    sizes = [parameter.numel() for parameter in counted]
    sources = _sources(built)
    short, long = (skeleton.run(built, tokens, sources[0]) for tokens in (SHORT, LONG))
    crossed = _cross_bytes(built, short, sources) if resolved.whole.is_encoder_decoder else [0] * len(short)
    linear = any(word in type(module).__name__ for module in built.model.modules() for word in _LINEAR)
    layers = tuple(_layer(built, index, linear, *three) for index, three in enumerate(zip(short, long, crossed, strict=True)))
    if not any(layer.bytes_per_token or layer.state_bytes for layer in layers):
        raise ModelError(f"{resolved.whole.model_type!r} keeps no cache in Transformers, so that memory per token cannot be estimated.")
    return _profile(built, layers, sizes)


def _sources(built: Skeleton) -> tuple[int, int]:
    """Two lengths of an encoder's input: short ones, or longer ones where the encoder cannot read or pads those."""
    if not built.resolved.whole.is_encoder_decoder:
        return SHORT, LONG
    try:
        padded = skeleton.run(built, SHORT, SHORT) == skeleton.run(built, SHORT, LONG)
    except ModelError:
        padded = True
    return (PADDED_SHORT, PADDED_LONG) if padded else (SHORT, LONG)


def _cross_bytes(built: Skeleton, few: list[LayerTensors], sources: tuple[int, int]) -> list[int]:
    """Bytes per layer that one more token of the encoder's input adds."""
    many = skeleton.run(built, SHORT, sources[1])
    grown = [divmod(after.cross_bytes - before.cross_bytes, sources[1] - sources[0]) for before, after in zip(few, many, strict=True)]
    if any(rate <= 0 or rest for rate, rest in grown):
        raise ModelError(f"What {built.resolved.whole.model_type!r} keeps of its input does not grow token by token, so it cannot be estimated.")
    return [rate for rate, _ in grown]


def _profile(built: Skeleton, layers: tuple[LayerCache, ...], sizes: list[int]) -> CacheProfile:
    text, head, parameters = built.resolved.text, _head(built), sum(sizes)
    notes = list(built.resolved.notes)
    if built.resolved.untied and head is not None and _is_tied(built, head):
        own = f"{parameters + head.numel():,} parameters with the output head that this config asks for"
        notes.append(f"{own}; {parameters:,} as Transformers 5.24 ties it.")
        parameters += head.numel()
    idle, known = _idle_parameters(built)
    if not known:
        notes.append("How many experts a token passes is not known; all are counted as active.")
    tables = {id(module.weight) for module in built.model.modules() if isinstance(module, nn.Embedding)}
    return CacheProfile(
        model_type=built.resolved.whole.model_type,
        architecture=type(built.model).__name__,
        parameters=parameters,
        active_parameters=parameters - idle,
        embedding_parameters=sum(size for parameter, size in zip(_counted(built), sizes, strict=True) if id(parameter) in tables),
        vocab_size=head.shape[0] if head is not None else text.vocab_size,
        hidden_size=text.hidden_size,
        context=_context(text),
        source_context=_source_context(built.resolved.whole),
        per_layer=layers,
        notes=(*notes, *_differences(layers)),
    )


def _counted(built: Skeleton) -> list[nn.Parameter]:
    """Every weight once; of models that also see or hear, the language model and its head only."""
    head, parts = _head(built), list(built.language.parameters())
    return parts if head is None or any(head is part for part in parts) else [*parts, head]


def _head(built: Skeleton) -> nn.Parameter | None:
    model: Any = built.model
    head = model.get_output_embeddings()
    return None if head is None else head.weight


def _is_tied(built: Skeleton, head: nn.Parameter) -> bool:
    model: Any = built.model
    return model.get_input_embeddings().weight is head


def _idle_parameters(built: Skeleton) -> tuple[int, bool]:
    """Weights of experts that one token does not pass, and whether that is known for every mixture."""
    idle, known = 0, True
    text = built.resolved.text
    stated = next((getattr(text, name) for name in _EXPERTS_PER_TOKEN if isinstance(getattr(text, name, None), int)), None)
    for name, module in built.model.named_modules():
        if name.rsplit(".", 1)[-1] != "experts":
            continue
        total = len(module) if isinstance(module, nn.ModuleList) else getattr(module, "num_experts", None)
        used = built.experts_used.get(module, stated)
        if not isinstance(total, int) or used is None or not 0 < used <= total:
            known = False
            continue
        idle += sum(parameter.numel() for parameter in module.parameters()) * (total - used) // total
    return idle, known


def _layer(built: Skeleton, index: int, linear: bool, short: LayerTensors, long: LayerTensors, crossed: int) -> LayerCache:
    """What one layer keeps, from runs over 8 and over 24 tokens."""
    resolved, config = built.resolved, _layer_config(built.resolved.text, index)
    heads, key_width = (short.keys[1], short.keys[-1]) if short.keys else (0, 0)
    per_token, extra = _growth(resolved, short, long)
    if short.state_bytes != long.state_bytes:
        raise ModelError(f"A running state of {resolved.whole.model_type!r} grows with the text, so its memory cannot be estimated.")
    return LayerCache(
        kind=_kind(resolved.text, config, linear, short),
        kv_heads=heads,
        key_width=key_width,
        value_width=short.values[-1] if short.values else 0,
        window=short.window,
        bytes_per_token=per_token,
        state_bytes=short.state_bytes + extra,
        cross_bytes_per_source_token=crossed,
        engine_bytes_per_token=_engine_bytes(resolved.text, short, per_token),
    )


def _layer_config(text: PretrainedConfig, index: int) -> PretrainedConfig:
    """A few architectures give single layers values of their own."""
    each = text.per_layer_config
    return each[index] if index < len(each) else text


def _growth(resolved: Resolved, short: LayerTensors, long: LayerTensors) -> tuple[int, int]:
    """Bytes that one more token adds below the window, and bytes that are there from the start (a learned prefix)."""
    if short.keys is None or long.keys is None:
        return 0, 0
    kept = (short.keys[-2], long.keys[-2])
    if short.window is not None and kept[1] - kept[0] != LONG - SHORT:
        per_token, left = divmod(short.growing_bytes, kept[0]) if kept[0] else (0, 1)
        right = long.growing_bytes == per_token * kept[1]
    else:
        per_token, left = divmod(long.growing_bytes - short.growing_bytes, LONG - SHORT)
        right = kept[1] - kept[0] == LONG - SHORT
    if left or not right or per_token <= 0:
        raise ModelError(f"The cache of {resolved.whole.model_type!r} does not grow token by token, so its memory cannot be estimated.")
    return per_token, short.growing_bytes - per_token * kept[0] if short.window is not None else short.growing_bytes - per_token * SHORT


def _kind(text: PretrainedConfig, config: PretrainedConfig, linear: bool, layer: LayerTensors) -> LayerKind:
    if layer.dummy:
        return "shared" if getattr(text, "kv_sharing_modes", None) else "none"
    if layer.keys is None:
        return ("linear" if linear else "recurrent") if layer.state_bytes else "cross"
    if layer.window is not None:
        return "sliding"
    return "latent" if _is_latent(config, layer) else "full"


def _is_latent(config: PretrainedConfig, layer: LayerTensors) -> bool:
    """Whether keys and values together are one compressed vector and its rotary part (multi-head latent attention)."""
    rank, rotary = getattr(config, "kv_lora_rank", None), getattr(config, "qk_rope_head_dim", None)
    if not isinstance(rank, int) or not isinstance(rotary, int) or layer.keys is None or layer.values is None:
        return False
    return layer.keys[1] == 1 and layer.keys[-1] + layer.values[-1] == rank + rotary


def _engine_bytes(text: PretrainedConfig, layer: LayerTensors, per_token: int) -> int | None:
    """Falcon's newer decoder: Transformers copies each KV head to all attention heads before caching, engines do not."""
    if text.model_type == "falcon" and getattr(text, "new_decoder_architecture", False) and layer.keys is not None:
        return per_token * text.num_kv_heads // layer.keys[1]
    return None


def _differences(layers: tuple[LayerCache, ...]) -> list[str]:
    library, engines = sum(layer.bytes_per_token for layer in layers), sum(layer.token_bytes("vLLM") for layer in layers)
    if library == engines:
        return []
    elsewhere = f"{engines:,} bytes of cache per token in vLLM, SGLang and llama.cpp"
    return [f"{elsewhere}; {library:,} in Transformers 5.24, which repeats each KV head before caching."]


def _source_context(whole: PretrainedConfig) -> int | None:
    """Of the encoder; None where there is none, or where its input is no text."""
    if not whole.is_encoder_decoder:
        return None
    try:
        return _context(whole.get_text_config(encoder=True))
    except ValueError:  # the library's word for several that could be meant
        return None


def _context(part: PretrainedConfig) -> int | None:
    for name in ("max_position_embeddings", "max_seq_len"):
        value = getattr(part, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None
