"""Several drafts for one target, measured together: progress of all, then one ranking, and the way to each run's own result."""

import streamlit as st

from core.address import address
from core.runs import Run
from core.ui import decoding_box, group_live, group_rank, look, more_prompts, numbers, result
from core.ui.desk import ALIVE, desk, forget_run, read_only, submit
from core.ui.frame import page_path

PARAMETER, RUN, _KEPT = "group", "run", "_group"


def group_id() -> str | None:
    """The group that the page is about: from the address, else the one last looked at unless a run is asked for; written back to the address.

    A link from one result to another stays on this page, and then the browser's address must be told.
    """
    if RUN in st.query_params:
        if st.session_state.pop(_KEPT, None):
            st.query_params[RUN] = st.query_params[RUN]
        return None
    chosen = st.query_params.get(PARAMETER) or st.session_state.get(_KEPT)
    if chosen:
        new = st.session_state.get(_KEPT) != chosen or st.session_state.pop("_run", None) is not None
        st.session_state[_KEPT] = chosen
        if new or PARAMETER not in st.query_params:
            st.query_params[PARAMETER] = chosen
    return chosen


def show(group: str) -> None:
    """The whole page of a group."""
    runs = latest(desk()[0].group(group))
    if not runs:
        look.headline("There is no such group here")
        st.markdown(f"The address asks for the drafts of {look.code(group)}. They were measured on another machine, or the data folder was moved.")
        _begin_anew()
    elif more_prompts.asked():
        more_prompts.show(runs)
    else:
        _header(runs)
        if any(run.status in ALIVE for run in runs):
            group_live.watch([run.id for run in runs])
        else:
            _ended(runs)


def latest(runs: list[Run]) -> list[Run]:
    """One run per draft and kind of run, the last one: what was cancelled may have been measured again."""
    return list({(run.spec.extent, address(run.spec.draft)): run for run in runs}.values())


def _header(runs: list[Run]) -> None:
    """Whose numbers these are, as over a single run; the drafts by name."""
    spec = runs[0].spec
    size = f"{numbers.counted(len(spec.prompts), 'prompt')}, at most {numbers.counted(spec.max_new_tokens, 'token')} each"
    facts = f"{look.plain(spec.device)}, {spec.dtype}, {look.plain(decoding_box.words(spec))}. {size}."
    names = dict.fromkeys(name for run in runs for name in result.drafts(run))
    drafts = " ".join(f":green-badge[:material/edit: draft {look.plain(name)}]" for name in names)
    st.markdown(f":blue-badge[:material/neurology: target {look.plain(spec.target.name)}] {drafts} :small[:gray[{facts}]]")


def _ended(runs: list[Run]) -> None:
    best = group_rank.show(runs)
    failed = [run for run in runs if run.status != "done"]
    for run in failed:
        with st.container(horizontal=True, vertical_alignment="center"):
            result.ended_early(run)
    with st.container(horizontal=True):
        fastest = f"the fastest draft{' that was replayed' if any(run.spec.extent == 'ways' for run in runs) else ''}"
        if best and st.button("Choose gamma", type="primary", icon=":material/ssid_chart:", help=f"With {fastest}."):
            st.switch_page(page_path("gamma"), query_params={"run": best})
        if failed and st.button(f"Measure {numbers.counted(len(failed), 'draft')} again", icon=":material/replay:", disabled=read_only()):
            submit(*(run.spec for run in failed))
        if len(failed) < len(runs) and not read_only():
            more_prompts.button()
        _begin_anew()
    if best:
        look.next_step(f"See the whole curve of {fastest}.", "gamma", "Choose gamma", {"run": best})
    else:
        look.next_step("Look for a draft that fits the target better.", "pair", "Pair", {"target": address(runs[0].spec.target)})


def _begin_anew() -> None:
    st.button("New measurement", icon=":material/add:", on_click=_forget)


def _forget() -> None:
    forget_run()
    st.session_state.pop(_KEPT, None)
    for name in (PARAMETER, more_prompts.PARAMETER):
        st.query_params.pop(name, None)
