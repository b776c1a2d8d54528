"""What can be done with chosen runs: open one, compare some, delete, and take that back."""

from collections.abc import Sequence

import streamlit as st

from core.errors import DraftgaugeError
from core.history import Entry
from core.ui import look, numbers
from core.ui.desk import desk, read_only
from core.ui.frame import page_path

FEWEST, MOST = 2, 6
_DELETED, _PROBLEM = "_deleted_runs", "_runs_problem"


def undo() -> None:
    """What was deleted last, with the way back; stays until it is taken back or put away."""
    if problem := st.session_state.pop(_PROBLEM, ""):
        st.error(look.plain(problem), icon=":material/error:")
    deleted: list[str] = st.session_state.get(_DELETED, [])
    if deleted and not read_only():
        with st.container(horizontal=True, vertical_alignment="center", gap="small", border=True):
            st.markdown(f":material/delete: Deleted {numbers.counted(len(deleted), 'run')}.", width="content")
            st.button("Undo", icon=":material/undo:", on_click=_restore, args=(deleted,))
            st.button("Dismiss", type="tertiary", on_click=_dismiss)


def show(chosen: Sequence[Entry]) -> None:
    """The buttons over the table; without a choice a line that says how to choose."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if st.button("Compare", type="primary", icon=":material/compare_arrows:", disabled=not FEWEST <= len(chosen) <= MOST):
            compare(chosen)
        if not read_only():
            ids = [entry.id for entry in chosen]
            st.button("Delete", icon=":material/delete:", disabled=not chosen, on_click=_delete, args=(ids,))
        if len(chosen) == 1:
            page = page_of(chosen[0])
            label = f"Open **{look.plain(chosen[0].target)}** with **{look.plain(chosen[0].draft)}**"
            st.page_link(page_path(page), label=label, icon=":material/open_in_full:", query_params={"run": chosen[0].id})
        else:
            look.note(_says(len(chosen)))


def page_of(entry: Entry) -> str:
    """The page that shows a run."""
    return "side_by_side" if entry.extent == "side_by_side" else "measure"


def compare(chosen: Sequence[Entry]) -> None:
    """Go on to the comparison; the oldest of the runs is what the others are compared with."""
    oldest = min(chosen, key=lambda entry: entry.created)
    ids = ",".join(entry.id for entry in chosen)
    st.switch_page(page_path("runs"), query_params={"compare": ids, "baseline": oldest.id})


def _says(count: int) -> str:
    if not count:
        note = "" if read_only() else " or to write a note"
        return f"Tick a run to open it{note}; tick {FEWEST} to {MOST} to compare them."
    return f"{count} chosen." if count <= MOST else f"{count} chosen; at most {MOST} can be compared."


def _delete(ids: list[str]) -> None:
    try:
        st.session_state[_DELETED] = desk()[0].delete(ids)
    except DraftgaugeError as error:  # callbacks run before the page, whose router would have told it
        st.session_state[_PROBLEM] = str(error)


def _restore(ids: list[str]) -> None:
    try:
        desk()[0].restore(ids)
        _dismiss()
    except DraftgaugeError as error:
        st.session_state[_PROBLEM] = str(error)


def _dismiss() -> None:
    st.session_state.pop(_DELETED, None)
