"""What the tests of the Hub serve and ask for: the demo target as a repository, whole or edited, and limits that make faults quick."""

import json
import struct
from pathlib import Path
from typing import Any

from core import demo
from core.hub_client import Limits
from core.model_info import ModelInfo
from core.plan.describe_hub import describe_hub
from core.runs import ModelRef
from core.settings import Settings
from tests.hub_server import COMMIT, HubServer, Repo

QUICK = Limits(connect_s=1.0, read_s=0.5, total_s=1.5, longest_wait_s=0.5, pause_s=0.05)
SLACK_S = 1.5
ID = "acme/target"
API = "GET /api/models"
CONFIG = f"GET /{ID}/resolve/{COMMIT}/config.json"
WEIGHTS = f"GET /storage/{ID}//model.safetensors"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n"


def demo_repo(**changes: bytes | None) -> Repo:
    """The demo target's files, with some replaced or left out (None); `config_json=` means config.json."""
    files: dict[str, bytes | Path] = {file.name: file for file in Path(demo.TARGET.path).iterdir()}
    for name, content in changes.items():
        files.pop(dotted := name.replace("__", "."), None)
        if content is not None:
            files[dotted] = content
    return Repo(files, large={"model.safetensors", "tokenizer.json"})


def config(**changes: Any) -> bytes:
    stated = json.loads((Path(demo.TARGET.path) / "config.json").read_text())
    return json.dumps({key: value for key, value in {**stated, **changes}.items() if value is not None}).encode()


def ref(name: str = ID, revision: str = "") -> ModelRef:
    return ModelRef(source="hub", name=name, path=name, revision=revision)


def described(hub: HubServer, settings: Settings, name: str = ID, limits: Limits = QUICK, revision: str = "") -> ModelInfo:
    return describe_hub(ref(name, revision), settings, limits, hub.url)


def safetensors(tensors: dict[str, tuple[str, list[int]]], pad: int = 0) -> bytes:
    """A header alone, as long as the reader needs it: two bytes an element."""
    rows, at = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = 2 * shape[0] * shape[1]
        rows[name], at = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}, at + size
    header = json.dumps(rows).encode() + b" " * pad
    return struct.pack("<Q", len(header)) + header
