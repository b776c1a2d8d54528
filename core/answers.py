"""Answers of `core.plan` on disk: one JSON file each, the oldest deleted when they grow too many. Times in seconds since 1970."""

import contextlib
import hashlib
import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core import version

SHAPE = 2
"""Counted up when a job's answers change their shape, so that old ones are not read any more; a new release makes all anew."""
LARGEST_BYTES = 100_000_000


@dataclass(frozen=True)
class Made:
    """An answer and when it was made."""

    data: Any
    made_s: float


def key(task: str, arguments: dict[str, Any], files: str = "") -> str:
    """The name of a job's answer: its task's, and then equal for equal arguments, equal `files` and the same Draftgauge.

    files: what the answer depends on beside its arguments (`core.stamp`).
    """
    known = json.dumps([SHAPE, version.VERSION, task, arguments, files], sort_keys=True)
    return f"{task}-{hashlib.sha256(known.encode()).hexdigest()[:40]}"


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
        try:
            aside.write_text(json.dumps({"data": made.data, "made_s": made.made_s}))
            aside.replace(folder / f"{name}.json")
        finally:
            aside.unlink(missing_ok=True)  # half of it would keep a full disk full
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
