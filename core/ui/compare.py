"""Other finished runs as points on a run's map: chosen by name and time, kept in the address as `?with=id,id`."""

import streamlit as st

from core.analysis import Analysis
from core.maps import Spot
from core.runs import Run
from core.ui import desk, look, numbers, result

PARAMETER, KEY = "with", "compared"
NEWEST, MOST = 50, 8


def choose(chosen: str) -> list[Run]:
    """A multiselect of the finished runs beside the `chosen` one; nothing where there are none."""
    store, _ = desk.desk()
    found = {run.id: run for run in store.recent(NEWEST) if run.status == "done" and run.id != chosen}
    if not found:
        return []
    if KEY not in st.session_state:
        st.session_state[KEY] = [run_id for run_id in st.query_params.get(PARAMETER, "").split(",") if run_id in found][:MOST]
    st.session_state[KEY] = [run_id for run_id in st.session_state[KEY] if run_id in found]
    ids = st.multiselect(
        "Other runs on the map",
        list(found),
        format_func=lambda run_id: _name(found[run_id]),
        key=KEY,
        max_selections=MOST,
        placeholder="Other runs on the map",
        label_visibility="collapsed",
    )
    _keep(ids)
    return [found[run_id] for run_id in ids]


def spots(runs: list[Run], *, passes_alone: bool) -> list[Spot]:
    """Where the runs lie: by c inside the loop, or by c of the draft's pass alone. Runs without a speedup have no point."""
    found = [(run, desk.analysis(run)) for run in runs]
    return [
        Spot(_name(run), seen.alpha.value, seen.costs.draft_next if passes_alone else seen.costs.c, "other")
        for run, seen in found
        if isinstance(seen, Analysis)
    ]


def legend(others: list[Spot]) -> None:
    """What the numbered points are."""
    if others:
        listed = "; ".join(f"{at}: {look.plain(spot.name)}, alpha {spot.alpha:.2f}, c {numbers.cost(spot.c)}" for at, spot in enumerate(others, 1))
        look.note(f"{listed}. The colours below them hold for the costs of this map, not for theirs.")


def _name(run: Run) -> str:
    return f"{result.pair_name(run)}, {numbers.when(run.created)}"


def _keep(ids: list[str]) -> None:
    if ids:
        st.query_params[PARAMETER] = ",".join(ids)
    elif PARAMETER in st.query_params:
        del st.query_params[PARAMETER]
