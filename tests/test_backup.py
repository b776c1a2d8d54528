"""A backup that is made while runs are written holds every run of its moment, and comes back in another data folder."""

import contextlib
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from core.errors import StoreError
from core.history import Query
from core.runs import RunSpec
from core.settings import Settings
from core.store import FILE_NAME, Store, open_store
from tests import side_runs, synthetic
from tools.backup import backup, restore

PAGE = 4096
ROOT = Path(__file__).resolve().parents[1]


def test_every_run_comes_back_whole(settings: Settings, store: Store, tmp_path: Path) -> None:
    kept = [synthetic.keep_answered(store, synthetic.run(prompts=8, tokens=32)), side_runs.keep(store, side_runs.run())]
    store.edit(kept[0], 0, tags=["kept"], note="as it was")
    store.save_prompts("mine", "pasted")
    file = tmp_path / "backup.sqlite"
    assert backup(settings, file) == file.stat().st_size
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    elsewhere = settings.model_copy(update={"data": tmp_path / "elsewhere"})
    assert restore(elsewhere, file) == 2
    found = open_store(elsewhere)
    for run_id in kept:
        before, after = store.get(run_id, traces=True), found.get(run_id, traces=True)
        assert after.model_dump() == before.model_dump()
        assert [trace.pieces for trace in after.traces] == [trace.pieces for trace in before.traces]
    assert found.get(kept[0]).note == "as it was"
    assert found.load_prompts("mine") == "pasted"
    found.close()


def test_a_backup_is_of_one_moment_while_runs_are_written(settings: Settings, store: Store, tmp_path: Path) -> None:
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            synthetic.keep(store, synthetic.run(prompts=2, tokens=16))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            backup(settings, tmp_path / f"{number}.sqlite")
    finally:
        stop.set()
        writer.join()
    for number in range(3):
        elsewhere = settings.model_copy(update={"data": tmp_path / str(number)})
        restore(elsewhere, tmp_path / f"{number}.sqlite")
        found = open_store(elsewhere)
        for entry in found.history(Query()).entries:
            assert len(found.get(entry.id, traces=True).traces) == 2
        found.close()


def test_nothing_is_overwritten_and_no_foreign_file_is_restored(settings: Settings, store: Store, tmp_path: Path) -> None:
    file = tmp_path / "backup.sqlite"
    backup(settings, file)
    with pytest.raises(StoreError, match=r"is there already\. Name a new file"):
        backup(settings, file)
    with pytest.raises(StoreError, match=r"is there already\. Stop the server"):
        restore(settings, file)
    empty = settings.model_copy(update={"data": tmp_path / "empty"})
    with pytest.raises(StoreError, match="There is no store in"):
        backup(empty, tmp_path / "other.sqlite")
    empty.data.mkdir()
    left = empty.data / f"{FILE_NAME}-wal"
    left.write_bytes(b"of the store that was here")
    with pytest.raises(StoreError, match=r"-wal is there already\. Stop the server"):
        restore(empty, file)
    left.unlink()
    file.write_bytes(b"no database" * 100)
    with pytest.raises(StoreError, match="cannot be put back: it is missing, damaged or no backup"):
        restore(empty, file)
    with pytest.raises(StoreError, match="cannot be put back: it is missing, damaged or no backup"):
        restore(empty, tmp_path / "nowhere.sqlite")
    (tmp_path / "empty.sqlite").touch()
    with pytest.raises(StoreError, match=r"cannot be put back.*no such table: draftgauge"):
        restore(empty, tmp_path / "empty.sqlite")
    assert not (empty.data / FILE_NAME).exists()


@pytest.mark.parametrize("page", [10, 20, -1])
def test_a_backup_that_was_damaged_on_its_way_is_not_put_back(settings: Settings, store: Store, tmp_path: Path, page: int) -> None:
    synthetic.keep(store, synthetic.run(prompts=8, tokens=64))
    file, empty = tmp_path / "backup.sqlite", settings.model_copy(update={"data": tmp_path / "empty"})
    backup(settings, file)
    content = file.read_bytes()
    at = (page % (len(content) // PAGE)) * PAGE
    file.write_bytes(content[:at] + (b"" if page < 0 else b"\xff" * PAGE + content[at + PAGE :]))
    with pytest.raises(StoreError, match="cannot be put back"):
        restore(empty, file)
    assert not empty.data.exists()


def test_runs_that_had_not_ended_are_counted_and_any_folder_can_be_copied(settings: Settings, store: Store, spec: RunSpec, tmp_path: Path) -> None:
    odd = settings.model_copy(update={"data": tmp_path / "a #1? 100%41"})
    with contextlib.closing(open_store(odd)) as there:
        there.claim(there.add(spec), "here", 1)
        there.add(spec)
    backup(odd, tmp_path / "backup.sqlite")
    assert restore(settings.model_copy(update={"data": tmp_path / "b"}), tmp_path / "backup.sqlite") == 2


def test_the_command_says_what_it_did(settings: Settings, store: Store, tmp_path: Path) -> None:
    synthetic.keep_answered(store, synthetic.run(prompts=8, tokens=32))
    file = tmp_path / "backup.sqlite"

    def run(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tools.backup", *arguments]
        environment = os.environ | {"DRAFTGAUGE_DATA": str(data)}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)

    assert run(settings.data, str(file)).stdout.startswith(f"{file}: ")
    assert run(tmp_path / "new", "--restore", str(file)).stdout == f"1 run put into {tmp_path / 'new'}.\n"
    refused = run(tmp_path / "new", "--restore", str(file))
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "is there already" in refused.stderr
