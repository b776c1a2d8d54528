"""Answers of `core.plan` on disk: one JSON file each, the oldest deleted when they grow too many. Times in seconds since 1970."""

import contextlib
import hashlib
import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VERSION = 2
"""Counted up when a job's answers change their shape, so that old ones are not read any more."""
LARGEST_BYTES = 100_000_000


@dataclass(frozen=True)
class Made:
    """An answer and when it was made."""

    data: Any
    made_s: float


def key(task: str, arguments: dict[str, Any]) -> str:
    """The name of a job's answer: its task's, and then equal for equal arguments."""
    return f"{task}-{hashlib.sha256(json.dumps([VERSION, task, arguments], sort_keys=True).encode()).hexdigest()[:40]}"


def read(folder: Path, name: str) -> Made | None:
    """The answer kept under this name; None when it is missing or damaged."""
    try:
        found: Any = json.loads((folder / f"{name}.json").read_bytes())
        return Made(found["data"], float(found["made_s"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(folder: Path, name: str, made: Made) -> None:
    """Written aside and moved, so that a reader never sees half of it. A full disk costs the copy, not the answer."""
    aside = folder / f"{name}.{threading.get_ident()}"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        aside.write_text(json.dumps({"data": made.data, "made_s": made.made_s}))
        aside.replace(folder / f"{name}.json")
        prune(folder, LARGEST_BYTES)


def forget(folder: Path, task: str) -> None:
    """Delete all answers of a task. Raises OSError where one cannot be deleted."""
    for file in folder.glob(f"{task}-*.json"):
        file.unlink(missing_ok=True)


def prune(folder: Path, most_bytes: int) -> None:
    """Delete the oldest files until the rest is small enough."""
    files = sorted(((file.stat().st_mtime_ns, file.stat().st_size, file) for file in folder.iterdir()), reverse=True)
    total = 0
    for _, size, file in files:
        total += size
        if total > most_bytes:
            file.unlink(missing_ok=True)
