"""What else could be tried when no draft fits or none pays, each with what it takes and the exact call."""

import streamlit as st

from core.alternatives import DISTILLING, EARLY_EXIT, LOOKUP, OFF, REENCODING, alternatives
from core.candidates import View
from core.ui import look

ALL = (REENCODING, LOOKUP, EARLY_EXIT, DISTILLING, OFF)


def show(view: View) -> None:
    """One block per alternative, in the order to try them; what any of the pairs leaves open."""
    pairs = [draft.pair for draft in view.drafts if draft.pair is not None]
    found = {other: None for pair in pairs for other in alternatives(pair)}
    for other in sorted(found, key=ALL.index) or (LOOKUP, EARLY_EXIT, DISTILLING, OFF):
        st.markdown(f"**{other.name}.** {look.plain(other.when)} :gray[{look.plain(other.takes)}] :small[:gray[({look.plain(other.source)})]]")
        if other.call:
            st.code(other.call, language="python", wrap_lines=True)
