"""How long ten thousand runs take to open: the store's queries, and the whole page as the server runs it.

    python -m benchmarks.history_speed [--runs 10000]

The runs are synthetic: prompts of a real size, no traces and no results, which lists do not read. Each time is the median of several
in milliseconds. The page is timed by Streamlit's AppTest: the script with its elements, without the browser.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from core.history import Query
from core.record import Summary
from core.runs import ModelRef, Progress, Prompt, Run, RunSpec
from core.store import FILE_NAME, Store

TARGETS, DRAFTS, TAGS = (tuple(f"{word}-{number}" for number in range(count)) for word, count in (("target", 40), ("draft", 90), ("tag", 30)))
PROMPTS, CHARACTERS = 12, 600
REPEATS = 7
PAGE_LIMIT_S, QUERY_LIMIT_S = 1.0, 0.1


def fill(store: Store, count: int) -> None:
    """Finished runs of random pairs, one minute apart."""
    rng, began = random.Random(0), datetime(2025, 1, 1, tzinfo=UTC)
    prompts = tuple(Prompt(text=f"{number} " + "word " * (CHARACTERS // 5), label="code") for number in range(PROMPTS))
    for number in range(count):
        target, draft = (ModelRef(source="hub", name=name, path=f"acme/{name}") for name in (rng.choice(TARGETS), rng.choice(DRAFTS)))
        speedup, created = rng.uniform(0.5, 3.0), began + timedelta(minutes=number)
        store.insert(
            Run(
                id=f"{number:010x}",
                spec=RunSpec(target=target, draft=draft, prompts=prompts, device=rng.choice(("cpu", "cuda:0"))),
                status=rng.choices(("done", "cancelled", "failed"), (8, 1, 1))[0],
                progress=Progress(stage="done", done=1, total=1, fraction=1.0),
                created=created,
                started=created + timedelta(seconds=1),
                finished=created + timedelta(seconds=rng.randint(30, 900)),
                summary=answer(speedup, rng),
                tags=tuple(rng.sample(TAGS, rng.randint(0, 3))),
                note=f"note number {number}",
            )
        )


def answer(speedup: float, rng: random.Random) -> Summary:
    """A stored answer of this speedup."""
    verdict = "use" if speedup > 1.1 else "leave_off" if speedup < 1 else "undecided"
    low, high = speedup * 0.95, speedup * 1.05
    alpha, c = rng.uniform(0.3, 0.9), rng.uniform(0.02, 0.6)
    return Summary(verdict=verdict, policy="fixed gamma 4", speedup=speedup, low=low, high=high, confirmed=True, alpha=alpha, c=c)


def timed(task: Callable[[], object]) -> float:
    """Median seconds of a call."""
    spent: list[float] = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        task()
        spent.append(time.perf_counter() - began)
    return median(spent)


def queries(store: Store) -> dict[str, float]:
    """Seconds of what the page asks the store for."""
    return {
        "newest page": timed(lambda: store.history(Query())),
        "last page": timed(lambda: store.history(Query(page=10**6))),
        "search of two words": timed(lambda: store.history(Query(search="target-7 number"))),
        "filters, by speedup": timed(lambda: store.history(Query(targets=("target-7",), tags=("tag-3",), sort="speedup"))),
        "choices of the filters": timed(store.choices),
        "under way": timed(store.alive),
        "start page": timed(lambda: store.recent(8)),
    }


def page(store: Store) -> float:
    """Seconds of the page's script over this store."""
    from streamlit.testing.v1 import AppTest

    from core.settings import Settings
    from core.ui import desk

    shown = Settings(data=Path(store.place).parent, read_only=True)
    desk.desk, desk.settings = lambda: (store, None), lambda: shown  # pyright: ignore[reportAttributeAccessIssue]
    script = Path(__file__).resolve().parents[1] / "pages" / "runs.py"

    def open_it() -> None:
        app = AppTest.from_file(str(script), default_timeout=60).run()
        assert not app.exception, app.exception

    open_it()
    return timed(open_it)


def main() -> None:
    """Fill a store, time it, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # pyright: ignore[reportOptionalMemberAccess]
    parser.add_argument("--runs", type=int, default=10_000)
    count = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / FILE_NAME)
        fill(store, count)
        print(f"{count:,} runs, {(store.size_bytes() or 0) / 1e6:,.0f} MB")
        for name, seconds in queries(store).items():
            print(f"{name:24} {1000 * seconds:7.1f} ms{'' if seconds < QUERY_LIMIT_S else '  too slow'}")
        seconds = page(store)
        print(f"{'the page':24} {1000 * seconds:7.1f} ms{'' if seconds < PAGE_LIMIT_S else '  too slow'}")
        store.close()


if __name__ == "__main__":
    main()
