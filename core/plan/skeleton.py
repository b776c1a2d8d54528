"""A model without weights, run for a few tokens, so that its cache can be read off instead of derived.

Everything lives on torch's `meta` device: tensors have shapes and no bytes, so that a model of 671 billion parameters takes
seconds. Units: bytes of the tensors as the library keeps them, with weights in bf16. Not covered: models whose forward pass
depends on values (a few old mixtures of experts) and caches of classes that are not known to grow with every token.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers import DynamicCache, cache_utils

from core.errors import ConfigError, ModelError
from core.plan.model_config import Resolved, why

SHORT, LONG = 8, 24
PADDED_SHORT, PADDED_LONG = 2048, 4096
"""For encoders that pad their input to multiples of up to 1,024 tokens."""

_PLAIN = (cache_utils.DynamicLayer, cache_utils.DynamicSlidingWindowLayer, cache_utils.DynamicIndexedLayer, cache_utils.DummyLayer)
_MIXED = (
    cache_utils.LinearAttentionLayer,
    cache_utils.LinearAttentionAndFullAttentionLayer,
    cache_utils.LinearAttentionAndSlidingWindowAttentionLayer,
)
_INTEGERS = (torch.int32, torch.int64)
_BY_NAME = ("MiniMaxM3VLSparseCacheLayer",)
"""Classes of single models that keep one key more per token."""


@dataclass(frozen=True)
class LayerTensors:
    """One layer's cache after a run. keys, values: shapes (1, heads, kept tokens, width), None where nothing grows."""

    dummy: bool
    window: int | None
    keys: tuple[int, ...] | None
    values: tuple[int, ...] | None
    growing_bytes: int
    state_bytes: int
    cross_bytes: int = 0


@dataclass
class Skeleton:
    """The model and what its experts were seen to do: `experts_used` maps an experts module to the experts that a token passes."""

    model: nn.Module
    resolved: Resolved
    experts_used: dict[nn.Module, int] = field(default_factory=dict)

    @property
    def language(self) -> nn.Module:
        """The part that is run: of models that also see or hear, the language model."""
        model: Any = self.model
        return model.get_decoder() if self.resolved.builder == "AutoModelForImageTextToText" else model


def build(resolved: Resolved) -> Skeleton:
    """The model on the meta device. Raises ConfigError when the library cannot build it."""
    builder = getattr(transformers, resolved.builder)
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    try:
        with torch.device("meta"), warnings.catch_warnings(action="ignore"):
            model = builder.from_config(resolved.whole, dtype=torch.bfloat16, attn_implementation="eager").eval()
    except Exception as error:  # a class may raise anything for values it cannot use
        raise ConfigError(f"Transformers cannot build {resolved.whole.model_type!r} from this config ({why(error)}).") from error
    skeleton = Skeleton(model, resolved)
    for module in model.modules():
        if type(module).__name__.endswith("Experts"):
            module.register_forward_pre_hook(_counter(skeleton.experts_used), with_kwargs=True)
    return skeleton


def run(skeleton: Skeleton, tokens: int, source_tokens: int = SHORT) -> list[LayerTensors]:
    """Each layer's cache after `tokens` tokens. Raises ModelError where the model cannot be run without values, or keeps no cache."""
    first: Exception | None = None
    for attempt in (_given_cache, _own_cache, _passed_experts):
        try:
            with torch.no_grad(), warnings.catch_warnings(action="ignore"):
                output = attempt(skeleton, tokens, source_tokens)
            return _layers(skeleton, output)
        except ModelError:
            raise
        except Exception as error:  # the next attempt avoids what failed, or the sentence below says it
            first = first or error
    kind, reason = skeleton.resolved.whole.model_type, why(first) if first else ""
    raise ModelError(f"The cache of {kind!r} cannot be estimated: the model cannot be run without its weights ({reason}).") from first


def _inputs(skeleton: Skeleton, tokens: int, source_tokens: int) -> dict[str, Any]:
    def ids(count: int) -> Tensor:
        return torch.ones((1, count), dtype=torch.long, device="meta")

    if skeleton.resolved.whole.is_encoder_decoder:
        return {"input_ids": ids(source_tokens), "decoder_input_ids": ids(tokens)}
    return {"input_ids": ids(tokens), "use_cache": True}


def _given_cache(skeleton: Skeleton, tokens: int, source_tokens: int) -> Any:
    inputs = _inputs(skeleton, tokens, source_tokens)
    if not skeleton.resolved.whole.is_encoder_decoder:
        inputs["cache"] = DynamicCache(config=skeleton.resolved.text)
    output = skeleton.language(**inputs)
    output["cache"] = inputs.get("cache", output.get("cache"))
    return output


