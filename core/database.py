"""The store's tables, its schema version, and what goes wrong with a database, in sentences.

Dates are seconds since 1970 (UTC). Records are kept as the JSON of `core.runs`, so that a table
changes only when something new must be searched for. The meta table, not SQLite's
`user_version`, holds the version, so that PostgreSQL can take SQLite's place by URL.
What a run was asked, prompts and all, stands in a table of its own: a list of ten thousand runs
then reads a few megabytes and not their texts.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import (
    URL,
    Boolean,
    Column,
    Connection,
    Engine,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from core.errors import StoreBusy, StoreError
from core.migrations import MIGRATIONS

SCHEMA = 3
WAIT_FOR_LOCK_S = 5.0
ROOM_BYTES = 500_000
"""With less, a disk counts as full: a write may need a few pages of the log at once."""

metadata = MetaData()

meta = Table("draftgauge", metadata, Column("schema_version", Integer, nullable=False))

runs = Table(
    "runs",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", String(32), nullable=False, unique=True),
    Column("device", String(60), nullable=False),
    Column("status", String(20), nullable=False, index=True),
    Column("progress", Text, nullable=False),
    Column("environment", Text),
    Column("disturbed", Boolean, nullable=False, default=False),
    Column("error", Text, nullable=False, default=""),
    Column("created_s", Float, nullable=False),
    Column("started_s", Float),
    Column("finished_s", Float),
    Column("host", String(255)),
    Column("claimed_by", Integer),
    Column("heartbeat_s", Float),
    Column("extent", String(20), nullable=False, default="full"),
    Column("target", Text, nullable=False, default=""),
    Column("draft", Text, nullable=False, default=""),
    Column("dtype", String(20), nullable=False, default=""),
    Column("device_name", Text, nullable=False, default=""),
    Column("group_id", Text, nullable=False, default=""),
    Column("share_id", String(32), nullable=False),
    Column("tags", Text, nullable=False, default="[]"),
    Column("note", Text, nullable=False, default=""),
    Column("edition", Integer, nullable=False, default=0),
    Column("words", Text, nullable=False, default=""),
    Column("deleted_s", Float),
    Column("summary", Text),
    Column("speedup", Float),
    Column("alpha", Float),
    Column("c", Float),
    Column("imported", Text),
    Column("person", String(64), nullable=False, default=""),
    Column("turn", Integer, nullable=False, default=0),
    sqlite_autoincrement=True,
)
"""device_name: as the worker found it, until then the device's id. tags: a JSON list. words: names, tags and note in folded case, for the
search. speedup, alpha, c: as in the summary or the import, for sorting. person: an id of who queued it (`core.ui.person`), "" where nobody
knows; in no record and no export. turn: when it was queued, then when it began, then when it ended (`core.turns`); 0 for what came from elsewhere."""
Index("ix_runs_share_id", runs.c.share_id, unique=True)
Index("ix_runs_group_id", runs.c.group_id)
Index("ix_runs_created_s", runs.c.created_s)
Index("ix_runs_turn", runs.c.device, runs.c.person, runs.c.turn)

specs = Table(
    "specs",
    metadata,
    Column("run_id", String(32), ForeignKey("runs.id"), primary_key=True),
    Column("data", Text, nullable=False),
)

results = Table(
    "results",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("run_id", String(32), ForeignKey("runs.id"), nullable=False, index=True),
    Column("kind", String(20), nullable=False),
    Column("data", Text, nullable=False),
)

traces = Table(
    "traces",
    metadata,
    Column("run_id", String(32), ForeignKey("runs.id"), primary_key=True),
    Column("prompt", Integer, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)

devices = Table(
    "devices",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("data", Text, nullable=False),
)

prompt_drafts = Table(
    "prompt_drafts",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("text", Text, nullable=False),
    Column("changed_s", Float, nullable=False),
)


def connect(place: Path | str) -> Engine:
    """An engine for a SQLite file (or a database URL) whose schema is the current one.

    Raises StoreError when the place cannot be used: foreign, damaged, locked, read-only, full,
    or written by a newer version.
    """
    url = place if isinstance(place, str) and "://" in place else URL.create("sqlite", database=str(place))
    if isinstance(url, URL):
        _make_folder(Path(place).parent)
    engine = create_engine(url, connect_args={"timeout": WAIT_FOR_LOCK_S} if isinstance(url, URL) else {})
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _configure_sqlite)
    try:
        with sentences(str(place)), engine.begin() as connection:
            _prepare(connection, str(place))
    except StoreError:
        engine.dispose()
        raise
    return engine


def size_bytes(engine: Engine) -> int | None:
    """Bytes of a SQLite store with what it has not folded in yet; None for a database server's."""
    if engine.dialect.name != "sqlite":
        return None
    file = Path(engine.url.database or "")
    return sum(part.stat().st_size for part in (file, file.with_name(f"{file.name}-wal")) if part.exists())


