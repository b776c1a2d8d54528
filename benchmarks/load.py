"""Twenty people click through all pages while a measurement runs: how long they wait, what goes wrong, and what they do to its timings.

    python -m benchmarks.load [--sessions 20] [--every 10] [--pairs 3] [--pin] [--browser]

The sessions speak the app's own websocket protocol (`tests.sessions`): twenty real browsers would need more cores than the server has.
A click is answered when the server has sent the whole page; drawing is not in it, so `--browser` clicks in one real browser meanwhile.
The same demo run, of two to three minutes, is measured alone and under the clicks in turn, `pairs` times each. With `--pin` the worker has
core 0 for itself and server and sessions share the others; without it the scheduler decides. Every session looks at a finished run of its own
and pastes a prompt of its own, and every message to any session is searched for the others'. What the clicks do to the timings is measured
better by `benchmarks.steady`. Goals: p95 below 0.5 s, no error, nothing of another session, timings moved by less than 3 %.
"""

import argparse
import asyncio
import itertools
import os
import random
import statistics
import subprocess
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import sync_playwright

from benchmarks import processes
from benchmarks.click_latency import click_s
from benchmarks.processes import Role
from core.policies import Plain
from core.runs import Run
from core.settings import Settings
from core.store import Store, open_store
from core.timing import per_step
from tests import synthetic
from tests.browser.server import launch, serve, visit
from tests.sessions import Session

RUN = "tokens=40&confirm_s=120"
ROLES: tuple[Role, Role] = ("web", "worker")
LISTED, WORKERS_CORE = 40, 0
STEPS = ("start", "pair", "measure", "gamma", "gamma: other cost", "memory_cost", "side_by_side", "runs", "runs: search", "live page")


ARRIVING = "while all arrive"


@dataclass
class Seen:
    """What the sessions saw: seconds of every click by what was clicked, once all had arrived; errors; texts of other sessions.

    busy: cores that server, worker and the sessions themselves took while everybody clicked.
    live: the query of the page of the run that is being measured.
    """

    waits_s: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list[float]))
    errors: list[str] = field(default_factory=list[str])
    leaks: list[str] = field(default_factory=list[str])
    browser_s: list[float] = field(default_factory=list[float])
    busy: dict[str, float] = field(default_factory=dict[str, float])
    live: str = ""
    arrived: bool = False


def main() -> None:
    """Measure in turn, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--every", type=float, default=10.0, help="seconds between the clicks of a session")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--browser", action="store_true")
    asked = parser.parse_args()
    seen, alone, crowded = Seen(), list[Run](), list[Run]()
    with tempfile.TemporaryDirectory() as name:
        finished = prepare(Path(name))
        with serve(Path(name), HF_HUB_OFFLINE="1") as url:
            store = open_store(Settings(data=Path(name)))
            asyncio.run(measure(url, store, Seen(), pin=asked.pin))  # the worker starts, models are read
            for _ in range(asked.pairs):
                alone.append(asyncio.run(measure(url, store, Seen(), pin=asked.pin)))
                with clicking(url, finished[0], seen) if asked.browser else nobody():
                    crowded.append(asyncio.run(under_clicks(url, store, asked, finished, seen)))
            store.close()
    report(seen, alone, crowded)


def prepare(folder: Path) -> list[str]:
    """A store with a list to look at; the ids of its finished runs."""
    store = open_store(Settings(data=folder))
    ids = [synthetic.keep(store, synthetic.run(c=0.05 + 0.01 * number)) for number in range(LISTED)]
    store.close()
    return ids


async def measure(url: str, store: Store, seen: Seen, *, pin: bool) -> Run:
    """The demo run from the page's button, and nobody looks until it has ended."""
    async with Session.open(url, "measure", RUN) as session:
        await session.click("Measure")
    run_id = store.alive()[0].id
    seen.live = f"run={run_id}"
    while store.status(run_id) in ("queued", "running"):
        if pin:
            pin_worker()
        await asyncio.sleep(1)
    return store.get(run_id)


def pin_worker() -> None:
    """Core 0 for the worker; the server, its other children, and this process keep off it."""
    others = ",".join(str(core) for core in range(os.cpu_count() or 1) if core != WORKERS_CORE)
    roles: tuple[Role, ...] = ("web", "plan", "worker")
    for role in roles:
        cores = str(WORKERS_CORE) if role == "worker" else others
        for pid in processes.of_role(role, os.getpid()):
            subprocess.run(["taskset", "-a", "-c", "-p", cores, str(pid)], check=False, capture_output=True)
    os.sched_setaffinity(0, set(range(os.cpu_count() or 1)) - {WORKERS_CORE})


async def under_clicks(url: str, store: Store, asked: argparse.Namespace, finished: Sequence[str], seen: Seen) -> Run:
    """The same run while everybody clicks."""
    over, may = asyncio.Event(), asyncio.Event()
    may.set()
    people = [asyncio.create_task(person(url, number, asked, finished, seen, over, may)) for number in range(asked.sessions)]
    await asyncio.sleep(2 * asked.every)
    seen.arrived = True
    began, before = time.monotonic(), used_s()
    run = await measure(url, store, seen, pin=asked.pin)
    seen.busy = {name: (used - before[name]) / (time.monotonic() - began) for name, used in used_s().items()}
    seen.arrived = False
    over.set()
    await asyncio.gather(*people)
    return run


def used_s() -> dict[str, float]:
    """Processor seconds so far."""
    web, worker = (processes.of_role(role, os.getpid()) for role in ROLES)
    return {"server": processes.cpu_s(web), "worker": processes.cpu_s(worker), "sessions": processes.cpu_s([os.getpid()])}


