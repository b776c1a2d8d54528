"""Fixtures that several test files share: settings in a temporary folder, small model folders, a spec, traces."""

import contextlib
import json
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from core.bench import Bench
from core.child import Entry
from core.runs import ModelRef, Prompt, RunSpec
from core.settings import Settings
from core.store import Store, open_store
from core.trace import Lookup, PromptTrace, Tails


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Everything below one temporary folder, device locks too."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return Settings(data=tmp_path / "data", model_roots=[tmp_path / "models"], threads=1)


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    opened = open_store(settings)
    yield opened
    opened.close()


@pytest.fixture
def spec(settings: Settings) -> RunSpec:
    """A pair of folders that look like models, and two prompts."""
    target, draft = (model_folder(settings.model_roots[0] / name) for name in ("target", "draft"))
    prompts = (Prompt(text="def add(a, b):", label="code"), Prompt(text="Once upon a time", label="prose"))
    return RunSpec(target=target, draft=draft, prompts=prompts, max_new_tokens=8)


@pytest.fixture
def bench(settings: Settings, store: Store) -> Iterator[Bench]:
    """A bench whose worker does the jobs of `tests.jobs`."""
    with contextlib.closing(Bench(settings, store, entry=Entry("tests.jobs:by_seed", "tests.jobs:devices"))) as opened:
        yield opened


@pytest.fixture
def cold_bench(settings: Settings, store: Store) -> Iterator[Bench]:
    """The same without a worker until there is work, for tests that only look at pages."""
    with contextlib.closing(Bench(settings, store, prewarm=(), entry=Entry("tests.jobs:by_seed", "tests.jobs:devices"))) as opened:
        yield opened


@pytest.fixture
def app_site(settings: Settings, store: Store, cold_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The pages over this test's store, with a synthetic run in the example's place."""
    from core import demo
    from core.ui import desk
    from tests import synthetic

    run = synthetic.run("example")
    monkeypatch.setattr(desk, "_open", lambda: (store, cold_bench))
    monkeypatch.setattr(desk, "settings", lambda: settings)
    monkeypatch.setattr(desk, "example", lambda: run)
    monkeypatch.setattr(demo, "prompts", lambda: run.spec.prompts)
    desk._analysis.clear()
    yield
    desk._analysis.clear()


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
    if os.geteuid() != 0 and not os.environ.get("CI"):
        pytest.skip("mounting a tmpfs needs root")
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def free_bytes(folder: Path) -> int:
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize
