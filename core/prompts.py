"""Prompts: what can be measured, what is refused and why, and how many are taken.

Whatever cannot be used is named by its place with the reason, and the rest is kept as it is, markup included. More than
can be measured is sampled at random, because the first of a log are not like the rest. Sizes in bytes of UTF-8. Source of
the sampling: Vitter (1985), https://doi.org/10.1145/3147.3165, algorithm R. Not covered: reading them (`core.prompt_text`,
`core.prompt_files`) and their tokens (`core.prompt_rows`).
"""

import random
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, Literal, NamedTuple

from core.errors import InvalidInput
from core.record import Record
from core.runs import Message, Prompt

MOST_PROMPTS = 500
MOST_BYTES = 1_000_000
MOST_TURNS = 200
"""Of one chat: turns without text weigh nothing, and each takes memory."""
MOST_NAMED = 20
"""Refusals that are kept one by one; the rest is counted."""
LONGEST_LABEL = 60

Shape = Literal["lines", "paragraphs", "separated"]
"""How text without any format holds its prompts: one per line, between empty lines, or between lines of `---`."""


class Found(NamedTuple):
    """What stands at a place in the source: text, its label, the turns (role, content) of a chat; or why it cannot be used.

    Light, because a file may hold millions of them and few are taken.
    """

    number: int
    text: str = ""
    label: str = ""
    turns: tuple[tuple[str, str], ...] = ()
    why: str = ""


class Refused(Record):
    """What was left out: where it stands, and why it cannot be used."""

    where: str
    why: str


class Reading(Record):
    """What was found in a source. found: usable prompts there, of which `prompts` were taken. refused: the first of `refused_count`.

    notes: sentences about how it was read. columns: those of a CSV; prompt_column and label_column: the ones used, "" for none.
    shape: how text without a format was read.
    """

    prompts: tuple[Prompt, ...] = ()
    found: int = 0
    refused: tuple[Refused, ...] = ()
    refused_count: int = 0
    notes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    prompt_column: str = ""
    label_column: str = ""
    shape: Shape | None = None


def check(prompts: Sequence[Prompt]) -> None:
    """Raise InvalidInput unless there are between 1 and 500 prompts, each usable, of at most 1 MB together."""
    if not prompts:
        raise InvalidInput("There are no prompts. Paste at least one; eight or more give an interval for traffic like yours.")
    if any(prompt.withheld for prompt in prompts):
        raise InvalidInput("The texts of these prompts were withheld when the run was shared, so they cannot be measured. Paste prompts of your own.")
    if len(prompts) > MOST_PROMPTS:
        raise InvalidInput(f"{len(prompts):,} prompts are too many. Keep at most {MOST_PROMPTS}, a random sample of your traffic.")
    for number, prompt in enumerate(prompts, 1):
        why = _flaw(prompt.text, [turn.content for turn in prompt.messages])
        if why:
            raise InvalidInput(f"Prompt {number} {why}. Change it or leave it out.")
    total_bytes = sum(map(size_bytes, prompts))
    if total_bytes > MOST_BYTES:
        raise InvalidInput(
            f"The prompts are {total_bytes / 1e6:.2f} MB together. Keep at most {MOST_BYTES / 1e6:.0f} MB, a random sample of your traffic."
        )


def size_bytes(prompt: Prompt) -> int:
    """Bytes of everything the model may read of a prompt."""
    return _size(prompt.text, [turn.content for turn in prompt.messages])


def collect(found: Iterable[Found], unit: str = "line", **about: Any) -> Reading:
    """A Reading of what was found; when it is too much, a random sample of it (always the same one), in its own order.

    unit: what the numbers count. about: further fields of the Reading.
    """
    drawn, kept, reservoir = random.Random(0), 0, list[tuple[int, Found]]()
    refused: list[Refused] = []
    refused_count = 0
    for one in found:
        why = one.why or _flaw(one.text, [content for _, content in one.turns])
        if why:
            refused_count += 1
            if refused_count <= MOST_NAMED:
                refused.append(Refused(where=f"{unit} {one.number:,}", why=why))
            continue
        if len(reservoir) < MOST_PROMPTS:
            reservoir.append((kept, one))
        elif (place := drawn.randrange(kept + 1)) < MOST_PROMPTS:  # so that each is as likely to stay as any other (Vitter 1985, R)
            reservoir[place] = (kept, one)
        kept += 1
    prompts = _fitting([_prompt(one) for _, one in sorted(reservoir)])
    if len(prompts) < kept:
        most = f"at most {MOST_PROMPTS} prompts of together {MOST_BYTES / 1e6:.0f} MB are measured"
        sentence = f"{kept:,} prompts were found, and a random {len(prompts):,} of them taken: {most}. To choose them yourself, bring fewer."
        about["notes"] = (*about.get("notes", ()), sentence)
    return Reading(prompts=tuple(prompts), found=kept, refused=tuple(refused), refused_count=refused_count, **about)


def _flaw(text: str, turns: Sequence[str]) -> str:
    """Why a prompt, or one of its turns, cannot be measured; "" when it can."""
    if not text.strip():
        return "is empty"
    if len(turns) > MOST_TURNS:
        return f"is a chat of {len(turns):,} turns, and one may have {MOST_TURNS}"
    for part in (text, *turns):
        if (place := part.find("\0")) >= 0:
            return f"holds a NUL character (character {place + 1:,} of its text)"
    try:
        size = _size(text, turns)
    except UnicodeEncodeError:
        return "holds half of a surrogate pair, which is no character"
    return f"has {size:,} bytes, and one prompt may have {MOST_BYTES:,}" if size > MOST_BYTES else ""


def _size(text: str, turns: Sequence[str]) -> int:
    """Bytes; the text is one of the turns where there are any. Raises UnicodeEncodeError for half a surrogate pair."""
    return sum(map(_bytes, turns or [text]))


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _prompt(found: Found) -> Prompt:
    return Prompt(text=found.text, label=found.label, messages=tuple(Message(role=role, content=content) for role, content in found.turns))


def _fitting(prompts: list[Prompt]) -> list[Prompt]:
    """All, or as many drawn at random as fit; drawing ends at the first that does not: passing over long ones would bias."""
    if sum(map(size_bytes, prompts)) <= MOST_BYTES:
        return prompts
    order = random.Random(0).sample(range(len(prompts)), len(prompts))
    totals = accumulate(size_bytes(prompts[place]) for place in order)
    return [prompts[place] for place in sorted(place for place, total in zip(order, totals, strict=True) if total <= MOST_BYTES)]
