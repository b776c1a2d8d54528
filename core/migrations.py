"""From each schema version of the store to the next, in statements that SQLite and PostgreSQL both know.

A migration names tables and columns as they were then, and reads specs as plain JSON: neither `core.database` nor `core.runs` of today
can change what it does. It runs in one transaction.
"""

import json
import secrets
from collections.abc import Callable
from typing import Any, cast

from sqlalchemy import Connection, text


def to_2(connection: Connection) -> None:
    """Lists of runs: names, tags, notes, results and a share id as columns; what was asked in a table of its own."""
    for column in _COLUMNS_2:
        connection.execute(text(f"ALTER TABLE runs ADD COLUMN {column}"))
    connection.execute(text("CREATE TABLE specs (run_id VARCHAR(32) NOT NULL PRIMARY KEY REFERENCES runs (id), data TEXT NOT NULL)"))
    connection.execute(text("INSERT INTO specs (run_id, data) SELECT id, spec FROM runs"))
    rows = [_filled(*row) for row in connection.execute(text("SELECT id, device, spec, environment FROM runs"))]
    if rows:
        names = ", ".join(f"{name} = :{name}" for name in rows[0] if name != "id")
        connection.execute(text(f"UPDATE runs SET {names} WHERE id = :id"), rows)
    connection.execute(text("ALTER TABLE runs DROP COLUMN spec"))
    connection.execute(text("CREATE UNIQUE INDEX ix_runs_share_id ON runs (share_id)"))
    connection.execute(text("CREATE INDEX ix_runs_group_id ON runs (group_id)"))
    connection.execute(text("CREATE INDEX ix_runs_created_s ON runs (created_s)"))


_COLUMNS_2 = (
    "extent VARCHAR(20) DEFAULT 'full' NOT NULL",
    "target TEXT DEFAULT '' NOT NULL",
    "draft TEXT DEFAULT '' NOT NULL",
    "dtype VARCHAR(20) DEFAULT '' NOT NULL",
    "device_name TEXT DEFAULT '' NOT NULL",
    "group_id TEXT DEFAULT '' NOT NULL",
    "share_id VARCHAR(32) DEFAULT '' NOT NULL",
    "tags TEXT DEFAULT '[]' NOT NULL",
    "note TEXT DEFAULT '' NOT NULL",
    "edition INTEGER DEFAULT 0 NOT NULL",
    "words TEXT DEFAULT '' NOT NULL",
    "deleted_s FLOAT",
    "summary TEXT",
    "speedup FLOAT",
    "alpha FLOAT",
    "c FLOAT",
    "imported TEXT",
)


def to_3(connection: Connection) -> None:
    """A queue that is fair to each person: who queued a run, and the order in which runs were queued or begun."""
    connection.execute(text("ALTER TABLE runs ADD COLUMN person VARCHAR(64) DEFAULT '' NOT NULL"))
    connection.execute(text("ALTER TABLE runs ADD COLUMN turn INTEGER DEFAULT 0 NOT NULL"))
    connection.execute(text("UPDATE runs SET turn = number"))
    connection.execute(text("CREATE INDEX ix_runs_turn ON runs (device, person, turn)"))


def _filled(run_id: str, device: str, spec: str, environment: str | None) -> dict[str, str]:
    """The new columns of an old run; of a damaged one only what is known of it."""
    asked, where = _object(spec), _object(environment or "")
    target, draft = (_name(asked.get(side)) for side in ("target", "draft"))
    return {
        "id": run_id,
        "extent": _string(asked.get("extent"), "full"),
        "target": target,
        "draft": draft,
        "dtype": _string(asked.get("dtype"), "float32"),
        "device_name": _string(where.get("device_name"), device),
        "group_id": _string(asked.get("group"), ""),
        "share_id": secrets.token_hex(10),
        "words": f"{run_id}\n{target}\n{draft}".casefold(),
    }


def _object(data: str) -> dict[str, Any]:
    try:
        found = json.loads(data or "{}")
    except ValueError:
        return {}
    return cast(dict[str, Any], found) if isinstance(found, dict) else {}


def _name(model: object) -> str:
    return _string(cast(dict[str, Any], model).get("name"), "") if isinstance(model, dict) else ""


def _string(value: object, otherwise: str) -> str:
    return value if isinstance(value, str) and value else otherwise


MIGRATIONS: dict[int, Callable[[Connection], None]] = {1: to_2, 2: to_3}
"""What leads from a schema version to the next."""
