"""The four questions in their order with the step that a "no" leads to; the pair page answers them for a pair."""

import streamlit as st

from core.flow import RUN, flow
from core.ui import look
from core.ui.frame import page_path


def show() -> None:
    """One line per question, and what to do when all are answered yes."""
    for number, question in enumerate(flow("", "").questions, 1):
        st.markdown(f"**{number}. {look.plain(question.text)}**  \n:small[:gray[If not: {look.plain(question.otherwise)}]]")
    st.markdown(f"**Four times yes:** {look.plain(RUN)}")
    st.page_link(page_path("pair"), label="Answer them for a pair", icon=":material/arrow_forward:")
