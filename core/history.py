"""Lists of runs, a page at a time: what was asked for in a few words, how it ended, and the stored answer.

Neither prompts nor results nor traces are read, so that ten thousand runs open at once. Dates are seconds since 1970 (UTC) in a query
and moments in what is found. Smoke tests are in no list but that of waiting and running runs.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar, cast

from pydantic import ValidationError
from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, or_, select

from core import turns
from core.database import runs
from core.record import Imported, Summary
from core.run_rows import EVERYBODYS, date
from core.runs import Extent, Progress, Status

R = TypeVar("R", Summary, Imported)
PAGE = 50
Kind = Literal["measured", "ways", "side_by_side", "shapes", "imported"]
Sort = Literal["created", "speedup", "alpha", "c", "target", "draft", "device", "status", "duration"]
KINDS: tuple[Kind, ...] = ("measured", "ways", "side_by_side", "shapes", "imported")
ENDED: tuple[Status, ...] = ("done", "failed", "cancelled", "interrupted")

_SORTED: dict[Sort, ColumnElement[Any]] = {
    "created": runs.c.created_s,
    "speedup": runs.c.speedup,
    "alpha": runs.c.alpha,
    "c": runs.c.c,
    "target": func.lower(runs.c.target),
    "draft": func.lower(runs.c.draft),
    "device": func.lower(runs.c.device_name),
    "status": runs.c.status,
    "duration": runs.c.finished_s - runs.c.started_s,
}
_KIND: dict[Kind, ColumnElement[bool]] = {
    "measured": and_(runs.c.imported.is_(None), runs.c.extent == "full"),
    "ways": and_(runs.c.imported.is_(None), runs.c.extent == "ways"),
    "side_by_side": and_(runs.c.imported.is_(None), runs.c.extent == "side_by_side"),
    "shapes": and_(runs.c.imported.is_(None), runs.c.extent == "shapes"),
    "imported": runs.c.imported.is_not(None),
}
_OWN: dict[Extent, Kind] = {"ways": "ways", "side_by_side": "side_by_side", "shapes": "shapes"}
"""Kinds of runs that were measured here; all others are measurements."""
_LISTED = (
    "number", "id", "share_id", "extent", "target", "draft", "device", "device_name", "dtype", "status", "error", "progress", "created_s",
    "started_s", "finished_s", "group_id", "tags", "note", "edition", "summary", "speedup", "alpha", "c", "imported",
)  # fmt: skip


@dataclass(frozen=True)
class Query:
    """Which runs, in which order. Empty filters let everything pass; several values of one filter are alternatives.

    search: words that must all be in the names, tags, note or id. tags: all of them must be there. since_s, until_s: when it was queued,
    the end not included. page: from 0; one beyond the end gives the last page.
    """

    search: str = ""
    targets: tuple[str, ...] = ()
    drafts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    since_s: float | None = None
    until_s: float | None = None
    sort: Sort = "created"
    descending: bool = True
    page: int = 0


@dataclass(frozen=True)
class Entry:
    """One run of a list. device: its name, or its id before the worker has found it. duration_s: of the measurement; None before its end.

    speedup, alpha, c: of the summary, else of what was imported; None where neither is known.
    """

    id: str
    share_id: str
    kind: Kind
    extent: Extent
    target: str
    draft: str
    device: str
    dtype: str
    status: Status
    error: str
    progress: Progress
    created: datetime
    started: datetime | None
    duration_s: float | None
    group: str
    tags: tuple[str, ...]
    note: str
    edition: int
    speedup: float | None
    alpha: float | None
    c: float | None
    summary: Summary | None
    imported: Imported | None


@dataclass(frozen=True)
class Page:
    """Entries of one page; total: of all pages together, page: the one that this is, from 0, pages: how many there are, at least 1."""

    entries: tuple[Entry, ...]
    total: int
    page: int
    pages: int


@dataclass(frozen=True)
class Choices:
    """What filters can offer: the values that occur, in alphabetical order. total: runs without any filter."""

    targets: tuple[str, ...]
    drafts: tuple[str, ...]
    devices: tuple[str, ...]
    tags: tuple[str, ...]
    total: int


def find(connection: Connection, query: Query, *, size: int = PAGE, mine: ColumnElement[bool] = EVERYBODYS) -> Page:
    """One page of the runs that have ended and are not deleted. mine: of which runs, here and below."""
    asked = _asked(query) & mine
    total = connection.execute(select(func.count()).select_from(runs).where(asked)).scalar_one()
    pages = max(1, -(-total // size))
    page = min(max(0, query.page), pages - 1)
    by = _SORTED[query.sort]
    order = (by.desc() if query.descending else by.asc()).nulls_last()
    place = select(runs.c.number).where(asked).order_by(order, runs.c.number.desc()).limit(size).offset(page * size)
    numbers = connection.execute(place).scalars().all()  # first the places alone, so that whole rows need not be sorted
    found = {row.number: _entry(row) for row in connection.execute(_listed().where(runs.c.number.in_(numbers)))}
    return Page(tuple(found[number] for number in numbers), total, page, pages)


def alive(connection: Connection, mine: ColumnElement[bool] = EVERYBODYS) -> list[Entry]:
    """Waiting and running runs of every kind: what runs first, then in the order of their turn."""
    found = _listed().where(runs.c.status.in_(("running", "queued")), mine).order_by(runs.c.number)
    places = {run_id: place for place, run_id in enumerate(turns.line(connection), start=1)}
    return sorted((_entry(row) for row in connection.execute(found)), key=lambda entry: places.get(entry.id, 0))


def choices(connection: Connection, mine: ColumnElement[bool] = EVERYBODYS) -> Choices:
    """What occurs among the runs that `find` could find; one pass over all of them, which is faster than four distinct ones."""
    rows = connection.execute(select(runs.c.target, runs.c.draft, runs.c.device_name, runs.c.tags).where(_asked(Query()) & mine)).all()
    tags = {tag for several in {row.tags for row in rows} for tag in json.loads(several)}
    return Choices(
        targets=_alphabetical({row.target for row in rows}),
        drafts=_alphabetical({row.draft for row in rows}),
        devices=_alphabetical({row.device_name for row in rows}),
        tags=_alphabetical(tags),
        total=len(rows),
    )


def _alphabetical(names: set[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=lambda name: (name.casefold(), name)))


def _asked(query: Query) -> ColumnElement[bool]:
    conditions = [runs.c.deleted_s.is_(None), runs.c.status.in_(query.statuses or ENDED), or_(*(_KIND[kind] for kind in query.kinds or KINDS))]
    conditions += [runs.c.words.contains(word, autoescape=True) for word in query.search.casefold().split()]
    conditions += [runs.c.tags.contains(json.dumps(tag, ensure_ascii=False), autoescape=True) for tag in query.tags]
    filters = ((runs.c.target, query.targets), (runs.c.draft, query.drafts), (runs.c.device_name, query.devices))
    conditions += [column.in_(values) for column, values in filters if values]
    if query.since_s is not None:
        conditions.append(runs.c.created_s >= query.since_s)
    if query.until_s is not None:
        conditions.append(runs.c.created_s < query.until_s)
    return and_(*conditions)


def _listed() -> Select[Any]:
    return select(*(runs.c[name] for name in _LISTED))


def _entry(row: Row[Any]) -> Entry:
    return Entry(
        id=row.id,
        share_id=row.share_id,
        kind="imported" if row.imported is not None else _OWN.get(row.extent, "measured"),
        extent=row.extent,
        target=row.target,
        draft=row.draft,
        device=row.device_name or row.device,
        dtype=row.dtype,
        status=row.status,
        error=row.error,
        progress=Progress.model_validate_json(row.progress),
        created=date(row.created_s),
        started=None if row.started_s is None else date(row.started_s),
        duration_s=None if row.started_s is None or row.finished_s is None else row.finished_s - row.started_s,
        group=row.group_id,
        tags=tuple(cast(list[str], json.loads(row.tags))),
        note=row.note,
        edition=row.edition,
        speedup=row.speedup,
        alpha=row.alpha,
        c=row.c,
        summary=_if_readable(Summary, row.summary),
        imported=_if_readable(Imported, row.imported),
    )


def _if_readable(kind: type[R], data: str | None) -> R | None:
    """A list shows an empty cell for what another version wrote; opening the run says why."""
    try:
        return None if data is None else kind.model_validate_json(data)
    except ValidationError:
        return None
