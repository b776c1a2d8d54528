"""The bench with real worker processes: kill, cancel, hang, restart, and what a person reads then."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import free_bytes, small_disk
from sqlalchemy import create_engine, select

from core import database, station
from core.bench import Bench
from core.child import Entry, log_file
from core.errors import InvalidInput, ModelError, QueueFull, StoreError
from core.runs import ModelRef, Prompt, Run, RunSpec
from core.settings import Settings
from core.store import FILE_NAME, Store, open_store
from tests import jobs

ROOT = Path(__file__).parents[1]
ENTRY = Entry("tests.jobs:by_seed", "tests.jobs:devices")
FINAL = {"done", "failed", "cancelled", "interrupted"}


@pytest.fixture
def bench(settings: Settings, store: Store) -> Iterator[Bench]:
    with contextlib.closing(Bench(settings, store, entry=ENTRY)) as opened:
        yield opened


def job(spec: RunSpec, number: int) -> RunSpec:
    return spec.model_copy(update={"seed": number})


def until(happened: Callable[[], bool], within_s: float = 30.0) -> float:
    """Wait for something and return how long it took, in seconds."""
    began = time.monotonic()
    while not happened():
        assert time.monotonic() - began < within_s, "it did not happen"
        time.sleep(0.01)
    return time.monotonic() - began


def ended(store: Store, run_id: str, within_s: float = 30.0) -> Run:
    until(lambda: store.status(run_id) in FINAL, within_s)
    return store.get(run_id)


def under_way(store: Store, run_id: str, stage: str = "plain") -> None:
    """Wait until the job has reported its first results."""
    until(lambda: store.get(run_id).progress.stage == stage)


def worker_pid(settings: Settings, run_id: str) -> int:
    engine = create_engine(f"sqlite:///{settings.data / FILE_NAME}")
    with engine.connect() as connection:
        pid = connection.execute(select(database.runs.c.claimed_by).where(database.runs.c.id == run_id)).scalar_one()
    engine.dispose()
    return pid


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and waits for its parent does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def partial(run: Run, status: str) -> bool:
    return run.status == status and run.generations == (jobs.RESULT,) and run.finished is not None


def test_a_run_is_measured_and_the_devices_are_known(bench: Bench, store: Store, spec: RunSpec) -> None:
    run = ended(store, bench.submit(job(spec, jobs.QUICK)))
    assert partial(run, "done")
    assert run.error == ""
    assert store.devices() == jobs.devices()


def test_the_worker_stays_for_the_next_run(bench: Bench, store: Store, settings: Settings, spec: RunSpec) -> None:
    ids = [bench.submit(job(spec, jobs.QUICK)) for _ in range(3)]
    assert all(ended(store, run_id).status == "done" for run_id in ids)
    assert len({worker_pid(settings, run_id) for run_id in ids}) == 1


def test_a_killed_worker_leaves_its_results_and_the_next_run_works(bench: Bench, store: Store, settings: Settings, spec: RunSpec) -> None:
    run_id, next_id = bench.submit(job(spec, jobs.SLEEP)), bench.submit(job(spec, jobs.QUICK))
    under_way(store, run_id)
    os.kill(worker_pid(settings, run_id), signal.SIGKILL)
    run = ended(store, run_id, within_s=2)
    assert partial(run, "interrupted")
    assert "killed or crashed" in run.error
    assert ended(store, next_id).status == "done"


def test_a_worker_that_dies_while_idle_is_replaced(bench: Bench, store: Store, settings: Settings, spec: RunSpec) -> None:
    first = bench.submit(job(spec, jobs.QUICK))
    ended(store, first)
    pid = worker_pid(settings, first)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{pid}").exists())
    assert ended(store, bench.submit(job(spec, jobs.QUICK))).status == "done"


def test_a_run_that_kills_its_worker_is_not_tried_again(bench: Bench, store: Store, spec: RunSpec) -> None:
    run_id, next_id = bench.submit(job(spec, jobs.DIE)), bench.submit(job(spec, jobs.QUICK))
    assert ended(store, next_id).status == "done"
    assert partial(store.get(run_id), "interrupted")


@pytest.mark.parametrize("number", [jobs.SLEEP, jobs.FORWARD])
def test_cancel_takes_less_than_a_second_and_keeps_the_results(bench: Bench, store: Store, settings: Settings, spec: RunSpec, number: int) -> None:
    run_id = bench.submit(job(spec, number))
    under_way(store, run_id, "draft" if number == jobs.FORWARD else "plain")
    pid = worker_pid(settings, run_id)
    time.sleep(0.3)
    bench.cancel(run_id)
    assert until(lambda: store.status(run_id) in FINAL) < 1
    assert partial(store.get(run_id), "cancelled")
    next_id = bench.submit(job(spec, jobs.QUICK))
    assert ended(store, next_id).status == "done"
    assert worker_pid(settings, next_id) == pid


def test_a_cancellation_that_gets_lost_is_repeated(bench: Bench, store: Store, settings: Settings, spec: RunSpec) -> None:
    run_id = bench.submit(job(spec, jobs.STUBBORN))
    under_way(store, run_id)
    bench.cancel(run_id)
    run = ended(store, run_id)
    assert partial(run, "cancelled")
    assert run.error == ""


def test_a_hang_in_native_code_is_ended_by_force(bench: Bench, store: Store, settings: Settings, spec: RunSpec) -> None:
    run_id, next_id = bench.submit(job(spec, jobs.HANG)), bench.submit(job(spec, jobs.QUICK))
    under_way(store, run_id)
    pid = worker_pid(settings, run_id)
    time.sleep(0.2)
    bench.cancel(run_id)
    took_s = until(lambda: store.status(run_id) in FINAL)
    assert station.CANCEL_PATIENCE_S < took_s < station.CANCEL_PATIENCE_S + 2
    assert partial(store.get(run_id), "cancelled")
    assert not alive(pid)
    assert ended(store, next_id).status == "done"


def test_a_waiting_run_is_cancelled_at_once(bench: Bench, store: Store, spec: RunSpec) -> None:
    first, second, third = (bench.submit(job(spec, number)) for number in (jobs.SLEEP, jobs.SLEEP, jobs.QUICK))
    under_way(store, first)
    bench.cancel(second)
    assert store.status(second) == "cancelled"
    assert [bench.position(run_id) for run_id in (first, second, third)] == [0, None, 1]
    bench.cancel(first)
    assert ended(store, third).status == "done"
    assert store.get(second).started is None


def test_cancelling_an_ended_or_unknown_run_changes_nothing(bench: Bench, store: Store, spec: RunSpec) -> None:
    run_id = bench.submit(job(spec, jobs.QUICK))
    before = ended(store, run_id)
    bench.cancel(run_id)
    bench.cancel("nonsense")
    assert ended(store, bench.submit(job(spec, jobs.QUICK))).status == "done"
    assert store.get(run_id) == before


def test_positions_count_up_and_the_queue_is_bounded(settings: Settings, store: Store, spec: RunSpec) -> None:
    short = settings.model_copy(update={"queue_length": 2})
    with contextlib.closing(Bench(short, store, entry=ENTRY)) as bench:
        first = bench.submit(job(spec, jobs.SLEEP))
        under_way(store, first)
        ids = [bench.submit(job(spec, jobs.QUICK)) for _ in range(2)]
        assert [bench.position(run_id) for run_id in (first, *ids)] == [0, 1, 2]
        with pytest.raises(QueueFull, match="2 runs are waiting"):
            bench.submit(spec)
        bench.cancel(ids[0])
        assert bench.position(ids[1]) == 1
        bench.submit(spec)
        assert bench.position("nonsense") is None


def test_an_error_with_a_sentence_is_shown_as_it_is(bench: Bench, store: Store, spec: RunSpec) -> None:
    run = ended(store, bench.submit(job(spec, jobs.REFUSED)))
    assert partial(run, "failed")
    assert run.error == "The model is made of wood. Choose another one."


def test_an_unexpected_error_names_the_log_which_has_the_traceback(bench: Bench, store: Store, settings: Settings, spec: RunSpec) -> None:
    run = ended(store, bench.submit(job(spec, jobs.BROKEN)))
    assert partial(run, "failed")
    assert "ZeroDivisionError: the reason" in run.error
    log = log_file(settings, "cpu")
    assert str(log) in run.error
    assert "Traceback" in log.read_text()
    assert ended(store, bench.submit(job(spec, jobs.QUICK))).status == "done"


def test_what_libraries_print_goes_to_the_log(bench: Bench, store: Store, settings: Settings, spec: RunSpec) -> None:
    assert ended(store, bench.submit(job(spec, jobs.SHOUT))).status == "done"
    assert log_file(settings, "cpu").read_text().split("\n")[-3:] == ["not a message", "neither am I", ""]


@pytest.mark.parametrize("entry", [Entry("tests.no_such_module:measure", ENTRY.devices), Entry(ENTRY.measure, "tests.jobs:no_devices")])
def test_a_worker_that_cannot_start_fails_each_run_with_the_log(settings: Settings, store: Store, spec: RunSpec, entry: Entry) -> None:
    with contextlib.closing(Bench(settings, store, entry=entry)) as bench:
        for _ in range(2):
            run = ended(store, bench.submit(spec))
            assert run.status == "failed"
            assert str(log_file(settings, "cpu")) in run.error
    assert "Traceback" in log_file(settings, "cpu").read_text()


def test_a_second_server_is_refused_until_the_first_has_gone(bench: Bench, settings: Settings, store: Store) -> None:
    with pytest.raises(StoreError, match=f"Another Draftgauge uses the data folder {settings.data}"):
        Bench(settings, store)
    bench.close()
    Bench(settings, store, entry=ENTRY).close()


def test_two_servers_of_one_machine_take_turns_on_a_device(bench: Bench, store: Store, settings: Settings, spec: RunSpec) -> None:
    elsewhere = settings.model_copy(update={"data": settings.data / "other"})
    other_store = open_store(elsewhere)
    with contextlib.closing(other_store), contextlib.closing(Bench(elsewhere, other_store, entry=ENTRY)) as other:
        first = bench.submit(job(spec, jobs.SLEEP))
        under_way(store, first)
        waits, after = other.submit(job(spec, jobs.QUICK)), other.submit(job(spec, jobs.QUICK))
        until(lambda: other_store.status(waits) == "running")
        time.sleep(0.3)
        assert other_store.get(waits).progress.stage == "queued"
        other.cancel(waits)
        assert ended(other_store, waits, within_s=2).status == "cancelled"
        bench.cancel(first)
        assert ended(other_store, after).status == "done"


@contextlib.contextmanager
def small_server(settings: Settings, spec: RunSpec) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "tests.small_server", settings.model_dump_json(), spec.model_dump_json()]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server, server.stdout.readline().strip()
        finally:
            server.kill()


@pytest.mark.parametrize("number", [jobs.SLEEP, jobs.HANG])
def test_a_killed_server_leaves_no_orphan_and_the_next_one_goes_on(settings: Settings, store: Store, spec: RunSpec, number: int) -> None:
    with small_server(settings, job(spec, number)) as (server, run_id):
        under_way(store, run_id)
        pid = worker_pid(settings, run_id)
        waiting = store.add(job(spec, jobs.QUICK))
        server.send_signal(signal.SIGKILL)
        server.wait()
        until(lambda: not alive(pid), within_s=2)
    assert store.status(run_id) == "running"
    with contextlib.closing(Bench(settings, store, entry=ENTRY)) as bench:
        run = store.get(run_id)
        assert partial(run, "interrupted")
        assert "stopped" in run.error
        assert ended(store, waiting).status == "done"
        assert ended(store, bench.submit(job(spec, jobs.QUICK))).status == "done"


def test_a_server_killed_while_its_worker_starts_leaves_no_orphan(settings: Settings, store: Store, spec: RunSpec) -> None:
    with small_server(settings, spec) as (server, _):
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text() + "".join(
            (task / "children").read_text() for task in Path(f"/proc/{server.pid}/task").iterdir()
        )
        pid = int(children.split()[0])
        server.send_signal(signal.SIGKILL)
        server.wait()
        until(lambda: not alive(pid), within_s=2)


def test_closing_ends_the_worker_and_keeps_the_queue(settings: Settings, store: Store, spec: RunSpec) -> None:
    bench = Bench(settings, store, entry=ENTRY)
    run_id, waiting = bench.submit(job(spec, jobs.SLEEP)), bench.submit(job(spec, jobs.QUICK))
    under_way(store, run_id)
    pid = worker_pid(settings, run_id)
    bench.close()
    assert not alive(pid)
    assert partial(store.get(run_id), "interrupted")
    assert store.status(waiting) == "queued"


def test_each_device_has_its_own_worker(bench: Bench, store: Store, settings: Settings, spec: RunSpec) -> None:
    ended(store, bench.submit(job(spec, jobs.QUICK)))
    ids = [bench.submit(job(spec, jobs.SLEEP).model_copy(update={"device": device})) for device in ("cpu", "cuda:7")]
    for run_id in ids:
        under_way(store, run_id)
    assert worker_pid(settings, ids[0]) != worker_pid(settings, ids[1])
    assert [bench.position(run_id) for run_id in ids] == [0, 0]


def open_handles(pid: int | str) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_measuring_and_cancelling_leaks_nothing(bench: Bench, store: Store, settings: Settings, spec: RunSpec) -> None:
    def cycle() -> int:
        run_id = bench.submit(job(spec, jobs.SLEEP))
        under_way(store, run_id)
        bench.cancel(run_id)
        assert ended(store, run_id).status == "cancelled"
        return worker_pid(settings, run_id)

    pid = cycle()
    before = open_handles("self"), open_handles(pid)
    assert {cycle() for _ in range(10)} == {pid}
    assert (open_handles("self"), open_handles(pid)) == before


def test_dead_workers_leak_nothing(bench: Bench, store: Store, spec: RunSpec) -> None:
    def cycle() -> None:
        ended(store, bench.submit(job(spec, jobs.DIE)))
        ended(store, bench.submit(job(spec, jobs.QUICK)))

    cycle()
    before = open_handles("self")
    for _ in range(3):
        cycle()
    assert open_handles("self") == before


def test_the_end_of_a_run_is_recorded_when_the_store_can_be_written_again(
    bench: Bench, store: Store, settings: Settings, spec: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = bench.submit(job(spec, jobs.SLEEP))
    under_way(store, run_id)
    lock = create_engine(f"sqlite:///{settings.data / FILE_NAME}")
    with lock.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        os.kill(worker_pid(settings, run_id), signal.SIGKILL)
        time.sleep(database.WAIT_FOR_LOCK_S + 0.5)
        assert store.status(run_id) == "running"
    lock.dispose()
    assert partial(ended(store, run_id), "interrupted")


def test_a_full_disk_fails_the_run_with_a_sentence_and_the_bench_goes_on(settings: Settings, spec: RunSpec, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        settings = settings.model_copy(update={"data": disk / "data"})
        store = open_store(settings)
        with contextlib.closing(store), contextlib.closing(Bench(settings, store, entry=ENTRY)) as bench:
            ended(store, bench.submit(job(spec, jobs.QUICK)))
            (disk / "filler").write_bytes(bytes(300_000))
            run_id = bench.submit(job(spec, jobs.FLOOD))
            until(lambda: free_bytes(disk) < 8192)
            time.sleep(0.5)
            (disk / "filler").unlink()
            run = ended(store, run_id)
            assert partial(run, "failed")
            assert "is full" in run.error
            assert len(store.get(run_id, traces=True).traces) > 3
            assert ended(store, bench.submit(job(spec, jobs.QUICK))).status == "done"


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"prompts": ()}, InvalidInput, "no prompts"),
        ({"prompts": (Prompt(text="a"), Prompt(text=" "))}, InvalidInput, "Prompt 2 is empty"),
        ({"max_new_tokens": 0}, InvalidInput, "0 new tokens"),
        ({"max_new_tokens": 5000}, InvalidInput, "5000 new tokens"),
        ({"device": "cuda:9"}, InvalidInput, 'no device "cuda:9"'),
        ({"draft": ModelRef(source="folder", name="etc", path="/etc")}, InvalidInput, "/etc is not below a configured root"),
    ],
)
def test_bad_input_is_refused_before_it_is_queued(bench: Bench, store: Store, spec: RunSpec, change, error, words) -> None:
    with pytest.raises(error, match=words):
        bench.submit(spec.model_copy(update=change))
    assert store.recent(1) == []


def test_a_damaged_model_is_refused_before_it_is_queued(bench: Bench, store: Store, spec: RunSpec) -> None:
    (Path(spec.target.path) / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match="cut off"):
        bench.submit(spec)
    assert store.recent(1) == []


def test_a_data_folder_that_cannot_be_written_gives_a_sentence(settings: Settings, store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        Bench(settings.model_copy(update={"data": tmp_path / "file"}), store, entry=ENTRY)
