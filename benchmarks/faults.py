"""Faults at random moments and faults that take their time: what a person waits for, and what is kept.

    python -m benchmarks.faults [kills]

1. The worker of the demo's measurement is killed at random moments, again and again (seeded): how long until the run is marked, what
   of its reports is kept, how long until the next run is under way.
2. The server is killed in mid-run: how long its worker lives on, also where native code holds the worker's interpreter.
3. Memory is refused to the real measurement at a random moment (RLIMIT_AS): how the run ends, and whether the worker goes on.
4. A Hub that falls silent in the middle of the weights: how long until the sentence.

The tests cause each of these once (`tests/test_killed_stages.py`, `tests/test_bench_kill.py`, `tests/test_download.py`). Times in seconds.
"""

import contextlib
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from huggingface_hub import constants

from core import demo
from core.bench import Bench
from core.child import Entry
from core.errors import ModelError
from core.runs import Run, RunSpec
from core.settings import Settings
from core.store import Store, open_store
from core.worker.download import fetch
from tests import jobs
from tests.benches import ROOT, alive, ended, job, under_way, until, worker_pid
from tests.supplies import model_folder
from tests.weights_server import Repository, serve

KILLS, WITHIN_S = 30, 300.0
SPEC = RunSpec(target=demo.TARGET, draft=demo.DRAFT, prompts=demo.prompts()[:4], confirm_s=10.0)


def main() -> None:
    """Cause the faults, one after the other, and print."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else KILLS
    workers_killed(kills)
    for number, name in ((jobs.SLEEP, "asleep"), (jobs.HANG, "in native code"), (jobs.STUCK, "in native code that holds the interpreter")):
        server_killed(number, name)
    memory_refused(max(3, kills // 5))
    hub_silent()


@contextlib.contextmanager
def bench_over(entry: Entry | None = None) -> Iterator[tuple[Settings, Store, Bench]]:
    """A bench over a folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        settings = Settings(data=Path(name))
        store = open_store(settings)
        with contextlib.closing(store), contextlib.closing(Bench(settings, store, entry=entry)) as bench:
            yield settings, store, bench


def workers_killed(kills: int) -> None:
    """Fault 1."""
    rng, stages, marked_s, next_s = random.Random(0), Counter[str](), list[float](), list[float]()
    with bench_over() as (settings, store, bench):
        for _ in range(kills):
            run_id = bench.submit(SPEC.model_copy(update={"seed": rng.randrange(10**6)}))
            began = time.monotonic()
            until(lambda run_id=run_id: store.get(run_id, results=False).progress.stage != "queued", within_s=WITHIN_S)
            next_s.append(time.monotonic() - began)
            time.sleep(rng.random() * 15)
            before = store.get(run_id, traces=True)
            if before.status != "running":
                stages["done already"] += 1
                continue
            began = time.monotonic()
            os.kill(worker_pid(settings, run_id), signal.SIGKILL)
            ended(store, run_id)
            marked_s.append(time.monotonic() - began)
            after = store.get(run_id, traces=True)
            assert after.status == "interrupted"
            assert kept(after, before), "something that was reported is lost"
            stages[after.progress.stage] += 1
    print(f"{len(marked_s)} workers killed, in the stages {dict(stages)}: nothing that was reported is lost")
    print(f"  marked after {spread(marked_s)}; the next run is under way after {spread(next_s)}, a new worker's start included")


def kept(after: Run, before: Run) -> bool:
    """Whether everything that a run held is still there."""
    return (
        after.generations[: len(before.generations)] == before.generations
        and after.passes[: len(before.passes)] == before.passes
        and len(after.traces) >= len(before.traces)
    )


def server_killed(number: int, name: str) -> None:
    """Fault 2."""
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder) / "models"
        settings = Settings(data=Path(folder) / "data", model_roots=[models])
        store = open_store(settings)
        target, draft = (model_folder(models / side) for side in ("target", "draft"))
        spec = job(SPEC.model_copy(update={"target": target, "draft": draft}), number)
        command = [sys.executable, "-m", "tests.small_server", settings.model_dump_json(), spec.model_dump_json()]
        with contextlib.closing(store), subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            run_id = server.stdout.readline().strip()
            under_way(store, run_id)
            pid = worker_pid(settings, run_id)
            server.kill()
            lived_s = until(lambda: not alive(pid))
    print(f"server killed, its worker {name}: the worker ended {lived_s:.2f} s later")


def memory_refused(times: int) -> None:
    """Fault 3."""
    endings = Counter[str]()
    with bench_over(Entry("tests.killed:refused_later", "tests.jobs:devices")) as (_, store, bench):
        for seed in range(times):
            run = ended(store, bench.submit(SPEC.model_copy(update={"seed": seed})), within_s=WITHIN_S)
            endings[f"{run.status} in {run.progress.stage}: {run.error[:60]}"] += 1
        after = ended(store, bench.submit(SPEC.model_copy(update={"seed": -1, "extent": "smoke"})), within_s=WITHIN_S)
    print(f"memory refused {times} times at a random moment; a smoke test afterwards: {after.status}")
    for ending, count in endings.items():
        print(f"  {count} x {ending}")


def hub_silent() -> None:
    """Fault 4."""
    with serve() as hub, tempfile.TemporaryDirectory() as cache:
        hub.repositories["a/b"] = Repository({"config.json": b"{}", "model.safetensors": bytes(100_000)}, stalls="model.safetensors")
        os.environ |= {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": ""}
        constants.HF_HUB_CACHE = cache
        began = time.monotonic()
        try:
            fetch([hub.ref("a/b")], lambda *_: None)
        except ModelError as error:
            print(f"a Hub that falls silent: after {time.monotonic() - began:.0f} s: {error}")


def spread(times_s: list[float]) -> str:
    """Median and worst."""
    return f"{statistics.median(times_s):.2f} s (median; at most {max(times_s):.2f})" if times_s else "no time"


if __name__ == "__main__":
    main()
