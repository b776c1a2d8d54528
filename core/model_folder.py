"""What may lie in a model's folder, so that reading it reads nothing else of this machine and runs nothing.

A folder comes from whoever made the model. An archive may hold links to other files, pipes that never end, or a config that asks the
library for code; all of it is refused with a sentence before any library looks in. Transformers 5.24 never runs the folder's own code
unless told to (`trust_remote_code`), but its source shows ways round that: a config may name an implementation of attention or experts as
"owner/kernel", which the package kernels would fetch and import; with the package peft an adapter_config.json makes it load another
base model, from anywhere; an index of shards may name files elsewhere, or pickled ones; and so may `transformers_weights` in a config.
Configs may also name files to be read in their place: of a tokenizer from anywhere, of a config past what is looked at here.
Units: bytes.
Not covered: whoever may write into a root while Draftgauge runs can still swap a file between this look and the reading.
"""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from core.address import inside
from core.errors import ModelError
from core.settings import Settings
from core.usable import INDEX

MOST_ENTRIES = 10_000
LARGEST_CONFIG_BYTES = 1_000_000
"""Of a config.json; the largest that is known has 120 kB."""
LARGEST_INDEX_BYTES = 32_000_000
"""Of an index of shards; the largest that is known has 9 MB (DeepSeek V3)."""
LARGEST_TOKENIZER_CONFIG_BYTES = 8_000_000
"""Of a tokenizer_config.json; the largest that is known has 1 MB (a chat template and a thousand added tokens)."""
CONFIG = "config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
INSTEAD = {CONFIG: "configuration_files", TOKENIZER_CONFIG: "fast_tokenizer_files"}
"""Under which name a file states others that the library reads in its place, or in place of the tokenizer.json beside it."""
ADAPTER = "adapter_config.json"
IMPLEMENTATIONS = ("attn_implementation", "experts_implementation")
"""How the names of settings end that may name a kernel."""
OTHER_WEIGHTS = "transformers_weights"


def check_enclosed(folder: Path, settings: Settings) -> None:
    """Every file below `folder` must be a regular one that lies below a configured root, links followed. Raises ModelError."""
    for number, entry in enumerate(_entries(folder), start=1):
        if number > MOST_ENTRIES:
            raise ModelError(f"{folder} holds more than {MOST_ENTRIES:,} files, so it is no model folder. Choose another model.")
        if not inside(entry, settings):
            raise ModelError(f"{entry} is a link that leads out of the configured roots. Add the folder it leads to to DRAFTGAUGE_MODEL_ROOTS.")
        check_regular(entry)


def check_regular(entry: Path) -> None:
    """A file or a folder, links followed, and no pipe, socket or device, which could be read for ever. Raises ModelError."""
    try:
        mode = entry.stat().st_mode
    except OSError as error:
        raise ModelError(f"{entry} cannot be read ({error.strerror}). Remove it, or choose another model.") from error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ModelError(f"{entry} is neither a file nor a folder, so it is not read. Remove it, or choose another model.")


def check_harmless(folder: Path) -> None:
    """Nothing in the folder makes the library look or run elsewhere. Raises ModelError."""
    if (folder / ADAPTER).is_file():
        raise ModelError(f"{folder} holds an adapter ({ADAPTER}), which could bring another base model. Merge the two, or remove it.")
    if (folder / INDEX).is_file():
        shard_names(folder / INDEX)
    tokenizer, config = (read_config(folder / name) if (folder / name).is_file() else {} for name in (TOKENIZER_CONFIG, CONFIG))
    for name, stated in ((TOKENIZER_CONFIG, tokenizer), (CONFIG, config)):
        if stated.get(INSTEAD[name]):
            raise ModelError(f"{folder / name} names other files to read instead ({INSTEAD[name]}), which is not done here. Choose another model.")
    named = kernel(config)
    if named:
        raise ModelError(f"{folder / CONFIG} asks for code from the Hub ({named[:80]!r}), which is not run here. Choose another model.")
    if config.get(OTHER_WEIGHTS):
        raise ModelError(f"{folder / CONFIG} names weights of its own ({OTHER_WEIGHTS}), which are not read here. Choose another model.")


def read_config(file: Path) -> dict[str, Any]:
    """The object in a config.json or tokenizer_config.json. Raises ModelError where it is missing, too large, damaged, or something else."""
    content = _read(file, LARGEST_TOKENIZER_CONFIG_BYTES if file.name == TOKENIZER_CONFIG else LARGEST_CONFIG_BYTES, "config")
    try:
        config: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{file} cannot be read ({error}). Download the model again.") from error
    if not isinstance(config, dict):
        raise ModelError(f"{file} does not hold a JSON object. Download the model again.")
    return cast("dict[str, Any]", config)


def shard_names(index: Path) -> list[str]:
    """The files that an index of sharded weights names, all beside it. Raises ModelError when it is too large or damaged."""
    content = _read(index, LARGEST_INDEX_BYTES, "index")
    try:
        names = sorted({str(name) for name in json.loads(content)["weight_map"].values()})
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{index} is damaged. Download the model again.") from error
    wrong = [name for name in names if Path(name).name != name or not name.endswith(".safetensors")]
    if wrong or not names:
        raise ModelError(f"{index} names {wrong[0][:80]!r}, which is no weights file beside it." if wrong else f"{index} names no file.")
    return names


def kernel(config: dict[str, Any]) -> str:
    """The kernel that a config names anywhere in it, "" for none. Every path counts: names of built-in implementations have no slash."""
    waiting: list[tuple[str, Any]] = list(config.items())
    while waiting:
        key, value = waiting.pop()
        inner = list(cast("dict[str, Any]", value).items()) if isinstance(value, dict) else []
        if key.endswith(IMPLEMENTATIONS):
            values: list[Any] = [value, *(each for _, each in inner)]
            named = [entry for entry in values if isinstance(entry, str) and "/" in entry]
            if named:
                return named[0]
        waiting += inner
        waiting += [("", entry) for entry in cast("list[Any]", value)] if isinstance(value, list) else []
    return ""


def _read(file: Path, most_bytes: int, kind: str) -> bytes:
    try:
        with file.open("rb") as opened:
            content = opened.read(most_bytes + 1)
    except FileNotFoundError as error:
        raise ModelError(f"The model folder {file.parent} has no {file.name}. Download the model again.") from error
    except OSError as error:
        raise ModelError(f"{file} cannot be read ({error.strerror}). Download the model again.") from error
    if len(content) > most_bytes:
        raise ModelError(f"{file} has more than {most_bytes / 1e6:.0f} MB, which no {kind} has. Choose another model.")
    return content


def _entries(folder: Path) -> Iterator[Path]:
    """Everything below a folder; what a linked folder holds is not entered, because the link itself is among them."""
    for place, folders, files in os.walk(folder):
        yield from (Path(place) / name for name in (*folders, *files))
