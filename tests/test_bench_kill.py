"""The bench when something is killed, cancelled or hangs: partial results, no orphans, no leaks, and it goes on."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core import station
from core.bench import Bench
from core.child import Child, Entry, log_file
from core.runs import RunSpec
from core.settings import Settings
from core.store import Store, open_store
from core.ui import live
from tests import jobs
from tests.benches import ENTRY, FINAL, ROOT, alive, ended, job, partial, under_way, until, worker_pid


def test_a_killed_worker_leaves_its_results_and_the_next_run_works(bench: Bench, store: Store, settings: Settings, spec: RunSpec) -> None:
    run_id, next_id = bench.submit(job(spec, jobs.SLEEP)), bench.submit(job(spec, jobs.QUICK))
    under_way(store, run_id)
    os.kill(worker_pid(settings, run_id), signal.SIGKILL)
    run = ended(store, run_id, within_s=2)
    assert partial(run, "interrupted")
    assert "was killed from outside (SIGKILL), most likely because this machine ran out of memory; what was measured is kept" in run.error
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


def test_a_worker_that_dies_again_and_again_before_it_begins_is_not_started_forever(settings: Settings, store: Store, spec: RunSpec) -> None:
    with contextlib.closing(Bench(settings, store, entry=Entry("tests.jobs:by_seed", "tests.jobs:dies_before_claiming"))) as bench:
        run = ended(store, bench.submit(job(spec, jobs.QUICK)))
    assert run.status == "failed"
    assert "died 2 times" in run.error
    assert str(log_file(settings, "cpu")) in run.error


def test_a_worker_killed_between_claiming_a_run_and_saying_so_leaves_it_interrupted(settings: Settings, store: Store, spec: RunSpec) -> None:
    with contextlib.closing(Bench(settings, store, entry=Entry("tests.jobs:by_seed", "tests.jobs:dies_after_claiming"))) as bench:
        run = ended(store, bench.submit(job(spec, jobs.QUICK)))
    assert run.status == "interrupted"
    assert "The worker ended by itself (code 1); what was measured is kept" in run.error


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (jobs.BUS, "(SIGBUS): a model file was cut off meanwhile, or its disk fails; what was measured is kept. Put the model's files back"),
        (jobs.GIVES_UP, "The worker ended by itself, because it could get no more memory; what was measured is kept. Use a smaller dtype"),
        (jobs.CRASH, "crashed in native code (SIGSEGV); what was measured is kept. The end of"),
    ],
)
def test_what_ended_a_worker_is_said_in_words(bench: Bench, store: Store, spec: RunSpec, number: int, words: str) -> None:
    run = ended(store, bench.submit(job(spec, number)))
    assert partial(run, "interrupted")
    assert words in run.error


def test_a_sentence_that_is_no_unicode_is_kept_and_the_bench_goes_on(bench: Bench, store: Store, spec: RunSpec) -> None:
    run = ended(store, bench.submit(job(spec, jobs.UNSPEAKABLE)))
    assert (run.status, run.error) == ("failed", "The file ? is damaged.")
    assert ended(store, bench.submit(job(spec, jobs.QUICK))).status == "done"


def test_a_worker_that_hangs_before_it_is_ready_is_ended_and_says_so(
    settings: Settings, store: Store, spec: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(station, "START_PATIENCE_S", 1.0)
    monkeypatch.setattr(station, "HEARTBEAT_EVERY_S", 0.1)
    with contextlib.closing(Bench(settings, store, entry=Entry("tests.jobs:by_seed", "tests.jobs:slow_to_start"))) as bench:
        first, second = bench.submit(job(spec, jobs.QUICK)), bench.submit(job(spec, jobs.QUICK))
        bench.cancel(second)
        run = ended(store, first)
        assert run.status == "failed"
        assert "was not ready within 1 seconds" in run.error
        assert str(log_file(settings, "cpu")) in run.error
        assert ended(store, bench.submit(job(spec, jobs.QUICK))).status == "failed"


def test_a_command_to_a_worker_that_has_just_ended_is_not_sent(settings: Settings, store: Store) -> None:
    """Between the end of its output and the word of it, its input is closed already."""
    gone = threading.Event()
    child = Child(settings, "cpu", Entry("tests.jobs:by_seed", "tests.jobs:no_devices"), said=lambda *_: None, ended=lambda _: gone.set())
    assert gone.wait(30)
    child.send(run="nobody hears this")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_end_of_a_worker_is_told_whatever_it_said(settings: Settings, store: Store) -> None:
    def said(_child: Child, message: dict[str, object]) -> None:
        raise LookupError(message)

    gone: list[Child] = []
    child = Child(settings, "cpu", ENTRY, said=said, ended=gone.append)
    until(lambda: gone == [child])


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


@pytest.mark.parametrize(("number", "patience_s"), [(jobs.HANG, station.CANCEL_PATIENCE_S), (jobs.STUCK, 0.5), (jobs.FROZEN, 0.5)])
def test_a_hang_in_native_code_is_ended_by_force(
    bench: Bench, store: Store, settings: Settings, spec: RunSpec, number: int, patience_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(station, "CANCEL_PATIENCE_S", patience_s)
    run_id, next_id = bench.submit(job(spec, number)), bench.submit(job(spec, jobs.QUICK))
    under_way(store, run_id)
    pid = worker_pid(settings, run_id)
    time.sleep(0.2)
    bench.cancel(run_id)
    took_s = until(lambda: store.status(run_id) in FINAL)
    assert patience_s < took_s < patience_s + 2
    assert partial(store.get(run_id), "cancelled")
    assert not alive(pid)
    assert ended(store, next_id).status == "done"


def test_a_worker_that_hangs_while_it_is_idle_is_ended_when_the_run_it_was_given_is_cancelled(
    bench: Bench, store: Store, settings: Settings, spec: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never takes the run, which so still waits; the runs behind it must not wait for ever."""
    monkeypatch.setattr(station, "CANCEL_PATIENCE_S", 0.5)
    first = bench.submit(job(spec, jobs.QUICK))
    ended(store, first)
    os.kill(worker_pid(settings, first), signal.SIGSTOP)
    run_id, next_id = bench.submit(job(spec, jobs.QUICK)), bench.submit(job(spec, jobs.QUICK))
    time.sleep(0.3)
    assert (store.status(run_id), bench.position(run_id)) == ("queued", 1)
    bench.cancel(run_id)
    assert store.status(run_id) == "cancelled"
    assert ended(store, next_id).status == "done"
    assert not alive(worker_pid(settings, first))


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


