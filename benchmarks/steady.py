"""Do people who click move the timings of a measurement that has a core of its own? Seconds with the clicks over seconds without them.

    python -m benchmarks.steady [--sessions 20] [--every 10] [--windows 12] [--window-s 20] [--shared]

A process on core 0, which nobody else may use, times the demo pair in blocks as a measurement does (`core.worker.timing`), while the server
and twenty sessions on the other cores click (`benchmarks.load`) and stand still in turn, window by window. Every window with clicks is set
against the two beside it, so that a drifting machine cancels; blocks within two seconds of a turn are left out. An interval is the mean of
the windows' log ratios with 1.96 standard errors. With `--shared` the timing process has to share the others' cores. Goals: moved by less than
3 % on a core of its own; otherwise blocks say that they were disturbed.
"""

import argparse
import asyncio
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from transformers import LogitsProcessorList

from benchmarks import load, processes
from benchmarks.load import WORKERS_CORE, Seen
from benchmarks.processes import Role
from core import demo
from core.runs import RunSpec
from core.worker.generate import timed_generate
from core.worker.models import Garage, Pair
from core.worker.shapes import random_text
from core.worker.timing import WIDEST, Quiet, Stepper
from tests.browser.server import serve

CACHED, PASSES, TOKENS, SETTLE_S = 128, 10, 40, 2.0
NAMES = ("target's pass", "draft's pass", "verify pass of 6", "plain step in a call")


class Block(NamedTuple):
    """When a block began and ended, its median pass or step in seconds by name, and whether it would mark a run as disturbed."""

    began_s: float
    ended_s: float
    seconds: dict[str, float]
    disturbed: bool


class Window(NamedTuple):
    """The blocks of one window."""

    clicks: bool
    blocks: list[Block]

    def median_s(self, name: str) -> float:
        """Over its blocks."""
        return statistics.median(block.seconds[name] for block in self.blocks)


