"""The small files of Hub models on this machine: where they are kept, found again without a network, and deleted when they grow.

The layout is huggingface_hub's own, in a folder of this program, because the cache that Hugging Face tools share is not
ours to tidy; that one is read as well. Sizes in bytes.
"""

import os
import shutil
from pathlib import Path

from huggingface_hub import constants, try_to_load_from_cache

from core.errors import StoreError
from core.runs import ModelRef
from core.settings import Settings

MOST_BYTES = 2_000_000_000


def cache_folder(settings: Settings) -> Path:
    """Where the small files of Hub models are kept."""
    return settings.data / "hub"


def cached_folder(ref: ModelRef, settings: Settings) -> Path | None:
    """The files of a model that are on this machine, of the revision asked for; None when its config.json is not."""
    for cache in (cache_folder(settings), Path(constants.HF_HUB_CACHE)):
        found = try_to_load_from_cache(ref.path, "config.json", cache_dir=cache, revision=ref.revision or None)
        if isinstance(found, str):
            return Path(found).parent
    return None


def remember(name: str, revision: str, commit: str, settings: Settings) -> None:
    """Note which commit a name and branch stood for, as the library does, so that the files are found without a network.

    Raises StoreError. The note's time is the model's last use: many file systems keep no time of the last reading.
    """
    note = cache_folder(settings) / f"models--{name.replace('/', '--')}" / "refs" / (revision or constants.DEFAULT_REVISION)
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(commit)
    except OSError as error:
        raise StoreError(f"The data folder {settings.data} cannot be written ({error.strerror}). Free space or set DRAFTGAUGE_DATA.") from error


def prune(settings: Settings, most_bytes: int = MOST_BYTES) -> None:
    """Delete the models that were used longest ago until the rest of this program's cache is small enough."""
    kept = sorted(cache_folder(settings).glob("models--*"), key=_used_s, reverse=True)
    total_bytes = 0
    for model in kept:
        total_bytes += _size_bytes(model)
        if total_bytes > most_bytes:
            shutil.rmtree(model, ignore_errors=True)  # another process may be deleting it too


def _used_s(model: Path) -> float:
    return max((_stat(note).st_mtime for note in (model / "refs").rglob("*")), default=0.0)


def _size_bytes(model: Path) -> int:
    return sum(_stat(file).st_size for file in (model / "blobs").glob("*"))


def _stat(file: Path) -> os.stat_result:
    """Of a file that another process may just have moved or deleted; all zeros then."""
    try:
        return file.stat()
    except FileNotFoundError:
        return os.stat_result((0,) * 10)
