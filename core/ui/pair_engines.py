"""Which serving engines take one of the pairs, and how they are told to; what was read in each engine's source, and when."""

import pandas as pd
import streamlit as st

from core.candidates import Candidate, Model, View
from core.engines import EngineRow, engines
from core.policies import FixedGamma
from core.script import Service, script
from core.ui import look
from core.vocab import VocabVerdict

KEY = "engines_for"
SCRIPT_GAMMA = 4


def show(view: View) -> Candidate | None:
    """The table for one draft, the most promising to begin with; which one that is, None while no vocabularies are compared."""
    compared = [draft for draft in view.drafts if draft.verdict_value]
    if not compared:
        look.note("Which engines take a pair is shown here when its vocabularies are compared.")
        return None
    draft = _chosen(view, compared)
    if draft.model.refusal:
        look.note("No engine is asked about a draft that cannot be used.")
        return draft
    assert draft.verdict_value is not None
    rows = _rows(view.target, draft, draft.verdict_value)
    shown = [{"Engine": f"{row.engine}, {row.way}", "Verdict": verdict(row, native=draft.fits)} for row in rows]
    st.table(pd.DataFrame(shown).set_index("Engine"), border="horizontal")
    folded = st.expander("Exact calls, reasons and sources", icon=":material/terminal:", on_change="rerun", key="engine_calls")
    if folded.open:
        with folded:
            for row in rows:
                _details(row, native=draft.fits)
            _whole_script(view.target, draft)
    return draft


def _rows(target: Model, draft: Candidate, compared: VocabVerdict) -> list[EngineRow]:
    """With each model's place in the calls; llama.cpp takes GGUF files, whatever the models were read from."""
    own, other = (model.usable.ref.path if model.usable else model.address for model in (target, draft.model))
    files = (own if own.endswith(".gguf") else "TARGET.gguf", other if other.endswith(".gguf") else "DRAFT.gguf")
    both = zip(engines(compared, own, other), engines(compared, *files), strict=True)
    return [with_files if row.engine == "llama.cpp" else row for row, with_files in both]


def _chosen(view: View, compared: list[Candidate]) -> Candidate:
    """The one draft there is, or the choice of a picker."""
    best = view.best if view.best in compared else compared[0]
    if len(compared) == 1 or best is None:
        st.markdown(f"**Which engine takes {look.plain(compared[0].model.name)}**")
        return compared[0]
    found = {draft.model.address: draft for draft in compared}
    options = [best.model.address, *(address for address in found if address != best.model.address)]
    picked = st.selectbox("**Which engine takes**", options, key=KEY, bind="query-params")
    return found.get(picked, best)


def verdict(row: EngineRow, *, native: bool) -> str:
    """The answer in colour; an engine that takes a pair whose drafts would hardly ever be right is no good news."""
    if row.answer == "refuses":
        return ":gray[:material/close: refuses]"
    if row.answer == "not sure":
        return ":gray[:material/help: not sure]"
    if not row.advised:
        return f":gray[:material/remove: {row.answer}, not needed]" if native else f":orange[:material/warning: {row.answer}, not advised]"
    return f":green[:material/check: {row.answer}]"


def _whole_script(target: Model, draft: Candidate) -> None:
    """To be copied and run, where the pair runs as it is and Transformers reads both models by their names alone."""
    own, other = target.usable, draft.model.usable
    if not draft.fits or own is None or other is None or "gguf" in (own.ref.source, other.ref.source):
        return
    st.markdown(f"**A script to run as it is, with {SCRIPT_GAMMA} drafts at a time until you have measured**")
    st.code(script(Service(own.ref, other.ref, FixedGamma(SCRIPT_GAMMA))), language="python")


def _details(row: EngineRow, *, native: bool) -> None:
    source = f":small[:gray[[source]({row.source}), read {row.read}]]"
    st.markdown(f"**{row.engine}, {row.way}** {verdict(row, native=native)}  \n{look.plain(row.reason)} {source}")
    if row.call:
        st.code(row.call, language=None, wrap_lines=True)
