"""The job behind `describe`: an address in, a ModelInfo out, from a few kilobytes and without the weights.

Light: no torch and no Transformers in this process. Only what cannot be read at all raises; what a model is, even one that
cannot be used, is an answer (`refusal`). Not covered: sizes of caches (`core.plan.cache_profile`).
"""

from collections.abc import Callable
from typing import Any

from core.address import resolve
from core.model_info import ModelInfo
from core.plan.describe_gguf import describe_gguf
from core.plan.describe_hub import describe_hub
from core.plan.model_files import FolderFiles, read_model
from core.settings import Settings


def describe(arguments: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Job: {"model": address} -> ModelInfo as JSON. Raises InvalidInput for what is no address, and what the readers raise."""
    ref = resolve(str(arguments.get("model", "")), settings)
    readers: dict[str, Callable[[], ModelInfo]] = {
        "hub": lambda: describe_hub(ref, settings),
        "gguf": lambda: describe_gguf(ref, settings),
    }
    return readers.get(ref.source, lambda: read_model(ref, FolderFiles(ref, settings), settings))().model_dump(mode="json")
