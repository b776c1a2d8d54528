"""The settings to deploy on a run's page: one engine at a time, its code to copy, and what does not carry over to it."""

import streamlit as st

from core import deploy
from core.analysis import Analysis
from core.deploy import EngineSettings
from core.ui import look


def show(analysis: Analysis) -> None:
    """For the recommendation of a run, plain decoding included."""
    st.subheader("Settings to deploy", anchor=False)
    st.markdown(look.plain(deploy.answer(analysis)))
    every = deploy.settings_for(analysis)
    names = [each.engine for each in every]
    chosen = st.segmented_control(
        "Engine", names, default=names[0], required=True, key="engine_to_deploy", label_visibility="collapsed", bind="query-params"
    )
    _one(next((each for each in every if each.engine == chosen), every[0]))


def _one(found: EngineSettings) -> None:
    off = f" To switch it off, {look.plain(found.off)}." if found.off else ""
    st.markdown(f"{look.plain(found.does)}{off}")
    if found.code:
        long = found.code.count("\n") > 20
        st.code(found.code, language=found.language, wrap_lines=found.language == "bash", height=420 if long else "content")
    st.markdown("\n".join(f"- :small[:gray[{look.plain(note)}]]" for note in found.notes))
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        tried = "Draftgauge's tests run such scripts on the demo pair as they stand."
        look.note(tried if found.executed else "Read, not run here: try it before you rely on it.")
        st.page_link(found.source, label=f"Documentation, seen {found.seen}", icon=":material/open_in_new:")
