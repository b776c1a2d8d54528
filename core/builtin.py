"""Models whose sizes are known without asking the Hub, so that memory and cost can be explored offline.

Config values of public models with their source, and the profile that `core.plan.cache_profile` read off each of them
(`tools/make_known_models.py` writes `core/known/models.json`; a test reads all of them off again). Units: bytes, as
`core.memory`. Not covered: tokenizers and weights; nothing can be measured with these.
"""

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from core.errors import InvalidInput
from core.memory_cache import CacheProfile, LayerCache

FILE = Path(__file__).parent / "known" / "models.json"


@dataclass(frozen=True)
class BuiltIn:
    """address: as on the Hub ("Qwen/Qwen3-8B"); source: where the config's values were read."""

    address: str
    config: dict[str, Any]
    profile: CacheProfile
    source: str


@cache
def models() -> tuple[BuiltIn, ...]:
    """All of them, in the order of families and sizes."""
    return tuple(_read(entry) for entry in json.loads(FILE.read_text(encoding="utf-8")))


def find(address: str) -> BuiltIn:
    """The built-in model of that address. Raises InvalidInput when there is none."""
    for model in models():
        if model.address == address:
            return model
    raise InvalidInput(f"{address!r} is not built in. Choose one of the list, or look it up on the Hub.")


def write(entries: list[BuiltIn], file: Path = FILE) -> None:
    """Store `entries`; layers that are alike are written once, with the order in which they come."""
    text = json.dumps([_plain(entry) for entry in entries], indent=1)
    file.write_text(text + "\n", encoding="utf-8")


def _plain(entry: BuiltIn) -> dict[str, Any]:
    distinct = list(dict.fromkeys(entry.profile.per_layer))
    profile = entry.profile.to_json() | {"per_layer": [asdict(layer) for layer in distinct]}
    order = [distinct.index(layer) for layer in entry.profile.per_layer]
    return {"address": entry.address, "source": entry.source, "config": entry.config, "profile": profile, "order": order}


def _read(entry: dict[str, Any]) -> BuiltIn:
    distinct = [LayerCache(**layer) for layer in entry["profile"]["per_layer"]]
    order: list[int] = entry["order"]
    layers = [asdict(distinct[index]) for index in order]
    profile = CacheProfile.from_json(entry["profile"] | {"per_layer": layers})
    return BuiltIn(entry["address"], entry["config"], profile, entry["source"])
