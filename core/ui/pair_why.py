"""Why a card says what it says: the rules' reasons with their sources, the ids that differ, where and when the files were read."""

from collections.abc import Callable

import pandas as pd
import streamlit as st

from core.advice import Advice
from core.candidates import Candidate, Known, View
from core.ui import look, numbers
from core.vocab import VocabVerdict

MARKS = {"refusal": ":red[:material/block:]", "warning": ":orange[:material/warning:]", "note": ":gray[:material/info:]"}
WHERE = {"hub": "Hub", "demo": "Embedded", "folder": "Folder", "gguf": "GGUF file"}
SHOWN_IDS = 12


def short(said: Advice) -> str:
    """One piece of advice in a line."""
    return f":small[{MARKS[said.level]} {look.plain(said.sentence)}]"


def why(draft: Candidate, at: int) -> None:
    """Everything behind a card, folded; drawn when it is opened. Nothing where nothing is known yet."""
    if not draft.advice:
        return
    folded = st.expander("Why", type="compact", on_change="rerun", key=f"why_{at}")
    if not folded.open:
        return
    with folded:
        for said in draft.advice:
            st.markdown(f"{MARKS[said.level]} {look.plain(said.sentence)} :gray[{look.plain(said.why)}] :small[:gray[({look.plain(said.source)})]]")
        if draft.verdict_value:
            _map(draft.verdict_value)


def origins(view: View, again: Callable[[str], None]) -> None:
    """Where each model's metadata came from and how old they are, with a way to read them anew."""
    for at, model in enumerate((view.target, *(draft.model for draft in view.drafts))):
        if not isinstance(model.info, Known):
            continue
        info = model.info.value
        renamed = f", asked for as {look.code(info.renamed_from)}" if info.renamed_from else ""
        revision = f" at {look.code(info.ref.revision[:12])}" if info.ref.revision else ""
        size = f", {numbers.file_size(info.bytes_read)}" if info.bytes_read else ""
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(f"{WHERE[info.ref.source]} {look.code(model.address)}{revision}{renamed}, read {numbers.age(model.info.age_s)}{size}.")
            st.button("Read again", icon=":material/refresh:", key=f"read_again_{at}", on_click=again, args=(model.address,), type="tertiary")
        for warning in info.warnings:
            st.markdown(f":small[{MARKS['warning']} {look.plain(warning)}]")


def _map(verdict: VocabVerdict) -> None:
    """What else the tokenizers differ in, and the first ids that do."""
    for sentence in beside(verdict):
        look.note(look.plain(sentence))
    if not verdict.differences:
        return
    rows = [{"Id": found.id, "Target": found.target, "Draft": found.draft} for found in verdict.differences[:SHOWN_IDS]]
    st.markdown(f":small[{verdict.different_ids:,} of {verdict.common_ids:,} common ids differ; the first of all differences:]")
    look.table(pd.DataFrame(rows), "The first ids that stand for different tokens.")


def beside(verdict: VocabVerdict) -> list[str]:
    """Differences beside the maps: special tokens, how text is cut, and what both know where the ids are others."""
    unlike = [f"{found.role} ({_id(found.target)} and {_id(found.draft)})" for found in verdict.special]
    parts = (("normaliser", verdict.normaliser), ("pre-tokenizer", verdict.pre_tokenizer))
    differs = [name for name, likeness in parts if likeness == "differs"]
    shared = f"{verdict.translatable_tokens:,} of the draft's {verdict.draft_tokens:,} tokens are the target's too, under whatever id."
    return [
        *([f"Special tokens with different ids, target and draft: {', '.join(unlike)}."] if unlike else []),
        *([f"Text is prepared differently before it is cut into tokens: another {' and '.join(differs)}."] if differs else []),
        *([shared] if verdict.kind in ("different", "same_size_different_map") else []),
    ]


def _id(id_: int | None) -> str:
    return "none" if id_ is None else f"{id_:,}"
