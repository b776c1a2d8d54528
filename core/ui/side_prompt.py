"""The prompt of a side-by-side run: typed, taken from a measurement, or the next turn of a conversation.

The text is kept in the session, and under an id in the store so that a reload finds it again; it never goes into the address.
"""

from collections.abc import Sequence

import streamlit as st

from core.errors import DraftgaugeError
from core.runs import Message, Prompt, Run
from core.side import answer_of
from core.side_ask import MOST_CHARACTERS, continued, problem, prompt_of
from core.ui import desk, look, person

TEXT, TAKEN, SAVED, HISTORY = "side_text", "side_taken", "text", "_side_history"
_OWN = "_side_own_text"
KIND = "side-"
"""Before the ids of these texts in the store, which keeps them beside the prompts of other pages."""
HIGH_PX = 150
LONGEST = 20 * MOST_CHARACTERS
"""Of what is taken from a browser at all; between the two a sentence says that it is too long."""
HELP = "Adds the answer to the conversation, for the next turn; without a chat template the text goes on from it."


def prompt_box(offered: Sequence[Prompt], *, chat_template: bool) -> Prompt | None:
    """The text, what it begins from, and the conversation before it; None while it cannot be used."""
    _begin(offered)
    places = range(len(offered))
    words = [short(prompt.text) for prompt in offered]
    st.selectbox(
        "Begin from a prompt",
        places,
        index=None,
        format_func=words.__getitem__,
        key=TAKEN,
        on_change=_take_chosen,
        args=(tuple(offered),),
        placeholder="Choose one, or write your own below",
    )
    history = _history(chat_template=chat_template)
    hint = "What should both answer?"
    text = st.text_area("Prompt", key=TEXT, height=HIGH_PX, max_chars=LONGEST, persist_state="session", on_change=_save, placeholder=hint)
    why = problem(text or "")
    if why:
        (st.error if text else look.note)(look.plain(why))
        return None
    return prompt_of(text, history, chat_template=chat_template)


def is_own() -> bool:
    """Whether somebody has typed or chosen the text, so that it must not be replaced by itself."""
    return bool(st.session_state.get(_OWN)) or SAVED in st.query_params


def proceed(run: Run) -> None:
    """Go on from a finished run: its answer, then the next turn; for models without a template the text with its answer."""
    answer = answer_of(run)
    if run.spec.chat_template:
        st.session_state[HISTORY] = continued(run.spec.prompts[0], answer)
        st.session_state[TEXT] = ""
    else:
        st.session_state[HISTORY] = ()
        st.session_state[TEXT] = (run.spec.prompts[0].text + answer)[:MOST_CHARACTERS]


def _take_chosen(offered: tuple[Prompt, ...]) -> None:
    chosen = st.session_state.get(TAKEN)
    if chosen is not None:
        take(offered[chosen])
        _save()


def take(prompt: Prompt) -> None:
    """Put a prompt and the turns before it into the form; only before it is drawn."""
    st.session_state[TEXT] = prompt.text
    st.session_state[HISTORY] = prompt.messages[:-1]


def _begin(offered: Sequence[Prompt]) -> None:
    """The first text of this session: what was saved under the address's id, else the first prompt offered."""
    if TEXT in st.session_state:
        return
    saved = st.query_params.get(SAVED)
    kept = desk.desk()[0].load_prompts(person.own(saved, KIND)) if saved else None
    if kept is None and offered:
        take(offered[0])
    else:
        st.session_state[TEXT] = kept or ""


def _save() -> None:
    """Keep the text in the store, and its id in the address; in the session alone where runs are only shown."""
    st.session_state[_OWN] = True
    if desk.read_only():
        return
    try:
        saved = st.query_params[SAVED] = person.draft_id(st.query_params.get(SAVED, ""))
        desk.desk()[0].save_prompts(person.own(saved, KIND), st.session_state.get(TEXT) or "", account=person.signed_in())
    except DraftgaugeError as error:
        st.toast(look.plain(str(error)), icon=":material/error:")


def _history(*, chat_template: bool) -> tuple[Message, ...]:
    """The turns before this one, which need a chat template."""
    history: tuple[Message, ...] = st.session_state.get(HISTORY, ())
    if not history:
        return ()
    if not chat_template:
        st.warning(f"The {len(history)} turns before this one need the chat template, which is off: only the text below is read.")
    with st.expander(f"{len(history)} turns before this one", icon=":material/forum:"):
        for turn in history:
            look.note(look.plain(turn.role))
            st.code(turn.content, language=None, wrap_lines=True)
    st.button("Forget them", icon=":material/close:", key="side_forget", on_click=lambda: st.session_state.pop(HISTORY, None))
    return history


def short(text: str, most: int = 80) -> str:
    """The beginning of a text on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
