"""What people do to runs that have ended: tag them, write a note, delete them, take that back, and clean up.

Nothing is lost by accident: a note that another tab changed meanwhile is not overwritten, and a deleted run stays until it is purged.
Dates are seconds since 1970 (UTC). Functions take a connection of the store in its transaction.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, delete, func, select, update

from core.database import results, runs, specs, traces
from core.errors import InvalidInput
from core.run_rows import EVERYBODYS, tags_json, words

MOST_TAGS, MOST_TAG_CHARACTERS, MOST_NOTE_CHARACTERS = 20, 40, 10_000
ALIVE = ("queued", "running")
_PART = 500
"""Ids in one statement; SQLite takes 32,766 values and PostgreSQL more."""


@dataclass(frozen=True)
class Deleted:
    """What was deleted and not yet purged: runs, and about how many bytes they take."""

    runs: int
    size_bytes: int


def clean_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Tags on one line each, without repetitions, in their order. Raises InvalidInput when there are too many or one is too long."""
    found = tuple(dict.fromkeys(tag for text in tags if (tag := " ".join(text.split()))))
    if len(found) > MOST_TAGS:
        raise InvalidInput(f"{len(found)} tags are too many. Keep at most {MOST_TAGS}.")
    for tag in found:
        if len(tag) > MOST_TAG_CHARACTERS:
            raise InvalidInput(f'The tag "{tag[:MOST_TAG_CHARACTERS]}…" has {len(tag)} characters. Use at most {MOST_TAG_CHARACTERS}.')
    return found


def edit(connection: Connection, run_id: str, edition: int, tags: Sequence[str], note: str, mine: ColumnElement[bool] = EVERYBODYS) -> int:
    """Replace tags and note of a run as it was at `edition`; returns the new edition.

    mine: of which runs, here and below. Raises InvalidInput when somebody else changed them since, when they are too long, or when there is
    no such run.
    """
    kept, note = clean_tags(tags), note.strip()
    if len(note) > MOST_NOTE_CHARACTERS:
        raise InvalidInput(f"The note has {len(note):,} characters. Keep at most {MOST_NOTE_CHARACTERS:,}.")
    row = connection.execute(select(runs.c.target, runs.c.draft).where(runs.c.id == run_id, mine)).one_or_none()
    if row is None:
        raise InvalidInput(f"There is no run {run_id}.")
    values = {"tags": tags_json(kept), "note": note, "words": words(run_id, row.target, row.draft, kept, note), "edition": edition + 1}
    changed = connection.execute(update(runs).where(runs.c.id == run_id, runs.c.edition == edition).values(**values))
    if changed.rowcount == 0:
        raise InvalidInput("Tags and note of this run were changed in another tab meanwhile. Compare both, then save what should stay.")
    return edition + 1


def delete_softly(connection: Connection, run_ids: Sequence[str], mine: ColumnElement[bool] = EVERYBODYS) -> list[str]:
    """Hide runs until they are restored or purged; the ids that were not hidden before. Raises InvalidInput, and hides none, when one is alive."""
    found: list[str] = []
    for part in _parts(run_ids):
        rows = connection.execute(select(runs.c.id, runs.c.status).where(runs.c.id.in_(part), runs.c.deleted_s.is_(None), mine)).all()
        alive = [row.id for row in rows if row.status in ALIVE]
        if alive:
            raise InvalidInput(f"Run {alive[0]} is still waiting or being measured. Cancel it first; then it can be deleted.")
        chosen = [row.id for row in rows]
        connection.execute(update(runs).where(runs.c.id.in_(chosen), runs.c.status.not_in(ALIVE)).values(deleted_s=time.time()))
        found += chosen
    return found


def restore(connection: Connection, run_ids: Sequence[str] | None, mine: ColumnElement[bool] = EVERYBODYS) -> int:
    """Show deleted runs again, all of them for None; how many."""
    shown = update(runs).where(runs.c.deleted_s.is_not(None), mine).values(deleted_s=None)
    if run_ids is None:
        return connection.execute(shown).rowcount
    return sum(connection.execute(shown.where(runs.c.id.in_(part))).rowcount for part in _parts(run_ids))


def purge(connection: Connection, before_s: float, mine: ColumnElement[bool] = EVERYBODYS) -> int:
    """Remove for good what was deleted before a moment; how many runs."""
    gone = select(runs.c.id).where(runs.c.deleted_s < before_s, mine)
    for table in (results, traces, specs):
        connection.execute(delete(table).where(table.c.run_id.in_(gone)))
    return connection.execute(delete(runs).where(runs.c.deleted_s < before_s, mine)).rowcount


def deleted(connection: Connection, mine: ColumnElement[bool] = EVERYBODYS) -> Deleted:
    """What a purge of everything deleted would remove."""
    gone = list(connection.execute(select(runs.c.id).where(runs.c.deleted_s.is_not(None), mine)).scalars())
    return Deleted(len(gone), sum(sizes(connection, gone).values()))


def sizes(connection: Connection, run_ids: Sequence[str]) -> dict[str, int]:
    """About how many bytes each run takes: what was asked, measured and traced. Characters of text count as one byte."""
    found = dict.fromkeys(run_ids, 0)
    for part in _parts(run_ids):
        for table in (results, traces, specs):
            taken = select(table.c.run_id, func.sum(func.length(table.c.data))).where(table.c.run_id.in_(part)).group_by(table.c.run_id)
            for run_id, size in connection.execute(taken):
                found[run_id] += int(size)
    return found


def _parts(run_ids: Sequence[str]) -> list[Sequence[str]]:
    return [run_ids[at : at + _PART] for at in range(0, len(run_ids), _PART)]
