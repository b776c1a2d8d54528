"""Documents that are nearly right: one or a few changes to a valid one, as somebody who wants to do harm would make them.

JSON is changed as a tree, so that what comes out still parses and reaches the code behind the parser; anything else as bytes. Everything is
drawn from the generator that is given, so that a failure can be had again.
"""

import copy
import json
import random
from collections.abc import Callable
from typing import Any

LEAVES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 255, 1_000, 65_537, 10**6, 2**31, 2**53, 2**63, 2**64, 10**18, 10**40, 10**400, -(10**12)),
    *(0.5, -0.5, 1e-320, 1e308, -1e308, float("inf"), float("-inf"), float("nan")),
    *("", " ", "\0", "x", "\ud800", "\u202e", "\U000f0000", "é" * 70, "A" * 5_000, "1", "-1", "1e999", "nan", "../../etc/passwd", "{{ 7 * 7 }}"),
    *([], {}, [[]], [0] * 300, ["a"] * 300, {"": 0}, {"a": {"b": {"c": []}}}, [[[[[[[[[[]]]]]]]]]]),
)
WORDS = (
    *(b"\0", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\x85", b",", b'"', b"'", b"{", b"}", b"[", b"]", b"=", b":", b"(", b")"),
    *(b"---", b"nan", b"inf", b"1e999", b"-1", b"9" * 30, b"9" * 5_000, b" " * 3_000, b"{" * 3_000, b"}" * 3_000, b"[" * 3_000, b"a" * 4_000),
)


def changed_json(content: bytes, rng: random.Random) -> bytes:
    """The document with one to four changes in its tree; as bytes where it is no JSON."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return changed_bytes(content, rng)
    for _ in range(rng.randint(1, 4)):
        value = _changed(value, rng)
    return json.dumps(value).encode()


def changed_bytes(content: bytes, rng: random.Random) -> bytes:
    """The document with one to four pieces cut out, doubled, flipped, or put in."""
    for _ in range(rng.randint(1, 4)):
        start, end = sorted(rng.randrange(len(content) + 1) for _ in range(2))
        end = min(end, start + rng.choice((1, 4, 16, 10_000)))
        content = rng.choice(_EDITS)(content, start, end, rng)
    return content


def _flipped(content: bytes, start: int, end: int, rng: random.Random) -> bytes:
    return content[:start] + bytes(byte ^ (1 << rng.randrange(8)) for byte in content[start:end]) + content[end:]


_EDITS: tuple[Callable[[bytes, int, int, random.Random], bytes], ...] = (
    lambda content, start, end, _: content[:start] + content[end:],
    lambda content, start, end, _: content[:end] + content[start:],
    lambda content, start, end, rng: content[:start] + rng.choice(WORDS) + content[end:],
    lambda content, start, end, rng: content[:start] + rng.randbytes(end - start) + content[end:],
    lambda content, start, end, _: content[:start],
    _flipped,
)


def _changed(value: Any, rng: random.Random) -> Any:
    """The tree with one change at a place drawn from all of them, deep ones as likely as others."""
    places = list(_places(value))
    if not places or rng.random() < 0.02:
        return copy.deepcopy(rng.choice(LEAVES))
    parent, key = rng.choice(places)
    match rng.randrange(5):
        case 0:
            del parent[key]
        case 1:
            other, at = rng.choice(places)
            parent[key] = copy.deepcopy(other[at]) if rng.random() < 0.7 else [parent[key]]
        case 2 if isinstance(parent, dict):
            parent[rng.choice((*map(str, parent), "", "x" * 300, "1", "-1", "extra"))] = parent.pop(key)
        case 3 if isinstance(parent, list):
            parent.insert(key, copy.deepcopy(rng.choice(parent)))
        case _:
            parent[key] = copy.deepcopy(rng.choice(LEAVES))
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        part = waiting.pop()
        keys = list(part) if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ()
        found += [(part, key) for key in keys]
        waiting += [part[key] for key in keys]
    return found
