"""The pickers of target and drafts, kept in the address as `?target=...&draft=...&draft=...` and when pages change.

Their values are model addresses (`core.address`), typed freely or chosen. Streamlit can bind a widget to the address
itself, but then no page may set that parameter any more, nor switch to a page with it; so the address is read and
written here. Options and values are drawn by the widgets as plain text, never as Markdown.
"""

from collections.abc import Sequence
from typing import Literal

import streamlit as st

from core import pair, suggest
from core.address import address
from core.candidates import MOST_DRAFTS
from core.settings import Settings

Width = int | Literal["stretch"]
Chosen = tuple[str | None, list[str]]

TARGET, DRAFTS = "target", "draft"
TARGET_KEY, DRAFTS_KEY, WRITTEN = "picked_target", "picked_drafts", "_pair_in_address"
HELP = "A Hub id such as `org/name` or `org/name@revision`, a model of this list, or `folder:NAME` below a configured root."


def pickers(options: Sequence[str], *, begin: tuple[str, str] | None = None, widths: tuple[Width, Width] = ("stretch", "stretch")) -> Chosen:
    """Both pickers; the chosen addresses. `begin` is the pair shown when nothing was chosen yet; `widths` are pixels."""
    _take_from_address()
    if begin and not (st.session_state.get(TARGET_KEY) or st.session_state.get(DRAFTS_KEY)):
        choose(begin[0], [begin[1]])
    target = st.selectbox(
        "Target",
        options,
        index=None,
        key=TARGET_KEY,
        persist_state="session",
        accept_new_options=True,
        filter_mode="contains",
        placeholder="Choose or type a model",
        help=HELP,
        width=widths[0],
    )
    drafts = st.multiselect(
        "Drafts, up to six",
        options,
        key=DRAFTS_KEY,
        persist_state="session",
        accept_new_options=True,
        filter_mode="contains",
        select_all=False,
        max_selections=MOST_DRAFTS,
        placeholder="Choose or type models",
        width=widths[1],
        wrap=True,
    )
    chosen = (target or "").strip() or None, [draft for text in drafts if (draft := text.strip())]
    _write_to_address(chosen)
    return chosen


def offered(settings: Settings) -> list[str]:
    """Addresses to choose from: the models on this machine, then those of the families that are known here."""
    families = [name for row in suggest.known() for name in (row.tuned_id, row.base_id) if name]
    return list(dict.fromkeys([*(address(ref) for ref in pair.available(settings)), *families]))


def choose(target: str | None, drafts: Sequence[str]) -> None:
    """Put a pair into the pickers; only before they are drawn, as in callbacks."""
    st.session_state[TARGET_KEY] = target
    st.session_state[DRAFTS_KEY] = list(drafts)


def take_target(target: str) -> None:
    """Put a target into its picker; for callbacks."""
    st.session_state[TARGET_KEY] = target


def add_draft(draft: str) -> None:
    """Put one more draft into its picker; for callbacks."""
    drafts = [*st.session_state.get(DRAFTS_KEY, []), draft]
    st.session_state[DRAFTS_KEY] = list(dict.fromkeys(drafts))[:MOST_DRAFTS]


def remove_draft(draft: str) -> None:
    """Take a draft out of its picker; for callbacks."""
    st.session_state[DRAFTS_KEY] = [other for other in st.session_state.get(DRAFTS_KEY, []) if other != draft]


def in_address(target: str | None, drafts: Sequence[str]) -> dict[str, str | list[str]]:
    """A pair as query parameters, without those that are empty."""
    named: dict[str, str | list[str]] = {TARGET: target or "", DRAFTS: list(drafts)}
    return {name: value for name, value in named.items() if value}


def _take_from_address() -> None:
    """What the address names, when it is not what was written there before: a reload, a link, the way back."""
    target, drafts = st.query_params.get(TARGET), list(dict.fromkeys(st.query_params.get_all(DRAFTS)))
    asked = in_address(target, drafts)
    if not asked or asked == st.session_state.get(WRITTEN):
        return
    choose(target, drafts[:MOST_DRAFTS])
    if len(drafts) > MOST_DRAFTS:
        st.toast(f"The address names {len(drafts)} drafts; the first {MOST_DRAFTS} are shown.", icon=":material/info:")


def _write_to_address(chosen: Chosen) -> None:
    target, drafts = chosen
    wanted = in_address(target, drafts)
    if wanted != in_address(st.query_params.get(TARGET), st.query_params.get_all(DRAFTS)):
        for name in (TARGET, DRAFTS):
            st.query_params.pop(name, None)
        st.query_params.update(wanted)
    st.session_state[WRITTEN] = wanted
