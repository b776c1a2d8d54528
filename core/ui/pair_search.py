"""Find models on the Hub while one types: an answer half a second after the last letter, none of it blocking the page."""

import streamlit as st

from core.model_info import Found
from core.planner import Failed, Waiting
from core.ui import desk, look, numbers, pair_pick

FEWEST_LETTERS = 2
LONGEST = 96
LOOK_AGAIN_S = 0.5


def search() -> None:
    """A button that unfolds the search."""
    with st.popover("Search the Hub", icon=":material/search:", width="content"):
        _box()


@st.fragment
def _box() -> None:
    typed = st.text_input("Name of a model", type="search", live="400ms", max_chars=LONGEST, key="hub_search", placeholder="smollm2")
    text = (typed or "").strip()
    if len(text) < FEWEST_LETTERS:
        look.note("Text generation models with safetensors weights, the most downloaded first.")
        return
    answer = desk.planner().ask("search", {"text": text})
    if isinstance(answer, Waiting):
        look.note(f"{look.plain(answer.why)} ...")
        st.fragment(_look_again, run_every=LOOK_AGAIN_S)(text)
    elif isinstance(answer, Failed):
        st.error(look.plain(answer.sentence), icon=":material/cloud_off:")
        if st.button("Try again", icon=":material/refresh:", key="search_again"):
            desk.planner().ask("search", {"text": text}, again=True)
            st.rerun()
    else:
        _found([Found.model_validate(model) for model in answer.data])


def _look_again(text: str) -> None:
    """Nothing to see; starts the page over when the answer is there."""
    if not isinstance(desk.planner().ask("search", {"text": text}), Waiting):
        st.rerun()


def _found(models: list[Found]) -> None:
    if not models:
        look.note("The Hub has no such model. Try fewer letters.")
    for at, model in enumerate(models):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            with st.container(gap=None, width=300):
                st.markdown(f"**{look.plain(model.id)}**")
                look.note(look.plain(", ".join(_facts(model))))
            as_target = st.button("Target", key=f"as_target_{at}", on_click=pair_pick.take_target, args=(model.id,))
            as_draft = st.button("Draft", key=f"as_draft_{at}", on_click=pair_pick.add_draft, args=(model.id,))
        if as_target or as_draft:
            st.rerun()


def _facts(model: Found) -> list[str]:
    """What helps to choose: size, downloads, gated."""
    size = [numbers.parameters(model.parameters)] if model.parameters else []
    read = [numbers.counted(model.downloads, "download")] if model.downloads is not None else []
    return [*size, *read, *(["gated"] if model.gated else [])]
