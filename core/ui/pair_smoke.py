"""The smoke test on a card: eight tokens, plain and with the draft, to see that a pair runs at all. The worker writes them."""

import streamlit as st

from core import demo
from core.candidates import Candidate, Model
from core.errors import DraftgaugeError, NotMeasured
from core.runs import RunSpec
from core.smoke import smoke_result
from core.ui import look
from core.ui.desk import ALIVE, desk, queue, read_only
from core.ui.polling import polled

KEPT = "_smoke_runs"
HELP = "Writes eight tokens plain and with the draft, and compares them. It says nothing about speed."
LOOK_AGAIN_S = 1.0


def smoke(target: Model, draft: Candidate, at: int) -> None:
    """A button, then what came of it; only for models that are on this machine, so that nothing is downloaded by the way."""
    chosen = [model.usable.ref for model in (target, draft.model) if model.usable]
    if read_only() or len(chosen) < 2 or not draft.fits or any(ref.source == "hub" for ref in chosen):
        return
    kept: dict[tuple[str, str], str] = st.session_state.setdefault(KEPT, {})
    key = (target.address, draft.model.address)
    if key in kept:
        alive = desk()[0].status(kept[key]) in ALIVE
        polled(LOOK_AGAIN_S if alive else None)(_watch)(kept[key], alive=alive)
    elif st.button("Try eight tokens", icon=":material/experiment:", key=f"smoke_{at}", help=HELP):
        try:
            kept[key] = queue(RunSpec(target=chosen[0], draft=chosen[1], prompts=demo.prompts()[:1], extent="smoke"))
        except DraftgaugeError as error:
            st.error(look.plain(str(error)), icon=":material/error:")
            return
        st.rerun()


def _watch(run_id: str, *, alive: bool) -> None:
    """The state of the test."""
    run = desk()[0].get(run_id)
    if run.status in ALIVE:
        look.note(
            ":material/hourglass_empty: Trying eight tokens ..."
            if run.status == "running"
            else ":material/hourglass_empty: Waiting for the device ..."
        )
        return
    if alive:
        st.rerun()
    if run.error:
        st.markdown(f":small[:orange[:material/error:] {look.plain(run.error)}]")
        return
    try:
        result = smoke_result(run)
    except NotMeasured as error:
        look.note(look.plain(str(error)))
        return
    mark = ":green[:material/check_circle:]" if result.passed else ":orange[:material/warning:]"
    st.markdown(f":small[{mark} {look.plain(result.sentence)}]")
