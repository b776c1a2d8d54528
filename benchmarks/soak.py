"""The app in use for half an hour: measure, browse, cancel, export, import, delete and restore in random order, seeded.

    python -m benchmarks.soak [minutes] [seed]

Three people use the running server over its own protocol (`tests.sessions`), one thing after the other. Every half minute what the processes
hold is written down. At the end nothing may be lost: every run that was queued is there and has ended, every import is what was exported,
as many runs are there as were made. Exits with 1 where that is not so, or where a page failed.
"""

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from benchmarks import processes
from benchmarks.processes import Held, Role
from core.export_json import to_json
from core.settings import Settings
from core.store import Store, open_store
from tests.browser.server import serve
from tests.sessions import Session, new_cookie

MINUTES, SAMPLE_EVERY_S, PAUSE_S, PATIENCE_S, PEOPLE = 30.0, 30.0, 0.5, 600.0, 3
PAGES = ("", "pair", "measure", "gamma", "memory_cost", "side_by_side", "runs")
SHORT = "tokens=8&confirm_s=1"
DOINGS = {"measure": 4, "browse": 10, "cancel": 2, "export": 4, "import": 3, "delete": 2}
"""How often each is done, as weights."""
TABLE = "Runs, one per row"
OF_ITS_OWN = ("id", "imported")
"""What an imported run has from this installation and not from its file."""


@dataclass
class Done:
    """What was done, and what must therefore be there."""

    counts: Counter[str] = field(default_factory=Counter[str])
    queued: list[str] = field(default_factory=list[str])
    exported: list[bytes] = field(default_factory=list[bytes])
    imported: dict[str, bytes] = field(default_factory=dict[str, bytes])
    errors: list[str] = field(default_factory=list[str])
    held: defaultdict[Role, list[Held]] = field(default_factory=lambda: defaultdict(list[Held]))
    sizes: list[int] = field(default_factory=list[int])


