"""A run in several ways while it runs: what each way has come to so far, below the usual progress. No answer is given before the end."""

import pandas as pd
import streamlit as st

from core import ways
from core.analysis import sentence_case
from core.errors import DraftgaugeError
from core.ui import look, numbers, ways_page
from core.ui.desk import desk
from core.way_results import WayResult

EVERY_S = 3.0
"""Every call so far is read each time, so not as often as the progress."""


@st.fragment(run_every=EVERY_S)
def so_far(run_id: str) -> None:
    """The rows so far; nothing before the first block has ended. Reruns of a fragment do not pass the router, so errors are told here."""
    try:
        _so_far(run_id)
    except DraftgaugeError as error:
        st.error(look.plain(str(error)), icon=":material/error:")


def _so_far(run_id: str) -> None:
    run = desk()[0].get(run_id)
    found = [way for way in ways.results(run) if way.calls]
    if not any(way.decode for way in found):
        return
    st.subheader("So far", anchor=False)
    table = pd.DataFrame([_cells(ways_page.label(run, way), way) for way in found])
    look.table(table, "What each way has come to so far", {"Speedup so far": "%.2fx", "Tokens per round": "%.2f"})
    look.note(f"{look.ORIGINS['measured']} Not an answer yet: answers that differ from plain are looked into at the end.")


def _cells(name: str, way: WayResult) -> dict[str, object]:
    interval = numbers.interval(way.decode.traffic) if way.decode else ""
    return {
        "Way": name,
        "Draft": way.draft,
        "Prompts": way.prompts,
        "Speedup so far": way.decode.value if way.decode and way.lossless else None,
        "Traffic": interval if way.lossless else "",
        "Tokens per round": way.tokens_per_round,
        "Text": sentence_case("as plain" if way.lossless else "lossy: not to be used"),
    }
