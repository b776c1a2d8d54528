"""A tokenizer's map as the files of a model folder state it, without torch or Transformers.

`tokenizer.json` goes through the `tokenizers` library, because that decides which id an added token
really gets. Slow tokenizers: `tokenizer.model` (SentencePiece, or tiktoken's lines under the same
name), `*.tiktoken`, `vocab.json` beside `merges.txt`. Tokens that only `tokenizer_config.json` or
`added_tokens.json` name are added as Transformers 5.24 does (`TokenizersBackend.__init__`). Not
covered: `tekken.json`, and tokenizers that a model's own code builds.
"""

import base64
import binascii
import importlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from tokenizers import Tokenizer

from core.bounded import GIB, OutOfBounds, bounded
from core.errors import ModelError

LARGEST_BYTES = 64_000_000
"""Twice the largest that is known: 33 MB (Gemma 3)."""
LARGEST_CONFIG_BYTES = 8_000_000
MOST_MEMORY_BYTES = 4 * GIB
LONGEST_S = 30.0
LONGEST_SETTINGS = 4000
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
TIKTOKEN_LINE = re.compile(rb"[A-Za-z0-9+/]+=* \d+\r?\n")


@dataclass
class TokenizerFiles:
    """What was found, being put together: the map, which tokens were added, ids by role, and settings as text (None: unknown)."""

    tokens: dict[str, int]
    added: set[str] = field(default_factory=set[str])
    special: dict[str, int] = field(default_factory=dict[str, int])
    normaliser: str | None = None
    pre_tokenizer: str | None = None


def read_tokenizer(folder: Path) -> TokenizerFiles:
    """The tokenizer of a model folder. Raises ModelError when there is none, or a file is too large, damaged, or of no known kind."""
    try:
        with bounded(MOST_MEMORY_BYTES, LONGEST_S):
            found = _read_base(folder)
    except OutOfBounds as error:
        raise ModelError(f"Reading the tokenizer in {folder} {error}. Choose another model.") from error
    config = read_json(folder / "tokenizer_config.json")
    _add_listed(found, _decoder_entries(folder, config), renames=not (folder / "tokenizer.json").is_file())
    _add_roles(found, {**read_json(folder / "special_tokens_map.json"), **config})
    return found


def chat_template(folder: Path) -> str:
    """The chat template that Transformers would use, "" without one: its own file first, then the tokenizer's config."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return _decoded(file, read_bytes(file, LARGEST_CONFIG_BYTES))
    stated = read_json(folder / "tokenizer_config.json").get("chat_template")
    if isinstance(stated, list):
        stated = next((entry.get("template") for entry in stated if isinstance(entry, dict) and entry.get("name") == "default"), None)
    return stated if isinstance(stated, str) else ""


def read_bytes(file: Path, limit_bytes: int) -> bytes:
    """A whole file of at most `limit_bytes`. Raises ModelError."""
    try:
        with file.open("rb") as opened:
            content = opened.read(limit_bytes + 1)
            size_bytes = file.stat().st_size
    except OSError as error:
        raise ModelError(f"{file} cannot be read ({error.strerror}). Download the model again.") from error
    if len(content) > limit_bytes:
        raise ModelError(
            f"{file} has {size_bytes / 1e6:.0f} MB; a file of its kind of more than {limit_bytes / 1e6:.0f} MB is not read. Choose another model."
        )
    return content


def read_json(file: Path, limit_bytes: int = LARGEST_CONFIG_BYTES) -> dict[str, Any]:
    """The object in a JSON file, {} where there is no such file. Raises ModelError when it is damaged or holds something else."""
    if not file.is_file():
        return {}
    raw = read_bytes(file, limit_bytes)
    try:
        content: Any = json.loads(raw)
        if b"\\ud" in raw or b"\\uD" in raw:
            json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair, which nothing could keep
        raise ModelError(f"{file} has a token or other text that is not valid ({_reason(error)}). Download the model again.") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{file} is not readable as JSON ({_reason(error)}). Download the model again.") from error
    if not isinstance(content, dict):
        raise ModelError(f"{file} does not hold a JSON object. Download the model again.")
    return cast("dict[str, Any]", content)


def _read_base(folder: Path) -> TokenizerFiles:
    """From the first of the known files that is there."""
    if (folder / "tokenizer.json").is_file():
        return _fast(folder / "tokenizer.json")
    for file in (folder / "tokenizer.model", folder / "tiktoken.model", *sorted(folder.glob("*.tiktoken"))):
        if file.is_file():
            content = read_bytes(file, LARGEST_BYTES)
            return _tiktoken(file, content) if TIKTOKEN_LINE.match(content) else _sentencepiece(file, content)
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        return TokenizerFiles(checked(folder / "vocab.json", read_json(folder / "vocab.json", LARGEST_BYTES)))
    if (folder / "tekken.json").is_file():
        raise ModelError(f"{folder} has its tokenizer in tekken.json only, which is not read here. Choose a copy of the model with a tokenizer.json.")
    raise ModelError(f"{folder} has no tokenizer: none of tokenizer.json, tokenizer.model, vocab.json with merges.txt. Choose another model.")


def _fast(file: Path) -> TokenizerFiles:
    content = read_bytes(file, LARGEST_BYTES)
    try:
        tokenizer = Tokenizer.from_buffer(content)
    except Exception as error:  # the library raises nothing more exact
        raise ModelError(f"{file} is not a tokenizer that can be read ({_reason(error)}). Download the model again.") from error
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    tokens = checked(file, tokenizer.get_vocab(with_added_tokens=True))
    return TokenizerFiles(tokens, added, {}, _settings(tokenizer.normalizer), _settings(tokenizer.pre_tokenizer))


def _settings(part: Any) -> str:
    """A part's settings as its JSON, or the hash of it where it carries a table."""
    text = "" if part is None else part.__getstate__().decode()
    return text if len(text) <= LONGEST_SETTINGS else "sha256 " + sha256(text.encode()).hexdigest()


