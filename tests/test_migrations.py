"""The way from older schemas: an old store keeps everything, becomes what a new one is, and changes once or not at all."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, inspect

from core import database, migrations
from core.errors import StoreError
from core.history import Query
from core.runs import RunSpec
from core.settings import Settings
from core.store import FILE_NAME, Store
from tests.test_store import ENVIRONMENT

SCHEMA_1 = """
CREATE TABLE draftgauge (schema_version INTEGER NOT NULL);
CREATE TABLE runs (number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, id VARCHAR(32) NOT NULL, device VARCHAR(60) NOT NULL,
    status VARCHAR(20) NOT NULL, spec TEXT NOT NULL, progress TEXT NOT NULL, environment TEXT, disturbed BOOLEAN NOT NULL, error TEXT NOT NULL,
    created_s FLOAT NOT NULL, started_s FLOAT, finished_s FLOAT, host VARCHAR(255), claimed_by INTEGER, heartbeat_s FLOAT, UNIQUE (id));
CREATE INDEX ix_runs_status ON runs (status);
CREATE TABLE results (number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, run_id VARCHAR(32) NOT NULL, kind VARCHAR(20) NOT NULL,
    data TEXT NOT NULL, FOREIGN KEY(run_id) REFERENCES runs (id));
CREATE INDEX ix_results_run_id ON results (run_id);
CREATE TABLE traces (run_id VARCHAR(32) NOT NULL, prompt INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (run_id, prompt),
    FOREIGN KEY(run_id) REFERENCES runs (id));
CREATE TABLE devices (number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, data TEXT NOT NULL);
CREATE TABLE prompt_drafts (id VARCHAR(64) NOT NULL PRIMARY KEY, text TEXT NOT NULL, changed_s FLOAT NOT NULL);
INSERT INTO draftgauge VALUES (1);
"""


@pytest.fixture
def place(settings: Settings) -> Path:
    settings.data.mkdir()
    return settings.data / FILE_NAME


def old_store(place: Path, rows: list[tuple[Any, ...]]) -> None:
    """A store as schema 1 wrote it. rows: id, status, spec, environment, created."""
    raw = sqlite3.connect(place)
    raw.executescript(SCHEMA_1)
    columns = "id, device, status, spec, progress, environment, disturbed, error, created_s"
    values = [(run_id, "cpu", status, spec, "{}", environment, 0, "", created_s) for run_id, status, spec, environment, created_s in rows]
    raw.executemany(f"INSERT INTO runs ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    raw.commit()
    raw.close()


def test_an_old_store_becomes_a_new_one_and_keeps_everything(place: Path, spec: RunSpec) -> None:
    smoke, grouped = (spec.model_copy(update=change).model_dump_json() for change in ({"extent": "smoke"}, {"group": "abc123"}))
    rows = [
        ("one", "done", spec.model_dump_json(), ENVIRONMENT.model_dump_json(), 100.0),
        ("two", "done", smoke, None, 200.0),
        ("three", "queued", grouped, None, 300.0),
        ("four", "failed", "{", None, 400.0),
    ]
    old_store(place, rows)
    raw = sqlite3.connect(place)
    raw.execute("INSERT INTO results (run_id, kind, data) VALUES ('one', 'draft_prefill', '0.25')")
    raw.commit()
    raw.close()

    store = Store(place)
    run = store.get("one")
    assert (run.spec, run.environment, run.draft_prefill_s, run.created.timestamp()) == (spec, ENVIRONMENT, (0.25,), 100.0)
    assert (run.summary, run.imported, run.tags, run.note, run.edition) == (None, None, (), "", 0)
    shared = store.get(run.share_id)
    assert (shared.id, shared.spec.target, len(shared.spec.prompts)) == (run.share_id, spec.target, 2)
    page = store.history(Query())
    assert [entry.id for entry in page.entries] == ["four", "one"]
    assert (page.entries[1].device, page.entries[1].target, page.entries[1].draft, page.entries[1].dtype) == ("CPU", "target", "draft", "float32")
    assert [entry.id for entry in store.history(Query(search="ONE")).entries] == ["one"]
    assert ([run.id for run in store.recent(9)], store.unreadable(9)) == (["three", "one"], 1)
    assert [run.id for run in store.group("abc123")] == ["three"]
    assert [entry.id for entry in store.alive()] == ["three"]
    again = Store(place)
    assert again.get("one").share_id == run.share_id
    again.close()
    store.close()


def test_a_migrated_store_has_the_columns_and_indexes_of_a_new_one(place: Path, tmp_path: Path) -> None:
    old_store(place, [])
    shapes = []
    for engine in (database.connect(place), database.connect(tmp_path / "new.sqlite")):
        found = inspect(engine)
        tables = {name: sorted((column["name"], str(column["type"]), column["nullable"]) for column in found.get_columns(name)) for name in
                  found.get_table_names()}  # fmt: skip
        shapes.append((tables, sorted((index["name"], index["unique"]) for index in found.get_indexes("runs"))))
        engine.dispose()
    assert shapes[0] == shapes[1]


def test_a_store_of_the_second_schema_keeps_the_order_of_its_queue(place: Path, spec: RunSpec) -> None:
    store = Store(place)
    ids = [store.add(spec) for _ in range(3)]
    store.close()
    raw = sqlite3.connect(place)
    raw.executescript(
        "DROP INDEX ix_runs_turn; ALTER TABLE runs DROP COLUMN person; ALTER TABLE runs DROP COLUMN turn; UPDATE draftgauge SET schema_version = 2"
    )
    raw.close()
    store = Store(place)
    assert store.queued("cpu") == ids
    assert store.waiting_of() == {"": 3}
    new = store.add(spec, "ada")
    assert store.queued("cpu") == [ids[0], new, *ids[1:]]
    store.close()


def test_a_migration_that_fails_leaves_the_old_store_as_it_was(place: Path, spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    old_store(place, [("one", "done", spec.model_dump_json(), None, 100.0)])

    def stops(connection: Connection) -> None:
        migrations.to_2(connection)
        raise StoreError("The disk is full.")

    monkeypatch.setitem(migrations.MIGRATIONS, 1, stops)
    with pytest.raises(StoreError, match="full"):
        Store(place)
    raw = sqlite3.connect(place)
    assert raw.execute("SELECT schema_version FROM draftgauge").fetchall() == [(1,)]
    assert raw.execute("SELECT spec FROM runs").fetchall() == [(spec.model_dump_json(),)]
    assert raw.execute("SELECT name FROM sqlite_master WHERE name = 'specs'").fetchall() == []
    raw.close()
    monkeypatch.undo()
    store = Store(place)
    assert store.get("one").spec == spec
    store.close()


def test_two_programs_that_open_an_old_store_at_once_migrate_it_once(place: Path, spec: RunSpec) -> None:
    old_store(place, [(f"r{number}", "done", spec.model_dump_json(), None, float(number)) for number in range(300)])
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(Store, [place] * 4))
    shares = {store.get("r7").share_id for store in stores}
    assert len(shares) == 1
    for store in stores:
        store.close()