class Soak:
    """One soak over one server."""

    def __init__(self, url: str, store: Store, root: int, seed: int) -> None:
        self.done = Done()
        self._url, self._store, self._root, self._rng = url, store, root, random.Random(seed)
        self._cookies = [new_cookie(url) for _ in range(PEOPLE)]
        self._sampled_s = 0.0

    async def run(self, minutes: float) -> None:
        """Do things until the time is over, then wait for the queue."""
        ends_s = time.monotonic() + 60 * minutes
        while time.monotonic() < ends_s:
            (doing,) = self._rng.choices(list(DOINGS), list(DOINGS.values()))
            await self._do(doing)
            self._sample()
            await asyncio.sleep(PAUSE_S)
        while self._store.alive():
            await asyncio.sleep(1)
            self._sample()

    async def _do(self, doing: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                if await getattr(self, f"_{doing}")():
                    self.done.counts[doing] += 1
        except (AssertionError, TimeoutError, OSError) as error:
            self.done.errors.append(f"{doing}: {type(error).__name__} {error}"[:500])

    def _tab(self, page: str, query: str = "") -> Any:
        return Session.open(self._url, page, query, cookie=self._rng.choice(self._cookies))

    def _end(self, session: Session) -> bool:
        self.done.errors += session.errors
        return True

    async def _measure(self) -> bool:
        if len(self._store.queued()) > 4:
            return False
        async with self._tab("measure", f"{SHORT}&seed={self._rng.randrange(10**6)}") as session:
            await session.set("number_input", "Number of prompts", 2.0)
            await session.click("Measure")
            self.done.queued.append(parse_qs(session.query)["run"][0])
            return self._end(session)

    async def _browse(self) -> bool:
        ended = self._ended()
        run_id = self._rng.choice(ended) if ended and self._rng.random() < 0.7 else "example"
        async with self._tab(self._rng.choice(PAGES), f"run={run_id}") as session:
            await session.go(self._rng.choice(PAGES))
            return self._end(session)

    async def _cancel(self) -> bool:
        alive = [run_id for run_id in self.done.queued if self._store.status(run_id) in ("queued", "running")]
        if not alive:
            return False
        async with self._tab("measure", f"run={self._rng.choice(alive)}") as session:
            if not any(button.label == "Cancel" for button in session.elements("button")):
                return False  # it has just ended
            await session.press("Cancel")
            await asyncio.sleep(1)
            return self._end(session)

    async def _export(self) -> bool:
        ended = self._ended()
        if not ended:
            return False
        async with self._tab("measure", f"run={self._rng.choice(ended)}") as session:
            if self._rng.random() < 0.5 and any(each.label.startswith("With prompts") for each in session.elements("checkbox")):
                await session.set("checkbox", "With prompts", value=True)
            self.done.exported.append(await session.download("Whole run"))
            return self._end(session)

    async def _import(self) -> bool:
        if not self.done.exported:
            return False
        document = self._rng.choice(self.done.exported)
        async with self._tab("runs") as session:
            await session.upload("A file", "run.json", document)
            await session.until("This is", PATIENCE_S)  # files are not read while a run is being timed
            while not any(button.label == "Import" and not button.disabled for button in session.elements("button")):
                await asyncio.sleep(0.2)
            await session.click("Import")
            while "run=" not in session.query:
                await asyncio.sleep(0.2)
            self.done.imported[parse_qs(session.query)["run"][0]] = document
            return self._end(session)

    async def _delete(self) -> bool:
        """Some rows of the first page, and back again."""
        async with self._tab("runs") as session:
            if not any(each.alt.startswith(TABLE) for each in session.elements("dataframe")):
                return False
            rows = sorted(self._rng.sample(range(min(5, len(self._ended()))), 1))
            await session.set("dataframe", TABLE, json.dumps({"selection": {"rows": rows, "columns": [], "cells": []}}))
            await session.click("Delete")
            await session.click("Undo")
            return self._end(session)

    def _ended(self) -> list[str]:
        return [run_id for run_id in (*self.done.queued, *self.done.imported) if self._store.status(run_id) not in ("queued", "running", None)]

    def _sample(self) -> None:
        if time.monotonic() - self._sampled_s < SAMPLE_EVERY_S:
            return
        self._sampled_s = time.monotonic()
        for role in ("web", "worker", "plan"):
            self.done.held[role].append(processes.held(processes.of_role(role, self._root)))
        self.done.sizes.append(self._store.size_bytes() or 0)


def main() -> None:
    """Soak, check, print."""
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else MINUTES
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with tempfile.TemporaryDirectory() as name:
        store = open_store(Settings(data=Path(name)))
        with serve(Path(name), HF_HUB_OFFLINE="1") as url:
            soak = Soak(url, store, os.getpid(), seed)
            asyncio.run(soak.run(minutes))
        problems = [*soak.done.errors, *lost(store, soak.done)]
        report(store, soak.done, minutes)
        store.close()
    print(f"{len(problems)} problems", *problems[:20], sep="\n  ")
    sys.exit(1 if problems else 0)


def lost(store: Store, done: Done) -> list[str]:
    """What should be there and is not."""
    found = [f"run {run_id} is {status}" for run_id in done.queued if (status := store.status(run_id)) not in ("done", "cancelled")]
    for run_id, document in done.imported.items():
        given = json.loads(document)
        kept = json.loads(to_json(store.get(run_id, traces=True), texts=True))
        other = [name for name in given["run"] if name not in OF_ITS_OWN and given["run"][name] != kept["run"][name]]
        if other or given["traces"] != kept["traces"]:
            found.append(f"the import {run_id} differs from its file in {other or 'its traces'}")
    wanted = len(done.queued) + len(done.imported)
    there = store.choices().total
    return [*found, *([f"{there} runs are listed, not {wanted}"] if there != wanted else [])]


def report(store: Store, done: Done, minutes: float) -> None:
    """What was done, and what the processes held."""
    statuses = Counter(store.status(run_id) for run_id in done.queued)
    print(f"{minutes:g} minutes: {dict(done.counts)}; runs {dict(statuses)}, {len(done.imported)} imports equal to their files or reported below")
    for role, samples in done.held.items():
        print(processes.line(role, samples))
    print(f"the store grew from {processes.mb(done.sizes[0])} to {processes.mb(done.sizes[-1])}")


if __name__ == "__main__":
    main()
