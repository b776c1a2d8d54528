"""What the Hub knows of a model: its files, its licence, the headers of its weights, and models found by name.

One `Hub` per job. The small files go into a cache of huggingface_hub's own layout below the data folder, oldest models
deleted first when it grows; headers are read by range requests. Every way in which a repository cannot be read is a
sentence. Units: bytes, seconds. Not covered: weights (the worker downloads them), and what the files mean.
"""

import contextlib
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from huggingface_hub import HfApi, ModelInfo, hf_hub_download
from huggingface_hub.errors import EntryNotFoundError, SafetensorsParsingError

from core.address import is_hub_id
from core.errors import DraftgaugeError, ModelError
from core.headers import Tensor, tensors
from core.hub_cache import cache_folder
from core.hub_check import damaged, remove
from core.hub_client import Limits, Meter, patiently, token
from core.hub_errors import MALFORMED, Asked, HubUnreachable, NotThere, sentences
from core.model_info import Found
from core.runs import ModelRef
from core.settings import Settings

T = TypeVar("T")

MOST_FOUND = 20
MOST_SHARDS = 400
READERS = 4
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Repository:
    """A model repository at one commit. asked: the name it was asked for by, which differs from `id` after a renaming."""

    id: str
    asked: str
    commit: str
    files: frozenset[str]
    gated: bool
    downloads: int | None
    licence: str
    pipeline: str
    tags: tuple[str, ...]

    @property
    def ref(self) -> ModelRef:
        """The model, pinned to this commit."""
        return ModelRef(source="hub", name=self.id, path=self.id, revision=self.commit)


class Hub:
    """Requests of one job; to be used inside `hub_client.session`."""

    def __init__(self, settings: Settings, limits: Limits, meter: Meter, endpoint: str | None = None) -> None:
        """`endpoint` is HF_ENDPOINT, else the public Hub, unless given. Raises InvalidInput for a token that cannot be one."""
        self._token: str | bool = token() or False
        self._api = HfApi(endpoint=endpoint, token=self._token)
        self._limits, self._meter = limits, meter
        self.cache = cache_folder(settings)

    @property
    def endpoint(self) -> str:
        """Where links to the Hub lead."""
        return self._api.endpoint

    def repository(self, ref: ModelRef) -> Repository:
        """What the Hub says about a model. Raises ModelError where there is none, HubUnreachable where the Hub does not answer."""
        try:
            with self._sentences(ref.path, ref.revision):
                found = self._ask(lambda: self._api.model_info(ref.path, revision=ref.revision or None, timeout=self._limits.read_s))
                return _repository(found, ref.path)
        except NotThere as error:
            if self._is_data_set(ref.path):
                raise ModelError(f"{ref.path} is a data set, not a model. Choose a model.") from error
            raise

    def file(self, repository: Repository, name: str) -> Path | None:
        """A small file of the repository in the cache, fetched unless it is there; None when the repository has none."""
        if name not in repository.files:
            return None
        self._meter.file = name
        try:
            with self._sentences(repository.id):
                fetch = partial(
                    hf_hub_download,
                    repository.id,
                    name,
                    revision=repository.commit,
                    cache_dir=self.cache,
                    endpoint=self._api.endpoint,
                    token=self._token,
                    etag_timeout=self._limits.read_s,
                )
                return self._checked(Path(self._ask(fetch)), repository)
        except EntryNotFoundError:
            return None
        finally:
            self._meter.file = ""

    def tensors(self, repository: Repository) -> list[Tensor]:
        """Every tensor that Transformers would load, from the headers of the files. Raises ModelError where one is damaged."""
        names = [SINGLE] if SINGLE in repository.files else self._shards(repository)
        with ThreadPoolExecutor(READERS) as pool:
            return [tensor for header in pool.map(partial(self._header, repository), names) for tensor in header]

    def search(self, text: str) -> list[Found]:
        """Text generation models with safetensors weights whose name holds `text`, most downloaded first; at most 20."""
        expand: Any = ["downloads", "gated", "lastModified", "tags", "safetensors"]
        with self._sentences(text):
            listing = partial(self._api.list_models, search=text or None, filter="safetensors", pipeline_tag="text-generation", expand=expand)
            return [_found(model) for model in self._ask(lambda: list(listing(sort="downloads", limit=MOST_FOUND)))]

    def _ask(self, request: Callable[[], T]) -> T:
        return patiently(self._limits, request)

    def _checked(self, file: Path, repository: Repository) -> Path:
        """The library compares the length of what came, and not what came."""
        if damaged(file):
            remove(file)
            raise HubUnreachable(f"{file.name} of {repository.id} arrived damaged: its checksum is not the Hub's. Try again; check proxies.")
        return file

    def _shards(self, repository: Repository) -> list[str]:
        index = self.file(repository, INDEX)
        try:
            names = sorted({str(name) for name in json.loads(index.read_bytes())["weight_map"].values()}) if index else []
        except MALFORMED as error:
            raise ModelError(f"{INDEX} of {repository.id} is damaged. Choose another model or revision.") from error
        absent = [name for name in names if name not in repository.files]
        if absent or not 0 < len(names) <= MOST_SHARDS:
            what = f"{absent[0][:80]!r}, which is not there" if absent else f"{len(names):,} files"
            raise ModelError(f"{INDEX} of {repository.id} names {what}. Choose another model or revision.")
        return names

    def _header(self, repository: Repository, name: str) -> list[Tensor]:
        read = partial(self._api.parse_safetensors_file_metadata, repository.id, name, revision=repository.commit, timeout=self._limits.read_s)
        with self._sentences(repository.id):
            try:
                header = self._ask(read)
                rows = {key: {"dtype": t.dtype, "shape": t.shape, "data_offsets": list(t.data_offsets)} for key, t in header.tensors.items()}
                return tensors(rows)
            except (SafetensorsParsingError, *MALFORMED) as error:
                raise ModelError(f"{name} of {repository.id} has a damaged header. Choose another model or revision.") from error

    def _sentences(self, wanted: str, revision: str = "") -> contextlib.AbstractContextManager[None]:
        return sentences(Asked(wanted, revision, self.endpoint, bool(self._token), self.cache))

    def _is_data_set(self, name: str) -> bool:
        try:
            with self._sentences(name):
                self._ask(lambda: self._api.dataset_info(name, timeout=self._limits.read_s))
        except DraftgaugeError:  # whatever it is that could not be asked, that there is no such model stands
            return False
        return True


