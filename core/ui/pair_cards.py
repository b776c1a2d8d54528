"""One card per draft: verdict, sizes, what it is likely to cost, what to know. A card that fails leaves the others alone.

Weights in GB (1e9 bytes), cache in KiB per token (bf16). Everything that came from a model's files is escaped.
"""

from collections.abc import Callable, Sequence

import streamlit as st

from core.candidates import Candidate, Known, Model
from core.model_info import Weights
from core.planner import Waiting
from core.ui import look, numbers, pair_pick
from core.ui.look import Fact
from core.vocab import VocabVerdict

PER_ROW, PER_LINE = 3, 3
UNKNOWN = "…"
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
    if draft.problem:
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
    if draft.problem:
        st.markdown(look.plain(draft.problem))
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
    facts = [*_shape(target, draft.model), _cost(draft), *_storage(target, draft.model), _gain(draft)]
    for first in range(0, len(facts), PER_LINE):
        with st.container(horizontal=True, gap="small"):
            for fact in facts[first : first + PER_LINE]:
                st.metric(fact.label, fact.value, fact.spread or None, delta_color="off", delta_arrow="off", help=fact.meaning or None)


def _shape(target: Model, draft: Model) -> list[Fact]:
    own, other = parameters(draft), parameters(target)
    ratio = f"{numbers.fraction(own, other)} of target" if own and other else ""
    layers = draft.sizes.layers if draft.sizes else None
    of_target = f"target has {target.sizes.layers}" if target.sizes else ""
    return [
        Fact("Parameters", numbers.parameters(own) if own else UNKNOWN, ratio, meaning="The rule of thumb is 1/10 or less."),
        Fact(
            "Layers",
            str(layers) if layers else UNKNOWN,
            of_target,
            meaning="Each layer costs a start of its kernels, whatever its width: few layers are cheap.",
        ),
    ]


def _storage(target: Model, draft: Model) -> list[Fact]:
    weights = draft.usable.weights if draft.usable else None
    own, other = draft.sizes, target.sizes
    return [
        Fact(
            "Weights",
            numbers.file_size(weights.bytes) if weights else UNKNOWN,
            _stored(weights),
            meaning="Bytes of its weights as stored, 1 GB = 1e9 bytes.",
        ),
        Fact(
            "Cache per token",
            numbers.cache_size(own.bytes_per_token) if own else UNKNOWN,
            f"target {numbers.cache_size(other.bytes_per_token)}" if own and other else "",
            meaning="Keys and values of one token in bf16, 1 KiB = 1,024 bytes; it is kept beside the target's.",
        ),
    ]


def _cost(draft: Candidate) -> Fact:
    found = draft.estimate
    meaning = "Estimate: one draft step / one target step."
    return (
        Fact("Cost ratio c", numbers.cost(found.c), f"{numbers.cost(found.low)} to {numbers.cost(found.high)}", meaning=meaning)
        if found
        else Fact("Cost ratio c", UNKNOWN)
    )


def _gain(draft: Candidate) -> Fact:
    found = draft.estimate
    if found is None:
        return Fact("Speedup", UNKNOWN)
    meaning = "Estimate, decode only, at the best gamma; 1x: better left off. The middle takes an acceptance of 0.7, the range 0.5 to 0.9."
    return Fact("Speedup", numbers.ratio(found.speedup_middle), f"{found.speedup_low:.2f} to {found.speedup_high:.2f}", meaning=meaning)


def parameters(model: Model) -> int | None:
    """Parameters with tied weights once: as the architecture has them, else as the files say."""
    if model.sizes is not None:
        return model.sizes.parameters
    weights = model.usable.weights if model.usable else None
    return weights.parameters if weights else None


def _stored(weights: Weights | None) -> str:
    """In which number formats, the most used first."""
    if weights is None:
        return ""
    if weights.quantisation:
        return weights.quantisation[:16]
    return ", ".join(sorted(weights.bytes_by_dtype, key=lambda name: -weights.bytes_by_dtype[name])[:2])[:16]
