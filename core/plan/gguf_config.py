"""`python -m core.plan.gguf_config FILE`: what `core.plan.describe_gguf` starts; not meant for people.

Prints one line of JSON: the config as Transformers maps it, bytes by tensor type, parameters (elements of all tensors but the
tables of rotary frequencies), quantisation (the type that holds most bytes, "" for plain numbers) and licence; or {"error": sentence}.

Transformers' mapping of some thirty architectures is used and not copied. It would import torch (5 s) and read every token with numpy
(9 s for Gemma 3), of which the mapping needs neither: so this process has no torch, and hands it a head that was read already.
"""

import json
import logging
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from core.errors import ModelError
from core.plan.gguf_file import Head, read_head

NOT_INSTALLED = "GGUF files are read with the package gguf, which is not installed. Install it: pip install gguf."
TOKENS = "tokenizer.ggml.tokens"
UNPACKED = ("F64", "F32", "F16", "BF16", "")
UNSIGNED, FLOAT, BOOLEAN, STRING = 4, 6, 7, 8
"""The format's numbers for the types of values."""


class Field(NamedTuple):
    """One entry of the metadata as gguf.GGUFReader would give it: values, their places, and their type."""

    parts: list[Any]
    data: list[int]
    types: list[int]


class Named(NamedTuple):
    """A tensor as far as the mapping looks at it."""

    name: str


class Reader:
    """What the mapping uses of gguf.GGUFReader."""

    def __init__(self, head: Head) -> None:
        self.fields = {key: _field(value) for key, value in head.metadata.items() if key != TOKENS}
        self.tensors = [Named(tensor.name) for tensor in head.tensors]


def main() -> None:
    """Read the file named by the only argument."""
    sys.modules["torch"] = None  # pyright: ignore[reportArgumentType]  # to the import system: there is none
    logging.disable()
    voice = os.dup(1)
    os.dup2(2, 1)  # what libraries print is not the answer
    try:
        answer = read(Path(sys.argv[1]))
    except ModelError as error:
        answer = {"error": str(error)}
    os.write(voice, json.dumps(answer).encode() + b"\n")


def read(file: Path) -> dict[str, Any]:
    """The answer for one file. Raises ModelError, and whatever the mapping raises for values that it does not expect."""
    try:
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
    except ModuleNotFoundError:
        return {"error": NOT_INSTALLED}
    head = read_head(file, lambda key: key == TOKENS or not key.startswith("tokenizer."))
    sizes: defaultdict[str, int] = defaultdict(int)
    size_bytes = file.stat().st_size
    for tensor in head.tensors:
        kind = GGMLQuantizationType(tensor.kind)
        elements, block_bytes = GGML_QUANT_SIZES[kind]
        sizes[kind.name] += (own := tensor.elements // elements * block_bytes)
        if head.data_at + tensor.offset + own > size_bytes:
            raise ModelError(f"{file} is cut off: it ends before {tensor.name[:80]!r} does. Download it again.")
    licence, most = head.metadata.get("general.license"), max(sizes, key=lambda kind: sizes[kind], default="")
    answer = {
        "config": {},
        "bytes": dict(sizes),
        "parameters": sum(tensor.elements for tensor in head.tensors if not tensor.name.startswith("rope_")),
        "quantisation": "" if most in UNPACKED else most,
        "licence": licence[:80] if isinstance(licence, str) else "",
    }
    try:
        return answer | {"config": _config(head)}
    except ValueError:  # the library's word for an architecture that it does not map
        return answer | {"refusal": f"Transformers 5.24 cannot read the architecture of {file.name}. Choose another model, or its safetensors."}


def _config(head: Head) -> dict[str, Any]:
    """As Transformers maps it. It counts the tokens where no size is stated; they are left out of what it is given."""
    import gguf
    from transformers import modeling_gguf_pytorch_utils as library

    gguf.GGUFReader = lambda _: Reader(head)  # pyright: ignore[reportPrivateImportUsage, reportAttributeAccessIssue]
    library.is_torch_available = lambda: True  # pyright: ignore[reportPrivateImportUsage]  # asked for at the door, used for tensors alone
    config: dict[str, Any] = library.load_gguf_checkpoint("")["config"]
    tokens = head.metadata.get(TOKENS)
    return {"vocab_size": len(tokens)} | config if isinstance(tokens, list) else config


def _field(value: Any) -> Field:
    values: list[Any] = value if isinstance(value, list) else [value]
    parts = [each.encode() if isinstance(each, str) else [each] for each in values]
    return Field(parts, list(range(len(values))), [_type(each) for each in values[:1]])


def _type(value: Any) -> int:
    """Whole numbers, signed or not, are read alike."""
    kinds = {bool: BOOLEAN, int: UNSIGNED, float: FLOAT, str: STRING}
    return kinds[type(value)]


if __name__ == "__main__":
    main()
