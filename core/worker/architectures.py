"""Build a pair from its configurations alone: the architecture, on the device and in the number format, with random weights.

What a pass costs depends on shapes, not on values, as long as values are ordinary numbers. So weights are drawn by the library's own
initialisation of each architecture (transformers 5.24), always with a standard deviation of 0.02, whatever a config says of it: normed
activations stay near 1 and attention nearly even, so that no number is denormal, infinite or NaN, which a CPU would be slow with. The first
pass is checked for that. The exception are mixtures of experts, whose routing depends on values (`notes`).
Before anything is allocated the same architecture is built without memory, to count its bytes. Units: bytes.
Not covered: quantised weights, encoder-decoder models, recurrent states, code that comes with a repository.
"""

from collections.abc import Iterator

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoConfig, DynamicCache, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from core import encoders
from core.errors import ModelError
from core.runs import ModelRef, RunSpec
from core.worker.download import Report
from core.worker.fit import assemble, check_room, why
from core.worker.loading import Key, keys
from core.worker.models import Pair, check_cache
from core.worker.places import places

STANDARD_DEVIATION = 0.02
MOST_LAYERS = 512
"""The deepest public models have about 130."""
TRIED_TOKENS = 8


def build(spec: RunSpec, report: Report) -> tuple[Pair, tuple[str, ...]]:
    """The pair of `spec` with random weights, and what is unlike its own; only configurations are read, and of the Hub only they are downloaded.

    Its tokenizer is empty. Raises ModelError for a config that is missing, damaged, of no causal language model, or of one whose cache
    cannot give tokens back; DeviceError where both do not fit.
    """
    target, draft = keys(spec, *places(spec, report, weights=False))
    report("load", 0, 2)
    both = [(spec.target, target, "target"), (spec.draft, draft, "draft")]
    configs = [_config(ref, key, role) for ref, key, role in both]
    unlike = tuple(unpacked for (_, _, role), config in zip(both, configs, strict=True) if (unpacked := _unquantised(config, role)))
    check_room([(key, config, role) for (_, key, role), config in zip(both, configs, strict=True)], must_build=True)
    models: list[PreTrainedModel] = []
    for (_, key, role), config in zip(both, configs, strict=True):
        models.append(assemble(config, key, role, torch.device(key.device)))
        _check(models[-1], role)
        report("load", len(models), len(both))
    contexts = [limit for model in models if (limit := getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None))]
    empty = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel()))
    return Pair(models[0], models[1], empty, (), min(contexts, default=None), models[0].device), unlike


def notes(pair: Pair, longest: int, *, built: bool) -> Iterator[str]:
    """What a reader of the times must know of these models. longest: tokens in the cache; built: whether the weights are random."""
    for role, model in (("target", pair.target), ("draft", pair.draft)):
        if any(type(module).__name__.endswith("Experts") for module in model.modules()):
            weights = "Random weights and random text" if built else "Random text"
            yield (
                f"The {role} is a mixture of experts, and which experts a token wakes depends on values. {weights} wake others than trained weights "
                "and real text, so its passes over several tokens, and with them v(n) and c, can take another time in use."
            )
        windows = [layer.sliding_window for layer in DynamicCache(config=model.config).layers if isinstance(layer, DynamicSlidingWindowLayer)]
        if windows and min(windows) < longest:
            kept = f"{len(windows)} of the {role}'s {model.config.get_text_config(decoder=True).num_hidden_layers} layers"
            yield f"{kept} {'sees' if len(windows) == 1 else 'see'} only the last {min(windows):,} tokens, so that a longer cache costs them no more."


def _config(ref: ModelRef, key: Key, role: str) -> PretrainedConfig:
    try:
        config = AutoConfig.from_pretrained(key.place.folder, **key.place.loader)
        text = config.get_text_config(decoder=True)
    except Exception as error:
        raise ModelError(f"The config of the {role} {ref.name} cannot be read: {why(error)} Correct it, or choose another model.") from error
    if config.is_encoder_decoder:
        raise ModelError(encoders.timed(f"The {role} {ref.name}", config.model_type))
    layers = getattr(text, "num_hidden_layers", 0)
    if layers > MOST_LAYERS:
        raise ModelError(f"The config of the {role} {ref.name} asks for {layers:,} layers; at most {MOST_LAYERS} are built. Correct it.")
    if hasattr(text, "initializer_range"):
        text.initializer_range = STANDARD_DEVIATION
    return config


def _unquantised(config: PretrainedConfig, role: str) -> str:
    """Leave the quantisation out of the config, and say so; "" where there is none."""
    text = config.get_text_config(decoder=True)
    parts = [part for part in ([config] if text is config else [config, text]) if getattr(part, "quantization_config", None) is not None]
    for part in parts:
        delattr(part, "quantization_config")
    if not parts:
        return ""
    return f"The {role}'s repository keeps quantised weights; it was timed with unquantised ones, which take more memory and other kernels."


@torch.no_grad()
def _check(model: PreTrainedModel, role: str) -> None:
    """Rejected tokens can be taken back, and a pass gives ordinary numbers."""
    if not all(isinstance(layer, DynamicLayer) for layer in DynamicCache(config=model.config).layers):
        raise ModelError(f"The {role} keeps a running state ({model.config.model_type}), so rejected tokens cannot be undone. Choose another model.")
    check_cache(model, role)
    logits = model(input_ids=torch.arange(TRIED_TOKENS, device=model.device)[None] % model.config.get_text_config(decoder=True).vocab_size).logits
    if not bool(torch.isfinite(logits).all()):
        raise ModelError(f"With random weights the {role} ({model.config.model_type}) gives no finite numbers, so its times would mean nothing.")
