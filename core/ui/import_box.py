"""Import a run from elsewhere: a file or pasted text, what it is, and then into the store. A job reads it, never this process."""

import secrets

import streamlit as st

from core import prompt_files
from core.errors import DraftgaugeError
from core.imports import KINDS, Preview
from core.planner import Answer, Failed, Ready
from core.record import Record
from core.ui import desk, look, person
from core.ui.frame import page_path

LOOK_AGAIN_S = 0.5
PASTED = "pasted text"
LONGEST_PASTE = 200_000
_SOURCE, _PREVIEW, _PROBLEM, _TICKET, _COUNT = "_import_source", "_import_preview", "_import_problem", "_import_ticket", "_import_uploads"
HINT = "alpha 0.70, c 0.10 - or vLLM's /metrics page, its responses, or log lines of vLLM or llama.cpp"


class Kept(Record):
    """What is to be imported: its name, and its key in `core.prompt_files`."""

    name: str
    file: str


def show() -> None:
    """The folded section on the page of runs; nothing where runs are only shown."""
    if desk.settings().read_only:
        return
    with st.expander("Import a run, an engine's record, or two numbers", icon=":material/move_to_inbox:"):
        _inputs()
        problem = st.session_state.get(_PROBLEM, "")
        if problem:
            st.error(look.plain(problem), icon=":material/error:")
        kept: Kept | None = st.session_state.get(_SOURCE)
        if kept is not None:
            _look_at(kept)


def _inputs() -> None:
    left, right = st.columns(2, gap="medium")
    widget = f"import_file_{st.session_state.setdefault(_COUNT, 0)}"
    most = prompt_files.LARGEST_BYTES // 2**20
    with left:
        st.file_uploader("A file", type=list(KINDS), max_upload_size=most, key=widget, on_change=_take_file, args=(widget,))
    with right:
        st.text_area("Or its text", key="import_text", height=100, max_chars=LONGEST_PASTE, placeholder=HINT, on_change=_take_text)


def _take_file(widget: str) -> None:
    file = st.session_state[widget]
    _keep(None if file is None else (file.name, file.getvalue()))


def _take_text() -> None:
    text = st.session_state["import_text"]
    _keep((PASTED, text.encode(errors="replace")) if text.strip() else None)


def _keep(given: tuple[str, bytes] | None) -> None:
    for name in (_PROBLEM, _SOURCE, _PREVIEW, _TICKET, "import_gamma", "import_target", "import_draft"):
        st.session_state.pop(name, None)
    if given is None:
        return
    try:
        st.session_state[_SOURCE] = Kept(name=given[0], file=prompt_files.keep(given[1], desk.settings()))
    except DraftgaugeError as error:
        st.session_state[_PROBLEM] = str(error)


def _look_at(kept: Kept) -> None:
    """What it is; while it is read again with another draft length, what it was before, so that no input goes away."""
    asked: dict[str, object] = {"file": kept.file, "name": kept.name, "gamma": st.session_state.get("import_gamma")}
    answer = _ask(asked, "")
    if isinstance(answer, Failed):
        st.error(look.plain(answer.sentence), icon=":material/error:")
        return
    if isinstance(answer, Ready):
        st.session_state[_PREVIEW] = Preview.model_validate(answer.data["preview"])
    found: Preview | None = st.session_state.get(_PREVIEW)
    if found is not None:
        _describe(found)
    if isinstance(answer, Ready):
        _import(asked | {part: st.session_state.get(f"import_{part}") or "" for part in ("target", "draft")})
    else:
        _wait(answer, asked, "")


def _describe(found: Preview) -> None:
    """What it is, what it knows, and what can be added."""
    st.markdown(f"**This is {look.plain(found.words)}**: {look.plain(found.target)} with {look.plain(found.draft)}.")
    look.note("; ".join(f"{look.plain(name)}: {look.plain(value)}" for name, value in found.facts))
    if found.definition:
        look.note(look.plain(found.definition))
    if found.warning:
        st.warning(f"{look.plain(found.warning)} Its numbers may not be those that were measured.", icon=":material/edit_note:")
    if found.source == "draftgauge":
        return
    with st.container(horizontal=True):
        st.text_input("Target", key="import_target", max_chars=200, placeholder=found.target, width=260)
        st.text_input("Draft", key="import_draft", max_chars=200, placeholder=found.draft, width=260)
        if found.source == "llama_cpp" and (not found.knows_alpha or st.session_state.get("import_gamma")):
            why = "The most tokens that a round drafts (--draft-max). Only where every round drafts that many does alpha follow from it."
            st.number_input("Draft length", min_value=1, max_value=1000, value=None, step=1, key="import_gamma", help=why, width=160)


def _import(asked: dict[str, object]) -> None:
    """The button, and once it was pressed the way to the run. Every press imports once."""
    ticket: str = st.session_state.get(_TICKET, "")
    st.button("Import", icon=":material/move_to_inbox:", disabled=bool(ticket), on_click=_begin)
    if not ticket:
        return
    answer = _ask(asked, ticket)
    if isinstance(answer, Failed):
        st.session_state.pop(_TICKET)
        st.error(look.plain(answer.sentence), icon=":material/error:")
    elif isinstance(answer, Ready):
        _clear()
        st.switch_page(page_path("measure"), query_params={"run": str(answer.data["run"])})
    else:
        _wait(answer, asked, ticket)


def _begin() -> None:
    st.session_state[_TICKET] = secrets.token_hex(8)


def _clear() -> None:
    """A widget of a new key is an empty one."""
    _keep(None)
    st.session_state.pop("import_text", None)
    st.session_state[_COUNT] += 1


def _ask(asked: dict[str, object], ticket: str) -> Answer:
    return desk.planner().ask("import_run", {**asked, "ticket": ticket, "person": person.person()})


def _wait(answer: Answer, asked: dict[str, object], ticket: str) -> None:
    why = getattr(answer, "why", "")
    look.note(f":material/hourglass_empty: {'Importing' if ticket else 'Reading'}: {look.plain(why)}")
    st.fragment(_look_again, run_every=LOOK_AGAIN_S)(asked, ticket)


def _look_again(asked: dict[str, object], ticket: str) -> None:
    """Nothing to see; starts the page over when the answer is there."""
    if isinstance(_ask(asked, ticket), Ready | Failed):
        st.rerun()
