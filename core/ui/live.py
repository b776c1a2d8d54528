"""A run that waits or runs: stage, count, time, queue position, cancel. Polls once per second, and only then."""

import streamlit as st

from core import wait
from core.runs import TIMED, Extent, Progress, Run, RunSpec, Stage
from core.ui import look, numbers, partial_alpha, waiting
from core.ui.desk import ALIVE, desk, is_shared, read_only
from core.ui.polling import polled

WORDS: dict[Stage, str] = {
    "queued": "Waiting for the device",
    "download": "Downloading what is missing",
    "load": "Loading both models",
    "smoke": "Writing eight tokens, plain and with the draft",
    "plain": "The target writes its answers",
    "draft": "The draft reads every answer",
    "timing": "Timing single passes",
    "calibrating": "Calibrating the loop against plain runs",
    "confirming": "Confirming the best settings by real runs",
    "writing": "Writing the answers side by side",
    "ways": "Writing every prompt in each way, beside plain decoding",
    "shapes": "Timing single passes, batch by batch and length by length",
    "done": "Done",
}
HELD = ": another Draftgauge on this machine measures on it, and this run begins when that has ended"
STOPS = "It is being stopped, which takes up to a few seconds. What was measured so far is kept."
COUNTED: dict[Stage, str] = {
    "plain": "prompt",
    "draft": "prompt",
    "timing": "step",
    "calibrating": "prompt",
    "confirming": "comparison",
    "ways": "prompt",
    "shapes": "combination",
}
"""What the steps of a stage are; stages that are not here show no count."""
TITLES: dict[Extent, tuple[str, str]] = {
    "full": ("Waiting to be measured", "Measuring"),
    "smoke": ("Waiting to be tried", "Trying eight tokens"),
    "ways": ("Waiting to be measured", "Measuring in several ways"),
    "shapes": ("Waiting to be timed", "Timing passes"),
}
"""While it waits, and while it runs."""
STAGES: dict[Extent, frozenset[Stage]] = {"smoke": frozenset({"smoke"}), "ways": frozenset({"ways"}), "shapes": frozenset({"shapes"})}
"""What a run of that extent goes through beside downloading and loading; a measurement where none is named."""
MEASURING = TIMED - {"writing", "ways", "shapes"}


@polled(1.0)
def watch(run_id: str) -> None:
    """The live state; when the run has ended the whole page starts over."""
    store, bench = desk()
    run = store.get(run_id, results=False)
    if run.status not in ALIVE:
        st.rerun()
    look.headline(_title(run))
    if run.status == "queued":
        _waiting(waiting.place(run_id))
    else:
        _running(run, going=not bench.trouble())
    stays = "What was measured so far is kept."
    if not is_shared(run) and st.button("Cancel", icon=":material/stop_circle:", key="cancel_run", help=stays, disabled=read_only()):
        bench.cancel(run_id)
        st.toast(STOPS, icon=":material/stop_circle:")
    look.note("You can close this page; the run goes on, and this address leads back to it.")


def _title(run: Run) -> str:
    waits, doing = TITLES.get(run.spec.extent, TITLES["full"])
    if run.status != "running" or run.progress.held:
        return waits
    return "Downloading" if run.progress.stage == "download" else doing


def _waiting(place: str) -> None:
    st.progress(0.0, f"**{WORDS['queued']}**{f': {place}' if place else ''}")


def _running(run: Run, going: bool) -> None:
    """going: whether anything can be written; while a full disk holds everything up, nobody knows how long it takes."""
    progress = run.progress
    if progress.held:
        _waiting(f"{HELD.removeprefix(': ')}.")
        return
    behind = _downloaded(progress) if progress.stage == "download" else so_far(run)
    elapsed_s = waiting.elapsed_s(run)
    quiet = " Please keep the machine quiet: it is being timed." if progress.stage in TIMED else ""
    stage = "load" if progress.stage == "queued" else progress.stage  # it has begun, and has not said so yet
    st.progress(behind, f"**{WORDS[stage]}**{count(progress)}")
    look.note(f"{numbers.duration(elapsed_s)} so far{_remaining(run) if going else ''}.{quiet}")
    partial_alpha.show(run)
    st.markdown(_stages(progress.stage, run.spec))


def count(progress: Progress) -> str:
    """How far a stage is, in its own words: ", prompt 3 of 12"; empty where there is nothing to count."""
    if progress.held:
        return HELD
    if progress.stage == "download" and progress.total:
        return f", {progress.done / 1e9:,.2f} of {progress.total / 1e9:,.2f} GB"
    word = COUNTED.get(progress.stage)
    return f", {word} {min(progress.done + 1, progress.total)} of {progress.total}" if word and progress.total > 1 else ""


def _downloaded(progress: Progress) -> float:
    """A download fills a bar of its own; how long it takes says nothing about the measurement."""
    return min(1.0, progress.done / progress.total) if progress.total else 0.0


def so_far(run: Run) -> float:
    """How much of the whole is behind it, 0..1; never less than was shown before, as when the confirmation goes through the prompts again."""
    shown, most = st.session_state.get("_progress", ("", 0.0))
    most = min(1.0, max(run.progress.fraction, most if shown == run.id else 0.0))
    st.session_state["_progress"] = (run.id, most)
    return most


def _remaining(run: Run) -> str:
    """An estimate once a tenth is behind us; before that it would be a guess."""
    left_s = waiting.left_s(run) if run.progress.fraction >= wait.EARLY else None
    if left_s is None:
        return ""
    return f", about {numbers.duration(left_s)} to go" if left_s >= 1 else ", nearly done"


def _stages(now: Stage, spec: RunSpec) -> str:
    """Every stage of this run in its order, one line each: done, current, to come."""
    goes_through: set[Stage] = {"load", *STAGES.get(spec.extent, MEASURING)}
    if "hub" in (spec.target.source, spec.draft.source):
        goes_through.add("download")
    names: list[Stage] = [stage for stage in WORDS if stage in goes_through]
    at = names.index(now) if now in names else 0
    done = [f":green[:material/check_circle:] {WORDS[name]}" for name in names[:at]]
    current = [f":material/pending: **{WORDS[names[at]]}**"]
    to_come = [f":gray[:material/circle: {WORDS[name]}]" for name in names[at + 1 :]]
    return "  \n".join(done + current + to_come)
