"""`describe` for a model on the Hub, or for what of it is on this machine when the Hub does not answer. Units: bytes, seconds."""

import re
from collections.abc import Collection
from pathlib import Path

from core.errors import ModelError
from core.headers import Tensor
from core.hub import Hub, Repository
from core.hub_cache import cached_folder, prune, remember
from core.hub_client import Limits, session, within
from core.hub_errors import HubUnreachable
from core.model_info import ModelInfo
from core.plan.model_files import FolderFiles, read_model
from core.runs import ModelRef
from core.settings import Settings

LIMITS = Limits()


def describe_hub(ref: ModelRef, settings: Settings, limits: Limits = LIMITS, endpoint: str | None = None) -> ModelInfo:
    """The model at its present commit. Raises ModelError where there is none, HubUnreachable where neither the Hub nor a cache has it.

    endpoint: the Hub to ask, else HF_ENDPOINT or the public one.
    """
    prune(settings)
    try:
        return within(limits, lambda: _online(ref, settings, limits, endpoint))
    except HubUnreachable as error:
        return _cached(ref, settings, error)


class _HubFiles:
    """Files fetched when they are asked for."""

    weights = True

    def __init__(self, hub: Hub, repository: Repository) -> None:
        self._hub, self._repository = hub, repository
        self.names: Collection[str] = repository.files

    def get(self, name: str) -> Path | None:
        return self._hub.file(self._repository, name)

    def tensors(self) -> list[Tensor]:
        return self._hub.tensors(self._repository)


def _online(ref: ModelRef, settings: Settings, limits: Limits, endpoint: str | None) -> ModelInfo:
    with session(limits) as meter:
        hub = Hub(settings, limits, meter, endpoint)
        repository = hub.repository(ref)
        try:
            info = read_model(repository.ref, _HubFiles(hub, repository), settings, repository.pipeline)
        except ModelError as error:  # a person knows the model, not the folders of the cache
            kept = rf"{re.escape(str(hub.cache))}/models--[^/]+/snapshots/[0-9a-f]+/(\S+)"
            raise ModelError(re.sub(kept, rf"\1 of {repository.id}", str(error))) from error
    remember(repository.id, ref.revision, repository.commit, settings)
    renamed = repository.id != repository.asked
    news = (f"{repository.asked} is called {repository.id} on the Hub now.",) if renamed else ()
    return info.model_copy(
        update={
            "bytes_read": meter.bytes_read,
            "warnings": (*news, *info.warnings),
            "licence": repository.licence,
            "gated": repository.gated,
            "downloads": repository.downloads,
            "renamed_from": repository.asked if renamed else "",
            "ask_access": f"{hub.endpoint}/{repository.id}" if repository.gated else "",
        }
    )


def _cached(ref: ModelRef, settings: Settings, error: HubUnreachable) -> ModelInfo:
    folder = cached_folder(ref, settings)
    if folder is None:
        raise HubUnreachable(f"{error} Nothing of {ref.path} is kept on this machine.") from error
    files = FolderFiles(ref, settings, folder)
    info = read_model(ref.model_copy(update={"revision": folder.name}), files, settings)
    read_s = (folder / "config.json").lstat().st_mtime
    lacking = "" if files.weights else " Its weights are not here, so their size is not known."
    note = f"{error} What is shown was read earlier and is kept on this machine.{lacking}"
    return info.model_copy(update={"cached": True, "read_s": read_s, "warnings": (note, *info.warnings)})
