"""What any value of an imported run may be, before anything is made of it: how many objects, how large a number, how long a text.

JSON values, at any depth. Not covered: whether they fit together (`core.imports_check`).
"""

from collections.abc import Iterator
from math import isfinite
from typing import Never, cast

from core.errors import InvalidInput
from core.prompts import MOST_PROMPTS

LARGEST = 2**53
LONGEST_TEXT = 10_000_000
"""Of a prompt or a message, in characters."""
LONGEST_WORDS = 20_000
"""Of anything else: a note, an error, a token's text."""
MOST_OBJECTS = 100_000
"""JSON objects in a file: 500 prompts in every way there is make some 30,000, and each takes kilobytes wherever the run is shown."""


def refuse(where: str, why: str) -> Never:
    """Raise InvalidInput for something at `where` in the file."""
    raise InvalidInput(f"This run cannot be imported: {where} {why}. Export it again from where it was measured.")


def check_count(value: object) -> None:
    """Not more objects, at any depth, than the largest run has."""
    waiting, found = [value], 0
    while waiting:
        part = waiting.pop()
        found += isinstance(part, dict)
        inner = cast("dict[str, object]", part).values() if isinstance(part, dict) else cast("list[object]", part)
        waiting += [each for each in inner if isinstance(each, dict | list)]
    if found > MOST_OBJECTS:
        refuse("the file", f"holds {found:,} objects, more than any run of {MOST_PROMPTS} prompts")


def check_values(value: object, where: str) -> None:
    """Every number finite and of a size that a measurement can have, every text of a bearable length; JSON values, at any depth."""
    if isinstance(value, int | float):
        if abs(value) > LARGEST or not isfinite(value):
            refuse(where, "is a number that no measurement gives")
    elif isinstance(value, str):
        if len(value) > (LONGEST_TEXT if where.endswith((".text", ".content")) else LONGEST_WORDS):
            refuse(where, f"is a text of {len(value):,} characters")
    elif isinstance(value, dict | list):
        for name, part in _parts(cast("dict[str, object] | list[object]", value)):
            check_values(part, (where + name).removeprefix("."))


def _parts(value: dict[str, object] | list[object]) -> Iterator[tuple[str, object]]:
    """What is in it, each with how its place is written."""
    if isinstance(value, dict):
        yield from ((f".{name[:60]}", part) for name, part in value.items())
    else:
        yield from ((f"[{number}]", part) for number, part in enumerate(value))
