"""Uploaded files to prompts: .txt, .jsonl, .json and .csv, told apart by their names.

A file is kept under the hash of its content in the data folder until newer ones push it out, so that another column can be
chosen without uploading it again, and so that a large one can be read by a planner job instead of the web process. Text must
be UTF-8; nothing is guessed. Sizes in bytes. Source of the CSV rules: RFC 4180, with the separator that fits the first rows
best. Not covered: spreadsheets, Parquet, packed files.
"""

import csv
import hashlib
import json
import re
import secrets
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, cast

from core import prompt_text
from core.errors import InvalidInput, StoreError
from core.prompt_text import FIELDS
from core.prompts import Found, Reading, Shape, collect
from core.record import Record
from core.settings import Settings

KINDS = ("txt", "jsonl", "json", "csv")
LARGEST_BYTES = 50_000_000
LARGE_BYTES = 200_000
"""From here on reading can take longer than a blink (0.1 s, if it is all short lines), and belongs into a job."""
KEPT_FILES = 20
MOST_COLUMNS, LONGEST_HEADER = 1_000, 100_000
"""Of a CSV's first line: columns, and characters of their names. A page offers all of them."""
SEPARATORS = ",;\t|"
PROMPT_NAMES = ("prompt", "text", "input", "question", "instruction", "query", "content")
LABEL_NAMES = ("label", "category")
_SAMPLED_ROWS = 50
_SAMPLED_CHARACTERS = 200_000


class Choice(Record):
    """What a person chose about a file; None leaves it to the file. label_column: "" for none."""

    prompt_column: str | None = None
    label_column: str | None = None
    shape: Shape | None = None


def read_file(name: str, content: bytes, choice: Choice | None = None) -> Reading:
    """The prompts in a file. Raises InvalidInput when nothing of it can be used; single lines are refused in the Reading."""
    kind = PurePath(name).suffix.lower().removeprefix(".")
    if kind not in KINDS:
        raise InvalidInput(f"{name[:80]!r} is not a kind of file that is read here. Upload one of: {', '.join(KINDS)}.")
    if len(content) > LARGEST_BYTES:
        raise InvalidInput(
            f"{name[:80]!r} has {len(content) / 1e6:.0f} MB. Upload at most {LARGEST_BYTES / 1e6:.0f} MB: a random sample of its lines says as much."
        )
    text = prompt_text.normalised(_decoded(name, content))
    if not text.strip():
        raise InvalidInput(f"{name[:80]!r} is empty. Upload a file with at least one prompt.")
    chosen = choice or Choice()
    if kind == "csv":
        return _read_csv(name, text, chosen)
    if kind == "txt":
        shape = chosen.shape or prompt_text.guess_shape(text)
        return collect(prompt_text.from_text(text, shape), shape=shape)
    if kind == "jsonl":
        return collect(prompt_text.from_json_lines(text))
    found, unit = _read_json(name, text)
    return collect(found, unit)


def keep(content: bytes, settings: Settings) -> str:
    """Keep a file; its key. The files that were kept or used longest ago go. Raises InvalidInput when it is too large, StoreError."""
    if len(content) > LARGEST_BYTES:
        raise InvalidInput(f"This file has {len(content) / 1e6:.0f} MB. Upload at most {LARGEST_BYTES / 1e6:.0f} MB: a random sample says as much.")
    key = hashlib.sha256(content).hexdigest()
    folder = settings.data / "uploads"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / key, content)
        others = [file for file in folder.iterdir() if file.name != key]  # whatever the clock says, this one is the newest
        for old in sorted(others, key=lambda file: file.stat().st_mtime, reverse=True)[KEPT_FILES - 1 :]:
            old.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"The file could not be kept in {folder} ({error.strerror}). Free space or set DRAFTGAUGE_DATA.") from error
    return key


def _write(place: Path, content: bytes) -> None:
    """Aside and moved, so that nobody reads half of it, and nothing is left where the disk is full. Raises OSError."""
    part = place.with_name(f"{place.name}.{secrets.token_hex(4)}")  # two tabs may bring the same file at once
    try:
        part.write_bytes(content)
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)


def kept(key: str, settings: Settings) -> bytes:
    """The content kept under a key. Raises InvalidInput when there is none any more."""
    if not re.fullmatch(r"[0-9a-f]{64}", key):
        raise InvalidInput(f"{key[:80]!r} is not the key of a file. Upload the file again.")
    try:
        return _place(key, settings).read_bytes()
    except OSError as error:
        raise InvalidInput("The uploaded file is no longer kept here. Upload it again.") from error


def kept_bytes(key: str, settings: Settings) -> int:
    """The size of a kept file, 0 when it is gone."""
    try:
        return _place(key, settings).stat().st_size
    except OSError:
        return 0


def _place(key: str, settings: Settings) -> Path:
    return settings.data / "uploads" / key


