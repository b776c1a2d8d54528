"""One card per draft: verdict, sizes, what it is likely to cost, what to know. A card that fails leaves the others alone.

Weights in GB (1e9 bytes), cache in KiB per token (bf16). Everything that came from a model's files is escaped.
"""

from collections.abc import Callable, Sequence

import streamlit as st

from core.advice import Advice
from core.candidates import Candidate, Known, Model, promised
from core.engines import intersection
from core.model_info import Weights
from core.planner import Failed, Waiting
from core.ui import look, numbers, pair_pick, pair_smoke, pair_why
from core.ui.look import Fact
from core.vocab import VocabVerdict

PER_ROW = 3
MOST_WARNINGS = 2
AWAITED, MISSING, NOT_KNOWN = "…", "?", "not known"
"""One sign fits into a column at 400 pixels; the words stand below it."""
READING = ":gray-badge[:material/hourglass_empty: reading]"
NOT_COMPARED = ":gray-badge[:material/help: not compared]"
UNREAD = ":orange-badge[:material/cloud_off: not read]"
FROM_TABLE = "From the table of families that is built in; whether it fits is not known."
BROKEN = ":red-badge[:material/error: cannot be used]"
Retry = Callable[[str], None]


def cards(target: Model, drafts: Sequence[Candidate], retry: Retry) -> None:
    """The cards, three to a row, of equal height in each row."""
    for first in range(0, len(drafts), PER_ROW):
        row = drafts[first : first + PER_ROW]
        columns = st.columns(min(PER_ROW, len(drafts)), gap="medium")
        for at, (draft, column) in enumerate(zip(row, columns, strict=False), first):
            with column.container(border=True, height="stretch"):
                _card(target, draft, at, retry)


def badge(target: Model, draft: Candidate) -> str:
    """The verdict as a coloured word."""
    if draft.problem:
        return UNREAD if draft.model.listed else BROKEN
    if target.problem:
        return NOT_COMPARED
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
    st.markdown(f"**{look.plain(draft.model.name)}** {badge(target, draft)}")
    if draft.problem:
        st.markdown(look.plain(draft.problem))
        with st.container(horizontal=True):
            st.button("Try again", icon=":material/refresh:", key=f"retry_{at}", on_click=retry, args=(draft.model.address,))
            st.button("Remove", icon=":material/close:", key=f"remove_{at}", on_click=pair_pick.remove_draft, args=(draft.model.address,))
        if draft.model.listed:
            look.note(FROM_TABLE)
            _figures(target, draft)
        return
    look.note(look.plain(_finding(target, draft)))
    if draft.verdict_value and not draft.verdict_value.native:
        look.note(look.plain(intersection(draft.verdict_value)))
    _figures(target, draft)
    _sizes_problem(target, draft.model, at, retry)
    for said in _foremost(draft):
        st.markdown(pair_why.short(said))
    pair_smoke.smoke(target, draft, at)
    pair_why.why(draft, at)


def _finding(target: Model, draft: Candidate) -> str:
    """The verdict in one line, or what stands in its way."""
    if draft.verdict_value:
        return draft.verdict_value.sentence
    return "Not compared, because the target cannot be read." if target.problem else f"{_awaited(draft)} ..."


def _awaited(draft: Candidate) -> str:
    """What is being waited for, in words."""
    for part, what in ((draft.model.info, "its files"), (draft.verdict, "both vocabularies")):
        if isinstance(part, Waiting):
            return f"{part.why}: {what}"
    return "Reading the target"


def _foremost(draft: Candidate) -> list[Advice]:
    """What the reader must see without unfolding anything: refusals and warnings, at most two, and not what the line above has said."""
    said = draft.verdict_value.sentence if draft.verdict_value else ""
    return [advice for advice in draft.advice if advice.level != "note" and advice.sentence != said][:MOST_WARNINGS]


def _sizes_problem(target: Model, draft: Model, at: int, retry: Retry) -> None:
    """Why there is no estimate, where the sizes of either model cannot be computed."""
    for model in (target, draft):
        if isinstance(model.profile, Failed):
            st.markdown(f":small[:orange[:material/warning:] {look.plain(f'The sizes of {model.name} are not known: {model.profile.sentence}')}]")
            st.button("Try again", icon=":material/refresh:", key=f"sizes_{at}", on_click=retry, args=(draft.address,))
            return


def _figures(target: Model, draft: Candidate) -> None:
    """Two rows of three, aligned, side by side on a narrow screen too."""
    columns = (*zip(_shape(target, draft.model), _storage(target, draft.model), strict=True), (_cost(target, draft), _gain(target, draft)))
    for facts, column in zip(columns, st.columns(len(columns), gap="xsmall", wrap=False), strict=True):
        for fact in facts:
            column.metric(fact.label, fact.value, fact.spread or None, delta_color="off", delta_arrow="off")


def _shape(target: Model, draft: Model) -> tuple[Fact, Fact]:
    own, other = parameters(draft), parameters(target)
    ratio = f"{numbers.fraction(own, other)} {'the' if own > 1.05 * other else 'of'} target" if own and other else ""
    of_target = f"target has {target.shape.layers}" if target.shape else ""
    return (
        Fact("Parameters", numbers.parameters(own), ratio) if own else _lacking("Parameters", draft),
        Fact("Layers", str(draft.shape.layers), of_target) if draft.shape else _lacking("Layers", draft),
    )


def _storage(target: Model, draft: Model) -> tuple[Fact, Fact]:
    weights = draft.usable.weights if draft.usable else None
    own, other = draft.shape, target.shape
    of_target = f"target {numbers.cache_size(other.bytes_per_token)}" if own and other else ""
    return (
        Fact("Weights", numbers.file_size(weights.bytes), _stored(weights)) if weights else _lacking("Weights", draft),
        Fact("Cache, a token", numbers.cache_size(own.bytes_per_token), of_target) if own else _lacking("Cache, a token", draft),
    )


def _lacking(label: str, *models: Model) -> Fact:
    """What stands for a figure that is not known: whether it still may be."""
    never = any(model.problem or isinstance(model.profile, Failed) or (label == "Weights" and model.usable) for model in models)
    return Fact(label, MISSING, NOT_KNOWN) if never else Fact(label, AWAITED)


def _cost(target: Model, draft: Candidate) -> Fact:
    found = draft.estimate
    if found is None:
        return _lacking("Cost ratio c", target, draft.model)
    return Fact("Cost ratio c", numbers.cost(found.c), f"{numbers.cost(found.low)} to {numbers.cost(found.high)}")


def _gain(target: Model, draft: Candidate) -> Fact:
    """The speedup, or why there is none to show."""
    found = promised(target, draft)
    if found is not None:
        return Fact("Speedup", numbers.ratio(found.speedup_middle), f"{found.speedup_low:.2f} to {found.speedup_high:.2f}")
    if draft.verdict_value and not draft.fits:
        return Fact("Speedup", "none", "not as it is")
    return Fact("Speedup", MISSING, "not compared") if target.problem or draft.problem else _lacking("Speedup", target, draft.model)


def parameters(model: Model) -> int | None:
    """Parameters with tied weights once: as the architecture has them, else as the files say."""
    if model.shape is not None:
        return model.shape.parameters
    weights = model.usable.weights if model.usable else None
    return weights.parameters if weights else None


def _stored(weights: Weights | None) -> str:
    """In which number formats, the most used first."""
    if weights is None:
        return ""
    return weights.quantisation or ", ".join(sorted(weights.bytes_by_dtype, key=lambda name: -weights.bytes_by_dtype[name])[:2])
