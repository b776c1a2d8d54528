"""A model's config.json as the library reads it, or a sentence that says why not.

Raw values are checked for what no model has (null heads, negative sizes, 10,000 layers, two dtypes that disagree); their meaning
is the library's business: defaults, renamed keys and nested parts are resolved by its config classes. Units: the config's.
Not covered: configs whose classes come as code of the repository; that code is never run.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

import transformers
from transformers import CONFIG_MAPPING, PretrainedConfig
from transformers.models.auto import modeling_auto as auto

from core.errors import ConfigError, InvalidInput, ModelError

MOST_LAYERS = 512
"""The deepest public models have about 130; each layer is really built."""
LARGEST_SIZE = 10**8
HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads", "decoder_attention_heads")
WIDTHS = ("hidden_size", "n_embd", "d_model")
_NEEDED = (*HEADS, *WIDTHS, "vocab_size", "num_hidden_layers")
"""Without a sound value of each that a class has, no model can be made."""

TEXT_PARTS = ("text_config", "decoder", "generator")
"""Where a config of several models keeps the one that writes text (the library's `get_text_config`)."""

_DROPPED = ("quantization_config", "compression_config", "auto_map", "dtype", "torch_dtype", "return_dict", "num_labels", "id2label", "label2id")
"""Say nothing of sizes; a large `num_labels` alone would take gigabytes."""
_OTHER_SENSES = ("vision_config", "audio_config", "vision_tower", "speech_config")
_SIZE = re.compile(r"num_(.*_)?(layers|heads|experts)|n_(layers?|heads?|embd|inner|positions|ctx)|(.*_)?size|d_(model|kv|ff)|(.*_)?dim")
_LAYERS = re.compile(r"num_(hidden_|decoder_|encoder_)?layers|n_layers?|(encoder|decoder)_layers")
_DTYPE = re.compile(r"auto|float(16|32|64)|bfloat16|float8_\w+|u?int\d+")
_NO_TEXT = re.compile(r"For(SequenceClassification|TokenClassification|QuestionAnswering|MultipleChoice|MaskedLM)$|(Reward|Encoder)Model$")
_DRAFT_HEAD = re.compile(r"Eagle|Medusa|NextN|MTP|Speculator")
_SIZES = {"num_hidden_layers": "number of layers", "hidden_size": "hidden size", "num_attention_heads": "number of attention heads"}
_OTHER_NAMES = {
    "num_hidden_layers": ("layer_types", "layers_block_type", "hybrid_override_pattern"),
    "hidden_size": (*WIDTHS, "n_embed", "emb_dim"),
    "num_attention_heads": (*HEADS, "attention_heads", "encoder_attention_heads", "num_decoder_attention_heads"),
}


class Resolved(NamedTuple):
    """whole: the config to build, by the library's Auto class named `builder`; text: the part of it that writes text, often the same.

    untied: the config asks for a language-model head of its own.
    """

    whole: PretrainedConfig
    text: PretrainedConfig
    builder: str
    untied: bool
    notes: tuple[str, ...]


def resolve(given: Mapping[str, Any] | PretrainedConfig) -> Resolved:
    """The config as the library understands it. Raises InvalidInput or ModelError with a sentence where nothing can be profiled, of these
    ConfigError where no model can be made of it.
    """
    raw = given.to_dict() if isinstance(given, PretrainedConfig) else _object(given)
    _check_values(raw)
    model_type = _known_type(raw)
    if not isinstance(given, PretrainedConfig):
        _check_heads(raw)
    config = given if isinstance(given, PretrainedConfig) else _library_config(raw, model_type)
    try:
        text = config.get_text_config(decoder=True)
    except ValueError as error:
        raise ModelError(f"The config of {model_type!r} has several text parts, so its memory cannot be estimated ({why(error)}).") from error
    if not isinstance(text, PretrainedConfig):
        raise ModelError(f"This config of {model_type!r} has a text part, which {model_type!r} does not read. Correct the config.")
    _check_layers(text)
    _check_purpose(raw, config)
    whole, builder = _choose(config, text)
    if not isinstance(given, PretrainedConfig):
        _check_stated(raw, config, text)
    return Resolved(whole, text, builder, _asks_own_head(raw, whole), tuple(_notes(raw, config, text)))


def _object(given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidInput(f"A model's config must be a JSON object, not {type(given).__name__}. Choose the file config.json.")
    return {str(key): value for key, value in given.items()}


def _known_type(raw: Mapping[str, Any]) -> str:
    model_type = raw.get("model_type")
    own_code = " The repository brings code of its own, which is not run here." if raw.get("auto_map") else ""
    if not isinstance(model_type, str) or not model_type:
        raise ModelError(f"This config names no architecture (model_type is {_shown(model_type)}), so its memory cannot be estimated.{own_code}")
    if model_type not in CONFIG_MAPPING:
        raise ModelError(
            f"The architecture {_shown(model_type)} is not one that Transformers can build, so its memory cannot be estimated.{own_code}"
        )
    return model_type


def _check_values(raw: Mapping[str, Any]) -> None:
    _check_dtypes(raw)
    for place, key, value in _entries(raw):
        if isinstance(value, float) and not math.isfinite(value):
            raise ModelError(f"{place} is {value} in this config; it must be a finite number. Correct the config.")
        if isinstance(value, Mapping):
            _check_dtypes(value)
        elif _SIZE.fullmatch(key):
            _check_size(place, key, value)


def _entries(raw: Mapping[str, Any], place: str = "", depth: int = 0) -> Iterator[tuple[str, str, Any]]:
    for key, value in raw.items():
        if key in _DROPPED or key in _OTHER_SENSES:
            continue
        yield f"{place}{str(key)[:60]}", str(key), value
        if isinstance(value, Mapping) and depth < 4:
            yield from _entries(value, f"{place}{str(key)[:60]}.", depth + 1)


def _check_size(place: str, key: str, value: object) -> None:
    """Sizes may be null where the library derives them; heads and layers may not, and nothing may be absurd. Lists are per layer."""
    counted = key in HEADS or bool(_LAYERS.fullmatch(key))
    wrong = ConfigError if key in _NEEDED else ModelError
    if isinstance(value, list) or (value is None and not counted):
        return
    if value is None:
        raise wrong(f"{place} is null in this config, so the model's memory cannot be estimated. Correct the config.")
    if isinstance(value, bool | float) and not counted and key not in (*WIDTHS, "vocab_size"):
        return  # a switch or a factor whose name ends like a size
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(f"{place} is {_shown(value)} in this config; it must be a whole number. Correct the config.")
    if value < 0 or (value == 0 and (counted or key in (*WIDTHS, "vocab_size"))) or value > LARGEST_SIZE:
        raise wrong(f"{place} is {f'{value:,}'[:80]} in this config, which no model has. Correct the config.")
    if _LAYERS.fullmatch(key) and value > MOST_LAYERS:
        raise ModelError(f"{place} is {value:,} in this config; models of more than {MOST_LAYERS} layers are not built here. Correct the config.")


def _check_dtypes(part: Mapping[str, Any]) -> None:
    named = {key: str(part[key]).removeprefix("torch.") for key in ("dtype", "torch_dtype") if isinstance(part.get(key), str)}
    for key, name in named.items():
        if not _DTYPE.fullmatch(name):
            raise ModelError(f"{key} is {_shown(name)} in this config, which is no dtype. Correct the config, for example to 'bfloat16'.")
    if len(set(named.values())) > 1:
        raise ModelError(f"This config contradicts itself: dtype is {named['dtype']!r} and torch_dtype is {named['torch_dtype']!r}. Remove one.")


def _check_heads(raw: Mapping[str, Any]) -> None:
    """A stated width would be divided by the class's default number of heads: a guess. Classes that state the head's width are spared."""
    for part in (raw, raw.get("text_config")):
        if not isinstance(part, Mapping) or part.get("model_type") not in CONFIG_MAPPING:
            continue
        kind: Any = CONFIG_MAPPING[part["model_type"]]
        defaults = {field.name: field.default for field in fields(kind)}
        derived = any(key in defaults for key in HEADS) and not any(
            isinstance(defaults.get(key), int) for key in ("head_dim", "d_kv", "kv_lora_rank")
        )
        names = {*HEADS, kind.attribute_map.get("num_attention_heads")}
        if derived and "head_dim" not in part and any(key in part for key in WIDTHS) and not any(key in part for key in names):
            raise ModelError(
                "This config states a hidden size but no number of attention heads, so its cache cannot be sized. Add num_attention_heads."
            )


def _stated(part: Mapping[str, Any], text: PretrainedConfig) -> dict[str, list[Any]]:
    """What `part` itself says of each size that the class knows, under any of its names."""
    found: dict[str, list[Any]] = {}
    known = {field.name for field in fields(type(text))}
    for size in _SIZES:
        if size in known or text.attribute_map.get(size) in known:  # JetMoe's heads follow from other sizes
            names = {size, text.attribute_map.get(size), *_OTHER_NAMES[size]}
            found[size] = [value for key, value in part.items() if key in names or (size == "num_hidden_layers" and _LAYERS.fullmatch(key))]
    return found


def _check_stated(raw: Mapping[str, Any], config: PretrainedConfig, text: PretrainedConfig) -> None:
    """A class fills gaps with the sizes of one model among many: a guess, unless a config states none and so means that model.

    Text parts are spared, because published ones leave out what is as in the class (gemma-3-4b-it).
    """
    if any(isinstance(raw.get(part), Mapping) for part in TEXT_PARTS):
        return
    stated = _stated(raw, text)
    if not any(stated.values()):
        return
    for size, values in stated.items():
        if not values:
            raise ModelError(f"This config states no {_SIZES[size]}, so its memory cannot be estimated. Add {size}.")
    for key, value in raw.items():
        read = getattr(text, key, value) if text is not config and not config.is_encoder_decoder and _SIZE.fullmatch(key) else value
        if read != value:
            place = f"because the sizes of {config.model_type!r} belong into text_config"
            raise ModelError(f"{key} is {_shown(value)} in this config, but Transformers reads {_shown(read)}, {place}. Correct the config.")
    default = next((field.default for field in fields(type(text)) if field.name == "num_key_value_heads"), None)
    if isinstance(default, int) and "num_key_value_heads" not in raw and not hasattr(text, "kv_lora_rank"):
        raise ModelError("This config states no number of KV heads, so its cache cannot be sized. Add num_key_value_heads.")


def _library_config(raw: dict[str, Any], model_type: str) -> PretrainedConfig:
    try:
        return CONFIG_MAPPING[model_type].from_dict(_kept(raw))
    except Exception as error:  # a class may raise anything for values it cannot use
        raise ConfigError(f"Transformers cannot read this config of {model_type!r} ({why(error)}). Correct the config.") from error


def _kept(part: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _kept(value) if key in TEXT_PARTS and isinstance(value, Mapping) else value for key, value in part.items() if key not in _DROPPED}


def _check_layers(text: PretrainedConfig) -> None:
    """Again after renaming and defaults."""
    layers = getattr(text, "num_hidden_layers", None)
    kinds = getattr(text, "layer_types", None)
    if isinstance(layers, int) and layers > MOST_LAYERS:
        raise ModelError(f"This config has {layers:,} layers; models of more than {MOST_LAYERS} layers are not built here. Correct the config.")
    if isinstance(layers, int) and isinstance(kinds, list) and len(kinds) != layers:
        raise ModelError(f"This config contradicts itself: {layers} layers, but {len(kinds)} layer types. Correct the config.")


def _check_purpose(raw: Mapping[str, Any], config: PretrainedConfig) -> None:
    """Embedding models, classifiers and encoders write no text; draft heads are no models of their own."""
    architecture = _architecture(raw)
    if _DRAFT_HEAD.search(architecture):
        raise ModelError(f"{architecture[:80]} is a draft head that reads its target's hidden states, no model of its own. Choose a complete model.")
    writers = (auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)
    bare = architecture in auto.MODEL_MAPPING_NAMES.values() and not any(architecture in names.values() for names in writers)
    if _NO_TEXT.search(architecture) or (bare and not config.is_encoder_decoder):
        raise ModelError(f"{architecture[:80]} is an embedding or classification model: it writes no text, so it can be neither target nor draft.")
    encoder = config.model_type in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES and not config.is_encoder_decoder
    if encoder and not getattr(config, "is_decoder", False):
        raise ModelError(f"{config.model_type!r} is an encoder: it writes no text, so it can be neither target nor draft.")


def _architecture(raw: Mapping[str, Any]) -> str:
    """The class that the config names first, empty where it names none."""
    names = raw.get("architectures")
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else ""


def _choose(config: PretrainedConfig, text: PretrainedConfig) -> tuple[PretrainedConfig, str]:
    """What to build, and with which Auto class: the text part alone where the library can build it alone."""
    if config.is_encoder_decoder:
        if config.model_type in auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES:
            return config, "AutoModelForSeq2SeqLM"
    elif text.model_type in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not text.is_encoder_decoder:
        return text, "AutoModelForCausalLM"
    elif config.model_type in auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        return config, "AutoModelForImageTextToText"
    raise ModelError(f"{config.model_type!r} is no model that continues text, so it can be neither target nor draft.")


def _asks_own_head(raw: Mapping[str, Any], whole: PretrainedConfig) -> bool:
    """T5's classes tie the head whatever the config says, and keep what it said in `scale_decoder_outputs`."""
    part = raw if raw.get("model_type") == whole.model_type else raw.get("text_config") or {}
    return part.get("tie_word_embeddings") is False or getattr(whole, "scale_decoder_outputs", True) is False


def _notes(raw: Mapping[str, Any], config: PretrainedConfig, text: PretrainedConfig) -> Iterator[str]:
    if text is not config and not config.is_encoder_decoder:
        yield f"Only the text part is counted ({text.model_type}); what reads images or sound comes on top."
    if raw.get("auto_map"):
        yield "The repository also brings code of its own; the figures are those of the library's own class."
    elif _architecture(raw) and not hasattr(transformers, _architecture(raw)):
        yield f"The config names the class {_architecture(raw)}, which Transformers does not have; the figures are those of {config.model_type!r}."
    part = next((raw[name] for name in TEXT_PARTS if isinstance(raw.get(name), Mapping)), raw)
    if not any(_stated(part, text).values()):
        yield f"The config states no layers, width or heads; those that the library gives {text.model_type!r} are used."


def _shown(value: object) -> str:
    """For a sentence, and so never long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def why(error: Exception) -> str:
    """The error's kind and text on one line, for the end of a sentence."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200] or 'no reason given'}"
