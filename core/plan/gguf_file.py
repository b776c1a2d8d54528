"""The head of a GGUF file: its metadata, and the names, shapes and types of its tensors, without their values.

The `gguf` package maps every value to numpy first and takes 9 s for the 262,144 tokens of Gemma 3;
this reads the same in a fraction of a second. Format, versions 2 and 3, little endian:
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (read 2026-11-29).
"""

import math
import struct
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from core.errors import ModelError

T = TypeVar("T")

LONGEST_HEAD_BYTES = 64_000_000
"""Several times the head of a model with 262,144 tokens, scores and merges (12 MB)."""
STRING, ARRAY = 8, 9
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
ALIGNMENT_BYTES = 32
"""Of the tensors' data, where the file does not say otherwise."""
MOST_DIMENSIONS = 4


class Tensor(NamedTuple):
    """A tensor as the head lists it: its number of elements, its type's number in ggml, and where in the data it begins, in bytes."""

    name: str
    elements: int
    kind: int
    offset: int


class Head(NamedTuple):
    """metadata: by key; tensors: in the file's order; data_at: where their data begins, in bytes."""

    metadata: dict[str, Any]
    tensors: list[Tensor]
    data_at: int


def read_metadata(file: Path, arrays: Collection[str]) -> dict[str, Any]:
    """Every scalar and string of the head by its key, and those `arrays`; other arrays are passed over.

    Raises ModelError when the file is missing, cut off, damaged, or of another version.
    """
    return _read(file, lambda head: head.metadata(arrays.__contains__))


def read_head(file: Path, arrays: Callable[[str], bool]) -> Head:
    """The metadata, of the arrays only those whose key `arrays` wants, and the list of tensors. Raises ModelError as `read_metadata`."""
    return _read(file, lambda head: head.whole(arrays))


def _read(file: Path, read: Callable[["_Head"], T]) -> T:
    if not file.is_file():
        raise ModelError(f"{file} does not exist or is no file. Choose another file.")
    try:
        with file.open("rb") as opened:
            head = opened.read(LONGEST_HEAD_BYTES)
    except OSError as error:
        raise ModelError(f"{file} cannot be read ({error.strerror}). Choose another file.") from error
    if head[:4] != b"GGUF":
        raise ModelError(f"{file} is not a GGUF file. Choose another file.")
    try:
        return read(_Head(head))
    except (struct.error, KeyError, UnicodeDecodeError, OverflowError, RecursionError) as error:
        why = f"its head is longer than {LONGEST_HEAD_BYTES / 1e6:.0f} MB or" if len(head) == LONGEST_HEAD_BYTES else "it is"
        raise ModelError(f"{file} cannot be read: {why} cut off or damaged. Download it again.") from error


class _Head:
    """A place in the bytes that moves on with each value."""

    def __init__(self, head: bytes) -> None:
        self._head = head
        self._at = 4

    def metadata(self, arrays: Callable[[str], bool]) -> dict[str, Any]:
        return self._metadata(arrays)[0]

    def whole(self, arrays: Callable[[str], bool]) -> Head:
        found, count = self._metadata(arrays)
        tensors = [self._tensor() for _ in range(count)]
        alignment = found.get("general.alignment", ALIGNMENT_BYTES)
        if not isinstance(alignment, int) or alignment <= 0:
            raise struct.error("the alignment is no number of bytes")
        return Head(found, tensors, -(-self._at // alignment) * alignment)

    def _metadata(self, arrays: Callable[[str], bool]) -> tuple[dict[str, Any], int]:
        """By key, and the number of tensors that are listed behind."""
        version = self._scalar("<I")
        if version not in (2, 3):
            raise ModelError(f"This GGUF file is of version {version} or of the other byte order; only versions 2 and 3, little endian, can be read.")
        tensors = self._scalar("<Q")
        found: dict[str, Any] = {}
        for _ in range(self._scalar("<Q")):
            key = self._string()
            value = self._value(self._scalar("<I"), arrays(key))
            if value is not None:
                found[key] = value
        return found, tensors

    def _tensor(self) -> Tensor:
        name, dimensions = self._string(), self._scalar("<I")
        if dimensions > MOST_DIMENSIONS:
            raise struct.error("a tensor has too many dimensions")
        elements = math.prod(self._scalar("<Q") for _ in range(dimensions))
        return Tensor(name, elements, self._scalar("<I"), self._scalar("<Q"))

    def _value(self, kind: int, wanted: bool) -> Any:
        if kind == STRING:
            return self._string()
        if kind != ARRAY:
            return self._scalar(SCALARS[kind])
        kind, count = self._scalar("<I"), self._scalar("<Q")
        if kind in SCALARS:
            return self._scalars(SCALARS[kind], count, wanted)
        if not wanted and kind == STRING:
            return self._pass_strings(count)
        items = [self._value(kind, wanted) for _ in range(count)]
        return items if wanted else None

    def _scalar(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self._head, self._at)
        self._at += struct.calcsize(form)
        return value

    def _scalars(self, form: str, count: int, wanted: bool) -> list[Any] | None:
        start, width = self._at, struct.calcsize(form)
        if count * width > len(self._head) - start:
            raise struct.error("the array is longer than the file")
        self._at = start + count * width
        return list(struct.unpack_from(f"<{count}{form[1]}", self._head, start)) if wanted else None

    def _string(self) -> str:
        length = self._scalar("<Q")
        if length > len(self._head) - self._at:
            raise struct.error("the string is longer than the file")
        self._at += length
        return self._head[self._at - length : self._at].decode("utf-8")

    def _pass_strings(self, count: int) -> None:
        for _ in range(count):
            length = self._scalar("<Q")
            self._at += length
