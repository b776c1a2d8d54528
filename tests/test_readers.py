"""A server that only shows runs changes nothing, whatever a reader presses, types or uploads, in a browser or without one."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from core.prompt_draft import Draft
from core.settings import Settings
from core.store import FILE_NAME, open_store
from tests import side_runs, synthetic
from tests.browser.server import serve
from tests.sessions import Session, play
from tests.test_neighbours import PATHS, press_everything

TABLES = ("runs", "specs", "results", "traces", "prompt_drafts", "devices")


def contents(folder: Path) -> Mapping[str, object]:
    """Every row of the store, and the names of what lies beside it: but for answers about models, logs, and what SQLite keeps."""
    with closing(sqlite3.connect(folder / FILE_NAME)) as store:
        rows = {table: store.execute(f"select * from {table}").fetchall() for table in TABLES}
    files = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file() and "plan" not in file.parts}
    return rows | {"files": {name for name in files if not name.startswith(FILE_NAME) and not name.endswith(".log")}}


def test_whatever_a_reader_presses_types_or_uploads_changes_nothing(tmp_path: Path) -> None:
    store = open_store(Settings(data=tmp_path))
    run = synthetic.run(prompts=8, tokens=32)
    for name, known in (("full", run), ("side", side_runs.run()), ("stopped", run.model_copy(update={"status": "cancelled"})), ("gone", run)):
        store.insert(known.model_copy(update={"id": name}))
    store.delete(["gone"])
    waiting = store.add(run.spec)
    store.save_prompts("known", Draft(pasted="one\ntwo").saved())
    store.close()
    pages = (*PATHS, *(f"measure?run={name}" for name in ("full", "stopped", waiting)), "measure?run=full&more=prompts", "side_by_side?run=side")
    with serve(tmp_path, DRAFTGAUGE_READ_ONLY="true", HF_HUB_OFFLINE="1") as url:
        before = contents(tmp_path)
        pressed: list[str] = []

        async def read() -> None:
            for page in pages:
                pressed.extend(await press_everything(url, page, ""))
            async with Session.open(url, "measure", "pasted=known") as session:
                await session.set("text_area", "Prompts", "three")
                assert list(session.elements("file_uploader")) == [], "no file is kept for who cannot measure it"
                assert session.errors == []
            async with Session.open(url, "side_by_side") as session:
                await session.set("text_area", "Prompt", "five")
                assert session.errors == []

        play(read())
        assert contents(tmp_path) == before
    assert {"Cancel", "Measure", "Run side by side"} <= set(pressed)
