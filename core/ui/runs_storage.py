"""What the store takes on the disk, and cleaning up: what was deleted is kept until somebody removes it for good.

Rewriting a large store takes seconds and makes writers wait, so it is done in a thread of its own and not while a run is measured.
"""

import time
from concurrent.futures import Future, ThreadPoolExecutor

import streamlit as st

from core.errors import DraftgaugeError
from core.planner import Planner
from core.store import Store
from core.ui import look, numbers
from core.ui.desk import desk, everybodys, planner, read_only
from core.ui.once import Once

AGES = {"whenever it was deleted": 0.0, "deleted over 7 days ago": 7 * 86_400.0, "deleted over 30 days ago": 30 * 86_400.0}
HOLD_TEXTS = ("report", "prompt_preview", "import_prompts")
"""Jobs whose answers repeat prompts and answers; they are made anew when somebody asks."""
_TASK, _SAID = "_tidying", "_tidied"


@Once
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="draftgauge-tidy")


def show() -> None:
    """The folded section at the end of the list."""
    store, _ = desk()
    taken = store.size_bytes()
    label = "Storage" if taken is None else f"Storage: {numbers.file_size(taken)}"
    busy = st.session_state.get(_TASK) is not None or _SAID in st.session_state  # another size is another label, and so a folded section
    with st.expander(label, icon=":material/database:", expanded=busy):
        if st.session_state.get(_TASK) is not None:
            _wait()
            return
        deleted = store.deleted()
        if deleted.runs:
            st.markdown(f"{numbers.counted(deleted.runs, 'deleted run')} can still be restored, about {numbers.file_size(deleted.size_bytes)}.")
        else:
            look.note("Nothing is deleted. Runs are kept until you delete them; the column “Size” shows what each takes.")
        if said := st.session_state.pop(_SAID, ""):
            look.note(look.plain(said))
        if not read_only():
            _buttons(deleted.runs)


def _buttons(deleted: int) -> None:
    measuring = _is_measuring()
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        age = st.selectbox("Remove for good", list(AGES), key="purge_age", width=260, disabled=not deleted)
        st.button("Remove and compact", icon=":material/cleaning_services:", disabled=measuring, on_click=_begin, args=(AGES[age],))
        st.button("Restore all deleted", icon=":material/undo:", disabled=not deleted, on_click=_restore)
    look.note("Waits until nothing is measured." if measuring else "What is removed for good cannot be restored. Compacting gives free room back.")


def _is_measuring() -> bool:
    """Whether anything is measured, whoever asked for it."""
    return any(entry.status == "running" for entry in everybodys().alive())


def _begin(age_s: float) -> None:
    """Begin to clean up, unless a run was begun since the page was drawn."""
    state = st.session_state
    try:
        if _is_measuring():
            state[_SAID] = "A run is being measured, so nothing was removed. Try again when it has ended."
        else:
            state[_TASK] = _thread().submit(_tidy, desk()[0], planner(), time.time() - age_s)
    except DraftgaugeError as error:
        state[_SAID] = str(error)


def _tidy(store: Store, jobs: Planner, before_s: float) -> str:
    """Remove runs and what else holds their texts, and compact; what there is to say."""
    try:
        before = store.size_bytes() or 0
        removed = store.purge(before_s)
        for task in HOLD_TEXTS if removed else ():
            jobs.forget(task)
        store.compact()
        freed = max(0, before - (store.size_bytes() or 0))
    except DraftgaugeError as error:
        return str(error)
    return f"Removed {numbers.counted(removed, 'run')}; {numbers.file_size(freed)} are free again."


@st.fragment(run_every=0.5)
def _wait() -> None:
    task: Future[str] = st.session_state[_TASK]
    if task.done():
        st.session_state[_TASK], st.session_state[_SAID] = None, task.result()
        st.rerun()
    look.note(":material/cleaning_services: Removing and compacting…")


def _restore() -> None:
    try:
        st.session_state[_SAID] = f"Restored {numbers.counted(desk()[0].restore(), 'run')}."
    except DraftgaugeError as error:
        st.session_state[_SAID] = str(error)