def _own_cache(skeleton: Skeleton, tokens: int, source_tokens: int) -> Any:
    return skeleton.language(**_inputs(skeleton, tokens, source_tokens))


def _passed_experts(skeleton: Skeleton, tokens: int, source_tokens: int) -> Any:
    """Experts keep nothing of a sequence; passing their input through avoids loops over the experts that were hit."""
    for module in skeleton.model.modules():
        if type(module).__name__.endswith("Experts"):
            module.forward = _passed
    return _given_cache(skeleton, tokens, source_tokens)


def _passed(hidden: Tensor, *_: Any, **__: Any) -> Tensor:
    return hidden


def _counter(seen: dict[nn.Module, int]) -> Callable[..., None]:
    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        chosen = next((value for value in (*args[1:], *kwargs.values()) if isinstance(value, Tensor) and value.dtype in _INTEGERS), None)
        if chosen is not None and chosen.ndim >= 2:
            seen[module] = chosen.shape[-1]

    return note


def _layers(skeleton: Skeleton, output: Any) -> list[LayerTensors]:
    cache = output.get("cache")
    if skeleton.resolved.whole.is_encoder_decoder:
        return _encoder_decoder(skeleton, cache)
    running = output.get("state")
    if isinstance(running, list):
        count = skeleton.resolved.text.num_hidden_layers
        return [LayerTensors(False, None, None, None, 0, sum(_bytes(tensor) for tensor in running) // count)] * count
    if cache is None or not len(cache):
        raise ModelError(f"{skeleton.resolved.whole.model_type!r} keeps no cache in Transformers, so that memory per token cannot be estimated.")
    return [_layer(skeleton, cache, index) for index in range(len(cache))]


def _encoder_decoder(skeleton: Skeleton, cache: Any) -> list[LayerTensors]:
    if not isinstance(cache, cache_utils.EncoderDecoderCache):
        raise ModelError(f"{skeleton.resolved.whole.model_type!r} keeps no cache that is known here, so its memory cannot be estimated.")
    own, cross = cache.self_attention_cache, cache.cross_attention_cache
    crossed = [sum(_bytes(tensor) for tensor in _tensors(layer)) for layer in cross.layers]
    return [replace(_layer(skeleton, own, index), cross_bytes=crossed[index]) for index in range(len(own))]


def _layer(skeleton: Skeleton, cache: Any, index: int) -> LayerTensors:
    layer = cache.layers[index] if index < len(cache.layers) else None
    linear = getattr(cache, "linear_cache", [])
    if index < len(linear) and isinstance(linear[index], Tensor):
        return LayerTensors(False, None, None, None, 0, _bytes(linear[index]))
    if type(layer) not in (*_PLAIN, *_MIXED) and type(layer).__name__ not in _BY_NAME:
        kind = skeleton.resolved.whole.model_type
        raise ModelError(f"{kind!r} keeps its cache in a {type(layer).__name__}, whose growth is not known here, so its memory cannot be estimated.")
    states = [state for name in ("conv_states", "recurrent_states") for state in getattr(layer, name, {}).values() if state is not None]
    if type(layer) is cache_utils.LinearAttentionLayer and not states:
        states = _held_by_modules(skeleton, len(cache), index)
    keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
    return LayerTensors(
        dummy=isinstance(layer, cache_utils.DummyLayer),
        window=getattr(layer, "sliding_window", None),
        keys=None if keys is None else tuple(keys.shape),
        values=None if values is None else tuple(values.shape),
        growing_bytes=sum(_bytes(tensor) for tensor in _tensors(layer)),
        state_bytes=sum(_bytes(state) for state in states),
    )


def _held_by_modules(skeleton: Skeleton, count: int, index: int) -> list[Tensor]:
    """Running states that the layer's own modules keep, outside the cache (RecurrentGemma)."""
    stacks = [module for module in skeleton.model.modules() if isinstance(module, nn.ModuleList) and len(module) == count]
    held = [value for module in stacks[0][index].modules() for value in vars(module).values() if isinstance(value, Tensor)] if stacks else []
    if not held:
        kind = skeleton.resolved.whole.model_type
        raise ModelError(f"Layer {index} of {kind!r} keeps a running state that cannot be seen, so its memory cannot be estimated.")
    return held


def _tensors(layer: Any) -> list[Tensor]:
    """What grows with the text: keys, values, and the keys of an indexer."""
    found = {id(value): value for name, value in vars(layer).items() if isinstance(value, Tensor) and name != "_sliding_window_tensor"}
    return list(found.values())


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
