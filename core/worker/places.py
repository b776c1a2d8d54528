"""Where the files of a pair are on this machine, and as what, so that a model written anew is loaded anew.

What is missing of Hub models is downloaded first. Not covered: whether the files are whole (loading tells).
"""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import ModelError
from core.model_folder import check_harmless
from core.runs import ModelRef, RunSpec
from core.stamp import stamp
from core.worker import download
from core.worker.download import Report

_FOR_GGUF = ("gguf", "accelerate")


@dataclass(frozen=True)
class Place:
    """Where a model's files are on this machine: a folder, and in it the GGUF file, "" for safetensors. files: their `core.stamp`."""

    folder: Path
    gguf_file: str = ""
    files: str = ""

    @property
    def loader(self) -> dict[str, Any]:
        """How Transformers is told to read it: these files only, and no code among them."""
        how: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        return {**how, "gguf_file": self.gguf_file} if self.gguf_file else how

    @property
    def weights_loader(self) -> dict[str, Any]:
        """The same for the weights: without this the library would fall back to pickled ones where safetensors are missing."""
        return self.loader if self.gguf_file else {**self.loader, "use_safetensors": True}


def places(spec: RunSpec, report: Report, *, weights: bool = True) -> tuple[Place, Place]:
    """Where target and draft are, after what is missing of Hub models was downloaded; their config.json alone without `weights`.

    Raises ModelError.
    """
    hub = [ref for ref in (spec.target, spec.draft) if ref.source == "hub"]
    folders = dict(zip(hub, download.fetch(hub, report, weights=weights), strict=True)) if hub else {}
    return _place(spec.target, folders, "target"), _place(spec.draft, folders, "draft")


def _place(ref: ModelRef, folders: dict[ModelRef, Path], role: str) -> Place:
    if ref.source == "gguf":
        return _gguf_place(Path(ref.path), role)
    folder = folders.get(ref, Path(ref.path))
    if not (folder / "config.json").is_file():
        what = "holds no config.json" if folder.is_dir() else "does not exist"
        raise ModelError(f"The {role}'s folder {folder} {what}. Choose another model, or put its files back.")
    check_harmless(folder)
    return Place(folder, files=stamp(folder))


def changed(place: Place) -> bool:
    """Whether the files are not those any more that were there when the place was looked up."""
    return stamp(place.folder / place.gguf_file if place.gguf_file else place.folder) != place.files


def _gguf_place(file: Path, role: str) -> Place:
    if not file.is_file():
        raise ModelError(f"The {role}'s file {file} does not exist. Choose another model, or put it back.")
    check_harmless(file.parent)
    needed = [package for package in _FOR_GGUF if importlib.util.find_spec(package) is None]
    if needed:
        raise ModelError(f"The {role} {file.name} is a GGUF file, and its reader is not installed. Install it with: pip install {' '.join(needed)}")
    return Place(file.parent, file.name, stamp(file))
