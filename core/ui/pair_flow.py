"""The four questions before a draft is deployed, drawn with one pair's answers; the third needs a run, the fourth a GPU."""

import streamlit as st

from core import prices
from core.analysis import Analysis
from core.candidates import Candidate, Setting, View
from core.flow import Flow, Measured, Question, flow
from core.memory import GpuMemory, fit, model_memory
from core.memory_fit import Verdict
from core.policies import describe
from core.suggest import suggest
from core.ui import desk, look

MARKS = {"yes": ":green[:material/check_circle:]", "no": ":orange[:material/cancel:]", "not known yet": ":gray[:material/help:]"}
CONTEXT_TOKENS = 4096
NEWEST = 50


def show(view: View, draft: Candidate, setting: Setting) -> None:
    """Four steps from left to right, and what follows from them below."""
    suggested, card = suggest(view.target.address, setting.device), prices.find_gpu(setting.device.name)
    known = draft.verdict_value, _measured(view, draft), _fits(view, draft, setting)
    found = flow(view.target.address, draft.model.address, suggested, *known, gpu=card.name if card else "")
    st.markdown(f"For {look.plain(view.target.name)} with {look.plain(draft.model.name)}:")
    for at, (question, column) in enumerate(zip(found.questions, st.columns(4, gap="small"), strict=True), 1):
        with column.container(border=True, height="stretch"):
            _step(at, question, found)
    st.markdown(f":material/arrow_forward: **{look.plain(found.step)}**")


def _step(at: int, question: Question, found: Flow) -> None:
    """One question; those after a "no" do not matter any more and are quiet."""
    text = f"{at}. {look.plain(question.text)}"
    behind = any(asked.answer == "no" for asked in found.questions[: at - 1])
    st.markdown(f":gray[{text}]" if behind else f"**{text}**")
    st.markdown(f"{MARKS[question.answer]} {question.answer}")
    look.note(look.plain(question.sentence))


def _measured(view: View, draft: Candidate) -> Measured | None:
    """What the newest finished run of this pair found, on this machine."""
    infos = view.target.usable, draft.model.usable
    if infos[0] is None or infos[1] is None:
        return None
    wanted = [(info.ref.source, info.ref.path) for info in infos if info]
    for run in desk.desk()[0].recent(NEWEST):
        if run.status == "done" and [(ref.source, ref.path) for ref in (run.spec.target, run.spec.draft)] == wanted:
            seen = desk.analysis(run)
            if isinstance(seen, Analysis):
                return Measured(seen.alpha.value, seen.costs.c, seen.advice.speedup, describe(seen.advice.policy))
    return None


def _fits(view: View, draft: Candidate, setting: Setting) -> tuple[Verdict, str] | None:
    """Whether both fit the GPU of the estimate, one request at a time; None on a CPU, and until both sizes are known."""
    card, own, other = prices.find_gpu(setting.device.name), view.target, draft.model
    if card is None or own.sizes is None or other.sizes is None or own.usable is None or other.usable is None:
        return None
    memory = GpuMemory(card.name, card.planning_bytes, f"{card.label_gb} GB")
    limit = own.sizes.context or CONTEXT_TOKENS
    context = min((setting.traffic.tokens if setting.traffic else 0) or CONTEXT_TOKENS, limit)
    found = fit(model_memory(own.sizes, own.usable.weights), model_memory(other.sizes, other.usable.weights), memory, context=context)
    return found.verdict, found.reason
