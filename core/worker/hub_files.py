"""Which files of a Hub repository a model needs, whether they are in the Hub's cache, and how they get there.

Only what Transformers reads: configuration, tokenizer, and the safetensors weights that it would choose;
never pickled weights, never code. Everything goes through huggingface_hub, which obeys HF_TOKEN,
HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE. Unit: bytes. Not covered: several variants of the weights
(only the main one is read), GGUF files in a repository.
"""

import glob
import json
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import get_cached_repo_tree, snapshot_download
from huggingface_hub.errors import CachedRepoTreeNotFoundError
from huggingface_hub.utils.tqdm import tqdm

from core.errors import ModelError
from core.hub_check import damaged, remove
from core.hub_client import token
from core.runs import ModelRef
from core.worker.hub_errors import sentences

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
SMALL = [
    *("config.json", "generation_config.json", INDEX),
    *("tokenizer*.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "tekken.json"),
    *("*.model", "*.tiktoken", "*.jinja", "chat_template.json"),
]
"""Patterns of all that is read beside the weights, at the top of a repository."""

_IN_FOLDERS = "*/*"
_PICKLED = (".bin", ".pt", ".pth", ".ckpt")
_TOLD_EVERY_BYTES = 1_000_000

Sizes = Mapping[str, int]
Tell = Callable[[int, int], None]


def whole(ref: ModelRef, cache: Path) -> Path | None:
    """The model's folder in the cache, or None when files are missing there, or nobody can tell. Never asks the network."""
    try:
        folder = small_files(ref, cache, local_files_only=True)
        return None if missing(ref, folder, _listed(ref, folder, cache)) else folder
    except (ModelError, OSError, ValueError, CachedRepoTreeNotFoundError):
        return None  # the process that downloads finds out why, and says so


def download(refs: Sequence[ModelRef], cache: Path, tell: Tell) -> list[Path]:
    """Fetch what is missing of all `refs` and return their folders; `tell` gets the weights' bytes done and in total.

    Raises ModelError, and HubUnreachable where another try may do.
    """
    wanted: list[tuple[ModelRef, Path, Sizes]] = []
    for ref in refs:
        with sentences(ref, cache):
            folder = small_files(ref, cache)
            wanted.append((ref, folder, missing(ref, folder, _listed_or_there(ref, folder, cache))))
    total = sum(sum(sizes.values()) for _, _, sizes in wanted)
    _check_space(cache, total)
    tell(0, total)
    counter = Counter(total, tell)
    for ref, folder, sizes in wanted:
        if sizes:
            with sentences(ref, cache):
                names = [glob.escape(name) for name in sizes]
                snapshot_download(
                    ref.path, revision=folder.name, cache_dir=cache, token=token() or False, allow_patterns=names, tqdm_class=_bars(counter)
                )
    for ref, folder, sizes in wanted:
        _check(ref, folder, sizes)
    return [folder for _, folder, _ in wanted]


def _check(ref: ModelRef, folder: Path, fetched: Sizes) -> None:
    """The library compares the length of what came, and not what came: a proxy or a disk may have changed it.

    Raises ModelError after damaged files were removed, so that another try fetches them anew.
    """
    small = [file.name for file in folder.iterdir() if file.name not in fetched and not file.name.endswith(".safetensors")]
    wrong = [name for name in (*fetched, *small) if damaged(folder / name)]
    for name in wrong:
        remove(folder / name)
    if wrong:
        raise ModelError(f"{wrong[0]} of {ref.path} arrived damaged: its checksum is not the Hub's. It was removed, so measure again.")


def small_files(ref: ModelRef, cache: Path, *, local_files_only: bool = False) -> Path:
    """The folder of this revision with everything but the weights. Without a network it is what the cache holds. Raises as the library does."""
    return Path(
        snapshot_download(
            ref.path,
            revision=ref.revision or None,
            cache_dir=cache,
            token=token() or False,
            allow_patterns=SMALL,
            ignore_patterns=[_IN_FOLDERS],
            local_files_only=local_files_only,
            tqdm_class=_bars(None),
        )
    )


def missing(ref: ModelRef, folder: Path, listed: Sizes) -> Sizes:
    """Name and size of the weights that are not in `folder`; `listed` are the repository's files. Raises ModelError when it is no usable model."""
    if "config.json" not in listed:
        raise ModelError(f"{ref.path} has no config.json, so it is no model that can be loaded. Choose another model.")
    return {name: listed[name] for name in _weights(ref, folder, listed) if not (folder / name).exists()}


def _weights(ref: ModelRef, folder: Path, listed: Sizes) -> list[str]:
    """The files that Transformers would read: the single one, else those that the index names."""
    if WEIGHTS in listed:
        return [WEIGHTS]
    if INDEX not in listed:
        pickled = any(name.endswith(_PICKLED) for name in listed)
        why = "only pickled ones, which can run code and are refused" if pickled else f"neither {WEIGHTS} nor its index"
        raise ModelError(f"{ref.path} has no safetensors weights ({why}). Choose a repository or revision that has them.")
    try:
        index: Any = json.loads((folder / INDEX).read_bytes())
        names = sorted({str(name) for name in index["weight_map"].values()})
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{INDEX} of {ref.path} is damaged ({error}). Choose another model or revision.") from error
    wrong = [name for name in names if Path(name).name != name or not name.endswith(".safetensors")]
    if wrong:
        raise ModelError(f"{INDEX} of {ref.path} names {wrong[0][:80]!r}, which is no safetensors file beside it. Choose another model or revision.")
    gone = [name for name in names if name not in listed]
    if gone:
        raise ModelError(f"{INDEX} of {ref.path} names {gone[0]!r}, which is not there. Choose another model or revision.")
    return names


def _listed(ref: ModelRef, folder: Path, cache: Path) -> Sizes:
    """Name and size of all files of the repository at this commit, as the cache remembers them."""
    return {file.path: file.size for file in get_cached_repo_tree(ref.path, revision=folder.name, cache_dir=cache)}


def _listed_or_there(ref: ModelRef, folder: Path, cache: Path) -> Sizes:
    """The same; without a network and a remembered listing it is what lies in the folder."""
    try:
        return _listed(ref, folder, cache)
    except CachedRepoTreeNotFoundError:
        return {file.name: file.stat().st_size for file in folder.iterdir()}


def _check_space(cache: Path, total_bytes: int) -> None:
    there = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free_bytes = shutil.disk_usage(there).free
    if total_bytes > free_bytes:
        raise ModelError(
            f"The models need {total_bytes / 1e9:,.1f} GB more in {cache}, where {free_bytes / 1e9:,.1f} GB are free. "
            "Free some space, or set HF_HOME to a folder on another disk."
        )


class Counter:
    """Sums what all threads receive, and tells it in steps of a megabyte."""

    def __init__(self, total: int, tell: Tell) -> None:
        self._total, self._tell = total, tell
        self._done = self._told = 0
        self._lock = threading.Lock()

    def add(self, received: int) -> None:
        """`received` more bytes; fewer than none when a server makes the library begin a file anew."""
        with self._lock:
            self._done += received
            if abs(self._done - self._told) >= _TOLD_EVERY_BYTES or self._done >= self._total:
                self._told = self._done
                self._tell(min(self._done, self._total), self._total)


def _bars(counter: Counter | None) -> type[tqdm]:
    """Progress bars that print nothing; the one over the bytes of all files together feeds `counter`."""

    class Bars(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._counts = kwargs.get("name") == "huggingface_hub.snapshot_download"
            super().__init__(*args, **{**kwargs, "disable": True})

        def update(self, n: float | None = 1) -> None:
            if counter is not None and self._counts:
                counter.add(int(n or 0))

    return Bars
