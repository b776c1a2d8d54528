"""Alpha while the draft still reads: over the answers read so far, with its interval. Read from the store only when there is more."""

from dataclasses import dataclass

import streamlit as st

from core.acceptance import Alpha, alpha
from core.intervals import LEAST_PROMPTS
from core.runs import Run, Stage
from core.ui import look, numbers
from core.ui.desk import desk

AFTER: tuple[Stage, ...] = ("timing", "calibrating", "confirming")
"""Stages in which every answer has been read."""
_KEPT = "_partial_alpha"


@dataclass(frozen=True)
class _Seen:
    """What was read of a run when at least so many `answers` were there; reused: answers that an earlier run had left."""

    run_id: str
    answers: int
    alpha: Alpha | None
    reused: int


def show(run: Run) -> None:
    """One line, from the stage in which the draft reads; nothing before that."""
    progress = run.progress
    if run.spec.extent != "full" or progress.stage not in ("draft", *AFTER):
        return
    seen: _Seen | None = st.session_state.get(_KEPT)
    answers = progress.done if progress.stage == "draft" else len(run.spec.prompts)
    if seen is None or seen.run_id != run.id or seen.answers < answers:
        seen = st.session_state[_KEPT] = _read(run.id, answers)
    if seen.reused:
        look.note(f"{numbers.counted(seen.reused, 'answer')} of {len(run.spec.prompts)} reused from an earlier run: only the rest was written anew.")
    if seen.alpha:
        _say(seen.alpha, len(run.spec.prompts))


def _read(run_id: str, answers: int) -> _Seen:
    run = desk()[0].get(run_id, traces=True)
    reused = sum(g.reused for g in run.generations if g.purpose == "answer")
    return _Seen(run_id, max(answers, len(run.traces)), alpha(run) if run.traces else None, reused)


def _say(found: Alpha, prompts: int) -> None:
    bounds = f" {numbers.interval(found.for_traffic)}" if found.for_traffic else ""
    so_far = "" if found.prompts == prompts else f" so far, {found.prompts} of {prompts} prompts"
    few = "" if found.for_traffic else f" An interval comes with prompt {LEAST_PROMPTS}." if found.prompts < LEAST_PROMPTS <= prompts else ""
    st.markdown(f"**alpha {found.value:.2f}{bounds}**{so_far} {look.ORIGINS['replayed']}{few}")
