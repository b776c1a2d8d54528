"""What else could be tried when no draft fits or none pays, each with what it takes and the exact call."""

import streamlit as st

from core.alternatives import Alternative, alternatives
from core.candidates import View
from core.ui import look


def show(view: View) -> None:
    """One block per alternative, in the order to try them; what any of the pairs leaves open."""
    found: dict[str, Alternative] = {}
    for draft in view.drafts:
        if draft.pair is not None:
            found |= {other.name: other for other in alternatives(draft.pair)}
    for other in found.values():
        st.markdown(f"**{other.name}.** {look.plain(other.when)} :gray[{look.plain(other.takes)}] :small[:gray[({look.plain(other.source)})]]")
        if other.call:
            st.code(other.call, language="python", wrap_lines=True)