def _sentencepiece(file: Path, content: bytes) -> TokenizerFiles:
    try:
        library: Any = importlib.import_module("sentencepiece")
    except ImportError as error:
        raise ModelError(f"{file} needs the package sentencepiece to be read. Install it: pip install sentencepiece==0.2.3") from error
    try:
        model = library.SentencePieceProcessor(model_proto=content)
        ids = list(range(model.get_piece_size()))
        tokens = checked(file, dict(zip(model.id_to_piece(ids), ids, strict=True)))
    except RuntimeError as error:
        raise ModelError(f"{file} is neither a SentencePiece model nor tiktoken's lines. Download the model again.") from error
    stated = {"bos_token": model.bos_id(), "eos_token": model.eos_id(), "unk_token": model.unk_id()}
    added = {model.id_to_piece(id_) for id_ in ids if model.is_control(id_)}
    return TokenizerFiles(tokens, added, {role: id_ for role, id_ in stated.items() if id_ >= 0})


def _tiktoken(file: Path, content: bytes) -> TokenizerFiles:
    """Lines of base64 and rank; spelled as byte-level tokenizers spell their tokens, so that both compare."""
    spelling = _byte_spelling()
    tokens: dict[str, int] = {}
    for line in content.splitlines():
        try:
            token, rank = line.split()
            tokens["".join(spelling[byte] for byte in base64.b64decode(token, validate=True))] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise ModelError(f"{file} has a line that is not base64 and rank: {line[:40]!r}. Download the model again.") from error
    return TokenizerFiles(checked(file, tokens))


def _byte_spelling() -> dict[int, str]:
    """GPT-2's letters for the 256 bytes: printable ones stand for themselves, the others for U+0100 onwards.

    Source: `bytes_to_unicode` in https://github.com/openai/gpt-2/blob/master/src/encoder.py
    """
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + place) for place, byte in enumerate(others)}


def checked(file: Path, tokens: Mapping[Any, Any]) -> dict[str, int]:
    """The map, if it is one: some tokens, all of them text, all ids whole and not negative. Raises ModelError."""
    if not tokens:
        raise ModelError(f"{file} holds no tokens. Download the model again.")
    for token, id_ in tokens.items():
        if not isinstance(token, str) or not isinstance(id_, int) or isinstance(id_, bool) or not 0 <= id_ < 2**32:
            raise ModelError(f"{file} maps {str(token)[:40]!r} to {str(id_)[:40]}, which is no token and id. Download the model again.")
    return dict(tokens)


def _decoder_entries(folder: Path, config: Mapping[str, Any]) -> list[tuple[int, str]]:
    """(id, token) of `added_tokens_decoder` and of the older added_tokens.json, by id."""
    older = folder / "added_tokens.json"
    stated: dict[int, str] = {}
    listed = read_json(older)
    if listed:
        stated = {id_: token for token, id_ in checked(older, listed).items()}
    file, decoder = folder / "tokenizer_config.json", config.get("added_tokens_decoder") or {}
    if not isinstance(decoder, dict):
        raise ModelError(f"{file} has an added_tokens_decoder that is no object. Download the model again.")
    newer: dict[str, int] = {}
    for id_, entry in cast("dict[str, Any]", decoder).items():
        token = _content(entry)
        if token is None or not re.fullmatch(r"\d{1,10}", id_):
            raise ModelError(f"{file} lists the added token {id_[:40]!r}: {str(entry)[:80]}, which is no token and id. Download the model again.")
        newer[token] = int(id_)
    if newer:
        stated |= {id_: token for token, id_ in checked(file, newer).items()}
    return sorted(stated.items())


def _add_listed(found: TokenizerFiles, entries: Iterable[tuple[int, str]], renames: bool) -> None:
    """Tokens that only the config names get their id if it is free, else one after the end. In a slow tokenizer they take over
    a placeholder's id.
    """
    holders = {id_: token for token, id_ in found.tokens.items()}
    end = max(holders, default=-1) + 1
    for id_, token in entries:
        found.added.add(token)
        if token in found.tokens:
            continue
        if id_ in holders and renames:
            del found.tokens[holders[id_]]
        place = id_ if renames or id_ not in holders else end
        found.tokens[token] = place
        holders[place] = token
        end = max(end, place + 1)


def _add_roles(found: TokenizerFiles, stated: Mapping[str, Any]) -> None:
    """Ids by role; a special token that is nowhere in the map is added after its end."""
    extra = [stated.get("additional_special_tokens"), stated.get("extra_special_tokens")]
    listed = [entry for entries in extra if isinstance(entries, list) for entry in cast("list[Any]", entries)]
    tokens = {role: _content(stated.get(role)) for role in ROLES}
    end = max(found.tokens.values(), default=-1) + 1
    for token in [*tokens.values(), *map(_content, listed)]:
        if token:
            found.added.add(token)
            if token not in found.tokens:
                found.tokens[token] = end
                end += 1
    found.special |= {role: found.tokens[token] for role, token in tokens.items() if token}


def _content(entry: Any) -> str | None:
    """The text of a token that a config gives as text or as an object with `content`."""
    text: Any = cast("dict[str, Any]", entry).get("content") if isinstance(entry, dict) else entry
    return text if isinstance(text, str) else None


def _decoded(file: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ModelError(f"{file} is not valid UTF-8 text. Download the model again.") from error


def _reason(error: Exception) -> str:
    """The library's own words, in one line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
