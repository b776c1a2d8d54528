"""Pair: does each draft fit the target, in which engine, and what is it likely to cost, before anything is downloaded."""

import streamlit as st

from core import pair
from core.address import address
from core.candidates import View, gather
from core.ui import look, pair_cards, pair_pick, pair_search
from core.ui.desk import desk, planner, settings
from core.ui.frame import frame

LOOK_AGAIN_S = 0.7

frame()
desk()


def show(target: str, drafts: list[str], *, polling: bool) -> None:
    """The answers so far; while some are awaited this is drawn again and again, and the page starts over when all are there."""
    view = gather(planner().ask, target, drafts)
    if polling and not view.waiting:
        st.rerun()
    body(view)


def body(view: View) -> None:
    """Everything below the pickers."""
    pair_cards.cards(view.target, view.drafts, retry)


def retry(model: str) -> None:
    """Read a model's metadata anew."""
    planner().ask("describe", {"model": model}, again=True)


target, drafts = pair_pick.pickers([address(ref) for ref in pair.available(settings())])
pair_search.search()
if not (target and drafts):
    look.headline("Which drafts fit your target?")
    st.stop()
waiting = gather(planner().ask, target, drafts).waiting
st.fragment(show, run_every=LOOK_AGAIN_S if waiting else None)(target, drafts, polling=waiting)
look.next_step("Choose prompts and measure what the estimate cannot know.", "measure", "Measure")
