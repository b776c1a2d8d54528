"""The draft of the prompts in this session: saved in the store on change, found again by an id in the address.

The text itself never goes into the address.
"""

import secrets

import streamlit as st

from core.errors import DraftgaugeError, StoreError
from core.prompt_draft import Draft
from core.ui import desk, look, person

PASTED = "pasted"
_ID, _DRAFT = "_pasted", "_prompt_draft"


def is_open() -> bool:
    """Whether the address names prompts of one's own."""
    return PASTED in st.query_params


def draft() -> Draft:
    """What was done so far, from the session, else from the store. A damaged one is said to be so, and an empty one begun."""
    wanted = draft_id()
    known = st.session_state.get(_DRAFT)
    if known is None or known[0] != wanted:
        try:
            known = (wanted, Draft.read(desk.desk()[0].load_prompts(person.own(wanted))))
        except StoreError as error:
            st.error(look.plain(str(error)), icon=":material/error:")
            known = (wanted, Draft())
        st.session_state[_DRAFT] = known
    if known[1] != Draft() and st.query_params.get(PASTED) != wanted:
        st.query_params[PASTED] = wanted
    return known[1]


def draft_id() -> str:
    """The id under which the prompts are found."""
    found = st.query_params.get(PASTED) or st.session_state.get(_ID) or secrets.token_hex(6)
    st.session_state[_ID] = found
    return found


def save(changed: Draft) -> None:
    """Keep the draft, in this session even where the store cannot be written, and only there where runs are only shown."""
    wanted = draft_id()
    if not desk.read_only():
        try:
            wanted = person.draft_id(wanted)
            desk.desk()[0].save_prompts(person.own(wanted), changed.saved(), account=person.signed_in())
        except DraftgaugeError as error:
            st.toast(look.plain(str(error)), icon=":material/error:")
        st.query_params[PASTED] = wanted
    st.session_state[_ID], st.session_state[_DRAFT] = wanted, (wanted, changed)
