"""The address of a model: one line of text for links, forms and stored answers, and the way back to the model itself.

`owner/name` or `owner/name@revision` for the Hub, `demo:target`, `demo:draft`, `folder:NAME` for a folder directly below
a configured root, `gguf:NAME.gguf` or `gguf:FOLDER/NAME.gguf` for a file there. A pasted Hub link is read as its id.
An address comes from whoever wrote the link, so nothing that it names may lie outside the roots, links in the file
system included. Rules for Hub ids: `validate_repo_id` of huggingface_hub 2.4. Not covered: whether a Hub id exists.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from core import demo
from core.errors import InvalidInput
from core.runs import ModelRef
from core.settings import Settings

LONGEST_CHARACTERS = 400
LONGEST_NAME_BYTES = 255
"""Of a file or folder, on every usual file system; longer ones are an error of the system and not a name that is not there."""
_NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?"
_HUB_ID = re.compile(rf"(?:{_NAME}/)?{_NAME}", re.ASCII)
_REVISION = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_./+-]{0,98}[A-Za-z0-9_])?", re.ASCII)
_HUB_HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co")
_OTHER_KINDS = {"datasets": "a data set", "spaces": "a Space", "kernels": "a kernel", "buckets": "a bucket"}
_DEMO = {"target": demo.TARGET, "draft": demo.DRAFT}


def address(ref: ModelRef) -> str:
    """The address of a model, as it stands in a link. Raises InvalidInput for a demo model that does not exist."""
    if ref.source == "hub":
        return f"{ref.path}@{ref.revision}" if ref.revision else ref.path
    if ref.source != "demo":
        return f"{ref.source}:{ref.name}"
    for role, known in _DEMO.items():
        if ref.path == known.path:
            return f"demo:{role}"
    raise InvalidInput(f"There is no demo model in {ref.path!r}. Choose demo:target or demo:draft.")


def resolve(text: str, settings: Settings) -> ModelRef:
    """The model that an address or a pasted Hub link names.

    Folders and files must be there; a Hub id need only be well formed. Raises InvalidInput with what was wrong and what to write.
    """
    wanted = text.strip()
    if not wanted or len(wanted) > LONGEST_CHARACTERS or not wanted.isprintable():
        raise InvalidInput(f"{_shown(text)} is no model. Write a Hub id such as Qwen/Qwen3-0.6B, or choose a model from the list.")
    kind, _, name = wanted.partition(":")
    finders: dict[str, Callable[[], ModelRef]] = {
        "demo": lambda: _demo(name),
        "folder": lambda: _folder(name, settings),
        "gguf": lambda: _gguf(name, settings),
    }
    return finders.get(kind, lambda: _hub(wanted))()


def is_hub_id(text: str) -> bool:
    """Whether `text` has the form of a repository's name on the Hub."""
    return bool(_HUB_ID.fullmatch(text)) and "--" not in text and ".." not in text and not text.endswith(".git")


def inside(path: Path, settings: Settings) -> bool:
    """Whether a file or folder really lies below a configured root, all links followed."""
    real = path.resolve()
    return any(real.is_relative_to(root.resolve()) for root in settings.model_roots)


def _demo(role: str) -> ModelRef:
    if role not in _DEMO:
        raise InvalidInput(f"There is no demo model {_shown(role)}. Choose demo:target or demo:draft.")
    return _DEMO[role]


def _folder(name: str, settings: Settings) -> ModelRef:
    _check_parts(name, most=1)
    found = [folder for root in settings.model_roots if (folder := root / name).is_dir() and folder.resolve().parent == root.resolve()]
    return ModelRef(source="folder", name=name, path=str(_only(found, f"model folder {_shown(name)}")))


def _gguf(name: str, settings: Settings) -> ModelRef:
    _check_parts(name, most=2)
    if not name.endswith(".gguf"):
        raise InvalidInput(f"{_shown(name)} is no GGUF file. Its name must end in .gguf.")
    depth = name.count("/") + 1
    found = [file for root in settings.model_roots if (file := root / name).is_file() and _depth(file, root) in range(1, depth + 1)]
    return ModelRef(source="gguf", name=name, path=str(_only(found, f"GGUF file {_shown(name)}")))


def _depth(file: Path, root: Path) -> int:
    """How many levels below its root a file really lies; 0 outside of it."""
    real, real_root = file.resolve(), root.resolve()
    return len(real.relative_to(real_root).parts) if real.is_relative_to(real_root) else 0


def _check_parts(name: str, most: int) -> None:
    parts = name.split("/")
    if len(parts) > most or any(part in ("", ".", "..") or len(part.encode()) > LONGEST_NAME_BYTES for part in parts):
        raise InvalidInput(f"{_shown(name)} is no name below a configured root. Choose a model from the list.")


def _only(found: list[Path], what: str) -> Path:
    """The one path found. Two of the same name could be taken for each other, so neither is used."""
    if not found:
        raise InvalidInput(f"There is no {what} below the configured roots. Put it there, or add its parent to DRAFTGAUGE_MODEL_ROOTS.")
    if len(found) > 1:
        raise InvalidInput(f"There is a {what} below more than one configured root ({found[0].parent} and {found[1].parent}). Rename one.")
    return found[0]


def _hub(text: str) -> ModelRef:
    name, _, revision = _from_link(text).partition("@")
    if not is_hub_id(name):
        raise InvalidInput(f"{_shown(text)} is no Hub id. Write it as owner/name, for example Qwen/Qwen3-0.6B.")
    if revision or "@" in text:
        hidden = any(part.startswith(".") or not part for part in revision.split("/"))
        if not _REVISION.fullmatch(revision) or ".." in revision or hidden:
            raise InvalidInput(f"{_shown(revision)} is no revision of {name}. Write a branch, a tag or a commit after the @, or leave it out.")
    return ModelRef(source="hub", name=name, path=name, revision=revision)


def _from_link(text: str) -> str:
    """`owner/name@revision` of a pasted link to a model on the Hub; any other text as it is."""
    bare = text.partition("://")[2] or text
    host, slash, _ = bare.partition("/")
    own = urlsplit(os.environ.get("HF_ENDPOINT", "")).netloc
    if not slash or host.lower() not in (*_HUB_HOSTS, own or None):
        return text
    parts = [part for part in unquote(urlsplit(f"//{bare}").path).split("/") if part]
    if parts and parts[0] in _OTHER_KINDS:
        raise InvalidInput(f"{_shown(text)} leads to {_OTHER_KINDS[parts[0]]}, not to a model. Paste the link of a model.")
    if len(parts) > 3 and parts[2] in ("tree", "commit"):
        return f"{'/'.join(parts[:2])}@{'/'.join(parts[3:])}"
    if len(parts) > 3 and parts[2] in ("blob", "resolve", "raw"):
        return f"{'/'.join(parts[:2])}@{parts[3]}"
    return "/".join(parts[:2])


def _shown(text: str) -> str:
    """A value for an error sentence: quoted, control characters escaped, never long."""
    return repr(text if len(text) <= 80 else f"{text[:80]}...")
