"""A guided tour in words: what to press, in which order, and what to look at; about two minutes."""

import streamlit as st

from core.ui.desk import EXAMPLE
from core.ui.frame import page_path

STOPS = (
    ("Open the example", "gamma", {"run": EXAMPLE}, "The headline is the answer; dashed is the formula, diamonds are real runs."),
    ("See its answers", "measure", {"run": EXAMPLE}, "Acceptance by kind of prompt, who wrote which token, and where every number comes from."),
    ("Watch a race", "side_by_side", {}, "The same prompt plain and assisted, on one clock. The text is the same; the time is not."),
    ("Count the money", "memory_cost", {"run": EXAMPLE}, "What both models take of a GPU, and what the measured speedup saves a month."),
    ("Choose your own pair", "pair", {}, "Verdicts before anything is downloaded. Then measure, with your own prompts."),
)


def show() -> None:
    """Five stops, each with its link."""
    for number, (label, page, query, what) in enumerate(STOPS, 1):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.page_link(page_path(page), label=f"**{number}. {label}**", query_params=query)
            st.markdown(what)
