"""Which prompts are measured: the bundled ones, or one's own by paste and upload."""

from collections.abc import Sequence

import streamlit as st

from core.intervals import LEAST_PROMPTS
from core.prompt_rows import NO_LIMIT
from core.runs import Prompt
from core.ui import look, prompt_box, prompt_table

SOURCES = {"bundled": "Bundled prompts", "pasted": "Your prompts"}


def prompt_source(target: str, drafts: Sequence[str], max_new_tokens: int, *, chat_template: bool) -> tuple[Prompt, ...]:
    """The switch between both, and what the chosen one holds; none while there is nothing to measure.

    target, drafts: model addresses, "" for none; their tokenizer counts, and their context limits.
    """
    source = st.segmented_control(
        "Prompts",
        list(SOURCES),
        format_func=SOURCES.__getitem__,
        default="pasted" if prompt_box.is_open() else "bundled",
        required=True,
        key="source",
        persist_state="session",
        label_visibility="collapsed",
    )
    room = prompt_table.pair_room(target, drafts) if target and drafts else NO_LIMIT
    if source != "pasted":
        return prompt_table.fitting(prompt_box.bundled(), target, room, max_new_tokens, chat_template=chat_template)
    return prompt_box.prompt_box(target, room, max_new_tokens, chat_template=chat_template)


def first_of(found: tuple[Prompt, ...]) -> tuple[Prompt, ...]:
    """As many as are wanted, and what their number means for the verdict."""
    if not found:
        look.note("Paste at least one prompt to measure.")
        return ()
    few = "The first so many. 24 or more give a useful interval."
    most = st.number_input("Number of prompts", min_value=1, max_value=len(found), value=len(found), step=1, help=few, width=260)
    if most < LEAST_PROMPTS:
        look.note(f"Below {LEAST_PROMPTS} prompts there is no interval for other traffic, and so no verdict.")
    return found[:most]
