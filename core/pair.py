"""The models that can be chosen, and whether a chosen one is there and whole.

Only the embedded pair, folders and GGUF files below a configured root, and well-formed Hub ids can be chosen: the page is
not a way to read other files. Headers are read, weights are not. What it does not cover: whether two models fit
together (the worker compares their vocabularies), whether the weights are good, and whether a Hub id exists.
"""

from pathlib import Path

from core import demo
from core.address import address, is_hub_id, resolve
from core.errors import InvalidInput, ModelError
from core.headers import read_header
from core.model_folder import check_enclosed, check_harmless, check_regular, read_config
from core.runs import ModelRef
from core.settings import Settings
from core.usable import judge_weights

GGUF_MAGIC = b"GGUF"
MOST_GGUF_FILES = 1_000


def available(settings: Settings) -> list[ModelRef]:
    """The embedded models first, then each folder with a config.json below a root, then each GGUF file there, by name."""
    folders = [folder for root in settings.model_roots for folder in _folders(root)]
    files = [(file, root) for root in settings.model_roots for file in _gguf_files(root)]
    return [
        demo.TARGET,
        demo.DRAFT,
        *(ModelRef(source="folder", name=folder.name, path=str(folder)) for folder in folders),
        *(ModelRef(source="gguf", name=str(file.relative_to(root)), path=str(file)) for file, root in files),
    ]


def check(ref: ModelRef, settings: Settings, *, weights: bool = True) -> None:
    """Raise InvalidInput when `ref` is not one of the models on offer, ModelError when its files are missing or damaged.

    weights: without them a folder with a config.json is enough.
    """
    if ref.source == "hub":
        _check_hub(ref, settings)
    elif not _offered(ref, settings):
        raise InvalidInput(f"The model folder {ref.path} is not below a configured root. Add its parent to DRAFTGAUGE_MODEL_ROOTS.")
    elif ref.source == "gguf":
        _check_gguf(Path(ref.path))
    else:
        _check_folder(ref, settings, weights)


def _folders(root: Path) -> list[Path]:
    """Model folders directly below `root` that really lie there: links that lead out of it are left out."""
    if not root.is_dir():
        return []
    return [folder for folder in sorted(root.iterdir()) if _inside(folder, root) and (folder / "config.json").is_file()]


def _gguf_files(root: Path) -> list[Path]:
    """GGUF files in `root` and in its folders, by name; links that lead out of it are left out."""
    if not root.is_dir():
        return []
    found = sorted([*root.glob("*.gguf"), *root.glob("*/*.gguf")])
    return [file for file in found if file.is_file() and file.resolve().is_relative_to(root.resolve())][:MOST_GGUF_FILES]


def _offered(ref: ModelRef, settings: Settings) -> bool:
    if ref.source == "demo":
        return ref.path in (demo.TARGET.path, demo.DRAFT.path)
    path, deepest = Path(ref.path), 2 if ref.source == "gguf" else 1
    return any(_depth(path, root) in range(1, deepest + 1) for root in settings.model_roots)


def _depth(path: Path, root: Path) -> int:
    """How many levels a path lies below its root, as written and with all links followed; 0 where it does not."""
    if ".." in path.parts or not path.is_relative_to(root) or not path.resolve().is_relative_to(root.resolve()):
        return 0
    return max(len(path.relative_to(root).parts), len(path.resolve().relative_to(root.resolve()).parts))


def _inside(folder: Path, root: Path) -> bool:
    return folder.resolve().parent == root.resolve()


def _check_hub(ref: ModelRef, settings: Settings) -> None:
    if not is_hub_id(ref.path) or resolve(address(ref), settings).path != ref.path:
        raise InvalidInput(f"{ref.path[:80]!r} is no Hub id. Write it as owner/name, for example Qwen/Qwen3-0.6B.")


def _check_gguf(file: Path) -> None:
    check_regular(file)
    try:
        with file.open("rb") as opened:
            magic = opened.read(4)
    except OSError as error:
        raise ModelError(f"The GGUF file {file} cannot be read ({error.strerror}). Choose another model or put it back.") from error
    if magic != GGUF_MAGIC:
        raise ModelError(f"{file} is not a GGUF file: it does not begin with the letters GGUF. Download it again.")


def _check_folder(ref: ModelRef, settings: Settings, weights: bool) -> None:
    folder = Path(ref.path)
    if not folder.is_dir():
        raise ModelError(f"The model folder {folder} does not exist. Choose another model or put it back.")
    if ref.source == "folder":
        check_enclosed(folder, settings)
    read_config(folder / "config.json")
    check_harmless(folder)
    if not weights:
        return
    files = [file.name for file in folder.iterdir()]
    refusal = judge_weights(f"The model folder {folder}", files)
    if refusal:
        raise ModelError(refusal)
    for name in sorted(files):
        if name.endswith(".safetensors"):
            read_header(folder / name)
