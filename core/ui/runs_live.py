"""Running and waiting runs of every kind, on top of the list: one line each with its progress and a way to cancel it.

Polled once per second while there are some. When the set of them changes the whole page starts over.
"""

from collections.abc import Sequence

import streamlit as st

from core.history import Entry
from core.runs import TIMED, Extent
from core.ui import live, look, numbers
from core.ui.desk import desk, read_only
from core.ui.frame import page_path
from core.ui.polling import polled
from core.ui.runs_actions import page_of
from core.ui.waiting import places

ALSO: dict[Extent, str] = {"smoke": ", eight tokens", "side_by_side": ", side by side", "ways": ", several ways", "shapes": ", passes timed"}
"""What a run is when it is no measurement."""


def show() -> None:
    """The lines; nothing where no run waits or runs."""
    waiting = desk()[0].alive()
    if waiting:
        st.subheader(f"{numbers.counted(len(waiting), 'run')} under way", anchor=False)
        _watch([entry.id for entry in waiting])
        st.space("small")


@polled(1.0)
def _watch(ids: Sequence[str]) -> None:
    store, _ = desk()
    waiting = store.alive()
    if [entry.id for entry in waiting] != list(ids):
        st.rerun()
    found = {device: places(device) for device in {entry.device for entry in waiting}}
    for entry in waiting:
        _line(entry, found[entry.device].get(entry.id, ""))


def _line(entry: Entry, place: str) -> None:
    names, doing, button = st.columns([3, 6, 1], vertical_alignment="center", gap="small")
    with names:
        label = f"**{look.plain(entry.target)}** with **{look.plain(entry.draft)}**{ALSO.get(entry.extent, '')}"
        st.page_link(page_path(page_of(entry)), label=label, query_params={"run": entry.id})
    with doing:
        st.progress(min(1.0, entry.progress.fraction), _doing(entry, place))
    with button:
        if st.button("Cancel", key=f"cancel_{entry.id}", icon=":material/stop_circle:", disabled=read_only(), width="stretch"):
            desk()[1].cancel(entry.id)
            st.rerun()


def _doing(entry: Entry, place: str) -> str:
    if entry.status == "queued":
        return f"{live.WORDS['queued']} {look.plain(entry.device)}{f': {place}' if place else ''}"
    quiet = " Please keep the machine quiet." if entry.progress.stage in TIMED else ""
    return f"{live.WORDS[entry.progress.stage]}{live.count(entry.progress)}.{quiet}"
