"""Drafts that differ from the embedded one in what a verdict depends on, and answers of the real planner about them."""

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from core import demo
from core.candidates import Setting, View, gather
from core.planner import Planner
from core.settings import Settings

DRAFT = Path(demo.DRAFT.path)
HOSTILE = "x **b** $y$ [a](b) <i>"


def make(root: Path) -> None:
    """Folders below `root`: permuted ids, one more row, both, no tokenizer, no head, no attention heads, two
    number formats at once, one with a name full of markup, and one
    with nothing but a config.
    """
    _copy(root / "permuted", rotate=True)
    _copy(root / "padded", vocab_size=4224)
    _copy(root / "other", vocab_size=4224, rotate=True)
    _copy(root / HOSTILE)
    _copy(root / "mute", architectures=["LlamaModel"])
    _copy(root / "headless", num_attention_heads=0)
    _copy(root / "torn", dtype="float32", torch_dtype="bfloat16")
    _copy(root / "wordless")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (root / "wordless" / file).unlink()

    (root / "bare").mkdir()
    shutil.copy(DRAFT / "config.json", root / "bare")


@contextmanager
def offline(folder: Path) -> Iterator[Planner]:
    """A planner over the models in `folder`/models, whose processes never call the Hub."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        made = Planner(Settings(data=folder / "data", model_roots=[folder / "models"]))
        yield made
        made.close()


def known(planner: Planner, target: str, drafts: Sequence[str], within_s: float = 60.0) -> View:
    """What the planner says once nothing is awaited any more."""
    began = time.monotonic()
    while (view := gather(planner.ask, target, drafts, Setting())).waiting:
        assert time.monotonic() - began < within_s, "the planner did not answer"
        time.sleep(0.05)
    return view


def _copy(folder: Path, *, rotate: bool = False, **config: Any) -> None:
    shutil.copytree(DRAFT, folder)
    stated = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(stated | config))
    if rotate:
        tokenizer = json.loads((folder / "tokenizer.json").read_text())
        vocab: dict[str, int] = tokenizer["model"]["vocab"]
        tokenizer["model"]["vocab"] = {token: id_ if id_ == 0 else id_ % (len(vocab) - 1) + 1 for token, id_ in vocab.items()}
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
