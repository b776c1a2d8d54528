"""What a person sees when the disk is full or the store cannot be used: one sentence, a way on, and nothing of theirs lost."""

import contextlib
import json
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from core import answers, database, prompt_files
from core.bench import Bench
from core.errors import StoreError
from core.export_json import to_json
from core.planner import Planner, Ready, Task, Waiting
from core.privacy import installation_key
from core.runs import RunSpec
from core.settings import Settings
from core.store import FILE_NAME, Store, open_store
from core.ui import desk
from tests import jobs, synthetic
from tests.apps import button, ok, open_page, texts
from tests.benches import ENTRY, ended, job, under_way, until
from tests.supplies import free_bytes, small_disk
from tests.test_migrations import old_store
from tests.test_store_faults import locked

TEXT = "def mine(x):\n---\nOnce upon a time"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk") as folder:
        yield folder


@pytest.fixture
def settings(disk: Path, settings: Settings) -> Settings:
    """The data folder on a disk that can be filled."""
    return settings.model_copy(update={"data": disk / "data"})


def said(markdown: str) -> str:
    """As it is read, without the signs that keep it text."""
    return markdown.replace("\\", "")


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    filler.write_bytes(bytes(free_bytes(disk)))
    return filler


@pytest.mark.usefixtures("app_site")
def test_prompts_pasted_on_a_full_disk_stay_and_can_be_measured_once_there_is_room(store: Store, disk: Path):
    installation_key(disk / "data")  # as of every server that has once shown a page
    app = open_page("measure", pasted="abc")
    filler = fill(disk)
    large = "x" * 60_000
    app.text_area(key="pasted_prompts").set_value(f"{TEXT}\n---\n{large}").run()
    assert "is full. Free some space and try again" in said(ok(app).toast[0].value)
    assert str(app.text_area(key="pasted_prompts").value).startswith(TEXT)
    assert "3 prompts" in texts(app)
    button(app, "Measure").click().run()
    assert "is full. Free some space and try again" in said(ok(app).error[0].value)
    assert str(app.text_area(key="pasted_prompts").value).startswith(TEXT), "what was typed stays on the page"
    assert store.recent(9) == []
    filler.unlink()
    button(app, "Measure").click().run()
    [run] = store.recent(9)
    assert [prompt.text for prompt in run.spec.prompts][2] == large


@pytest.mark.usefixtures("app_site")
def test_a_run_is_shown_and_exported_on_a_full_disk(store: Store, settings: Settings, disk: Path):
    run_id = synthetic.keep(store, synthetic.run(prompts=4))
    installation_key(settings.data)
    fill(disk)
    app = open_page("measure", run=run_id)
    assert not app.error
    assert {"Whole run (JSON)", "Per token (CSV)"} <= {shown.proto.label for shown in app.get("download_button")}
    whole = json.loads(to_json(store.get(run_id, traces=True), texts=False, key=installation_key(settings.data)))
    assert len(whole["run"]["spec"]["prompts"]) == 4


def test_a_key_that_cannot_be_kept_is_a_sentence_and_leaves_nothing(settings: Settings, disk: Path):
    settings.data.mkdir()
    filler = fill(disk)
    with pytest.raises(StoreError, match="cannot be read or written"):
        installation_key(settings.data)
    assert list(settings.data.iterdir()) == []
    filler.unlink()
    assert installation_key(settings.data) == installation_key(settings.data)


def test_jobs_answer_on_a_full_disk(settings: Settings, disk: Path):
    """Reports among them: the copy for later is lost, not the answer."""
    settings.data.mkdir()
    (settings.data / "plan.log").touch()
    fill(disk)
    with contextlib.closing(Planner(settings, tasks={"big": Task("tests.plan_jobs:big", 20)}, light=1)) as planner:
        planner.ask("big", {"bytes": 300_000})
        until(lambda: not isinstance(planner.ask("big", {"bytes": 300_000}), Waiting))
        answer = planner.ask("big", {"bytes": 300_000})
    assert isinstance(answer, Ready)
    assert len(answer.data) == 300_000