def test_two_servers_of_one_machine_take_turns_on_a_device(bench: Bench, store: Store, settings: Settings, spec: RunSpec) -> None:
    elsewhere = settings.model_copy(update={"data": settings.data / "other"})
    other_store = open_store(elsewhere)
    with contextlib.closing(other_store), contextlib.closing(Bench(elsewhere, other_store, entry=ENTRY)) as other:
        first = bench.submit(job(spec, jobs.SLEEP))
        under_way(store, first)
        waits, after = other.submit(job(spec, jobs.QUICK)), other.submit(job(spec, jobs.QUICK))
        until(lambda: other_store.status(waits) == "running")
        time.sleep(0.3)
        progress = other_store.get(waits).progress
        assert progress.stage == "queued"
        assert progress.held
        assert "another Draftgauge on this machine measures on it" in live.count(progress)
        other.cancel(waits)
        assert ended(other_store, waits, within_s=2).status == "cancelled"
        until(lambda: other_store.get(after).progress.held)
        time.sleep(0.3)
        let_go = datetime.now(UTC)
        bench.cancel(first)
        run = ended(other_store, after)
        assert run.status == "done"
        assert run.started is not None
        assert run.finished is not None
        assert let_go < run.started < run.finished < datetime.now(UTC), "the wait for the other program is no part of it"


@contextlib.contextmanager
def small_server(settings: Settings, spec: RunSpec) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "tests.small_server", settings.model_dump_json(), spec.model_dump_json()]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server, server.stdout.readline().strip()
        finally:
            server.kill()


@pytest.mark.parametrize("number", [jobs.SLEEP, jobs.HANG, jobs.STUCK])
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
        until(lambda: not alive(pid), within_s=20)  # it notices once its own modules are read


def test_closing_ends_the_worker_and_keeps_the_queue(settings: Settings, store: Store, spec: RunSpec) -> None:
    bench = Bench(settings, store, entry=ENTRY)
    run_id, waiting = bench.submit(job(spec, jobs.SLEEP)), bench.submit(job(spec, jobs.QUICK))
    under_way(store, run_id)
    pid = worker_pid(settings, run_id)
    bench.close()
    assert not alive(pid)
    assert partial(store.get(run_id), "interrupted")
    assert store.status(waiting) == "queued"


MOST_CONNECTIONS = 5
"""SQLAlchemy keeps as many as ever worked at once, up to this; how many that were is chance."""


def open_handles(store_file: Path, pid: int | str = "self") -> tuple[int, int]:
    """How many handles a process has open to the store's database file, and how many to anything else but the store's log and index."""
    links = [str(handle.readlink()) for handle in Path(f"/proc/{pid}/fd").iterdir() if handle.is_symlink()]
    return links.count(str(store_file)), sum(not link.startswith(str(store_file)) for link in links)


def test_measuring_and_cancelling_leaks_nothing(bench: Bench, store: Store, settings: Settings, spec: RunSpec) -> None:
    def cycle() -> int:
        run_id = bench.submit(job(spec, jobs.SLEEP))
        under_way(store, run_id)
        bench.cancel(run_id)
        assert ended(store, run_id).status == "cancelled"
        return worker_pid(settings, run_id)

    pid, file = cycle(), Path(store.place)
    before = [open_handles(file), open_handles(file, pid)]
    assert {cycle() for _ in range(10)} == {pid}
    after = [open_handles(file), open_handles(file, pid)]
    assert [others for _, others in after] == [others for _, others in before]
    assert all(connections <= MOST_CONNECTIONS for connections, _ in after)


def test_dead_workers_leak_nothing(bench: Bench, store: Store, spec: RunSpec) -> None:
    def cycle() -> None:
        ended(store, bench.submit(job(spec, jobs.DIE)))
        ended(store, bench.submit(job(spec, jobs.QUICK)))

    cycle()
    file = Path(store.place)
    _, before = open_handles(file)
    for _ in range(3):
        cycle()
    connections, after = open_handles(file)
    assert after == before
    assert connections <= MOST_CONNECTIONS
