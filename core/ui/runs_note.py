"""Tags and note of one run. Two tabs notice each other: what another one saved meanwhile is shown beside one's own text, and neither is lost."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from core.errors import DraftgaugeError, InvalidInput
from core.history import Entry
from core.notes import MOST_NOTE_CHARACTERS, MOST_TAGS
from core.ui import look
from core.ui.desk import desk, read_only


@dataclass(frozen=True)
class _Keys:
    """Names in the session's state for one run. edition: the one that the shown texts come from. said: what came of saving."""

    run_id: str
    tags: str
    note: str
    edition: str
    said: str

    @classmethod
    def of(cls, run_id: str) -> "_Keys":
        return cls(run_id, *(f"{name}_{run_id}" for name in ("tags", "note", "edition", "said")))


def show(entry: Entry, known_tags: Sequence[str]) -> None:
    """The editor; in an installation that only shows runs, the text alone."""
    if read_only():
        _text(entry.tags, entry.note)
        return
    state, keys = st.session_state, _Keys.of(entry.id)
    if keys.note not in state:
        _take(keys, entry.edition, entry.tags, entry.note)
    with st.container(border=True):
        options = sorted({*known_tags, *entry.tags, *state[keys.tags]}, key=str.casefold)
        st.multiselect(
            "Tags", options, key=keys.tags, accept_new_options=True, max_selections=MOST_TAGS, placeholder="Choose or write a tag, then press Enter"
        )
        st.text_area("Note", key=keys.note, max_chars=MOST_NOTE_CHARACTERS, height=100)
        said = state.pop(keys.said, "")
        if (entry.tags, entry.note) == (tuple(state[keys.tags]), state[keys.note].strip()):
            state[keys.edition] = entry.edition  # another tab may have saved the very same
        if entry.edition != state[keys.edition]:
            _conflict(keys, entry, said)
            return
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button("Save", icon=":material/save:", key=f"save_{entry.id}", on_click=_save, args=(keys, state[keys.edition]))
            if said:
                look.note(look.plain(said))


def _conflict(keys: _Keys, entry: Entry, said: str) -> None:
    """Both texts, and which one to keep."""
    st.warning(look.plain(said or "Tags and note of this run were changed in another tab. Yours above are not saved."), icon=":material/edit_note:")
    st.markdown("**Saved by the other tab**")
    _text(entry.tags, entry.note)
    with st.container(horizontal=True):
        st.button("Save mine", key=f"mine_{entry.id}", on_click=_save, args=(keys, entry.edition))
        theirs = (keys, entry.edition, entry.tags, entry.note)
        st.button("Take theirs", key=f"theirs_{entry.id}", on_click=_take, args=theirs)


def _text(tags: Sequence[str], note: str) -> None:
    if tags:
        st.markdown(" ".join(f":gray-badge[{look.plain(tag)}]" for tag in tags))
    st.text(note or "No note.")


def _take(keys: _Keys, edition: int, tags: Sequence[str], note: str) -> None:
    state = st.session_state
    state[keys.edition], state[keys.tags], state[keys.note] = edition, list(tags), note


def _save(keys: _Keys, edition: int) -> None:
    state = st.session_state
    try:
        state[keys.edition] = desk()[0].edit(keys.run_id, edition, tags=state[keys.tags], note=state[keys.note])
        state[keys.said] = "Saved."
    except InvalidInput as error:
        state[keys.said] = str(error)
    except DraftgaugeError as error:
        state[keys.said] = f"Not saved: {error}"
