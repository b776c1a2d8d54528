"""Text to prompts: pasted, or from a file without columns.

Pasted text is told apart by itself: prompts of several lines separated by a line that holds only `---`; JSON Lines or a JSON
list (objects with a "prompt", "text" or chat "messages", and a "label" if wanted); or else one prompt per line. Text is kept as
it is, markup included; empty lines around a prompt are not. Not covered: CSV (`core.prompt_files`).
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any, cast

from core.prompts import LONGEST_LABEL, Found, Reading, Shape, collect

SEPARATOR = "---"
FIELDS = ("prompt", "text", "messages")
ROLES = ("system", "developer", "user", "assistant", "tool")
_SEPARATED = re.compile(rf"^[^\S\n]*{SEPARATOR}[^\S\n]*$", re.MULTILINE)


def read(text: str) -> Reading:
    """The prompts in pasted text. Never raises: what cannot be used is in `refused`."""
    text = normalised(text)
    entries = _whole_json(text)
    if entries is not None:
        return collect(from_entries(entries), "entry")
    if _SEPARATED.search(text):
        return collect(from_text(text, "separated"), shape="separated")
    if _is_json_lines(text):
        return collect(from_json_lines(text))
    return collect(from_text(text, "lines"), shape="lines")


def normalised(text: str) -> str:
    """Without a byte order mark, and with line feeds alone as line ends."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def guess_shape(text: str) -> Shape:
    """How text in a file holds its prompts: by `---` where there is one, by empty lines where they part lines that belong together."""
    if _SEPARATED.search(text):
        return "separated"
    parts = [len(list(part)) for written, part in groupby(text.split("\n"), key=lambda line: bool(line.strip())) if written]
    return "paragraphs" if len(parts) > 1 and max(parts) > 1 else "lines"


def from_text(text: str, shape: Shape) -> Iterator[Found]:
    """The prompts of text without a format."""
    lines = text.split("\n")
    if shape == "lines":
        yield from (Found(number, line) for number, line in enumerate(lines, 1) if line.strip())
    elif shape == "separated":
        yield from _separated(lines)
    else:
        for blank, part in groupby(enumerate(lines, 1), key=lambda numbered: not numbered[1].strip()):
            if not blank:
                block = list(part)
                yield Found(block[0][0], "\n".join(line for _, line in block))


def _separated(lines: Sequence[str]) -> Iterator[Found]:
    """Between lines of `---`; an empty part is named, unless it is the first or the last."""
    ends = [at for at, line in enumerate(lines) if line.strip() == SEPARATOR]
    for start, end in pairwise([-1, *ends, len(lines)]):
        text = "\n".join(lines[start + 1 : end]).strip("\n")
        if text.strip():
            yield Found(start + 2, text)
        elif start >= 0 and end < len(lines):
            yield Found(start + 2, why=f"is between two {SEPARATOR} lines and empty")


def from_json_lines(text: str) -> Iterator[Found]:
    """The prompts of JSON Lines; empty lines are skipped."""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry: Any = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield Found(number, why=f"is not valid JSON ({json_reason(error)})")
            continue
        yield _entry(number, entry)


def json_reason(error: Exception) -> str:
    """What is wrong with JSON, and where in it."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg}, at its character {error.pos + 1:,}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else "it holds a number with too many digits"


def from_entries(entries: Iterable[Any]) -> Iterator[Found]:
    """The prompts of a JSON list."""
    return (_entry(number, entry) for number, entry in enumerate(entries, 1))


def labelled(found: Found, label: Any) -> Found:
    """The prompt with its label, if that is one."""
    if not label or found.why:
        return found
    if not isinstance(label, str) or len(label.strip()) > LONGEST_LABEL or not _is_unicode(label):
        return Found(found.number, why=f"has a label that is not text of at most {LONGEST_LABEL} characters")
    return found._replace(label=label.strip())


def _is_unicode(text: str) -> bool:
    """Whether it has no half of a surrogate pair, as JSON can write it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _entry(number: int, entry: Any) -> Found:
    """A JSON value as a prompt: text, or an object with one of the known fields, the first that is there."""
    if isinstance(entry, str):
        return Found(number, entry)
    if not isinstance(entry, dict):
        return Found(number, why=f"is {_kind(entry)}, not an object with a prompt")
    fields = cast("dict[str, Any]", entry)
    name = next((name for name in FIELDS if fields.get(name) is not None), None)
    if name is None:
        return Found(number, why='has no "prompt", "text" or "messages"')
    value = fields[name]
    if isinstance(value, list):
        return labelled(_chat(number, cast("list[Any]", value)), fields.get("label"))
    if isinstance(value, str) and name != "messages":
        return labelled(Found(number, value), fields.get("label"))
    return Found(number, why=f'has a "{name}" that is {_kind(value)}, not {"a list" if name == "messages" else "text"}')


def _chat(number: int, messages: Sequence[Any]) -> Found:
    """A conversation up to its last user turn; what follows is an answer."""
    turns: list[tuple[str, str]] = []
    for at, message in enumerate(messages, 1):
        fields = cast("dict[str, Any]", message) if isinstance(message, dict) else {}
        role, content = fields.get("role"), _plain_content(fields.get("content"))
        if role not in ROLES:
            return Found(number, why=f"has a message ({at}) whose role is none of {', '.join(ROLES)}")
        if fields.get("tool_calls"):
            return Found(number, why=f"has a message ({at}) that calls tools, which are not measured here")
        if content is None:
            return Found(number, why=f"has a message ({at}) whose content is not text alone")
        turns.append((role, content))
    last = max((at for at, (role, _) in enumerate(turns) if role == "user"), default=None)
    if last is None:
        return Found(number, why="is a chat without a user turn")
    return Found(number, turns[last][1], turns=tuple(turns[: last + 1]))


def _plain_content(content: Any) -> str | None:
    """The text of a message, also where it is given in parts; None when it holds something else."""
    if isinstance(content, list):
        parts = [_text_part(part) for part in cast("list[Any]", content)]
        texts = [part for part in parts if part is not None]
        return "".join(texts) if texts and len(texts) == len(parts) else None
    return content if isinstance(content, str) else None


def _text_part(part: Any) -> str | None:
    fields = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
    text = fields.get("text") if fields.get("type") == "text" else None
    return text if isinstance(text, str) else None


def _whole_json(text: str) -> list[Any] | None:
    """The entries when the whole text is one JSON list of objects, or one object over several lines that holds a prompt."""
    if not text.lstrip().startswith(("[", "{")):
        return None
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        return [value] if "\n" in text.strip() and any(name in value for name in FIELDS) else None
    entries = cast("list[Any]", value)
    return entries if entries and all(isinstance(entry, dict) for entry in entries) else None


def _is_json_lines(text: str) -> bool:
    """Whether the first line that is not empty is a JSON object; a later line that is none is then refused."""
    first = text.lstrip().partition("\n")[0]
    try:
        return isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return kinds.get(cast("type[Any]", type(value)), "null")
