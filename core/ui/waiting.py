"""Where a waiting run stands, and about how long it will wait; asked for once per second while somebody looks."""

from datetime import UTC, datetime

import streamlit as st

from core import wait
from core.runs import Run, Stage
from core.ui import begin_note
from core.ui.desk import desk, everybodys

KNOWN_FOR_S = 60
"""What a run will take is asked again after this time: the models' sizes, or a first run of the pair, may be known by then."""


def place(run_id: str) -> str:
    """Such as "2nd in the queue, about 4 minutes"; empty where the run does not wait any more."""
    store, bench = everybodys(), desk()[1]
    position = bench.position(run_id)
    if not position:
        return ""
    return wait.words(position, [part for other in bench.before(run_id) for part in _left(store.get(other, results=False))])


def places(device: str) -> dict[str, str]:
    """The places alone of all runs that wait for a device, by id: "next in the queue"."""
    return {run_id: wait.words(number, ()) for number, run_id in enumerate(everybodys().queued(device), 1)}


def elapsed_s(run: Run) -> float:
    """How long a run has been measured, whatever somebody sets the clock to; by the dates alone where another server measures it."""
    spent_s = desk()[1].spent_s(run.id)
    if spent_s is not None:
        return spent_s
    return max(0.0, (datetime.now(UTC) - run.started).total_seconds()) if run.started else 0.0


def left_s(run: Run) -> float | None:
    """About how long a run that is measured, or waits, still takes by itself; None while that is unknown."""
    stages = _stages(run.id)
    if run.status != "running" or run.progress.held:
        return None if stages is None else sum(stages.values())
    return wait.remaining_seconds(run.progress, max(0.0, elapsed_s(run) - run.progress.download_s), stages)


def _left(run: Run) -> list[float | None]:
    """What a run before it still takes, and, where that one is held up by another program, what nobody knows."""
    return [left_s(run), *([None] if run.progress.held else [])]


@st.cache_data(ttl=KNOWN_FOR_S, max_entries=100, show_spinner=False)
def _stages(run_id: str) -> dict[Stage, float] | None:
    return begin_note.run_stages(everybodys().get(run_id, results=False).spec)
