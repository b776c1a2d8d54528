"""Timed blocks beside real neighbours, and blocks that wait."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from core.worker import timing
from core.worker.timing import Load, Quiet

REPEATS = timing._REPEATS
by_thread = pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the switches of a thread")


@pytest.fixture(autouse=True)
def _timed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as in the product; `tests.conftest` has it never."""
    monkeypatch.setattr(timing, "_REPEATS", REPEATS)


@contextmanager
def one_core() -> Iterator[int]:
    """Keeps the calling thread on one core."""
    before = os.sched_getaffinity(0)
    core = min(before)
    os.sched_setaffinity(0, {core})
    try:
        yield core
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def restless_neighbour(core: int) -> Iterator[None]:
    """A process that wakes every 2 ms on this core, too briefly for the share of CPU time to tell."""
    code = f"import os, time; os.sched_setaffinity(0, {{{core}}}); print(flush=True)\nwhile True: time.sleep(0.002); sum(range(1000))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def compute(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def test_a_block_that_waits_is_repeated_twice_and_reported():
    calls, reports = [], []
    quiet = Quiet(torch.device("cpu"), lambda: reports.append(1))
    _, share = quiet(lambda: calls.append(time.sleep(0.02)))
    assert len(calls) == 3
    assert len(reports) == 1
    assert share < 0.5


def test_repeating_stops_when_patience_is_used_up():
    calls = []
    quiet = Quiet(torch.device("cpu"), lambda: None, patience_s=0.03)
    for _ in range(3):
        quiet(lambda: calls.append(time.sleep(0.02)))
    assert len(calls) == 5


def test_a_call_that_stood_still_for_longer_than_the_patience_is_repeated(monkeypatch):
    monkeypatch.setattr(timing, "QUIET_SHARE", 0.1)
    monkeypatch.setattr(timing, "FEW_SWITCHES", 10_000)
    calls = []
    quiet = Quiet(torch.device("cpu"), lambda: pytest.fail("its repetition was quiet"), patience_s=0.2)

    def stalls_once():
        calls.append(compute(0.05) if calls else time.sleep(0.5))
        return len(calls)

    returned, share = quiet(stalls_once)
    assert returned == 2
    assert share >= 0.1


def test_an_accelerator_is_not_judged_by_the_waiting_cpu():
    quiet = Quiet(torch.device("cuda"), lambda: pytest.fail("not a disturbance"))
    assert quiet(lambda: time.sleep(0.02))[1] == 1.0


@by_thread
def test_a_neighbour_on_the_same_core_shows_in_the_switches_alone(monkeypatch):
    monkeypatch.setattr(timing, "QUIET_SHARE", 0.0)
    calls, reports = [], []
    quiet = Quiet(torch.device("cpu"), lambda: reports.append(1))
    with one_core() as core, restless_neighbour(core):
        quiet(lambda: calls.append(compute(0.5)))
    assert len(calls) == 3
    assert len(reports) == 1


@by_thread
def test_waiting_is_no_switch_that_was_forced(monkeypatch):
    monkeypatch.setattr(timing, "QUIET_SHARE", 0.0)
    calls = []
    quiet = Quiet(torch.device("cpu"), lambda: pytest.fail("nobody took the core"))
    quiet(lambda: calls.extend(time.sleep(0.0001) for _ in range(100)))
    assert len(calls) == 100


@pytest.mark.parametrize(
    ("load", "quiet"),
    [
        (Load(0.99, 0, 0.01), True),
        (Load(0.94, 0, 0.01), False),
        (Load(1.0, 6, 0.01), True),
        (Load(1.0, 7, 0.01), False),
        (Load(0.99, 105, 1.0), True),
        (Load(0.99, 106, 1.0), False),
    ],
)
def test_what_counts_as_quiet(load, quiet):
    assert load.quiet == quiet
