"""Whether a model can be a target or a draft here at all, judged by its files' names and its config.

Each rule gives a sentence that says what the model is and what to do instead, or nothing. `causal_types.txt` lists the
model types that Transformers 5.24 loads as language models (MODEL_FOR_CAUSAL_LM_MAPPING_NAMES; a test compares the two).
Not covered: whether target and draft fit together, and whether the weights are good.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from core.address import is_hub_id
from core.headers import Tensor

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")
_HEADS = ("lm_head.weight", "embed_out.weight")
_PLAIN_NUMBERS = ("F64", "F32", "F16", "BF16")
_WRITERS = ("CausalLM", "LMHead", "ConditionalGeneration")
_SENSES = {"vision_config": "images", "audio_config": "sound", "vision_tower": "images", "mm_vision_tower": "images"}
ENCODER_DECODERS = frozenset(
    {
        "bart", "blenderbot", "blenderbot-small", "led", "longt5", "m2m_100", "marian", "mbart", "mt5", "mvp", "pegasus", "plbart",
        "t5", "umt5",
    }
)  # fmt: skip
"""Model types with an encoder before their decoder that are measured here: pairs of each, with random weights, ran as they were replayed."""
_POOLED = ("modules.json", "1_Pooling/config.json", "config_sentence_transformers.json")
_EMBEDDING = ("feature-extraction", "sentence-similarity", "text-ranking")


class Judgement(NamedTuple):
    """refusal: why the model cannot be used, "" when it can. warnings: what one should know all the same."""

    refusal: str = ""
    warnings: tuple[str, ...] = ()


def judge_files(name: str, files: Collection[str], adapter: Mapping[str, Any]) -> str:
    """Why a repository or folder with these files cannot be used, "" where its config decides. adapter: its adapter_config.json, or {}."""
    if "model_index.json" in files and "config.json" not in files:
        return f"{name} makes images or video with diffusion; it writes no text token by token. Choose a language model."
    if "adapter_config.json" in files and "config.json" not in files:
        base = str(adapter.get("base_model_name_or_path") or "")
        instead = f"Its base model is {base}; choose that, or merge the two." if is_hub_id(base) else "Merge it with its base model first."
        return f"{name} is an adapter, not a whole model, and cannot run alone. {instead}"
    if "config.json" not in files:
        if any(file.endswith(".gguf") for file in files):
            return f"{name} has GGUF files only. Download one into a folder of DRAFTGAUGE_MODEL_ROOTS, or choose the original repository."
        return f"{name} has no config.json, so it is no model that Transformers can load. Choose another repository."
    return ""


def judge_weights(name: str, files: Collection[str]) -> str:
    """Why the weights among these files cannot be used, "" when they can."""
    if SINGLE in files or INDEX in files:
        return ""
    if "adapter_config.json" in files:
        return f"{name} holds an adapter and no whole model. Merge it with its base model first."
    if any(file.endswith(".safetensors") for file in files):
        return f"{name} has safetensors files, but neither {SINGLE} nor its index, which Transformers looks for. Choose another repository."
    if any(file.endswith(_PICKLED) for file in files):
        return f"{name} has pickled weights only, which can run code when they are read and are refused. Choose one with safetensors weights."
    return f"{name} has no weights. Choose a repository with safetensors weights."


def judge_head(name: str, tokens: int | None, tensors: Iterable[Tensor]) -> str:
    """Why the output layer among these tensors does not go with a config of so many tokens, "" where it does, or where nobody can say."""
    heads = [tensor.shape[0] for tensor in tensors if tensor.name.endswith(_HEADS) and tensor.dtype in _PLAIN_NUMBERS and len(tensor.shape) == 2]
    if tokens is None or not heads or max(heads) >= tokens:
        return ""
    return (
        f"The output layer of {name} has {max(heads):,} rows, fewer than the {tokens:,} tokens that its config names: its head was pruned, and "
        "Transformers cannot load it so. Choose the whole model."
    )


def weightless(files: Collection[str]) -> bool:
    """Whether there is a config and no weights of any kind: enough to build the architecture, not to measure it."""
    return "config.json" in files and not any(file.endswith((".safetensors", ".gguf", *_PICKLED)) or file == INDEX for file in files)


def judge_config(name: str, config: Mapping[str, Any], files: Collection[str] = (), pipeline: str = "") -> Judgement:
    """Whether a model with this config writes text and is built by Transformers itself. pipeline: the Hub's word for what it does."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or not kind:
        return Judgement(f"The config.json of {name} names no model_type, so Transformers cannot load it. Choose another model.")
    shown = repr(kind[:40])
    if pipeline in _EMBEDDING or any(file in files for file in _POOLED):
        return Judgement(f"{name} turns text into vectors (an embedding model) and writes none. Choose a text generation model.")
    if config.get("num_mel_bins"):
        return Judgement(f"{name} turns speech into text. Choose a text generation model.")
    if _is_mlx(config):
        return Judgement(f"{name} is packed for MLX, which Transformers cannot read. Choose the original model or another quantisation.")
    if encodes(config):
        return Judgement() if kind in ENCODER_DECODERS else Judgement(warnings=(_unknown_encoder(name, shown),))
    sense = next((what for key, what in _SENSES.items() if config.get(key)), "")
    if kind in causal_types():
        return _judge_known(name, config, sense)
    if sense:
        return Judgement(f"{name} also takes in {sense} ({shown}), and Transformers has no text-only form of it. Choose its text model.")
    if config.get("auto_map"):
        return Judgement(f"{name} needs Python code from its own repository ({shown}), which is not run here, because it could do anything.")
    return Judgement(f"Transformers 5.24 knows no language model of the type {shown}, so {name} cannot be loaded. Choose another model.")


def encodes(config: Mapping[str, Any]) -> bool:
    """Whether an encoder reads the prompts, by a raw config; one that does not say is what its class is unless told otherwise."""
    return bool(config.get("is_encoder_decoder", config.get("model_type") in ENCODER_DECODERS))


def _unknown_encoder(name: str, shown: str) -> str:
    return f"{name} is an encoder-decoder of a type ({shown}) that is not measured here; its sizes are shown all the same."


@cache
def causal_types() -> frozenset[str]:
    """The model types that Transformers loads as language models."""
    return frozenset((Path(__file__).parent / "causal_types.txt").read_text().split())


def _judge_known(name: str, config: Mapping[str, Any], sense: str) -> Judgement:
    listed = config.get("architectures")
    names = [str(entry) for entry in cast("list[Any]", listed)] if isinstance(listed, list) else []
    if names and not any(word in entry for entry in names for word in _WRITERS):
        return Judgement(f"{name} reads text but has no head that writes it ({names[0][:60]}). Choose a text generation model.")
    warnings = [f"{name} also takes in {sense}; only its text part is looked at."] if sense else []
    if config.get("auto_map"):
        warnings.append(f"{name} brings code of its own, which is not run; Transformers' own version of the model is used.")
    return Judgement(warnings=tuple(warnings))


def _is_mlx(config: Mapping[str, Any]) -> bool:
    stated = config.get("quantization_config")
    named = isinstance(stated, Mapping) and "quant_method" in cast("Mapping[str, Any]", stated)
    return isinstance(config.get("quantization"), Mapping) and not named
