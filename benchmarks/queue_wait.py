"""Is the wait that the queue promises the wait there is, and are turns fair? Two people queue demo runs from the page and watch them wait.

    python -m benchmarks.queue_wait [--runs 2]

The first person queues `runs` runs and the second as many after them; every ten seconds the page of each waiting run is read ("2nd in the
queue, about 4 minutes"). Printed for each run: its places, and what was promised beside what then passed until it began. Nothing else should
run on the machine, since estimates are of a quiet one. Pages round: to ten seconds below a minute, to minutes above.
"""

import argparse
import asyncio
import re
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from core.settings import Settings
from core.store import Store, open_store
from tests.browser.server import serve
from tests.sessions import Session, new_cookie

PEOPLE = ("first", "second")
EVERY_S = 10.0
SAID = re.compile(r"Waiting for the device[*:]* ?(?P<place>next|\d+)\w* in the queue(?:, (?:about|more than) (?P<number>[\d.]+) (?P<unit>\w+))?")
UNITS_S = {"second": 1.0, "minute": 60.0, "hour": 3600.0}


class Promise(NamedTuple):
    """What a run's page said at a moment: its place, and the wait in seconds, or None."""

    at_s: float
    place: int
    wait_s: float | None


def main() -> None:
    """Queue, watch, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=2, help="of each person")
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name, serve(Path(name), HF_HUB_OFFLINE="1") as url:
        store = open_store(Settings(data=Path(name)))
        asyncio.run(measure(url, store, runs))
        store.close()


async def measure(url: str, store: Store, runs: int) -> None:
    """A tab of its person queues each run, another one reads its page."""
    queued: dict[str, str] = {}
    for person in PEOPLE:
        cookie = await asyncio.to_thread(new_cookie, url)
        for number in range(runs):
            async with Session.open(url, "measure", f"tokens={40 + number}&confirm_s=10", cookie=cookie) as session:
                await session.click("Measure")
            queued |= {each.id: f"{person}'s {number + 1}" for each in store.alive() if each.id not in queued}
    promises = await asyncio.gather(*(watch(url, store, run_id) for run_id in queued))
    while store.alive():
        await asyncio.sleep(1)
    order = sorted(queued, key=lambda run_id: str(store.get(run_id).started))
    print("order:", ", ".join(queued[run_id] for run_id in order))
    for (run_id, name), (said, began_s) in zip(queued.items(), promises, strict=True):
        run = store.get(run_id)
        took_s = (run.finished - run.started).total_seconds() if run.finished and run.started else 0.0
        print(f"{name}: {run.status}, took {took_s:.0f} s; promised / passed:", ", ".join(spoken(each, began_s) for each in said) or "did not wait")


async def watch(url: str, store: Store, run_id: str) -> tuple[list[Promise], float]:
    """What the page says every ten seconds until the run begins, and when it began."""
    said: list[Promise] = []
    async with Session.open(url, "measure", f"run={run_id}") as session:
        while store.status(run_id) == "queued":
            if found := SAID.search(session.text()):
                number, unit = found["number"], (found["unit"] or "").removesuffix("s")
                place = 1 if found["place"] == "next" else int(found["place"])
                said.append(Promise(time.monotonic(), place, float(number) * UNITS_S[unit] if number else None))
            for _ in range(round(EVERY_S / 0.2)):
                if store.status(run_id) != "queued":
                    break
                await asyncio.sleep(0.2)
    return said, time.monotonic()


def spoken(promise: Promise, began_s: float) -> str:
    """A promise beside what passed."""
    wait = "?" if promise.wait_s is None else f"{promise.wait_s:.0f}"
    return f"[{promise.place}] {wait}/{began_s - promise.at_s:.0f} s"


if __name__ == "__main__":
    main()