def _repository(found: ModelInfo, asked: str) -> Repository:
    if not is_hub_id(found.id) or not _COMMIT.fullmatch(found.sha or ""):
        raise ValueError("the answer names no repository or no commit")
    return Repository(
        id=found.id,
        asked=asked,
        commit=cast("str", found.sha),
        files=frozenset(file.rfilename for file in found.siblings or ()),
        gated=bool(found.gated),
        downloads=found.downloads if isinstance(found.downloads, int) else None,
        licence=_licence(found),
        pipeline=str(found.pipeline_tag or ""),
        tags=tuple(str(tag) for tag in found.tags or ()),
    )


def _licence(found: ModelInfo) -> str:
    """From the model card, by its own name where it is not a common one; else from the tags."""
    card = found.card_data.to_dict() if found.card_data else {}
    stated = card.get("license")
    if stated in (None, "other"):
        stated = card.get("license_name") or stated
    if stated is None:
        stated = next((tag.removeprefix("license:") for tag in found.tags or () if tag.startswith("license:")), "")
    text = ", ".join(str(part) for part in cast("list[Any]", stated)) if isinstance(stated, list) else str(stated)
    return text[:80] if text.isprintable() else ""


def _found(model: ModelInfo) -> Found:
    counts = model.safetensors.parameters if model.safetensors else {}
    return Found(
        id=model.id,
        downloads=model.downloads,
        gated=bool(model.gated),
        updated=model.last_modified.date().isoformat() if model.last_modified else "",
        tags=tuple(str(tag) for tag in model.tags or ())[:40],
        parameters=sum(counts.values()) or None,
    )
