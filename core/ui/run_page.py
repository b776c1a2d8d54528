"""One run on the page `measure`: what it does, or what came of it, and the ways on."""

import streamlit as st

from core.address import address
from core.analysis import Analysis, Unfinished
from core.imports import is_record
from core.privacy import has_texts
from core.runs import Run, RunSpec
from core.ui import deploy_box, export_box, imported_page, live, look, more_prompts, pair_pick, report, result, shapes_page, ways_live, ways_page
from core.ui.desk import ALIVE, EXAMPLE, analysis, forget_run, read_only, submit
from core.ui.frame import page_path


def show(run: Run) -> None:
    """The whole page of a run."""
    if run.spec.extent == "side_by_side":
        st.switch_page(page_path("side_by_side"), query_params={"run": run.id})
    result.pair_header(run, "Example run" if run.id == EXAMPLE else "")
    if run.status in ALIVE:
        live.watch(run.id)
        if run.spec.extent == "ways":
            ways_live.so_far(run.id)
    elif is_record(run):
        _record(run)
    elif run.spec.extent == "ways":
        _ways(run)
    elif run.spec.extent == "shapes":
        shapes_page.show(run)
    else:
        _measured(run)


def _is_here(run: Run) -> bool:
    """Whether it can be measured again: its texts are here, and so are its models."""
    return run.imported is None and has_texts(run) and not read_only()


def _measured(run: Run) -> None:
    """The page of a measurement, or of a smoke test, that has ended."""
    full, here = run.spec.extent == "full", _is_here(run)
    found = analysis(run)
    report.show(found)
    with st.container(horizontal=True, vertical_alignment="center"):
        if not full:
            st.button("Measure this pair", type="primary", icon=":material/timer:", on_click=_take_pair, args=(run.spec,))
        elif run.status == "done" and st.button("Choose gamma", type="primary", icon=":material/ssid_chart:"):
            st.switch_page(page_path("gamma"), query_params={"run": run.id})
        if (
            here
            and run.status != "done"
            and st.button(
                "Measure again" if full else "Try again",
                type="primary" if full else "secondary",
                icon=":material/replay:",
                help="The same models, prompts, settings.",
            )
        ):
            submit(run.spec)
        if here and full and run.status == "done":
            more_prompts.button()
            st.page_link(page_path("side_by_side"), label="Watch it side by side", icon=":material/splitscreen_right:", query_params={"from": run.id})
            shapes_page.wider_button(run, found.costs if isinstance(found, Analysis) else None)
        st.button("New measurement", icon=":material/add:", on_click=forget_run)
    _group_link(run)
    _take_away(run, found)
    if full and run.status == "done":
        look.next_step("See the whole curve, and what the library's default would give.", "gamma", "Choose gamma", {"run": run.id})


def _group_link(run: Run) -> None:
    if run.spec.group:
        together = {"group": run.spec.group}
        st.page_link(page_path("measure"), label="All drafts that were measured together", icon=":material/leaderboard:", query_params=together)


def _ways(run: Run) -> None:
    """The page of a run in several ways. The way on is to watch the answer's pair; whether it can be watched the form there says."""
    choice, done, here = ways_page.show(run), run.status == "done", _is_here(run)
    pair = pair_pick.in_address(address(run.spec.target), [] if run.spec.draft == run.spec.target else [address(run.spec.draft)])
    with st.container(horizontal=True):
        if here and not done and st.button("Run again", type="primary", icon=":material/replay:", help="The same models, prompts, settings."):
            submit(run.spec)
        if done and st.button("Watch it side by side", type="primary", icon=":material/splitscreen_right:"):
            st.switch_page(page_path("side_by_side"), query_params=pair)
        if here and done:
            more_prompts.button()
        st.button("New measurement", icon=":material/add:", on_click=forget_run)
    _group_link(run)
    export_box.show(run)
    if done and choice.verdict == "use":
        look.next_step("See on one prompt, round by round, where the time goes.", "side_by_side", "Side by side", pair)
    else:
        look.next_step("Look for a draft that fits the target better.", "pair", "Pair", pair)


def _take_away(run: Run, found: Analysis | Unfinished) -> None:
    """What a run is for: the settings to deploy, and its link, files and report."""
    if isinstance(found, Analysis):
        deploy_box.show(found)
    export_box.show(run)


def _record(run: Run) -> None:
    """The page of a run that was imported without anything to replay."""
    imported_page.show(run)
    with st.container(horizontal=True):
        imported_page.what_if_button(run)
        st.button("New measurement", icon=":material/add:", on_click=forget_run)
    export_box.show(run)
    look.next_step("See where drafting pays with these values.", "gamma", "Choose gamma", {"run": run.id})


def _take_pair(spec: RunSpec) -> None:
    """Go on to measure the pair of a smoke test."""
    forget_run()
    pair_pick.choose(address(spec.target), [address(spec.draft)])