def test_a_run_that_ends_on_a_full_disk_says_so_while_it_is_watched(
    store: Store, settings: Settings, disk: Path, spec: RunSpec, monkeypatch: pytest.MonkeyPatch
):
    """Its end cannot be recorded, so it still counts as running; the page says why, and goes on when there is room."""
    with contextlib.closing(Bench(settings, store, entry=ENTRY)) as bench:
        monkeypatch.setattr(desk, "_open", lambda: (store, bench))
        monkeypatch.setattr(desk, "settings", lambda: settings)
        run_id = bench.submit(job(spec, jobs.SLEEP))
        under_way(store, run_id)
        filler = fill(disk)
        until(lambda: bench.trouble() != "", within_s=15)
        assert "is full. Free some space" in bench.trouble()
        app = open_page("measure", run=run_id)
        assert "is full. Free some space" in said(app.error[0].value)
        filler.unlink()
        until(lambda: bench.trouble() == "", within_s=15)
        assert not ok(app.run()).error
        bench.cancel(run_id)
        assert ended(store, run_id).status == "cancelled"


def test_what_cannot_be_kept_whole_leaves_no_half_on_the_disk(settings: Settings, disk: Path):
    """It would take the room that a run's last figures need."""
    folder = settings.data / "plan" / "answers"
    for place in (folder, settings.data / "uploads"):
        place.mkdir(parents=True)
    (disk / "filler").write_bytes(bytes(free_bytes(disk) - 100_000))
    before = free_bytes(disk)
    answers.keep(folder, "big", answers.Made("x" * 300_000, 0.0))
    with pytest.raises(StoreError, match=r"could not be kept in .*uploads \(No space left on device\)\. Free space"):
        prompt_files.keep(b"x" * 300_000, settings)
    assert free_bytes(disk) == before
    assert list(folder.iterdir()) == []


@pytest.fixture
def server(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Pages that open the store of the data folder by themselves, as a server does; the file of the store."""
    open_store(settings).close()
    monkeypatch.setattr(desk, "settings", lambda: settings)
    monkeypatch.setattr(desk, "PREWARM", ())
    monkeypatch.setattr(database, "WAIT_FOR_LOCK_S", 0.1)
    desk._open.clear()
    yield settings.data / FILE_NAME
    desk.close()
    desk._open.clear()


@contextlib.contextmanager
def damaged(place: Path) -> Iterator[None]:
    good = place.read_bytes()
    place.write_bytes(b"no database" * 1000)
    yield
    assert place.read_bytes() == b"no database" * 1000, "left as it was found"
    put_back(place, good)


@contextlib.contextmanager
def newer(place: Path) -> Iterator[None]:
    good = place.read_bytes()
    raw = sqlite3.connect(place)
    raw.execute("UPDATE draftgauge SET schema_version = 99")
    raw.commit()
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw.close()
    spoiled = place.read_bytes()
    yield
    assert place.read_bytes() == spoiled, "left as it was found"
    put_back(place, good)


def put_back(place: Path, good: bytes) -> None:
    for rest in place.parent.glob(f"{FILE_NAME}-*"):
        rest.unlink()
    place.write_bytes(good)


@contextlib.contextmanager
def read_only(place: Path) -> Iterator[None]:
    """The whole file system, so that it holds for root too."""
    disk = place.parents[1]
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)


@contextlib.contextmanager
def used_by_another(place: Path) -> Iterator[None]:
    with FileLock(place.parent / "server.lock"):
        yield


FAULTS = {
    "damaged": (damaged, "is damaged or not a Draftgauge store. Move it away"),
    "newer": (newer, "was written by a newer Draftgauge (schema 99; this one knows 3). Update Draftgauge"),
    "locked": (lambda place: locked(place, "PRAGMA locking_mode=EXCLUSIVE"), "is locked by another program. Close that program and try again."),
    "read-only": (read_only, "cannot be opened or created. Check that its folder can be written"),
    "another server": (used_by_another, "Another Draftgauge uses the data folder"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_store_that_cannot_be_used_is_a_sentence_on_every_page_and_the_next_try_works(server: Path, fault: str):
    cause, words = FAULTS[fault]
    with cause(server):
        app = open_page("runs")
        assert app.title[0].value == "The data folder cannot be used"
        assert words in said(app.error[0].value)
        assert open_page("measure").title[0].value == "The data folder cannot be used"
    button(app, "Try again").click().run()
    assert ok(app).title[0].value == "No runs yet"


def test_a_store_of_an_older_draftgauge_is_opened_as_if_it_were_of_this_one(server: Path, spec: RunSpec):
    server.unlink()
    old_store(server, [("one", "done", spec.model_dump_json(), None, 100.0)])
    assert "**target with draft**" in [link.proto.label for link in open_page("start").get("page_link")]
