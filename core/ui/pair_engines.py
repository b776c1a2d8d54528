"""Which serving engines take one of the pairs, and how they are told to; what was read in each engine's source, and when."""

import pandas as pd
import streamlit as st

from core.candidates import Candidate, View
from core.engines import EngineRow, engines
from core.ui import look

KEY = "engines_for"


def show(view: View) -> None:
    """The table for one draft, the most promising to begin with; nothing while no vocabularies are compared."""
    compared = [draft for draft in view.drafts if draft.verdict_value]
    if not compared:
        look.note("Which engines take a pair is shown here when its vocabularies are compared.")
        return
    draft = _chosen(view, compared)
    assert draft.verdict_value is not None
    st.markdown(f"**Which engine takes {look.plain(draft.model.name)}**")
    rows = engines(draft.verdict_value, view.target.address, draft.model.address)
    st.table(pd.DataFrame([_row(row) for row in rows]).set_index("Engine"), border="horizontal")
    folded = st.expander("Exact calls, reasons and sources", icon=":material/terminal:", on_change="rerun", key="engine_calls")
    if folded.open:
        with folded:
            for row in rows:
                _details(row)


def _chosen(view: View, compared: list[Candidate]) -> Candidate:
    """One draft's own, or the choice of a picker."""
    best = view.best if view.best in compared else compared[0]
    if len(compared) == 1 or best is None:
        return compared[0]
    found = {draft.model.address: draft for draft in compared}
    options = [best.model.address, *(address for address in found if address != best.model.address)]
    picked = st.selectbox("Engines for", options, key=KEY, bind="query-params", label_visibility="collapsed")
    return found.get(picked, best)


def _row(row: EngineRow) -> dict[str, str]:
    return {"Engine": f"{row.engine}, {row.way}" if row.way else row.engine, "Verdict": verdict(row)}


def verdict(row: EngineRow) -> str:
    """The answer in colour; an engine that takes a pair whose drafts would hardly ever be right is no good news."""
    if row.answer == "refuses":
        return ":gray[:material/close: refuses]"
    if row.answer == "not sure":
        return ":gray[:material/help: not sure]"
    if not row.advised:
        return f":orange[:material/warning: {row.answer}, not advised]"
    return f":green[:material/check: {row.answer}]"


def _details(row: EngineRow) -> None:
    st.markdown(f"**{row.engine}, {row.way}** {verdict(row)}  \n{look.plain(row.reason)} :small[:gray[[source]({row.source}), read {row.read}]]")
    if row.call:
        st.code(row.call, language=None, wrap_lines=True)