async def person(
    url: str, number: int, asked: argparse.Namespace, finished: Sequence[str], seen: Seen, over: asyncio.Event, may: asyncio.Event
) -> None:
    """One session: a click every so many seconds while it `may`, each beginning at another page and looking at a run of its own."""
    rng = random.Random(number)
    await asyncio.sleep(asked.every * rng.random())
    async with Session.open(url, keep=True) as session:
        await session.go("measure")
        await session.set("button_group", "Prompts", ["Your prompts"])
        await session.set("text_area", "Prompts", marker(number))
        for step in itertools.islice(itertools.cycle(STEPS), number % len(STEPS), None):
            await may.wait()
            if over.is_set():
                break
            try:
                wait_s = await take(session, step, finished[number % len(finished)], seen.live)
                seen.waits_s[step if seen.arrived else ARRIVING].append(wait_s)
            except (AssertionError, TimeoutError) as error:
                seen.errors.append(f"{step}: {type(error).__name__} {error}"[:300])
            await asyncio.sleep(asked.every * (0.5 + rng.random()))
        seen.errors += session.errors
        other = [marker(each).encode() for each in range(asked.sessions) if each != number]
        seen.leaks += [f"session {number} was sent {text!r}" for text in other if any(text in message for message in session.heard)]


def marker(number: int) -> str:
    """What a session pastes, and nobody else may read."""
    return f"Prompt that belongs to session {number} alone."


async def take(session: Session, step: str, finished: str, live: str) -> float:
    """One click; seconds."""
    match step:
        case "start":
            return await session.go("")
        case "pair":
            return await session.go("pair", "target=demo:target")
        case "gamma":
            return await session.go("gamma", f"run={finished}")
        case "gamma: other cost":
            await session.go("gamma", f"run={finished}")
            return await session.set("button_group", "Costs in the map", ["formula"])
        case "memory_cost" | "measure":
            return await session.go(step, f"run={finished}" if step == "memory_cost" else "")
        case "side_by_side":
            return await session.go(step, "run=example")
        case "runs: search":
            await session.go("runs")
            return await session.set("text_input", "Search", random.choice(("demo", "target", "")))
        case "live page":
            return await session.go("measure", live)
        case _:
            return await session.go(step)


@contextmanager
def nobody() -> Iterator[None]:
    """No browser beside it."""
    yield


@contextmanager
def clicking(url: str, finished: str, seen: Seen) -> Iterator[None]:
    """One real browser that switches the map of the gamma page every five seconds."""
    over = threading.Event()

    def click() -> None:
        with sync_playwright() as playwright:
            browser = launch(playwright)
            page = browser.new_page(viewport={"width": 1440, "height": 1400})
            visit(page, f"{url}/gamma?run={finished}")
            for number in itertools.count():
                if over.wait(5):
                    break
                seen.browser_s.append(click_s(page, number % 2 == 0))
            browser.close()

    thread = threading.Thread(target=click)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def report(seen: Seen, alone: list[Run], crowded: list[Run]) -> None:
    """Waits, faults, and the timings with the clicks over those without."""
    every = [wait for step, waits in seen.waits_s.items() if step != ARRIVING for wait in waits]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end, {time.strftime('%Y-%m-%d %H:%M')}")
    for step, waits in [("all", every), *sorted(seen.waits_s.items())]:
        print(f"{step:20} {len(waits):5} clicks  p50 {1000 * quantile(waits, 0.5):5.0f} ms  p95 {1000 * quantile(waits, 0.95):5.0f} ms  "
              f"worst {1000 * max(waits):5.0f} ms")  # fmt: skip
    if seen.browser_s:
        print(f"in a browser, map    {len(seen.browser_s):5} clicks  p50 {1000 * quantile(seen.browser_s, 0.5):5.0f} ms  "
              f"p95 {1000 * quantile(seen.browser_s, 0.95):5.0f} ms  worst {1000 * max(seen.browser_s):5.0f} ms")  # fmt: skip
    print("cores taken while everybody clicked:", ", ".join(f"{name} {share:.2f}" for name, share in seen.busy.items()))
    print(f"{len(seen.errors)} errors, {len(seen.leaks)} texts of another session", *seen.errors[:5], *seen.leaks[:5], sep="\n  ")
    for name in timings(alone[0]):
        quiet, busy = ([timings(run)[name] for run in runs] for runs in (alone, crowded))
        moved = statistics.median(busy) / statistics.median(quiet) - 1
        print(f"{name:20} alone {span(quiet)}, with clicks {span(busy)}: {100 * moved:+.1f} %")
    print("marked disturbed: alone", [run.disturbed for run in alone], "with clicks", [run.disturbed for run in crowded])
    print("ended:", sorted({run.status for run in (*alone, *crowded)}))


def span(values_s: list[float]) -> str:
    """The least and the most, in milliseconds."""
    return f"{1000 * min(values_s):.2f} to {1000 * max(values_s):.2f} ms"


def timings(run: Run) -> dict[str, float]:
    """What a run's result rests on, in seconds."""
    first = run.passes[0]
    plain = [each for each in run.generations if isinstance(each.policy, Plain) and each.tells_speed and each.tokens > 1]
    return {"target's pass": first.target[1].median_s, "draft's pass": first.draft[1].median_s, "plain step in a call": per_step(plain)}


def quantile(values: list[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


if __name__ == "__main__":
    main()
