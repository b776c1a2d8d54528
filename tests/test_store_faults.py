"""The store when another program holds it, when its bytes are damaged, when it cannot be written, and when the clock is set back."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from core import database, sink
from core.bench import Bench
from core.errors import StoreBusy, StoreError
from core.history import Query
from core.prompt_files import KEPT_FILES, keep, kept
from core.runs import Progress, RunSpec
from core.settings import Settings
from core.sink import StoreSink
from core.store import DRAFTS_KEPT, FILE_NAME, Store, open_store
from tests import jobs
from tests.benches import ENTRY, ended, job, until
from tests.supplies import break_disk, faulty_disk, mend_disk, random_trace
from tests.test_store import PLAIN, running

IMPATIENT = replace(ENTRY, devices="tests.jobs:impatient")
PAGE_BYTES = 4096
LOCK = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute(sys.argv[2])
held.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def locked(place: Path, how: str = "SELECT 1") -> Iterator[None]:
    """Another program has the whole store to itself."""
    with subprocess.Popen([sys.executable, "-c", LOCK, str(place), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        try:
            yield
        finally:
            other.stdin.close()
            other.wait()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "WAIT_FOR_LOCK_S", 0.1)


@pytest.mark.usefixtures("impatient")
def test_a_store_that_another_program_holds_cannot_be_opened_until_it_lets_go(store: Store, settings: Settings, spec: RunSpec) -> None:
    run_id = store.add(spec)
    store.close()
    with locked(settings.data / FILE_NAME, "PRAGMA locking_mode=EXCLUSIVE"), pytest.raises(StoreBusy, match="locked by another program"):
        open_store(settings)
    again = open_store(settings)
    assert again.get(run_id).spec == spec
    again.close()


@pytest.mark.usefixtures("impatient")
def test_a_measurement_waits_for_a_lock_and_loses_nothing(settings: Settings, spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(settings)
    run_id = running(store, spec)
    reports = StoreSink(store, run_id)
    with locked(settings.data / FILE_NAME):
        monkeypatch.setattr(sink, "LOCK_PATIENCE_S", 0.3)
        began = time.monotonic()
        with pytest.raises(StoreBusy):
            reports.trace(0, random_trace(0))
        assert 0.3 < time.monotonic() - began < 3
    reports.trace(0, random_trace(0))
    assert len(store.get(run_id, traces=True).traces) == 1
    store.close()


def test_a_lock_in_mid_run_costs_the_run_nothing(settings: Settings, store: Store, spec: RunSpec) -> None:
    with contextlib.closing(Bench(settings, store, entry=IMPATIENT)) as bench:
        run_id = bench.submit(job(spec, jobs.MANY))
        until(lambda: store.get(run_id).progress.done > 2)
        with locked(settings.data / FILE_NAME):
            time.sleep(1.5)  # thrice what its worker waits for
            assert store.status(run_id) == "running"
        run = ended(store, run_id)
    assert (run.status, run.error) == ("done", "")
    assert len(store.get(run_id, traces=True).traces) == 20


def test_a_worker_that_starts_while_the_store_is_held_waits_for_it(settings: Settings, store: Store, spec: RunSpec) -> None:
    run_id = store.add(job(spec, jobs.QUICK))
    with contextlib.closing(Bench(settings, store, entry=IMPATIENT)) as bench:
        with locked(settings.data / FILE_NAME):
            until(lambda: "waiting for the store" in (settings.data / "worker-cpu.log").read_text())
            assert store.status(run_id) == "queued"
        assert ended(store, run_id).status == "done"
        assert bench.trouble() == ""


def overwrite(place: Path, at: int, count: int = PAGE_BYTES) -> None:
    """Bytes of noise in the middle of a file."""
    with place.open("r+b") as file:
        file.seek(at)
        file.write(bytes(reversed(range(256))) * (count // 256))


@pytest.fixture
def full(settings: Settings, spec: RunSpec) -> Path:
    """The file of a closed store with twenty runs, several hundred kilobytes large."""
    store = open_store(settings)
    for index in range(20):
        run_id = running(store, spec)
        store.generations(run_id, [PLAIN] * 50)
        store.trace(run_id, 0, random_trace(index, tokens=500))
        store.finish(run_id, "done")
    store.compact()
    store.close()
    return settings.data / FILE_NAME


def test_a_store_without_its_header_is_said_to_be_damaged_and_left_alone(full: Path) -> None:
    overwrite(full, 0)
    before = full.read_bytes()
    with pytest.raises(StoreError, match="is damaged or not a Draftgauge store"):
        Store(full)
    assert full.read_bytes() == before


def test_a_store_cut_off_in_the_middle_of_a_page_is_said_to_be_damaged(full: Path) -> None:
    whole = full.read_bytes()
    full.write_bytes(whole[: len(whole) // 2 + 100])
    with pytest.raises(StoreError, match="is damaged"):
        Store(full).history(Query())


def answers(place: Path) -> list[str]:
    """What each run of the store gives: "right", or a sentence; one sentence where the store cannot be opened, listed or written."""
    try:
        store = Store(place)
        found = [answer(store, entry.id) for entry in store.history(Query()).entries]
        store.save_prompts("me", "kept")
        assert store.load_prompts("me") == "kept"
        store.close()
    except StoreError as error:
        return [str(error)]
    return found


def answer(store: Store, run_id: str) -> str:
    try:
        run = store.get(run_id, traces=True)
    except StoreError as error:
        return str(error)
    return "right" if (len(run.generations), len(run.traces)) == (50, 1) else "wrong"


def test_a_damaged_page_costs_only_what_is_on_it_or_is_a_sentence(full: Path) -> None:
    whole, mild = full.read_bytes(), 0
    for page in range(1, len(whole) // PAGE_BYTES, 8):
        for rest in full.parent.glob(f"{FILE_NAME}-*"):
            rest.unlink()
        full.write_bytes(whole)
        overwrite(full, page * PAGE_BYTES)
        found = answers(full)
        sentences = [text for text in found if text != "right"]
        assert all("damaged" in text for text in sentences), (page, sentences)
        assert len(found) in (1, 20)
        mild += 10 < found.count("right") < 20
    assert mild > 5


def test_a_progress_that_cannot_be_read_is_a_sentence_wherever_it_is_read(store: Store, settings: Settings, spec: RunSpec) -> None:
    run_id = running(store, spec)
    store.progress(run_id, Progress(stage="timing"))
    raw = sqlite3.connect(settings.data / FILE_NAME)
    raw.execute("UPDATE runs SET progress = '{\"stage\": 5'")
    raw.execute("INSERT INTO devices (data) VALUES ('nothing')")
    raw.commit()
    raw.close()
    for ask in (store.timing, store.devices, lambda: store.get(run_id)):
        with pytest.raises(StoreError, match="damaged, or of another version"):
            ask()


@contextlib.contextmanager
def nobody() -> Iterator[None]:
    """As a user to whom permissions apply; a test that runs as one already stays that one."""
    root = os.geteuid() == 0
    try:
        if root:
            os.seteuid(65534)
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o444, 0o755), (0o444, 0o555), (0o000, 0o755)], ids=["file", "folder", "unreadable"])
def test_a_store_that_may_not_be_written_gives_a_sentence(public: Path, spec: RunSpec, file_mode: int, folder_mode: int) -> None:
    place = public / FILE_NAME
    store = Store(place)
    run_id = store.add(spec)
    store.close()
    before = place.read_bytes()
    place.chmod(file_mode)
    public.chmod(folder_mode)
    with nobody(), pytest.raises(StoreError, match=r"cannot be (written|opened)"):
        Store(place).add(spec)
    public.chmod(0o755)
    place.chmod(0o644)
    assert place.read_bytes() == before
    again = Store(place)
    assert again.get(run_id).spec == spec
    again.close()


def test_a_data_folder_that_may_not_be_written_stops_a_server_with_a_sentence(public: Path, spec: RunSpec) -> None:
    settings = Settings(data=public / "data", threads=1)
    store = open_store(settings)
    settings.data.chmod(0o555)
    with nobody(), pytest.raises(StoreError, match="cannot be written"):
        Bench(settings, store, entry=ENTRY)
    settings.data.chmod(0o755)
    store.close()


def test_a_disk_that_fails_amid_a_run_is_not_said_to_be_full_and_nothing_written_is_lost(tmp_path: Path, spec: RunSpec) -> None:
    with faulty_disk(tmp_path / "disk") as disk:
        store = Store(disk / FILE_NAME)
        run_id = running(store, spec)
        store.generations(run_id, [PLAIN])
        break_disk(disk)
        with pytest.raises(StoreError, match="although its disk has room: it may have become read-only after a fault"):
            store.generations(run_id, [PLAIN])
        assert store.get(run_id).generations == (PLAIN,), "what is there can be read"
        store.close()
        mend_disk(disk)
        again = Store(disk / FILE_NAME)
        assert again.get(run_id).generations == (PLAIN,)
        again.close()


def set_clock(monkeypatch: pytest.MonkeyPatch, by_s: float) -> None:
    """Seconds since 1970 are others from now on, for everybody in this process."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + by_s)


