"""Vocabularies as jobs: read from a model's files, kept on disk under the hash of their content, compared.

A map of 256,000 tokens takes a second to read and holds the interpreter meanwhile, so it never
enters the web process: pages know a vocabulary by its key alone. Not covered: downloading the files
(`core.plan.describe`).
"""

import json
import os
import re
import tempfile
import zlib
from hashlib import sha256
from pathlib import Path
from typing import Any

from core.errors import InvalidInput, ModelError, StoreError
from core.plan.gguf_file import read_metadata
from core.plan.tokenizer_files import chat_template, checked, read_tokenizer
from core.settings import Settings
from core.vocab import METASPACE, Vocabulary, compare

FOLDER = Path("plan") / "vocabularies"
MOST_BYTES = 1_000_000_000
"""Of all kept vocabularies together; each takes 1 to 4 MB. The ones not used for longest go first."""
GGUF_ARRAYS = ("tokenizer.ggml.tokens", "tokenizer.ggml.token_type")
GGUF_CONTROL, GGUF_USER_DEFINED = 3, 4
GGUF_ROLES = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}


def read_vocabulary(folder: Path, vocab_size: int) -> Vocabulary:
    """The vocabulary of a model folder; `vocab_size` is what its config states. Raises ModelError with a sentence."""
    found = read_tokenizer(folder)
    return Vocabulary(found.tokens, vocab_size, found.special, frozenset(found.added), found.normaliser, found.pre_tokenizer, chat_template(folder))


def read_gguf_vocabulary(file: Path) -> Vocabulary:
    """The vocabulary inside a GGUF file, spelled as the model's tokenizer.json spells it.

    Placeholders that only fill the embedding up ("[PAD151665]" at that id) are left out of the map and counted in the size.
    Raises ModelError.
    """
    head = read_metadata(file, GGUF_ARRAYS)
    listed = head.get("tokenizer.ggml.tokens")
    if not isinstance(listed, list) or not all(isinstance(token, str) for token in listed):
        raise ModelError(f"{file} holds no tokenizer. Choose another file.")
    kinds: Any = head.get("tokenizer.ggml.token_type", [1] * len(listed))
    if not isinstance(kinds, list):
        raise ModelError(f"{file} has types of tokens that are no list. Download it again.")
    if len(kinds) != len(listed):
        raise ModelError(f"{file} lists {len(listed):,} tokens and the types of {len(kinds):,}. Download it again.")
    spelled = [_respelled(token, kind) for token, kind in zip(listed, kinds, strict=True)] if head.get("tokenizer.ggml.model") == "llama" else listed
    tokens = {token: id_ for id_, token in enumerate(spelled) if token != f"[PAD{id_}]"}
    added = frozenset(token for token, kind in zip(spelled, kinds, strict=True) if kind in (GGUF_CONTROL, GGUF_USER_DEFINED) and token in tokens)
    stated = {role: head.get(f"tokenizer.ggml.{name}_token_id") for role, name in GGUF_ROLES.items()}
    special = {role: id_ for role, id_ in stated.items() if isinstance(id_, int)}
    size = head.get(f"{head.get('general.architecture')}.vocab_size", len(listed))
    template = head.get("tokenizer.chat_template", "")
    if not isinstance(size, int) or not isinstance(template, str):
        raise ModelError(f"{file} states a vocabulary size or a chat template of the wrong type. Download it again.")
    return Vocabulary(checked(file, tokens), size, special, added, chat_template=template)


def _respelled(token: str, kind: int) -> str:
    """Converters write the spaces of SentencePiece's user-defined pieces out; tokenizer.json has its mark."""
    return token.replace(" ", METASPACE) if kind == GGUF_USER_DEFINED else token


def keep(vocabulary: Vocabulary, settings: Settings) -> str:
    """Store a vocabulary; the key is the hash of its content. Raises StoreError when the data folder cannot be written."""
    data = {**vars(vocabulary), "added": sorted(vocabulary.added)}
    content = json.dumps(data, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
    key = sha256(content).hexdigest()
    file = _file(key, settings)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.is_file():
            _write_whole(file, zlib.compress(content, 3))
            _make_room(file.parent, file)
    except OSError as error:
        raise StoreError(f"The vocabulary could not be stored in {file.parent} ({error.strerror}). Free space or set DRAFTGAUGE_DATA.") from error
    return key


def stored(key: str, settings: Settings) -> Vocabulary:
    """The vocabulary with that key. Raises InvalidInput for what is no key, ModelError when it is gone or damaged."""
    if not re.fullmatch(r"[0-9a-f]{64}", key):
        raise InvalidInput(f"{key[:80]!r} is not the key of a vocabulary. Choose the model again.")
    file = _file(key, settings)
    try:
        packed = file.read_bytes()
        os.utime(file)
    except OSError as error:
        raise ModelError("The model's vocabulary is no longer stored. Read the model again.") from error
    content = _unpacked(packed)
    if sha256(content).hexdigest() != key:
        file.unlink(missing_ok=True)
        raise ModelError("The model's stored vocabulary is damaged and was removed. Read the model again.")
    data: dict[str, Any] = json.loads(content)
    return Vocabulary(**{**data, "added": frozenset(data["added"])})


def _unpacked(packed: bytes) -> bytes:
    """The content, or what no key fits."""
    try:
        return zlib.decompress(packed)
    except zlib.error:
        return b""


def compare_stored(arguments: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Job: {"target": key, "draft": key} -> the VocabVerdict as JSON. Raises InvalidInput and ModelError as `stored`."""
    target, draft = (stored(str(arguments.get(role)), settings) for role in ("target", "draft"))
    return compare(target, draft).model_dump(mode="json")


def _file(key: str, settings: Settings) -> Path:
    return settings.data / FOLDER / f"{key}.json.z"


def _write_whole(file: Path, content: bytes) -> None:
    """Under its name only once it is whole, because several processes read and write here."""
    handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def _make_room(folder: Path, newest: Path) -> None:
    """Remove what was not used for longest until the rest fits; never the one just written."""
    kept = sorted(((file.stat().st_mtime, file.stat().st_size, file) for file in folder.iterdir() if file != newest), reverse=True)
    total_bytes = newest.stat().st_size
    for _, size_bytes, file in kept:
        total_bytes += size_bytes
        if total_bytes > MOST_BYTES:
            file.unlink(missing_ok=True)
