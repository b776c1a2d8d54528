"""A side-by-side run that waits or is written: both columns as they stream, up to ten times a second, with a stop button above them.

Only new steps are read; what was read is kept in the session for the run that is looked at, so a page change or a reload begins
again from the store and loses nothing.
"""

from dataclasses import dataclass, field

import streamlit as st

from core.analysis import sentence_case
from core.player import lane_name
from core.record import Step
from core.runs import Run
from core.side import steps_of
from core.token_style import Writer
from core.ui import look, side_columns, tokens, waiting
from core.ui.desk import ALIVE, desk, is_shared, read_only
from core.ui.live import WORDS, count
from core.ui.polling import polled

POLL_S, LONG_POLL_S = 0.1, 0.4
LONG_TOKENS = 1000
"""From here on an answer's spans are too many to be sent ten times a second."""
KEPT = "_side_streamed"


@dataclass
class Streamed:
    """What this session has read of one run. place: where the store goes on."""

    run_id: str
    place: int = 0
    steps: list[Step] = field(default_factory=list[Step])


def watch(run: Run) -> None:
    """The live state; when the run has ended the whole page starts over."""
    polled(LONG_POLL_S if run.spec.max_new_tokens > LONG_TOKENS else POLL_S)(_watch)(run.id)


def _watch(run_id: str) -> None:
    store, bench = desk()
    run = store.get(run_id, results=False)
    if run.status not in ALIVE:
        st.rerun()
    look.headline(_title(run), order(run))
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        stays = "Stops within one round. What was written is kept."
        if not is_shared(run) and st.button("Stop", icon=":material/stop_circle:", key="stop_side", help=stays, disabled=read_only()):
            bench.cancel(run_id)
        st.toggle("Show rejected drafts", key="side_rejected", persist_state="session")
        look.note(_place(run))
    st.html(tokens.legend(look.palette(), legend_of(run)))
    _columns(run, streamed(run_id))
    look.note("You can close this page; the run goes on, and this address leads back to it.")


def streamed(run_id: str) -> list[Step]:
    """Everything the run has written so far; reads what is new."""
    known = st.session_state.get(KEPT)
    if not isinstance(known, Streamed) or known.run_id != run_id:
        known = st.session_state[KEPT] = Streamed(run_id)
    known.place, new = desk()[0].streamed(run_id, known.place)
    known.steps += new
    return known.steps


def _title(run: Run) -> str:
    if run.status == "queued":
        return "Waiting for the device"
    return "Writing side by side" if run.progress.stage == "writing" else WORDS[run.progress.stage]


def order(run: Run) -> str:
    """Which column is really written first, and that chance decided it."""
    first, *then = (look.plain(lane_name(run, lane)) for lane in run.spec.order)
    return f":small[:gray[On one device they run one after the other: {first} first, then {', then '.join(then)}. The order was drawn at random.]]"


def legend_of(run: Run) -> list[Writer]:
    """The writers that can occur in this run's columns."""
    kinds = {lane.policy.kind for lane in run.spec.lanes}
    proposed: list[Writer] = [*(["draft"] if "drafting" in kinds else []), *(["copied"] if "lookup" in kinds else [])]
    return [*proposed, "target", "bonus", "rejected"]


def _place(run: Run) -> str:
    if run.status == "queued":
        return sentence_case(waiting.place(run.id) or "next in the queue")
    return (
        "The machine is being timed: please keep it quiet."
        if run.progress.stage == "writing"
        else f"{WORDS[run.progress.stage]}{count(run.progress)}"
    )


def _columns(run: Run, steps: list[Step]) -> None:
    begun = [lane for lane in run.spec.order if steps_of(steps, lane)]
    now = begun[-1] if begun else None
    if now is not None and run.progress.done >= len(begun):
        now = None
    lanes = range(len(run.spec.lanes))
    for lane, place in zip(lanes, st.columns(len(lanes), gap="medium"), strict=True):
        with place.container(border=True, height="stretch"):
            rejected = bool(st.session_state.get("side_rejected"))
            st.html(side_columns.column(look.palette(), run, lane, steps_of(steps, lane), _state(run, lane, now, begun), rejected=rejected))


def _state(run: Run, lane: int, now: int | None, begun: list[int]) -> str:
    if lane == now:
        return "writing"
    if lane in begun:
        return "done"
    if run.status == "queued":
        return "Waits for the device"
    before = run.spec.order[: run.spec.order.index(lane)]
    waits = [lane_name(run, other) for other in before]
    return f"Waits for its turn, after {', '.join(waits)}" if waits else "Begins as soon as the models are loaded"
