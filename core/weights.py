"""How much a model's stored weights are: bytes as they lie in the files, and elements as the model has them.

Bytes are summed from the tensors' own offsets. Elements are counted from their shapes, never taken from a `total`
that somebody wrote down: such totals were off by up to 22,000x (huggingface_hub issue 4221), and quantised formats pack
2 to 16 elements into one stored integer (hub-docs issue 2704, huggingface.js pull 1770). Where the packing is not one
of those known here, the count is None and only the bytes are given. Units: bytes and elements. Not covered: tied weights that
a file holds twice.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, cast

from core.headers import Tensor
from core.model_info import Weights

_INTEGERS = {"U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64}
_FOUR_BIT_BYTES = ("bitsandbytes", "modelopt", "mxfp4")
_SIDE = re.compile(
    r"\.(qzeros|scales|biases|g_idx|weight_scale(_inv|_2)?|weight_zero_point|weight_shape|weight_g_idx|weight_global_scale"
    r"|input_(scale|zero_point|global_scale)|[kv]_scale|weight\.(absmax|quant_map|nested_absmax|nested_quant_map|quant_state\..+)"
    r"|SCB|weight_format|perm|workspace)$|_scales$|_scale_inv$"
)
"""Scales, zero points and permutations that a quantised format keeps beside its weights."""
_BUFFER = re.compile(r"(rotary_emb\.inv_freq|\.masked_bias|\.position_ids)$")
_CAUSAL_MASK = re.compile(r"\.(attn|attention)\.bias$")


def weigh(tensors: Iterable[Tensor], config: Mapping[str, Any]) -> Weights:
    """The sum over all files of a model. `config` is its config.json, which says how it is quantised."""
    method, bits = quantisation(config)
    sizes: defaultdict[str, int] = defaultdict(int)
    parameters: int | None = 0
    for tensor in tensors:
        sizes[tensor.dtype] += tensor.bytes
        held = _elements(tensor, method, _bits_of(tensor, config, bits))
        parameters = None if parameters is None or held is None else parameters + held
    label = f"{method} {bits} bit" if method and bits else method
    return Weights(bytes=sum(sizes.values()), parameters=parameters, bytes_by_dtype=dict(sizes), quantisation=label)


def quantisation(config: Mapping[str, Any]) -> tuple[str, int | None]:
    """The quantisation method that a config names, "" for none, and its bits per weight where it says so."""
    found = _mapping(config.get("quantization_config")) or _mapping(_mapping(config.get("text_config")).get("quantization_config"))
    packed = _mapping(config.get("quantization"))  # MLX keeps bits and group size under this name
    if packed and "quant_method" not in found:
        return "mlx", _whole(packed.get("bits"))
    if not found:
        return "", None
    method = str(found.get("quant_method") or "unknown")[:40]
    if method == "bitsandbytes":
        return method, 4 if found.get("load_in_4bit") or found.get("_load_in_4bit") else 8
    if method == "compressed-tensors":
        return method, _compressed_bits(found)
    if method in ("mxfp4", "fp8"):
        return method, {"mxfp4": 4, "fp8": 8}[method]
    if method == "modelopt":
        return method, 4 if "FP4" in str(found.get("quant_algo", "")).upper() else 8
    return method, _whole(found.get("bits", found.get("w_bit")))


def _compressed_bits(found: Mapping[str, Any]) -> int | None:
    """The one width of all groups of a compressed-tensors config; None where they differ."""
    groups = _mapping(found.get("config_groups")).values()
    widths = {_whole(_mapping(_mapping(group).get("weights")).get("num_bits")) for group in groups}
    return widths.pop() if len(widths) == 1 else None


def _bits_of(tensor: Tensor, config: Mapping[str, Any], bits: int | None) -> int | None:
    """MLX may give a layer a width of its own."""
    own = _mapping(_mapping(config.get("quantization")).get(tensor.name.removesuffix(".weight")))
    return _whole(own.get("bits")) or bits


def _elements(tensor: Tensor, method: str, bits: int | None) -> int | None:
    """Weights that a stored tensor stands for: 0 for what is beside the weights, None where the packing is not known."""
    stored = _product(tensor.shape)
    if _BUFFER.search(tensor.name) or (_CAUSAL_MASK.search(tensor.name) and len(tensor.shape) == 4):
        return 0
    if not method:
        return 0 if tensor.dtype in _INTEGERS or tensor.dtype == "BOOL" else stored
    if _SIDE.search(tensor.name):
        return 0
    if tensor.dtype not in _INTEGERS:
        return stored
    return _unpacked(tensor, stored, method, bits)


def _unpacked(tensor: Tensor, stored: int, method: str, bits: int | None) -> int | None:
    width = _INTEGERS[tensor.dtype]
    if method in ("gptq", "awq") and tensor.name.endswith(".qweight") and bits:
        return stored * width // bits  # GPTQ packs 3 bits across integers, so this is not 32 // bits
    if method == "compressed-tensors" and tensor.name.endswith(".weight_packed") and bits:
        return stored * (width // bits)
    if method == "mlx" and tensor.dtype == "U32" and bits:
        return stored * width // bits
    if method in _FOUR_BIT_BYTES and tensor.dtype == "U8" and bits == 4:
        return stored * 2
    return stored if tensor.dtype == "I8" and bits == 8 else None


def _product(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 32 else None
