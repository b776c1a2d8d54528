"""Where a waiting run stands, and about how long it will wait; asked for once per second while somebody looks."""

from datetime import UTC, datetime

import streamlit as st

from core import wait
from core.runs import Run
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
    return wait.words(position, [_left(store.get(other, results=False)) for other in bench.before(run_id)])


def _left(run: Run) -> float | None:
    whole_s = _whole_s(run.id)
    return wait.remaining_seconds(run, whole_s, datetime.now(UTC)) if run.status == "running" else whole_s


@st.cache_data(ttl=KNOWN_FOR_S, max_entries=100, show_spinner=False)
def _whole_s(run_id: str) -> float | None:
    return begin_note.run_seconds(everybodys().get(run_id, results=False).spec)
