"""Which runs the list shows, in which order and with which columns; all of it stands in the address."""

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

import streamlit as st

from core.history import ENDED, KINDS, Choices, Kind, Query, Sort
from core.ui.runs_columns import ALL, USUAL

SORTED: dict[str, tuple[Sort, bool]] = {
    "Newest first": ("created", True),
    "Oldest first": ("created", False),
    "Largest speedup": ("speedup", True),
    "Smallest speedup": ("speedup", False),
    "Highest acceptance": ("alpha", True),
    "Cheapest draft": ("c", False),
    "Target, A to Z": ("target", False),
    "Draft, A to Z": ("draft", False),
    "Device, A to Z": ("device", False),
    "Status": ("status", False),
    "Longest measurement": ("duration", True),
}
NEWEST = "Newest first"
KIND_WORDS: dict[Kind, str] = {
    "measured": "Measured",
    "ways": "Several ways",
    "side_by_side": "Side by side",
    "shapes": "Passes timed",
    "imported": "Imported",
}
PAGE = "at"
LONGEST_SEARCH = 200
_LISTS = ("target_is", "draft_is", "device_is", "status_is", "tag_is", "kind_is")
_DAYS = ("since", "until")


@dataclass(frozen=True)
class Asked:
    """What is asked for, always its first page; the columns in their order; whether anything is filtered at all."""

    query: Query
    columns: tuple[str, ...]
    filtered: bool


def show(choices: Choices) -> Asked:
    """Search, order, filters and columns in one row; two rows of two on a narrow screen."""
    search, order, filters, columns = st.columns([4, 2, 1, 1], vertical_alignment="bottom", gap="small")
    with search:
        hint = "Model, tag, words of a note, id"
        st.text_input("Search", key="find", bind="query-params", max_chars=LONGEST_SEARCH, placeholder=hint, on_change=_first_page)
    with order:
        st.selectbox("Order", list(SORTED), key="sort", bind="query-params", on_change=_first_page)
    active = sum(key in st.query_params for key in (*_LISTS, *_DAYS))
    with filters.popover(f"Filters ({active})" if active else "Filters", icon=":material/filter_list:", width="stretch", key="runs_filters"):
        _filters(choices)
    with columns.popover("Columns", icon=":material/view_column:", width="stretch", key="runs_columns"):
        shown = st.multiselect("Columns", ALL, default=USUAL, key="columns", bind="query-params")
    query = _query()
    return Asked(query, tuple(shown) or USUAL, query != Query(sort=query.sort, descending=query.descending))


def pager(pages: int) -> int:
    """The page that is shown, from 0; nothing to press where there is one only."""
    if pages == 1:
        return 0
    return st.pagination(pages, key=PAGE, bind="query-params") - 1


def clear() -> None:
    """Show every run again."""
    state = st.session_state
    state["find"] = ""
    state.update({key: [] for key in _LISTS} | dict.fromkeys(_DAYS))
    _first_page()


def _filters(choices: Choices) -> None:
    def several(label: str, key: str, options: tuple[str, ...]) -> None:
        """What is asked for is always offered, so that a link whose last run was deleted does not show all runs."""
        offered = list(dict.fromkeys((*options, *st.query_params.get_all(key))))
        st.multiselect(label, offered, key=key, bind="query-params", on_change=_first_page, placeholder="Any")

    several("Target", "target_is", choices.targets)
    several("Draft", "draft_is", choices.drafts)
    several("Device", "device_is", choices.devices)
    several("Tags, all of them", "tag_is", choices.tags)
    several("Kind", "kind_is", tuple(KIND_WORDS.values()))
    several("Ended as", "status_is", ENDED)
    since, until = st.columns(2, gap="small")
    since.date_input("From", None, key="since", bind="query-params", on_change=_first_page)
    until.date_input("To", None, key="until", bind="query-params", on_change=_first_page)
    st.button("Clear filters", icon=":material/filter_list_off:", on_click=clear)


def _query() -> Query:
    state = st.session_state
    sort, descending = SORTED.get(state.get("sort") or NEWEST, SORTED[NEWEST])
    since, until = (state.get(key) for key in _DAYS)
    return Query(
        search=state.get("find") or "",
        targets=tuple(state.get("target_is") or ()),
        drafts=tuple(state.get("draft_is") or ()),
        devices=tuple(state.get("device_is") or ()),
        statuses=tuple(state.get("status_is") or ()),
        tags=tuple(state.get("tag_is") or ()),
        kinds=tuple(kind for kind in KINDS if KIND_WORDS[kind] in (state.get("kind_is") or ())),
        since_s=_midnight_s(since) if since else None,
        until_s=_midnight_s(until + timedelta(days=1)) if until else None,
        sort=sort,
        descending=descending,
    )


def _midnight_s(day: date) -> float:
    """When a day begins in the server's time zone, in which dates are shown."""
    return datetime.combine(day, time.min).astimezone().timestamp()


def _first_page() -> None:
    """Another question begins at its first page."""
    if PAGE in st.session_state:
        st.session_state[PAGE] = 1
