"""Model folders: which are offered, and a sentence for each way in which one can be damaged."""

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from core import demo
from core.errors import InvalidInput, ModelError
from core.pair import available, check
from core.runs import ModelRef
from core.settings import Settings
from tests.supplies import model_folder


@pytest.fixture
def root(settings: Settings) -> Path:
    settings.model_roots[0].mkdir()
    return settings.model_roots[0]


def test_the_demo_comes_first_then_folders_by_name(settings: Settings, root: Path) -> None:
    b, a = model_folder(root / "b"), model_folder(root / "a")
    (root / "notes").mkdir()
    (root / "file.txt").write_text("")
    assert available(settings) == [demo.TARGET, demo.DRAFT, a, b]


def test_a_missing_root_offers_nothing(settings: Settings) -> None:
    assert available(settings) == [demo.TARGET, demo.DRAFT]


def test_a_whole_folder_passes(settings: Settings, root: Path) -> None:
    check(model_folder(root / "whole"), settings)


def test_links_out_of_a_root_are_neither_offered_nor_accepted(settings: Settings, root: Path, tmp_path: Path) -> None:
    outside = model_folder(tmp_path / "private" / "secret")
    (root / "link").symlink_to(outside.path)
    assert available(settings) == [demo.TARGET, demo.DRAFT]
    with pytest.raises(InvalidInput, match="not below a configured root"):
        check(ModelRef(source="folder", name="link", path=str(root / "link")), settings)


@pytest.mark.parametrize("path", ["../private/secret", "/etc", "inner/deep", ".", ""])
def test_paths_that_leave_the_root_are_refused(settings: Settings, root: Path, tmp_path: Path, path: str) -> None:
    model_folder(tmp_path / "private" / "secret")
    model_folder(root / "inner" / "deep")
    with pytest.raises(InvalidInput, match="not below a configured root"):
        check(ModelRef(source="folder", name="x", path=str(root / path)), settings)


def test_a_demo_reference_must_be_the_demo(settings: Settings, root: Path) -> None:
    ref = model_folder(root / "model").model_copy(update={"source": "demo"})
    with pytest.raises(InvalidInput, match="not below a configured root"):
        check(ref, settings)


def cut(file: str, size: int) -> Callable[[Path], object]:
    return lambda folder: (folder / file).write_bytes((folder / file).read_bytes()[:size])


def holds(file: str, data: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / file).write_bytes(data)


def without(file: str) -> Callable[[Path], object]:
    return lambda folder: (folder / file).unlink()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (shutil.rmtree, "does not exist"),
        (without("config.json"), "has no config.json"),
        (cut("config.json", 12), "config.json cannot be read"),
        (holds("config.json", b"[]"), "JSON object"),
        (without("model.safetensors"), "has no weights"),
        (cut("model.safetensors", 0), "cut off"),
        (cut("model.safetensors", 20), "cut off"),
        (cut("model.safetensors", -1), "bytes where"),
        (holds("model.safetensors", struct.pack("<Q", 4) + b"{no}" + bytes(8)), "damaged header"),
        (holds("model.safetensors", struct.pack("<Q", 2) + b"[]"), "damaged header"),
        (holds("model.safetensors", b"<!DOCTYPE html><title>404</title>" * 10), "cut off"),
    ],
)
def test_a_damaged_folder_gives_a_sentence(settings: Settings, root: Path, damage: Callable[[Path], object], words: str) -> None:
    ref = model_folder(root / "model")
    damage(Path(ref.path))
    with pytest.raises(ModelError, match=words):
        check(ref, settings)


def test_a_config_is_enough_where_no_weights_are_asked_for(settings: Settings):
    folder = settings.model_roots[0] / "bare"
    folder.mkdir(parents=True)
    ref = ModelRef(source="folder", name="bare", path=str(folder))
    with pytest.raises(ModelError, match="config"):
        check(ref, settings, weights=False)
    (folder / "config.json").write_text('{"model_type": "llama"}')
    check(ref, settings, weights=False)
    with pytest.raises(ModelError, match="has no weights"):
        check(ref, settings)
