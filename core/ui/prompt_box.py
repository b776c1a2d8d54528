"""Pasted prompts that survive a page change and a reload: saved in the store on change, found again by an id in the address.

The text itself never goes into the address.
"""

import secrets
from collections.abc import Sequence

import streamlit as st

from core import demo, prompts
from core.errors import DraftgaugeError, InvalidInput
from core.runs import Prompt
from core.ui import look, numbers
from core.ui.desk import desk

TEXT, PASTED = "pasted_prompts", "pasted"
FORMAT = 'One prompt per line, or longer prompts separated by lines of `---`, or JSON Lines with `"prompt"` and an optional `"label"`.'


def is_open() -> bool:
    """Whether the address names pasted prompts."""
    return PASTED in st.query_params


def prompt_box() -> tuple[Prompt, ...]:
    """The text area with its live count; the prompts found in it, none when it is empty or cannot be read."""
    pasted_id = st.query_params.get(PASTED) or st.session_state.get("_pasted") or secrets.token_hex(6)
    st.session_state["_pasted"] = pasted_id
    store, _ = desk()
    if TEXT not in st.session_state:
        st.session_state[TEXT] = store.load_prompts(pasted_id) or ""
    if st.session_state[TEXT] and st.query_params.get(PASTED) != pasted_id:
        st.query_params[PASTED] = pasted_id
    text = st.text_area(
        "Prompts", height=260, key=TEXT, on_change=_save, args=(pasted_id,), label_visibility="collapsed", placeholder="Paste real traffic"
    )
    look.note(FORMAT)
    if not text.strip():
        return ()
    try:
        found = prompts.parse(text)
    except InvalidInput as error:
        st.error(look.plain(str(error)), icon=":material/error:")
        return ()
    st.markdown(f"**{count(found)}**")
    return tuple(found)


def bundled() -> tuple[Prompt, ...]:
    """The prompts of the embedded pair, to be read."""
    found = demo.prompts()
    st.markdown(f"**{count(found)}**")
    with st.expander("Read them"):
        for prompt in found:
            st.code(prompt.text, language=None, wrap_lines=True)
    return found


def count(found: Sequence[Prompt]) -> str:
    """How many prompts, and of which labels: 12 prompts: 8 code, 4 chat."""
    labels: dict[str, int] = {}
    for prompt in found:
        labels[prompt.label or "no label"] = labels.get(prompt.label or "no label", 0) + 1
    kinds = ", ".join(f"{number} {look.plain(label)}" for label, number in labels.items())
    return f"{numbers.counted(len(found), 'prompt')}{f': {kinds}' if set(labels) != {'no label'} else ''}"


def _save(pasted_id: str) -> None:
    try:
        desk()[0].save_prompts(pasted_id, st.session_state[TEXT])
    except DraftgaugeError as error:
        st.toast(look.plain(str(error)), icon=":material/error:")
    st.query_params[PASTED] = pasted_id
