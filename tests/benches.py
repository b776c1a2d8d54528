"""What the tests of the bench share: jobs by number, and waiting for what a worker process does."""

import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import create_engine, select

from core import database
from core.child import Entry
from core.runs import Run, RunSpec
from core.settings import Settings
from core.store import FILE_NAME, Store
from tests import jobs

ROOT = Path(__file__).parents[1]
ENTRY = Entry("tests.jobs:by_seed", "tests.jobs:devices")
FINAL = {"done", "failed", "cancelled", "interrupted"}


def job(spec: RunSpec, number: int) -> RunSpec:
    return spec.model_copy(update={"seed": number})


def until(happened: Callable[[], bool], within_s: float = 30.0) -> float:
    """Wait for something and return how long it took, in seconds."""
    began = time.monotonic()
    while not happened():
        assert time.monotonic() - began < within_s, "it did not happen"
        time.sleep(0.01)
    return time.monotonic() - began


def ended(store: Store, run_id: str, within_s: float = 30.0) -> Run:
    until(lambda: store.status(run_id) in FINAL, within_s)
    return store.get(run_id)


def under_way(store: Store, run_id: str, stage: str = "plain") -> None:
    """Wait until the job has reported its first results."""
    until(lambda: store.get(run_id).progress.stage == stage)


def worker_pid(settings: Settings, run_id: str) -> int:
    engine = create_engine(f"sqlite:///{settings.data / FILE_NAME}")
    with engine.connect() as connection:
        pid = connection.execute(select(database.runs.c.claimed_by).where(database.runs.c.id == run_id)).scalar_one()
    engine.dispose()
    return pid


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and waits for its parent does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def partial(run: Run, status: str) -> bool:
    return run.status == status and run.generations == (jobs.RESULT,) and run.finished is not None
