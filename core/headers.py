"""What the header of a safetensors file says: each tensor's name, number format, shape and bytes, without its values.

Format: https://github.com/huggingface/safetensors (8 bytes of length, then JSON, then the data). Not covered:
whether the values are good.
"""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from core.errors import ModelError

LONGEST_HEADER_BYTES = 100_000_000
"""The limit of the safetensors format itself."""


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
        raise ModelError(f"{file} has a damaged header ({error}). Download the model again.") from error
    if 8 + header_bytes + data_bytes != size_bytes:
        raise ModelError(f"{file} has {size_bytes:,} bytes where {8 + header_bytes + data_bytes:,} belong. Download the model again.")
    return found


def tensors(header: Mapping[str, Any]) -> list[Tensor]:
    """The tensors of a parsed header. Raises KeyError, TypeError, ValueError, IndexError or AttributeError where it is malformed."""
    return [_tensor(name, entry) for name, entry in header.items() if name != "__metadata__"]


def _tensor(name: str, entry: Mapping[str, Any]) -> Tensor:
    start, end = cast("list[object]", entry["data_offsets"])
    shape = tuple(cast("list[object]", entry["shape"]))
    if not (isinstance(start, int) and isinstance(end, int) and 0 <= start <= end and all(isinstance(n, int) and n >= 0 for n in shape)):
        raise ValueError(f"the tensor {name[:80]!r} has the shape {shape} and lies from {start} to {end}")
    return Tensor(name, str(entry["dtype"]), cast("tuple[int, ...]", shape), end - start)
