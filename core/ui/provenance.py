"""The card that says how a run was measured: everything needed to repeat it, or to distrust it."""

import pandas as pd
import streamlit as st

from core import provenance as known
from core.runs import Run
from core.timing import LoopCosts
from core.ui import look


def provenance(run: Run, costs: LoopCosts | None = None) -> None:
    """The settings and the machine; with `costs` the fit behind c and h."""
    with st.expander("Provenance: versions, device, settings, quiet timing, fit"):
        look.table(pd.DataFrame(known.rows(run), columns=["What", "Value"]), "How this run was measured")
        if costs:
            st.markdown("**What c and h are made of**")
            look.table(pd.DataFrame(known.fit(costs), columns=["What", "Value", "Unit", "Known by"]), "The parts of c and h as timed and fitted")
