"""Load one model as its placement says: from its folder or GGUF file, whole or in fewer bits, on one device or spread over all GPUs.

GGUF weights are always unpacked, also where a package for packed ones is installed, so that a run is the same everywhere. What bitsandbytes
keeps in fewer bits stays in the run's number format elsewhere (embeddings, norms, head) and is multiplied in it. Nothing is put off
to the CPU or the disk behind the reader's back: a step would read it anew each time. Source: Transformers 5.24, `from_pretrained`.
"""

import logging
import re
from typing import Any, NamedTuple, cast

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, BitsAndBytesConfig, GgufConfig, PreTrainedModel

from core.errors import ModelError
from core.measured import Dtype
from core.placement import QUANTIZATIONS, normal
from core.runs import Attention, ModelRef, Quantization, RunSpec
from core.worker.places import Place
from core.worker.room import out_of_memory

DTYPES: dict[Dtype, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
LOAD_FAILURES = (OSError, ValueError, RuntimeError, KeyError, TypeError, AttributeError, ImportError, SafetensorError)
UNPACKED = "unpacked from GGUF"
BLOCK = 64
"""Weights that share a scale in 4 bits."""

_ASKED = re.compile(r"ried to allocate (?:([\d.]+ [KMGT]i?B)|(\d+) bytes)")
"""How the allocators of CUDA, Apple and the CPU say what they were asked for (torch 2.13)."""

logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it warns of its own casts at every layer of every pass


class Key(NamedTuple):
    """What a loaded model depends on."""

    place: Place
    device: str
    dtype: Dtype
    quantization: Quantization = ""
    spread: bool = False
    attention: Attention = ""


def keys(spec: RunSpec, target: Place, draft: Place) -> tuple[Key, Key]:
    """The target's and the draft's, by the run's placement."""
    how = normal(spec.placement, spec.device)
    return (
        Key(target, spec.device, spec.dtype, how.quantization, how.spread, how.attention),
        Key(draft, how.draft_device or spec.device, spec.dtype, attention=how.attention),
    )


def load_model(ref: ModelRef, key: Key, role: str) -> PreTrainedModel:
    """The model in eval mode, with all its weights where `key` says.

    Raises ModelError with a sentence for files that are missing, damaged, quantised already, or of no causal language model, and for a model
    that does not fit into all GPUs together; what the device's allocator raises when memory does not suffice goes through.
    """
    how = _arguments(key)
    try:
        if key.quantization:
            _check_unquantised(ref, key, role)
        loaded = _class(key).from_pretrained(key.place.folder, dtype=DTYPES[key.dtype], output_loading_info=True, **how)
    except LOAD_FAILURES as error:
        if out_of_memory(error):
            raise
        raise ModelError(
            f"The {role} {ref.name} in {key.place.folder} could not be loaded: {first_line(error)} Check its files, or choose another model."
        ) from error
    model, info = cast("tuple[PreTrainedModel, dict[str, Any]]", loaded)
    if info["missing_keys"]:
        missing = sorted(info["missing_keys"])
        raise ModelError(f"The {role} {ref.name} lacks {len(missing)} of its weights, {missing[0]} first. Download it again.")
    if "device_map" in how:
        _check_on_gpus(ref, model, key)
        _check_widths(ref, model, key)
        return model.eval()
    return cast("PreTrainedModel", cast("torch.nn.Module", model).to(torch.device(key.device))).eval()


def _class(key: Key) -> type[AutoModelForCausalLM | AutoModelForSeq2SeqLM]:
    """By the config, because some types have both kinds; GGUF files are read as decoders."""
    encodes = not key.place.gguf_file and AutoConfig.from_pretrained(key.place.folder, **key.place.loader).is_encoder_decoder
    return AutoModelForSeq2SeqLM if encodes else AutoModelForCausalLM


def devices_of(*models: PreTrainedModel) -> tuple[torch.device, ...]:
    """Every device on which weights of these models lie, the first layers' first."""
    return tuple(dict.fromkeys(weight.device for model in models for weight in model.parameters()))


def packed(model: PreTrainedModel) -> bool:
    """Whether weights are kept in fewer bits than a number format has, so that they cannot be widened one by one."""
    return quantization_of(model) not in ("", UNPACKED)


def quantization_of(model: PreTrainedModel) -> str:
    """How the loaded weights are kept, in words; "" for the number format alone."""
    kept = getattr(model.config, "quantization_config", None)
    if kept is None:
        return ""
    known: dict[str, Any] = kept if isinstance(kept, dict) else vars(kept)
    method = str(getattr(known.get("quant_method"), "value", known.get("quant_method")))
    if method == "gguf":
        return UNPACKED
    if method != "bitsandbytes":
        return method
    if known.get("_load_in_8bit", known.get("load_in_8bit")):
        return "bitsandbytes, 8 bits"
    return f"bitsandbytes, 4 bits ({known['bnb_4bit_quant_type']})"


def first_line(error: Exception) -> str:
    """The library's own reason, cut to one line and ended with a full stop."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip()
    return line if line.endswith(".") else line + "."


def too_much(error: Exception) -> str:
    """What memory could not be had, in a sentence: an allocator's error goes on at length about how it is filled."""
    asked = _ASKED.search(str(error))
    if asked is None:
        return first_line(error)
    return f"{asked[1] or f'{int(asked[2]) / 2**30:,.2f} GiB'} more could not be had."


def _arguments(key: Key) -> dict[str, Any]:
    """What `from_pretrained` is told beside the folder and the number format."""
    how = dict(key.place.weights_loader)
    if key.attention:
        how["attn_implementation"] = key.attention
    if key.place.gguf_file:
        how["quantization_config"] = GgufConfig(dequantize=True)
    if key.quantization:
        how["quantization_config"] = _fewer_bits(key)
        how["device_map"] = {"": key.device}
    if key.spread:
        how["device_map"] = "auto"
    return how


def _fewer_bits(key: Key) -> BitsAndBytesConfig:
    if key.quantization == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=DTYPES[key.dtype])


