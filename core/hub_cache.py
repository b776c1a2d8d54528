"""The small files of Hub models on this machine: where they are kept, found again without a network, and deleted when they grow.

The layout is huggingface_hub's own, in a folder of this program, because the cache that Hugging Face tools share is not
ours to tidy; that one is read as well. Sizes in bytes.
"""

import shutil
from pathlib import Path

from huggingface_hub import constants, scan_cache_dir, try_to_load_from_cache

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

    The note's time is the model's last use: many file systems keep no time of the last reading.
    """
    note = cache_folder(settings) / f"models--{name.replace('/', '--')}" / "refs" / (revision or constants.DEFAULT_REVISION)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(commit)


def prune(settings: Settings, most_bytes: int = MOST_BYTES) -> None:
    """Delete the models that were used longest ago until the rest of this program's cache is small enough."""
    folder = cache_folder(settings)
    if not folder.is_dir():
        return
    kept = scan_cache_dir(folder)
    total_bytes = kept.size_on_disk
    for repository in sorted(kept.repos, key=lambda repository: _used_s(repository.repo_path)):
        if total_bytes <= most_bytes:
            return
        shutil.rmtree(repository.repo_path, ignore_errors=True)  # another process may be deleting it too
        total_bytes -= repository.size_on_disk


def _used_s(folder: Path) -> float:
    return max((note.stat().st_mtime for note in (folder / "refs").rglob("*")), default=0.0)