def _decoded(name: str, content: bytes) -> str:
    """The text. Raises InvalidInput naming the first byte that is not UTF-8."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidInput(f"{name[:80]!r} is UTF-16 by its first two bytes. Save it as UTF-8 and upload it again.")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line, byte = content.count(b"\n", 0, error.start) + 1, content[error.start]
        where = f"byte {error.start + 1:,}, in line {line:,}, is 0x{byte:02X}"
        raise InvalidInput(f"{name[:80]!r} is not UTF-8: {where}. Save it as UTF-8 and upload it again.") from error


def _read_json(name: str, text: str) -> tuple[Iterator[Found], str]:
    """A list of prompts; an object that holds one list; one prompt; or, under the wrong name, JSON Lines. With what is numbered."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        lines = text.strip().split("\n")
        if len(lines) > 1 and _is_json(lines[0]):
            return prompt_text.from_json_lines(text), "line"
        raise InvalidInput(
            f"{name[:80]!r} is not valid JSON ({prompt_text.json_reason(error)}). Correct it, or upload JSON Lines as .jsonl."
        ) from error
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        lists = [cast("list[Any]", entries) for entries in fields.values() if isinstance(entries, list)]
        if any(field in fields for field in FIELDS):
            return prompt_text.from_entries([fields]), "entry"
        if len(lists) != 1:
            raise InvalidInput(
                f"{name[:80]!r} holds one object with {len(lists)} lists, so where its prompts are is not clear. Upload the list of prompts alone."
            )
        return prompt_text.from_entries(lists[0]), "entry"
    if not isinstance(value, list):
        raise InvalidInput(f'{name[:80]!r} holds neither a list nor an object. Upload a list of objects with a "prompt".')
    return prompt_text.from_entries(cast("list[Any]", value)), "entry"


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _read_csv(name: str, text: str, choice: Choice) -> Reading:
    csv.field_size_limit(LARGEST_BYTES)  # the module's own limit is 131,072 characters
    separator = _separator(text)
    rows = _rows(text, separator)
    line, header, why = next(rows)
    if why:
        raise InvalidInput(f"{name[:80]!r} has no readable names of columns: its line {line} {why}. Correct it and upload the file again.")
    if len(header) > MOST_COLUMNS or sum(map(len, header)) > LONGEST_HEADER:
        raise InvalidInput(
            f"{name[:80]!r} has a first line of {len(header):,} columns and {sum(map(len, header)):,} characters, which are no names of columns. "
            "Put a line of names before it, or upload the prompts as .txt."
        )
    if len(set(header)) < len(header):
        raise InvalidInput(f"{name[:80]!r} has two columns of the same name in its first line: {', '.join(header)[:200]}. Rename one.")
    prompt_column = _column(choice.prompt_column, header) or _best_column(header, _start(text, separator)[1:])
    label_column = _column(choice.label_column, header) if choice.label_column is not None else _named(header, LABEL_NAMES)
    at, label_at = header.index(prompt_column), header.index(label_column) if label_column and label_column != prompt_column else None
    notes = (f"The first line was read as the names of {len(header)} column{'s' if len(header) > 1 else ''}.",)
    return collect(
        (_cell(row, len(header), at, label_at) for row in rows),
        columns=tuple(header),
        prompt_column=prompt_column,
        label_column="" if label_at is None else label_column,
        notes=notes,
    )


def _rows(text: str, separator: str) -> Iterator[tuple[int, list[str], str]]:
    """Line where a row begins, its cells, and why it cannot be used. Empty lines are skipped."""
    reader = csv.reader(_lines(text), delimiter=separator, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            open_quote = "unexpected end" in str(error)
            yield line, [], "begins a quote that never ends; it and all after it were left out" if open_quote else f"is no row ({error})"
            continue
        if row:
            yield line, row, ""


def _lines(text: str) -> Iterator[str]:
    """Lines that end at line feeds alone: `str.splitlines` would also part text at rarer marks."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def _cell(row: tuple[int, list[str], str], width: int, at: int, label_at: int | None) -> Found:
    line, cells, why = row
    if not why and len(cells) != width:
        why = f"has {len(cells)} cells where the first line has {width}; text with separators in it needs quotes"
    if why:
        return Found(line, why=why)
    return prompt_text.labelled(Found(line, cells[at]), None if label_at is None else cells[label_at])


def _separator(text: str) -> str:
    """The one with which most of the first rows have as many cells as the header, and more than one; a comma when none parts them."""

    def fit(separator: str) -> tuple[int, int]:
        rows = _start(text, separator)
        width = len(rows[0]) if rows else 0
        return (sum(len(row) == width for row in rows), width) if width > 1 else (0, 0)

    return max(SEPARATORS, key=fit)


def _start(text: str, separator: str) -> list[list[str]]:
    """The first rows that can be read."""
    found: list[list[str]] = []
    for _, row, why in _rows(text[:_SAMPLED_CHARACTERS], separator):
        if not why:
            found.append(row)
        if len(found) == _SAMPLED_ROWS:
            break
    return found


def _column(name: str | None, header: list[str]) -> str:
    return name if name is not None and name in header else ""


def _named(header: list[str], names: tuple[str, ...]) -> str:
    """The column of the first of these names that is there, in any case."""
    by_name = {column.strip().lower(): column for column in header}
    return next((by_name[name] for name in names if name in by_name), "")


def _best_column(header: list[str], rows: list[list[str]]) -> str:
    """The column whose name says that it holds prompts, else the one with most text."""
    lengths = [sum(len(row[at]) for row in rows if len(row) == len(header)) for at in range(len(header))]
    return _named(header, PROMPT_NAMES) or header[lengths.index(max(lengths))]