def _check_unquantised(ref: ModelRef, key: Key, role: str) -> None:
    """The library would keep what the files say, and only warn."""
    config = AutoConfig.from_pretrained(key.place.folder, **key.place.loader)
    if key.place.gguf_file or getattr(config, "quantization_config", None) is not None:
        raise ModelError(
            f"The files of the {role} {ref.name} are quantised already, so they cannot be kept in {QUANTIZATIONS[key.quantization]}. "
            "Leave them as stored, or choose the model that they were made from."
        )


def _check_on_gpus(ref: ModelRef, model: PreTrainedModel, key: Key) -> None:
    outside = [weight.device.type != "cuda" for weight in model.parameters()]
    if key.spread and any(outside):
        raise ModelError(
            f"The target {ref.name} does not fit into the GPUs together: {sum(outside)} of its {len(outside)} weights would lie outside them and be "
            "read anew in every step. Keep it in fewer bits, or choose a smaller one."
        )


def _check_widths(ref: ModelRef, model: PreTrainedModel, key: Key) -> None:
    """On a CPU bitsandbytes 0.50 packs 4 bits anew in the first pass, and fails amid it for a width that its blocks do not divide."""
    four_bits = [module for module in model.modules() if type(module).__name__ == "Linear4bit"]
    widths = [width for module in four_bits if (width := cast("torch.nn.Linear", module).in_features) % BLOCK]
    if key.device == "cpu" and widths:
        raise ModelError(
            f"On a CPU bitsandbytes keeps only layers in 4 bits whose width is a multiple of {BLOCK}, and the target {ref.name} has some of "
            f"{min(widths):,}. Keep it in 8 bits or as stored, or choose a GPU."
        )
