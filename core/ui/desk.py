"""The pages' door to store, bench and results. The web process only reads what workers have finished.

One bench per server (`core.ui.once`). What is computed from a finished run is kept by its id, status and share id: a finished run never
changes, whoever may open it gets the same, and one that was removed for good and imported again, changed, has another share id. An
unusable data folder raises StoreError, which the router shows as a sentence.
"""

import contextlib

import streamlit as st

from core import demo
from core.analysis import Analysis, Unfinished, analyse, summary
from core.bench import Bench
from core.errors import DraftgaugeError, InvalidInput, StoreError
from core.planner import Planner
from core.runs import Run, RunSpec
from core.settings import Settings
from core.settings import load as load_settings
from core.store import EXAMPLE, Store, open_store
from core.ui import look
from core.ui.frame import page_path
from core.ui.once import Once
from core.ui.person import person

ALIVE = ("queued", "running")
PREWARM = ("cpu",)


@Once
def settings() -> Settings:
    """The settings this server was started with. Raises InvalidInput where one cannot be used."""
    return load_settings()


@Once
def _open() -> tuple[Store, Bench]:
    store = open_store(settings())
    try:
        return store, Bench(settings(), store, prewarm=PREWARM)
    except StoreError:
        store.close()
        raise


def read_only() -> bool:
    """Whether runs are only shown here; `frame` says so on every page, so a button that is disabled for this needs no words of its own."""
    return settings().read_only


def desk() -> tuple[Store, Bench]:
    """Store and bench; in a private installation the store shows the runs of whoever looks. Raises StoreError where it cannot be used."""
    store, bench = _open()
    return (store.seen_by(person()) if settings().private else store), bench


def everybodys() -> Store:
    """The store with the runs of all, for what concerns all: the queue, the clock. Raises StoreError."""
    return _open()[0]


@Once
def planner() -> Planner:
    """Where pages ask for what takes seconds to find out about a model; answers come when they are asked for again."""
    return Planner(settings(), timing=lambda: everybodys().timing())


def close() -> None:
    """Stop the workers and let go of the data folder, at the server's end; nothing where nobody has opened it."""
    for store, bench in _open.made():
        bench.close()
        store.close()
    for opened in planner.made():
        opened.close()


def queue(spec: RunSpec) -> str:
    """Queue one run for whoever looks at this page; its id, that of the same run where it was just asked for. Raises what the bench raises."""
    return desk()[1].submit(spec, person())


def submit(*specs: RunSpec) -> None:
    """Queue runs and go to their page, the group's for runs of one; where one cannot be run, say why, and how many are queued all the same."""
    queued: list[str] = []
    try:
        queued.extend(queue(spec) for spec in specs)  # one by one: those before an error are kept
        group = desk()[0].get(queued[0], results=False).spec.group  # after a double click the first click's
    except DraftgaugeError as error:
        st.error(look.plain(str(error)), icon=":material/error:")
        if queued:
            look.note(f"{len(queued)} of {len(specs)} runs are queued; they are listed on the start page.")
        return
    st.switch_page(page_path("measure"), query_params={"group": group} if group else {"run": queued[0]})


def run_id() -> str | None:
    """The run that this page is about: from the address, else the one last looked at; written back to the address."""
    chosen = st.query_params.get("run") or st.session_state.get("_run")
    if chosen:
        st.session_state["_run"] = chosen
        if st.query_params.get("run") != chosen:
            st.query_params["run"] = chosen
    return chosen


def forget_run() -> None:
    """Begin a page without a run."""
    st.session_state.pop("_run", None)
    st.query_params.pop("run", None)


def load(chosen: str, *, traces: bool = False) -> Run:
    """A run by its id, or the bundled example; the page ends with a sentence when there is none. Raises StoreError when it is damaged."""
    if chosen == EXAMPLE:
        return example()
    store, _ = desk()
    try:
        return store.get(chosen, traces=traces)
    except InvalidInput:
        st.session_state.pop("_run", None)
        look.headline("There is no such run here")
        st.markdown(f"The address asks for the run {look.code(chosen)}. It was measured on another machine, or its data folder was moved.")
        look.next_step("Measure a pair, or open the bundled example.", "start", "Start")
        st.stop()


def is_shared(run: Run) -> bool:
    """Whether the run is seen through its shared link, which changes nothing of it."""
    return run.id == run.share_id


@st.cache_resource(max_entries=1, show_spinner=False)
def example() -> Run:
    """The bundled example run."""
    return demo.example_run()


@st.cache_resource(max_entries=1, show_spinner=False)
def side_example() -> Run:
    """The bundled side-by-side run."""
    return demo.side_example()


@st.cache_resource(max_entries=32, show_spinner=False)
def _analysis(chosen: str, status: str, share_id: str) -> Analysis | Unfinished:
    del share_id  # part of the key alone
    if chosen == EXAMPLE:
        return analyse(example())
    store, _ = desk()
    run = store.get(chosen, traces=True)
    found = analyse(run)
    own = run.id != run.share_id and not read_only()
    if own and run.summary is None and status == "done" and isinstance(found, Analysis):
        with contextlib.suppress(StoreError):  # a list's empty cell is no reason not to show the run
            store.summarise(run.id, summary(found))
    return found


def analysis(run: Run) -> Analysis | Unfinished:
    """Everything that pages show of a run that has ended; computed once, then kept."""
    return _analysis(run.id, run.status, run.share_id)
