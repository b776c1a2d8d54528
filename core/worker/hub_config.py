"""The config.json of a Hub repository and nothing else of it, for pairs that are timed from their configurations.

Through huggingface_hub, which obeys HF_TOKEN, HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE; the file lands in the Hub's normal cache.
"""

from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

from core.errors import ModelError
from core.hub_client import token
from core.runs import ModelRef
from core.worker.hub_errors import sentences

FILE = "config.json"


def there(ref: ModelRef, cache: Path) -> Path | None:
    """The folder in the cache that holds the config of this revision, or None. Never asks the network."""
    try:
        return _folder(ref, cache, local_files_only=True)
    except (OSError, ValueError):
        return None  # the process that downloads finds out why, and says so


def download(refs: Sequence[ModelRef], cache: Path) -> list[Path]:
    """The folders with the configs of all `refs`, fetched where they are missing. Raises ModelError, HubUnreachable."""
    folders: list[Path] = []
    for ref in refs:
        with sentences(ref, cache):
            folders.append(_fetched(ref, cache))
    return folders


def _fetched(ref: ModelRef, cache: Path) -> Path:
    try:
        return _folder(ref, cache)
    except LocalEntryNotFoundError:
        raise
    except EntryNotFoundError as error:
        raise ModelError(f"{ref.path} has no {FILE}, so it is no model that can be built. Choose another model.") from error


def _folder(ref: ModelRef, cache: Path, *, local_files_only: bool = False) -> Path:
    file = hf_hub_download(ref.path, FILE, revision=ref.revision or None, cache_dir=cache, token=token() or False, local_files_only=local_files_only)
    return Path(file).parent
