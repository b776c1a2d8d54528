"""What several test files make for themselves: model folders, traces, a small disk."""

import contextlib
import json
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from core.runs import ModelRef
from core.trace import Lookup, PromptTrace, Tails


def model_folder(folder: Path) -> ModelRef:
    """A folder with a config and one tiny, whole safetensors file."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    header = json.dumps({"weight": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    return ModelRef(source="folder", name=folder.name, path=str(folder))


def random_trace(seed: int, tokens: int = 12, rich: bool = True) -> PromptTrace:
    """A trace with every field filled from a seeded generator; without tails and lookup when not `rich`."""
    rng = np.random.default_rng(seed)
    tails = Tails(
        position=np.arange(0, tokens, 3, dtype=np.int32),
        confidence=rng.random((len(range(0, tokens, 3)), 5), dtype=np.float32),
        eos_at=np.full(len(range(0, tokens, 3)), -1, np.int16),
    )
    lookup = {n: Lookup(rng.integers(0, 20, tokens, np.int16), rng.integers(0, 5, tokens, np.int16)) for n in (2, 3)}
    return PromptTrace(
        prompt_tokens=7 + seed,
        answer=rng.integers(0, 4096, tokens, np.int32),
        pieces=tuple(f"é\n{i}" for i in range(tokens)),
        ended="eos" if seed % 2 else "length",
        budget=64,
        accept=rng.random(tokens, dtype=np.float32),
        confidence=rng.random(tokens, dtype=np.float32),
        draft_choice=rng.integers(0, 4096, tokens, np.int32),
        draft_eos=rng.random(tokens) < 0.1,
        tails=tails if rich else None,
        lookup=lookup if rich else None,
    )


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A real file system of 1 MB. Needs root; only a machine that is no CI may go without."""
    import pytest  # workers read this module too, and need no pytest

    if os.geteuid() != 0 and not os.environ.get("CI"):
        pytest.skip("mounting a tmpfs needs root")
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def faulty_disk(folder: Path) -> Iterator[Path]:
    """A real file system of 4 MB for `break_disk` and `mend_disk`. Needs root; only a machine that is no CI may go without."""
    import pytest

    if os.geteuid() != 0 and not os.environ.get("CI"):
        pytest.skip("mounting a file system needs root")
    folder.mkdir()
    image = folder.with_suffix(".image")
    image.write_bytes(bytes(4_000_000))
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def break_disk(folder: Path) -> None:
    """What Linux does when a disk has a fault, some seconds after the last write: nothing can be written any more, whatever is open."""
    subprocess.run(["sync", "--file-system", str(folder)], check=True)
    subprocess.run(["mount", "-o", "remount,abort", str(folder)], check=True)


def mend_disk(folder: Path) -> None:
    """Once nothing is open on it any more."""
    subprocess.run(["umount", str(folder)], check=True)
    subprocess.run(["mount", "-o", "loop", str(folder.with_suffix(".image")), str(folder)], check=True)


def free_bytes(folder: Path) -> int:
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize
