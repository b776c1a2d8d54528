"""The store's lists of runs, and what people do to runs that have ended: notes, deleting, cleaning up.

The half of the store that workers do not need; `core.store` is the other one. What the methods do is in `core.history` and `core.notes`.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Self

from sqlalchemy import ColumnElement, Connection, select, update

from core import database, history, notes, run_rows
from core.database import runs
from core.history import Choices, Entry, Page, Query
from core.notes import Deleted
from core.record import Summary


class Shelf:
    """A place with runs, safe to use from several threads and processes. Every method may raise StoreError."""

    def __init__(self, place: Path | str) -> None:
        """`place` is a SQLite file, made when it is missing, or a database URL."""
        self.place = str(place)
        self._engine = database.connect(place)
        self._mine: ColumnElement[bool] = run_rows.EVERYBODYS

    def seen_by(self, person: str) -> Self:
        """The same place, through which this person's runs alone are seen and changed, and runs by their share ids. person: an id, not empty."""
        assert person
        view = copy(self)
        view._mine = runs.c.person == person
        return view

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    def history(self, query: Query) -> Page:
        """One page of the runs that have ended and are not deleted."""
        with self._begin() as connection:
            return history.find(connection, query, mine=self._mine)

    def alive(self) -> list[Entry]:
        """Running and waiting runs of every kind, in the order they get their turn."""
        with self._begin() as connection:
            return history.alive(connection, self._mine)

    def choices(self) -> Choices:
        """What the filters of `history` can offer."""
        with self._begin() as connection:
            return history.choices(connection, self._mine)

    def edit(self, run_id: str, edition: int, *, tags: Sequence[str], note: str) -> int:
        """Replace tags and note as they were at `edition`, and return the new one. Raises InvalidInput when another tab changed them since."""
        with self._begin() as connection:
            return notes.edit(connection, run_id, edition, tags, note, self._mine)

    def delete(self, run_ids: Sequence[str]) -> list[str]:
        """Hide runs until `restore` or `purge`, and return those that were not hidden. Raises InvalidInput, and hides none, when one is alive."""
        with self._begin() as connection:
            return notes.delete_softly(connection, run_ids, self._mine)

    def restore(self, run_ids: Sequence[str] | None = None) -> int:
        """Show these deleted runs again, or all of them; how many."""
        with self._begin() as connection:
            return notes.restore(connection, run_ids, self._mine)

    def hidden(self, run_ids: Sequence[str]) -> set[str]:
        """Those of these runs that are deleted and can be restored."""
        with self._begin() as connection:
            return set(connection.execute(select(runs.c.id).where(runs.c.id.in_(run_ids), runs.c.deleted_s.is_not(None), self._mine)).scalars())

    def purge(self, before_s: float) -> int:
        """Remove for good what was deleted before a moment, and return how many runs. `compact` gives their room back to the disk."""
        with self._begin() as connection:
            return notes.purge(connection, before_s, self._mine)

    def deleted(self) -> Deleted:
        """How many runs `purge` could remove, and about how many bytes."""
        with self._begin() as connection:
            return notes.deleted(connection, self._mine)

    def sizes(self, run_ids: Sequence[str]) -> dict[str, int]:
        """About how many bytes each run takes."""
        with self._begin() as connection:
            return notes.sizes(connection, run_ids)

    def size_bytes(self) -> int | None:
        """Bytes of the whole store on the disk; None for a database server's."""
        return database.size_bytes(self._engine)

    def compact(self) -> None:
        """Give free room back to the disk. Takes seconds for a large store and blocks whoever writes, so not while a run is measured."""
        with database.sentences(self.place):
            database.compact(self._engine)

    def summarise(self, run_id: str, summary: Summary) -> None:
        """Keep the answer of a measurement beside it; a run that does not exist is passed over."""
        with self._begin() as connection:
            connection.execute(update(runs).where(runs.c.id == run_id).values(**run_rows.summary_values(summary)))

    @contextmanager
    def _begin(self) -> Generator[Connection]:
        with database.sentences(self.place), self._engine.begin() as connection:
            yield connection