def compact(engine: Engine) -> None:
    """Rewrite a SQLite store without its free room; a database server does that by itself."""
    if engine.dialect.name == "sqlite":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")


@contextmanager
def sentences(place: str) -> Generator[None]:
    """Turn the database's errors, and records in it that cannot be read, into StoreErrors that say what to do."""
    try:
        yield
    except SQLAlchemyError as error:
        raise (StoreBusy if _code(error).startswith(_LOCKED) else StoreError)(_sentence(place, error)) from error
    except ValidationError as error:
        raise StoreError(
            f"{place} holds a record that is damaged, or of another version of Draftgauge. Update Draftgauge, or put back a copy of the file."
        ) from error


def _configure_sqlite(connection: Any, _record: Any) -> None:
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"The data folder {folder} cannot be made ({error.strerror}). Set DRAFTGAUGE_DATA to a folder that can be written."
        ) from error


def _prepare(connection: Connection, place: str) -> None:
    """Create the tables in an empty database, or bring an older schema up to date."""
    names = inspect(connection).get_table_names()
    if not names:
        metadata.create_all(connection)
        connection.execute(insert(meta).values(schema_version=SCHEMA))
    elif meta.name not in names:
        raise StoreError(f"{place} is a database of another program. Move it away, or set DRAFTGAUGE_DATA to another folder.")
    else:
        _migrate(connection, place)


def _migrate(connection: Connection, place: str) -> None:
    found = connection.execute(select(meta.c.schema_version)).scalar_one()
    if found > SCHEMA:
        raise StoreError(
            f"{place} was written by a newer Draftgauge (schema {found}; this one knows {SCHEMA}). "
            "Update Draftgauge, or set DRAFTGAUGE_DATA to another folder."
        )
    if found < SCHEMA:
        _lock(connection)
        for version in range(connection.execute(select(meta.c.schema_version)).scalar_one(), SCHEMA):
            MIGRATIONS[version](connection)
            connection.execute(update(meta).values(schema_version=version + 1))


def _lock(connection: Connection) -> None:
    """All or nothing, and one program at a time: Python's SQLite driver opens no transaction before a statement that changes a table's columns."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")


_LOCKED = ("SQLITE_BUSY", "SQLITE_LOCKED")


def _code(error: SQLAlchemyError) -> str:
    return getattr(getattr(error, "orig", None), "sqlite_errorname", "")


def _sentence(place: str, error: SQLAlchemyError) -> str:
    code = _code(error)
    if code.startswith(_LOCKED):
        return f"{place} is locked by another program. Close that program and try again."
    if code.startswith("SQLITE_IOERR_") and _has_room(place):
        return (
            f"{place} cannot be written, although its disk has room: it may have become read-only after a fault, or a quota is used up. "
            "Make it writable, or free some space; what was saved before is kept."
        )
    if code.startswith(("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_FSYNC")):
        return f"The disk that holds {place} is full. Free some space and try again; what was saved before is kept."
    if code.startswith("SQLITE_READONLY"):
        return f"{place} cannot be written. Make it writable, or set DRAFTGAUGE_DATA to another folder."
    if code.startswith("SQLITE_CANTOPEN"):
        return f"{place} cannot be opened or created. Check that its folder can be written and that the disk is not full."
    if code.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return f"{place} is damaged or not a Draftgauge store. Move it away, or set DRAFTGAUGE_DATA to another folder."
    return f"The store {place} cannot be used ({getattr(error, 'orig', None) or error}). Move it away, or set DRAFTGAUGE_DATA to another folder."


def _has_room(place: str) -> bool:
    """Whether the disk of a SQLite file has room; SQLite has one error for a full disk and for one that takes nothing more."""
    try:
        room = os.statvfs(place)
    except (OSError, AttributeError):  # a database server's URL; Windows
        return False
    return room.f_bavail * room.f_frsize > ROOM_BYTES
