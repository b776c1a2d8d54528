"""The runs of a group while some of them wait or run: one line and bar each, polled once per second, and cancel."""

from collections.abc import Sequence

import streamlit as st

from core.runs import TIMED, Run
from core.ui import live, look, numbers, partial_alpha, result, waiting
from core.ui.desk import ALIVE, desk, read_only
from core.ui.frame import page_path
from core.ui.polling import polled


@polled(1.0)
def watch(ids: Sequence[str]) -> None:
    """The live state; when every run has ended the whole page starts over."""
    store, bench = desk()
    runs = [store.get(run_id, results=False) for run_id in ids]
    alive = [run for run in runs if run.status in ALIVE]
    if not alive:
        st.rerun()
    look.headline(f"Measuring {numbers.counted(len(runs), 'draft')}: {len(runs) - len(alive)} done")
    for run in runs:
        _line(run, waiting.place(run.id) if run.status == "queued" else "")
    stays = "What was measured so far is kept."
    if st.button("Cancel all", icon=":material/stop_circle:", key="cancel_group", help=stays, disabled=read_only()):
        for run in reversed(alive):  # the last first, so that none begins when the one before it ends
            bench.cancel(run.id)
    look.note("The target's answers are written once, for the first draft; the others reuse them. You can close this page; the runs go on.")


def _line(run: Run, place: str) -> None:
    """One draft: what happens to it now, and the way to its own page."""
    name = look.plain(run.spec.draft.name)
    st.page_link(page_path("measure"), label=f"**{name}**", icon=result.STATUS_ICONS[run.status], query_params={"run": run.id})
    if run.status == "running":
        quiet = " Please keep the machine quiet." if run.progress.stage in TIMED else ""
        st.progress(live.so_far(run), f"{live.WORDS[run.progress.stage]}{live.count(run.progress)}.{quiet}")
        partial_alpha.show(run)
    elif run.status == "queued":
        st.progress(0.0, f"{live.WORDS['queued']}{f': {place}' if place else ''}")
    else:
        look.note(f"{run.status.capitalize()}.{f' {look.plain(run.error)}' if run.error else ''}")
