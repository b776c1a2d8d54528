"""The way on: measure the drafts that fit, really run those with other tokens. Prompts are chosen on the next page, one run per draft is queued."""

import streamlit as st

from core.analysis import sentence_case
from core.candidates import Candidate, View
from core.ui import look, numbers, pair_pick
from core.ui.desk import forget_run
from core.ui.frame import page_path


def button(view: View) -> None:
    """The one primary button; disabled with the reason where no draft fits."""
    fitting, real = ([draft for draft in view.drafts if each(draft)] for each in (_fits, _translates))
    chosen = [draft.model.address for draft in view.drafts if draft in (*fitting, *real)]
    measured = f"Measure {numbers.counted(len(fitting), 'draft')}" if fitting else ""
    label = ", ".join(part for part in (measured, _real(len(real), alone=not fitting) if real else "") if part) or "Measure"
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button(
            sentence_case(label),
            type="primary",
            icon=":material/timer:",
            disabled=not chosen,
            on_click=pair_pick.choose,
            args=(view.target.address, chosen),
        )
        look.note(_what_happens(view, fitting, real))
    if pressed:
        forget_run()
        st.switch_page(page_path("measure"), query_params=pair_pick.in_address(view.target.address, chosen))


def _real(count: int, *, alone: bool) -> str:
    return f"run {numbers.counted(count, 'draft')} for real" if alone else f"run {count} for real"


def _fits(draft: Candidate) -> bool:
    return draft.fits


def _translates(draft: Candidate) -> bool:
    return draft.translates


def _what_happens(view: View, fitting: list[Candidate], real: list[Candidate]) -> str:
    if not fitting and not real:
        return _why_not(view)
    runs = "Prompts are chosen on the next page" + (", then one run per draft is queued." if len(fitting) + len(real) > 1 else ".")
    if real:
        names = ", ".join(look.plain(draft.model.name) for draft in real)
        runs += f" {names}: other tokens, so it is really run and timed, and nothing is replayed."
    download = _download_bytes(view, [*fitting, *real])
    size = f" {numbers.file_size(download)} to download, unless already here." if download else ""
    out = [draft.model.name for draft in view.drafts if not draft.fits and not draft.translates and not _awaited(draft)]
    left = f" Left out: {', '.join(map(look.plain, out))}." if out else ""
    return f"{runs}{size}{left}"


def _why_not(view: View) -> str:
    if view.waiting:
        return "Nothing can be measured before the vocabularies are compared."
    if any(draft.model.refusal for draft in view.drafts):
        return "A draft that cannot be used is not measured; its card says why."
    if hopeless := next((draft.verdict_value.hopeless for draft in view.drafts if draft.verdict_value and draft.verdict_value.hopeless), ""):
        return hopeless
    if not any(draft.verdict_value for draft in view.drafts):
        return "Only pairs whose vocabularies were compared are measured."
    if any(draft.verdict_value and draft.verdict_value.kind == "same_size_different_map" for draft in view.drafts):
        return "Refused: the sizes are equal but the ids stand for other tokens. The library would run this pair without a word, and slower."
    return "Only pairs that run in Transformers are measured here: ids that stand for the same tokens, or vocabularies of different sizes."


def _awaited(draft: Candidate) -> bool:
    return not draft.problem and draft.verdict_value is None


def _download_bytes(view: View, fitting: list[Candidate]) -> int:
    """Weights of the Hub models among them, as stored."""
    infos = [model.usable for model in (view.target, *(draft.model for draft in fitting)) if model.usable]
    return sum(info.weights.bytes for info in infos if info.ref.source == "hub" and info.weights)
