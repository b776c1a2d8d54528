"""The pickers of target and drafts, bound to the address as `?target=...&draft=...&draft=...`.

Their values are model addresses (`core.address`), typed freely or chosen, so that the address bar shows what the pickers
show. Options and values are drawn by the widgets as plain text, never as Markdown.
"""

from collections.abc import Sequence
from typing import Literal

import streamlit as st

from core import pair, suggest
from core.address import address
from core.candidates import MOST_DRAFTS
from core.settings import Settings

Width = int | Literal["stretch"]

TARGET, DRAFTS = "target", "draft"
HELP = "A Hub id such as `org/name` or `org/name@revision`, a model of this list, or `folder:NAME` below a configured root."


def pickers(
    options: Sequence[str], *, begin: tuple[str, str] | None = None, widths: tuple[Width, Width] = ("stretch", "stretch")
) -> tuple[str | None, list[str]]:
    """Both pickers; the chosen addresses. `begin` is the pair shown when nothing was chosen yet; `widths` are pixels."""
    if begin and not _chosen():
        choose(begin[0], [begin[1]])
    left_out = max(0, len(dict.fromkeys(st.query_params.get_all(DRAFTS))) - MOST_DRAFTS)
    target = st.selectbox(
        "Target",
        options,
        index=None,
        key=TARGET,
        bind="query-params",
        accept_new_options=True,
        filter_mode="contains",
        placeholder="Choose or type a model",
        help=HELP,
        width=widths[0],
    )
    drafts = st.multiselect(
        "Drafts, up to six",
        options,
        key=DRAFTS,
        bind="query-params",
        accept_new_options=True,
        filter_mode="contains",
        select_all=False,
        max_selections=MOST_DRAFTS,
        placeholder="Choose or type models",
        width=widths[1],
        wrap=True,
    )
    if left_out:
        st.toast(f"The address names {MOST_DRAFTS + left_out} drafts; the first {MOST_DRAFTS} are shown.", icon=":material/info:")
    return (target or "").strip() or None, [draft for text in drafts if (draft := text.strip())]


def offered(settings: Settings) -> list[str]:
    """Addresses to choose from: the models on this machine, then those of the families that are known here."""
    families = [name for row in suggest.known() for name in (row.tuned_id, row.base_id) if name]
    return list(dict.fromkeys([*(address(ref) for ref in pair.available(settings)), *families]))


def choose(target: str | None, drafts: Sequence[str]) -> None:
    """Put a pair into the pickers; only before they are drawn, as in callbacks."""
    st.session_state[TARGET] = target
    st.session_state[DRAFTS] = list(drafts)


def take_target(target: str) -> None:
    """Put a target into its picker; for callbacks."""
    st.session_state[TARGET] = target


def add_draft(draft: str) -> None:
    """Put one more draft into its picker; for callbacks."""
    drafts = [*st.session_state.get(DRAFTS, []), draft]
    st.session_state[DRAFTS] = list(dict.fromkeys(drafts))[:MOST_DRAFTS]


def remove_draft(draft: str) -> None:
    """Take a draft out of its picker; for callbacks."""
    st.session_state[DRAFTS] = [other for other in st.session_state.get(DRAFTS, []) if other != draft]


def _chosen() -> bool:
    return any(key in st.query_params or st.session_state.get(key) for key in (TARGET, DRAFTS))
