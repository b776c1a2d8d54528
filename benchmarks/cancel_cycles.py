"""Measure and cancel, again and again, with the real worker and the demo pair: nothing may be left behind.

    python -m benchmarks.cancel_cycles [cycles]

Each cycle queues the demo run, waits for one of its stages and then up to a second more (seeded), cancels it, and waits for its end.
Printed: how often each stage was met, how long cancelling took, and what bench and worker held after the first cycles and at the end.
The tests do ten cycles with a stand-in for the measurement (`tests/test_bench_kill.py`).
"""

import contextlib
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks import processes
from benchmarks.processes import Held
from core import demo
from core.bench import Bench
from core.runs import RunSpec, Stage
from core.settings import Settings
from core.store import Store, open_store

CYCLES, EVERY, WARM = 200, 5, 10
STAGES: tuple[Stage, ...] = ("queued", "load", "plain", "draft", "timing", "calibrating")
ENDED = ("done", "failed", "cancelled", "interrupted")


def main() -> None:
    """Do the cycles and print."""
    cycles = int(sys.argv[1]) if len(sys.argv) > 1 else CYCLES
    rng = random.Random(0)
    met, took_s, own, workers = Counter[str](), list[float](), list[Held](), list[Held]()
    pids = set[int]()
    with tempfile.TemporaryDirectory() as name:
        settings = Settings(data=Path(name))
        store = open_store(settings)
        with contextlib.closing(store), contextlib.closing(Bench(settings, store)) as bench:
            for number in range(WARM + cycles):
                stage, seconds = cycle(bench, store, rng)
                met[stage] += 1
                took_s.append(seconds)
                found = processes.of_role("worker", os.getpid())
                pids |= set(found)
                if number >= WARM and number % EVERY == 0:
                    own.append(processes.held([os.getpid()]))
                    workers.append(processes.held(found))
            size = store.size_bytes() or 0
        left = processes.of_role("worker", os.getpid())
    print(f"{cycles} cycles; cancelled at {dict(met)}; cancelling took {statistics.median(took_s):.2f} s, at most {max(took_s):.2f} s")
    print(processes.line("bench", own), processes.line("worker", workers), sep="\n")
    print(f"{len(pids)} worker processes in all, {len(left)} left at the end; the store has {processes.mb(size)}")


def cycle(bench: Bench, store: Store, rng: random.Random) -> tuple[str, float]:
    """Queue, wait, cancel; the stage it was met in, and the seconds that cancelling took."""
    wanted = rng.choice(STAGES)
    run_id = bench.submit(RunSpec(target=demo.TARGET, draft=demo.DRAFT, prompts=demo.prompts()[:4], seed=rng.randrange(10**6)))
    while store.status(run_id) in ("queued", "running") and store.get(run_id, results=False).progress.stage not in (wanted, "confirming"):
        time.sleep(0.02)
    time.sleep(rng.random())
    stage = store.get(run_id, results=False).progress.stage
    began = time.monotonic()
    bench.cancel(run_id)
    while store.status(run_id) not in ENDED:
        time.sleep(0.005)
    return stage, time.monotonic() - began


if __name__ == "__main__":
    main()
