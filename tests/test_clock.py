"""A clock that somebody sets while runs wait, are measured, and after a server was killed: what took how long is told by one that nobody sets."""

import re
import sqlite3
import time

import pytest

from core.bench import Bench
from core.runs import Progress, RunSpec
from core.settings import Settings
from core.store import FILE_NAME, Store
from core.ui import waiting
from tests import jobs
from tests.apps import ok, open_page, texts
from tests.benches import ended, job, under_way
from tests.test_store_faults import set_clock

DAY_S = 86_400.0


def took_s(store: Store, run_id: str) -> float:
    run = store.get(run_id)
    assert run.started is not None
    assert run.finished is not None
    return (run.finished - run.started).total_seconds()


def test_workers_whose_clocks_are_set_go_on_each_by_itself(bench: Bench, store: Store, spec: RunSpec) -> None:
    """One device's a day back, the other's a day on; and the next run of each, which begins by the wrong clock."""
    ended(store, bench.submit(job(spec, jobs.QUICK)))  # from here on the devices are known
    for device, tokens in (("cpu", 1), ("cuda:7", 2)):
        there = {"device": device, "max_new_tokens": tokens}
        for number in (jobs.JUMP, jobs.QUICK):
            bench.submit(job(spec, number).model_copy(update=there))
    waiting = [store.get(run.id) for run in store.recent(4)]
    runs = [ended(store, run.id) for run in waiting]
    assert [run.status for run in runs] == ["done"] * 4
    assert all(0 <= took_s(store, run.id) < 60 for run in runs)
    on, _, back, _ = (run.started for run in runs)
    assert on is not None
    assert back is not None
    assert abs((on - back).total_seconds() - 2 * DAY_S) < 60, "the clocks were really set"


def shift_start(settings: Settings, by_s: float) -> None:
    """As if the clock had been set by so much since the runs began."""
    raw = sqlite3.connect(settings.data / FILE_NAME)
    raw.execute("UPDATE runs SET started_s = started_s - ?", (by_s,))
    raw.commit()
    raw.close()


@pytest.mark.usefixtures("app_site")
def test_the_page_counts_seconds_and_not_dates(cold_bench: Bench, store: Store, settings: Settings, spec: RunSpec) -> None:
    measured, waits = (cold_bench.submit(job(spec, jobs.SLEEP).model_copy(update={"confirm_s": wait})) for wait in (1.0, 2.0))
    under_way(store, measured)
    store.progress(measured, Progress(stage="plain", done=1, total=2, fraction=0.5))
    time.sleep(1)
    for by_s in (-DAY_S, 2 * DAY_S):
        shift_start(settings, by_s)
        shown = texts(open_page("measure", run=measured))
        assert re.search(r"\b[1-9]\d? s so far, about [1-9]\d? s to go", shown), shown
        [bar] = ok(open_page("measure", run=waits)).get("progress")
        assert re.fullmatch(r"\*\*Waiting for the device\*\*: next in the queue, about \d+ seconds", bar.proto.text)


@pytest.mark.usefixtures("app_site")
def test_a_run_that_another_program_holds_up_does_not_count_down(
    cold_bench: Bench, store: Store, spec: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured, waits = (cold_bench.submit(job(spec, jobs.SLEEP).model_copy(update={"confirm_s": wait})) for wait in (1.0, 2.0))
    under_way(store, measured)
    monkeypatch.setattr(waiting, "_stages", lambda _: {"load": 20.0, "plain": 100.0})
    for progress, said in ((Progress(stage="queued", total=1), "more than 2 minutes"), (Progress(stage="load", total=2), "about 2 minutes")):
        store.progress(measured, progress)
        [bar] = ok(open_page("measure", run=waits)).get("progress")
        assert bar.proto.text == f"**Waiting for the device**: next in the queue, {said}"


def test_a_run_whose_server_was_killed_ended_with_its_last_sign_of_life(store: Store, spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when the next server started, days later."""
    run_id = store.add(spec)
    store.claim(run_id, "host", 1)
    store.heartbeat(run_id)
    set_clock(monkeypatch, 3 * DAY_S)
    assert store.interrupt_running() == 1
    assert 0 <= took_s(store, run_id) < 60


def test_runs_from_the_future_are_no_first_click(bench: Bench, store: Store, spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = job(spec, jobs.SLEEP)
    first = bench.submit(asked, "ada")
    set_clock(monkeypatch, -DAY_S)
    second = bench.submit(asked, "ada")
    assert second != first
    assert bench.submit(asked, "ada") == second
