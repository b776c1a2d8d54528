"""What stands on the page before a pair is chosen: pairs to begin with, and drafts worth trying for a target."""

import streamlit as st

from core.candidates import Setting, View, load, unpacked_bytes
from core.suggest import STARTS, Suggestion, suggest
from core.ui import look, numbers, pair_pick

PER_ROW = 4


def empty() -> None:
    """The question, and pairs that can be looked at with one click."""
    look.headline(
        "Which drafts fit your target?",
        "Type a model above, search the Hub, or begin with one of these pairs. Only configs, tokenizers and file headers are read, no weights.",
    )
    for first in range(0, len(STARTS), PER_ROW):
        for at, (start, column) in enumerate(zip(STARTS[first : first + PER_ROW], st.columns(PER_ROW, gap="medium"), strict=False), first):
            with column.container(border=True, height="stretch"):
                st.markdown(f"**{start.name}**")
                look.note(start.what)
                label = f"See {numbers.counted(len(start.drafts), 'draft')}"
                st.button(label, key=f"start_{at}", icon=":material/join_inner:", on_click=pair_pick.choose, args=(start.target, start.drafts))


def without_drafts(view: View, setting: Setting) -> None:
    """Drafts for a target that has none yet."""
    name = look.plain(view.target.name)
    if view.target.problem and view.target.shape is None:
        look.headline(f"{name} cannot be the target", look.plain(view.target.problem))
        return
    look.headline(f"Which draft for {name}?", "Smaller models of its family and tokenizer, the cheapest first. Choose some, or type others above.")
    if not suggestions(view, setting):
        look.note(
            "Reading the target ..."
            if view.waiting
            else "No family that is known here. Type a smaller model with the same tokenizer above, or search the Hub."
        )


def more(view: View, setting: Setting) -> None:
    """Further drafts of the target's family."""
    if not suggestions(view, setting):
        look.note("No other draft of this family is known here. Search the Hub for one with the same tokenizer.")


def suggestions(view: View, setting: Setting) -> bool:
    """Drafts worth trying that are not chosen yet, each with its reason and a button; whether there are any."""
    chosen = {draft.model.address for draft in view.drafts}
    found = [other for other in _suggested(view, setting) if other.address not in chosen]
    for at, other in enumerate(found):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            full = len(chosen) >= pair_pick.MOST_DRAFTS
            st.button("Add", key=f"suggested_{at}", icon=":material/add:", disabled=full, on_click=pair_pick.add_draft, args=(other.address,))
            st.markdown(
                f"**{look.plain(other.address)}** {numbers.parameters(other.model.parameters)} :small[:gray[{look.plain(other.reason)}]]",
                width="content",
            )
    if found:
        words = f"c on {look.plain(setting.device.name)}; whether a draft fits is said when its vocabulary is compared."
        st.markdown(f"{look.ORIGINS['estimate']} :small[:gray[{words}]]")
    return bool(found)


def _suggested(view: View, setting: Setting) -> list[Suggestion]:
    info = view.target.usable
    own = load(view.target, setting)
    return suggest(view.target.address, setting.device, load=own, config=info.config if info else None, bytes_per_parameter=unpacked_bytes(setting))
