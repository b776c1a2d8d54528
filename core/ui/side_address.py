"""Which side-by-side run, and which measurement, the page is about: from its address, else what this session looked at last.

A side-by-side run has a place of its own in the session, apart from the measurement that the other pages are about.
"""

import streamlit as st

from core.errors import DraftgaugeError
from core.runs import Run
from core.ui import desk

RUN, FROM = "run", "from"
_LAST, _REFERENCE = "_side_run", "_run"


def run_id() -> str | None:
    """The run to show; None for the form."""
    return st.query_params.get(RUN) or (None if FROM in st.query_params else st.session_state.get(_LAST))


def look_at(chosen: str) -> None:
    """Show this run from now on; nothing of the form stays in the address."""
    st.session_state[_LAST] = chosen
    if dict(st.query_params) != {RUN: chosen}:
        st.query_params.from_dict({RUN: chosen})


def begin_from(chosen: str = "") -> None:
    """Back to the form, beginning from this measurement where one is named. A callback too."""
    st.session_state.pop(_LAST, None)
    st.query_params.from_dict({FROM: chosen} if chosen else {})


def reference() -> Run | None:
    """The finished measurement that the form begins from; None where there is none, or it cannot be read."""
    chosen = st.query_params.get(FROM) or st.session_state.get(_REFERENCE)
    if not chosen:
        return None
    try:
        found = desk.example() if chosen == desk.EXAMPLE else desk.desk()[0].get(chosen)
    except DraftgaugeError:
        return None
    return found if found.spec.extent == "full" and found.status == "done" else None