def main() -> None:
    """Time in one process, click in this one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--every", type=float, default=10.0, help="seconds between the clicks of a session")
    parser.add_argument("--windows", type=int, default=12, help="windows with clicks; there is one more without")
    parser.add_argument("--window-s", type=float, default=20.0)
    parser.add_argument("--shared", action="store_true", help="no core for the timing process alone")
    parser.add_argument("--time", type=Path, help="the timing process writes its blocks here")
    asked = parser.parse_args()
    if asked.time:
        time_for_ever(asked.time, others() if asked.shared else {WORKERS_CORE})
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "data"
        finished = load.prepare(data)
        with serve(data, HF_HUB_OFFLINE="1") as url:
            os.sched_setaffinity(0, others())
            roles: tuple[Role, ...] = ("web", "plan", "worker")
            for pid in (pid for role in roles for pid in processes.of_role(role, os.getpid())):
                subprocess.run(["taskset", "-a", "-c", "-p", ",".join(map(str, others())), str(pid)], check=True, capture_output=True)
            blocks = Path(name) / "blocks"
            timing = subprocess.Popen([sys.executable, "-m", "benchmarks.steady", "--time", str(blocks), *["--shared"] * asked.shared])
            try:
                turns, seen = asyncio.run(in_turn(url, asked, finished, blocks))
            finally:
                timing.terminate()
        report(windows(turns, read(blocks)), seen)


def others() -> set[int]:
    """The cores that the server and the sessions may use."""
    return set(range(os.cpu_count() or 1)) - {WORKERS_CORE}


@torch.no_grad()
def time_for_ever(into: Path, cores: set[int]) -> None:
    """Blocks as a measurement times them, a line of JSON each, until somebody ends this process."""
    os.sched_setaffinity(0, cores)
    torch.set_num_threads(1)
    pair = Garage().get(RunSpec(target=demo.TARGET, draft=demo.DRAFT, prompts=demo.prompts()[:1]))
    text = random_text(pair, 1, CACHED + WIDEST, 0)
    target, draft = (Stepper(model, text, CACHED, LogitsProcessorList(), every=True) for model in (pair.target, pair.draft))
    with into.open("w", encoding="utf-8", buffering=1) as file:
        while True:
            marks, began_s = list[bool](), time.monotonic()
            seconds, _ = Quiet(pair.device, lambda marks=marks: marks.append(True), patience_s=0.0)(lambda: block(pair, target, draft))
            file.write(json.dumps(Block(began_s, time.monotonic(), seconds, bool(marks))) + "\n")


def block(pair: Pair, target: Stepper, draft: Stepper) -> dict[str, float]:
    """About a second and a half: single passes turn by turn, then one call of `generate`."""
    rounds = [(target.seconds(1), draft.seconds(1), target.seconds(6)) for _ in range(PASSES)]
    call = timed_generate(pair, random_text(pair, 1, CACHED, 0)[:, :CACHED], TOKENS)
    medians = [statistics.median(column) for column in zip(*rounds, strict=True)]
    return dict(zip(NAMES, [*medians, (call.total_s - call.first_token_s) / (len(call.tokens) - 1)], strict=True))


async def in_turn(url: str, asked: argparse.Namespace, finished: Sequence[str], blocks: Path) -> tuple[list[tuple[float, bool]], Seen]:
    """Everybody arrives, then still and clicking in turn; when each window began, and whether it had clicks."""
    seen, over, may = Seen(), asyncio.Event(), asyncio.Event()
    may.set()
    people = [asyncio.create_task(load.person(url, number, asked, finished, seen, over, may)) for number in range(asked.sessions)]
    await asyncio.sleep(2 * asked.every)
    while not blocks.exists() or not blocks.stat().st_size:
        await asyncio.sleep(1)
    turns: list[tuple[float, bool]] = []
    seen.arrived = True
    for number in range(2 * asked.windows + 1):
        clicks = number % 2 == 1
        (may.set if clicks else may.clear)()
        turns.append((time.monotonic(), clicks))
        await asyncio.sleep(asked.window_s)
    turns.append((time.monotonic(), True))
    over.set()
    may.set()
    await asyncio.gather(*people)
    return turns, seen


def read(blocks: Path) -> list[Block]:
    """What the timing process has written; its last line may be cut off."""
    return [Block(*json.loads(line)) for line in blocks.read_text(encoding="utf-8").splitlines()[:-1]]


def windows(turns: Sequence[tuple[float, bool]], blocks: Sequence[Block]) -> list[Window]:
    """The blocks of every window that began and ended away from a turn."""
    found: list[Window] = []
    for (began_s, clicks), (ended_s, _) in itertools.pairwise(turns):
        found.append(Window(clicks, [each for each in blocks if each.began_s >= began_s + SETTLE_S and each.ended_s <= ended_s]))
    return found


def report(found: Sequence[Window], seen: Seen) -> None:
    """How far each quantity was moved, and how often a block said that it was disturbed."""
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end, {time.strftime('%Y-%m-%d %H:%M')}")
    print(f"{sum(map(len, seen.waits_s.values()))} clicks, {len(seen.errors)} errors")
    for name in NAMES:
        logs = [math.log(found[at].median_s(name) ** 2 / found[at - 1].median_s(name) / found[at + 1].median_s(name)) / 2 for at in clicked(found)]
        middle, half = statistics.mean(logs), 1.96 * statistics.stdev(logs) / math.sqrt(len(logs))
        still = [window.median_s(name) for window in found if not window.clicks]
        print(
            f"{name:22} {100 * math.expm1(middle):+5.1f} % [{100 * math.expm1(middle - half):+.1f}, {100 * math.expm1(middle + half):+.1f}], "
            f"without clicks {load.span(still)}"
        )
    for clicks in (False, True):
        blocks = [block for window in found if window.clicks is clicks for block in window.blocks]
        marked = sum(block.disturbed for block in blocks)
        print(f"{'with' if clicks else 'without'} clicks: {marked} of {len(blocks)} blocks were disturbed")


def clicked(found: Sequence[Window]) -> list[int]:
    """Which windows had clicks."""
    return [at for at, window in enumerate(found) if window.clicks]


if __name__ == "__main__":
    main()
