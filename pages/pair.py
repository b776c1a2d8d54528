"""Pair: does each draft fit the target, in which engine, and what is it likely to cost, before anything is downloaded."""

from collections.abc import Callable

import streamlit as st

from core.candidates import Setting, View, gather, read_again
from core.errors import DraftgaugeError
from core.ui import (
    look,
    pair_begin,
    pair_cards,
    pair_chart,
    pair_device,
    pair_engines,
    pair_flow,
    pair_head,
    pair_measure,
    pair_more,
    pair_pick,
    pair_search,
    pair_shapes,
    pair_table,
    pair_why,
)
from core.ui.desk import desk, planner, settings
from core.ui.frame import frame

LOOK_AGAIN_S = 1.0

frame()
desk()


def show(target: str, drafts: list[str], setting: Setting, *, polling: bool) -> None:
    """The answers so far; while some are awaited this is drawn again and again, and the page starts over when all are there.

    Reruns of a fragment do not pass the router, so errors are told here.
    """
    view = gather(planner().ask, target, drafts, setting)
    if polling and not view.waiting:
        st.rerun()
    try:
        body(view, setting)
    except DraftgaugeError as error:
        st.error(look.plain(str(error)), icon=":material/error:")


def body(view: View, setting: Setting) -> None:
    """Everything below the pickers; one card alone stands beside its chart."""
    if not view.drafts:
        pair_begin.without_drafts(view, setting)
        return
    pair_head.headline(view, pair_device.place(setting))
    if view.target.problem:
        st.button("Try again", icon=":material/refresh:", on_click=again, args=(view.target.address,))
        if view.target.shape is None:
            return
    alone = len(view.drafts) == 1
    if not alone:
        pair_cards.cards(view.target, view.drafts, again)
        st.space("small")
    left, right = st.columns([1, 1] if alone else [3, 2], gap="large")
    with left:
        if alone:
            pair_cards.cards(view.target, view.drafts, again)
        else:
            pair_chart.expected(view.drafts, pair_device.place(setting))
    with right:
        if alone:
            pair_chart.expected(view.drafts, pair_device.place(setting))
        looked_at = pair_engines.show(view) or view.drafts[0]
    pair_measure.button(view)
    folded("Time this pair from its configs", "speed", lambda: pair_shapes.show(view))
    folded("All figures as a table", "table", lambda: pair_table.table(view))
    folded("Four questions, answered for this pair", "account_tree", lambda: pair_flow.show(view, looked_at, setting))
    folded("More drafts to try", "family_history", lambda: pair_begin.more(view, setting))
    folded("If nothing fits, or nothing pays", "alt_route", lambda: pair_more.show(view))
    folded("What was read, and when", "history", lambda: pair_why.origins(view, again))


def folded(label: str, icon: str, draw: Callable[[], None]) -> None:
    """A part that is drawn only when it is looked at."""
    part = st.expander(label, icon=f":material/{icon}:", on_change="rerun", key=f"folded_{icon}")
    if part.open:
        with part:
            draw()


def again(model: str) -> None:
    """Read a model's metadata anew."""
    if target:
        read_again(planner().ask, target, model)


with st.container(horizontal=True):
    target, drafts = pair_pick.pickers(pair_pick.offered(settings()), widths=(320, 640))
with st.container(horizontal=True, gap="small"):
    pair_search.search()
    setting = pair_device.choose()
if not target:
    pair_begin.empty()
    st.stop()
waiting = gather(planner().ask, target, drafts, setting).waiting
st.fragment(show, run_every=LOOK_AGAIN_S if waiting else None)(target, drafts, setting, polling=waiting)
look.next_step("Choose prompts and measure what the estimate cannot know.", "measure", "Measure")
