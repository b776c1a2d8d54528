"""What the header of a safetensors file says: each tensor's name, number format, shape and bytes, without its values.

Format: https://github.com/huggingface/safetensors (8 bytes of length, then JSON, then the data). Not covered:
whether the values are good.
"""

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from core.errors import ModelError

LONGEST_HEADER_BYTES = 100_000_000
"""The limit of the safetensors format itself."""
MOST_DIMENSIONS = 16
BITS = {
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}
"""Of an element in each number format that the library knows (`safetensors` 0.8, `Dtype`)."""


class Tensor(NamedTuple):
    """One stored tensor. `dtype` is the format's word (BF16, I32, F8_E4M3); shape in stored elements."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int


def read_header(file: Path) -> list[Tensor]:
    """The tensors of a local file, whose length must be the one that its header says. Raises ModelError."""
    try:
        size_bytes = file.stat().st_size
        with file.open("rb") as opened:
            length = opened.read(8)
            header_bytes = struct.unpack("<Q", length)[0] if len(length) == 8 else size_bytes
            if header_bytes > min(size_bytes - 8, LONGEST_HEADER_BYTES):
                raise ModelError(f"{file} is cut off or not a safetensors file ({size_bytes:,} bytes). Download the model again.")
            header: Any = json.loads(opened.read(header_bytes))
        found = tensors(header)
        data_bytes = max((entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"), default=0)
    except (OSError, ValueError, RecursionError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ModelError(f"{file} has a damaged header ({str(error)[:200]}). Download the model again.") from error
    if 8 + header_bytes + data_bytes != size_bytes:
        raise ModelError(f"{file} has {size_bytes:,} bytes where {8 + header_bytes + data_bytes:,} belong. Download the model again.")
    return found


def tensors(header: Mapping[str, Any]) -> list[Tensor]:
    """The tensors of a parsed header. Raises KeyError, TypeError, ValueError, IndexError or AttributeError where it is malformed."""
    return [_tensor(name, entry) for name, entry in header.items() if name != "__metadata__"]


def _tensor(name: str, entry: Mapping[str, Any]) -> Tensor:
    start, end = (_whole(name, place) for place in cast("list[object]", entry["data_offsets"]))
    sizes = cast("list[object]", entry["shape"])
    if len(sizes) > MOST_DIMENSIONS:
        raise ValueError(f"the tensor {name[:80]!r} has {len(sizes):,} dimensions")
    shape, dtype = tuple(_whole(name, size) for size in sizes), str(entry["dtype"])
    bits = BITS.get(dtype)
    if start > end or (bits is not None and math.prod(shape) * bits != (end - start) * 8):
        raise ValueError(f"the tensor {name[:80]!r} has the shape {shape} in {dtype[:20]!r} and lies from {start} to {end}")
    return Tensor(name, dtype, shape, end - start)


def _whole(name: str, value: object) -> int:
    """A size or a place. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(f"the tensor {name[:80]!r} has {str(value)[:40]!r} where a size or a place belongs")
    return value
