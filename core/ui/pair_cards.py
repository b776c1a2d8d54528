"""One card per draft: verdict, sizes, what it is likely to cost, what to know. A card that fails leaves the others alone.

Weights in GB (1e9 bytes), cache in KiB per token (bf16). Everything that came from a model's files is escaped.
"""

from collections.abc import Callable, Sequence

import streamlit as st

from core.candidates import Candidate, Known, Model
from core.planner import Failed, Waiting
from core.ui import look, numbers, pair_pick
from core.vocab import VocabVerdict

PER_ROW = 3
READING = ":gray-badge[:material/hourglass_empty: reading]"
BROKEN = ":red-badge[:material/error: cannot be used]"
Retry = Callable[[str], None]


def cards(target: Model, drafts: Sequence[Candidate], retry: Retry) -> None:
    """The cards, three to a row, of equal height in each row."""
    for first in range(0, len(drafts), PER_ROW):
        row = drafts[first : first + PER_ROW]
        columns = st.columns(PER_ROW if len(drafts) > 2 else max(2, len(row)), gap="medium")
        for at, (draft, column) in enumerate(zip(row, columns, strict=False), first):
            with column.container(border=True, height="stretch"):
                _card(target, draft, at, retry)


def badge(draft: Candidate) -> str:
    """The verdict as a coloured word."""
    if draft.model.problem or isinstance(draft.verdict, Failed):
        return BROKEN
    if not isinstance(draft.verdict, Known):
        return READING
    return verdict_badge(draft.verdict.value)


def verdict_badge(verdict: VocabVerdict) -> str:
    """Green where the pair runs as it is, orange where it takes more, red where measuring it is refused."""
    if verdict.native:
        word = "runs natively" if verdict.kind == "identical" else f"runs natively, {verdict.word}"
        return f":green-badge[:material/check_circle: {word}]"
    if verdict.kind == "same_size_different_map":
        return f":red-badge[:material/block: {verdict.word}]"
    icon = "translate" if verdict.kind == "different" else "width"
    return f":orange-badge[:material/{icon}: {'other vocabulary' if verdict.kind == 'different' else verdict.word}]"


def _card(target: Model, draft: Candidate, at: int, retry: Retry) -> None:
    st.markdown(f"**{look.plain(draft.model.name)}** {badge(draft)}")
    problem = draft.model.problem or (draft.verdict.sentence if isinstance(draft.verdict, Failed) else "")
    if problem:
        st.markdown(look.plain(problem))
        with st.container(horizontal=True):
            st.button("Try again", icon=":material/refresh:", key=f"retry_{at}", on_click=retry, args=(draft.model.address,))
            st.button("Remove", icon=":material/close:", key=f"remove_{at}", on_click=pair_pick.remove_draft, args=(draft.model.address,))
        return
    if isinstance(draft.verdict, Known):
        look.note(look.plain(draft.verdict.value.sentence))
    else:
        look.note(f"{look.plain(_awaited(draft))} ...")
    _figures(target, draft)


def _awaited(draft: Candidate) -> str:
    """What is being waited for, in words."""
    for part, what in ((draft.model.info, "its files"), (draft.verdict, "both vocabularies")):
        if isinstance(part, Waiting):
            return f"{part.why}: {what}"
    return "Reading the target"


def _figures(target: Model, draft: Candidate) -> None:
    facts = [*_sizes(target, draft.model), *_storage(target, draft.model)]
    for first in range(0, len(facts), 3):
        with st.container(horizontal=True, gap="small"):
            for fact in facts[first : first + 3]:
                st.metric(fact.label, fact.value, fact.spread or None, delta_color="off", delta_arrow="off", help=fact.meaning or None)
