"""The models that can be chosen, and whether a chosen one is there and whole.

Only the embedded pair and folders directly below a configured root can be chosen: the page is
not a way to read other files. Headers are read, weights are not. What it does not cover: whether
two models fit together (the worker compares their vocabularies) and whether the weights are good.
"""

import json
import struct
from pathlib import Path
from typing import Any

from core import demo
from core.errors import InvalidInput, ModelError
from core.runs import ModelRef
from core.settings import Settings

LONGEST_HEADER_BYTES = 100_000_000
"""The limit of the safetensors format itself."""


def available(settings: Settings) -> list[ModelRef]:
    """The embedded models first, then each folder with a config.json below a root, by name."""
    folders = [folder for root in settings.model_roots for folder in _folders(root)]
    return [demo.TARGET, demo.DRAFT, *(ModelRef(source="folder", name=folder.name, path=str(folder)) for folder in folders)]


def check(ref: ModelRef, settings: Settings) -> None:
    """Raise InvalidInput when `ref` is not one of the models on offer, ModelError when its folder is missing or damaged."""
    folder = Path(ref.path)
    if not _offered(ref, settings):
        raise InvalidInput(f"The model folder {ref.path} is not below a configured root. Add its parent to DRAFTGAUGE_MODEL_ROOTS.")
    if not folder.is_dir():
        raise ModelError(f"The model folder {folder} does not exist. Choose another model or put it back.")
    _check_config(folder / "config.json")
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise ModelError(f"The model folder {folder} has no .safetensors file. Download the weights in that format.")
    for file in weights:
        _check_safetensors(file)


def _folders(root: Path) -> list[Path]:
    """Model folders directly below `root` that really lie there: links that lead out of it are left out."""
    if not root.is_dir():
        return []
    return [folder for folder in sorted(root.iterdir()) if _inside(folder, root) and (folder / "config.json").is_file()]


def _offered(ref: ModelRef, settings: Settings) -> bool:
    if ref.source == "demo":
        return ref.path in (demo.TARGET.path, demo.DRAFT.path)
    return any(Path(ref.path).parent == root and _inside(Path(ref.path), root) for root in settings.model_roots)


def _inside(folder: Path, root: Path) -> bool:
    return folder.resolve().parent == root.resolve()


def _check_config(file: Path) -> None:
    try:
        config: Any = json.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise ModelError(f"The model folder {file.parent} has no config.json. Download the model again.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{file} cannot be read ({error}). Download the model again.") from error
    if not isinstance(config, dict):
        raise ModelError(f"{file} does not hold a JSON object. Download the model again.")


def _check_safetensors(file: Path) -> None:
    """The header must be whole and the file as long as the header says. Format: https://github.com/huggingface/safetensors"""
    try:
        size_bytes = file.stat().st_size
        with file.open("rb") as opened:
            length = opened.read(8)
            header_bytes = struct.unpack("<Q", length)[0] if len(length) == 8 else size_bytes
            if header_bytes > min(size_bytes - 8, LONGEST_HEADER_BYTES):
                raise ModelError(f"{file} is cut off or not a safetensors file ({size_bytes:,} bytes). Download the model again.")
            header: Any = json.loads(opened.read(header_bytes))
        data_bytes = max((entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"), default=0)
    except (OSError, ValueError, RecursionError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ModelError(f"{file} has a damaged header ({error}). Download the model again.") from error
    if 8 + header_bytes + data_bytes != size_bytes:
        raise ModelError(f"{file} has {size_bytes:,} bytes where {8 + header_bytes + data_bytes:,} belong. Download the model again.")