def test_a_clock_that_is_set_back_does_not_make_the_newest_prompts_the_oldest(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(DRAFTS_KEPT):
        store.save_prompts(f"other {number}", "x")
    set_clock(monkeypatch, -86_400)
    for text in ("first", "second"):
        store.save_prompts(text, text)
        assert store.load_prompts(text) == text
    assert store.load_prompts("first") == "first"
    assert store.load_prompts("other 0") is None
    assert store.load_prompts("other 99") == "x"


def test_a_clock_that_is_set_back_does_not_make_the_newest_upload_the_oldest(settings: Settings) -> None:
    for number in range(KEPT_FILES):
        future_s = time.time() + 86_400 + number
        os.utime(settings.data / "uploads" / keep(b"%d" % number, settings), (future_s, future_s))
    mine = keep(b"mine", settings)
    assert kept(mine, settings) == b"mine"
    assert len(list((settings.data / "uploads").iterdir())) == KEPT_FILES


@pytest.mark.parametrize("by_s", [-86_400.0, 86_400.0])
def test_a_run_goes_on_while_the_clock_is_set(bench: Bench, store: Store, spec: RunSpec, by_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's clock jumps, the worker's does not: neither is asked how long something took, or who comes next (`tests.test_clock`)."""
    first, second = (bench.submit(job(spec, number)) for number in (jobs.MANY, jobs.QUICK))
    until(lambda: store.get(first).progress.done > 1)
    set_clock(monkeypatch, by_s)
    third = bench.submit(job(spec, jobs.QUICK))
    assert store.queued() == [second, third]
    assert [ended(store, run_id).status for run_id in (first, second, third)] == ["done"] * 3
    run = store.get(first)
    assert run.started is not None
    assert run.finished is not None
    assert 0 < (run.finished - run.started).total_seconds() < 60
