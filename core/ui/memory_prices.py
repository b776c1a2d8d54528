"""The price table as a person sees it: edited in place, replaced by an own CSV, refreshed, downloaded. Edits live in the session only.

What the editor holds is read strictly; while a row cannot be read, the last table that could be is used and a sentence says why.
"""

from collections.abc import Sequence
from datetime import date

import pandas as pd
import streamlit as st

from core import prices
from core.errors import InvalidInput
from core.planner import Failed, Ready, Waiting
from core.prices import Price
from core.ui import look
from core.ui.desk import planner

UPLOAD = "price_file"
TABLE, BASE, VERSION, PROBLEM, ASKED = "_prices", "_prices_base", "_prices_version", "_prices_problem", "_prices_asked"
WIDTHS = {"provider": 100, "instance": 190, "gpu": 130, "gpus": 60, "usd_per_hour": 110, "dated": 100, "source": 320}


def current() -> tuple[Price, ...]:
    """The table in use in this session: the shipped one until it is changed."""
    return st.session_state.get(TABLE, prices.load())


def edited() -> bool:
    """Whether this session uses another table than the shipped one."""
    return current() != prices.load()


def editor() -> tuple[Price, ...]:
    """Draw the table with its ways in and out; the prices to use from here on."""
    state = st.session_state
    key = f"price_table_{state.get(VERSION, 0)}"  # an editor keeps its edits by key: another table needs another one
    if key not in state:  # new, or not on the screen a moment ago: begin with what is in use
        state[BASE] = _frame(current())
    shown = st.data_editor(
        state[BASE],
        key=key,
        num_rows="dynamic",
        hide_index=True,
        height=280,
        placeholder="",
        column_config={name: st.column_config.TextColumn(name, width=width) for name, width in WIDTHS.items()},
    )
    rows = [{name: "" if pd.isna(cell) else str(cell) for name, cell in row.items()} for row in shown.to_dict("records")]
    try:
        state[TABLE] = prices.from_rows(row for row in rows if any(row.values()))
    except InvalidInput as error:
        st.error(look.plain(str(error)), icon=":material/error:")
        look.note("Until it is corrected, the last table that could be read is used.")
    _ways()
    return current()


def _ways() -> None:
    """A CSV in, a refresh, the shipped table again; and whose table this is."""
    whose = (
        "Edited: these prices are kept in this session only. Download them to keep them."
        if edited()
        else "The shipped prices, each with its date and source."
    )
    look.note(f"{whose} USD per hour of the whole instance, before tax.")
    st.file_uploader(
        "Your own prices, CSV", type="csv", key=UPLOAD, on_change=_take_file, max_upload_size=1, help=f"Columns: {', '.join(prices.COLUMNS)}."
    )
    if problem := st.session_state.get(PROBLEM):
        st.error(look.plain(problem), icon=":material/error:")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Refresh with gpuhunt",
            icon=":material/cloud_download:",
            on_click=_ask,
            help="Reads list prices over the network, if gpuhunt is installed.",
        )
        if edited():
            st.button("Use the shipped prices", icon=":material/restart_alt:", on_click=use, args=(prices.load(),))
    if st.session_state.get(ASKED):
        _refreshed()


def download() -> None:
    """The table in use as a file."""
    st.download_button("Prices as CSV", prices.to_csv(current()), "draftgauge-prices.csv", "text/csv", icon=":material/download:", on_click="ignore")


def use(table: Sequence[Price]) -> None:
    """Take this table from the next run of the page on."""
    state = st.session_state
    state[TABLE] = tuple(table)
    state[VERSION] = state.get(VERSION, 0) + 1
    state.pop(PROBLEM, None)


def _take_file() -> None:
    """An uploaded CSV becomes the table, or a sentence says why not and the table stays."""
    file = st.session_state.get(UPLOAD)
    st.session_state.pop(PROBLEM, None)
    if file is None:
        return
    try:
        use(prices.parse_csv(file.getvalue()))
    except InvalidInput as error:
        st.session_state[PROBLEM] = str(error)


def _ask() -> None:
    planner().ask("prices", {}, again=True)
    st.session_state[ASKED] = True


def _refreshed() -> None:
    """The answer of the refresh: a sentence when it failed, the new table when it came."""
    answer = planner().ask("prices", {})
    problem = answer.sentence if isinstance(answer, Failed) else "" if isinstance(answer, Waiting) else answer.problem
    if problem:
        st.error(look.plain(problem), icon=":material/cloud_off:")
    elif not isinstance(answer, Ready) or answer.renewing:
        st.fragment(_poll, run_every=1.0)()
    else:
        st.session_state[ASKED] = False
        use(prices.parse_csv(str(answer.data["csv"])))
        st.rerun()


def _poll() -> None:
    answer = planner().ask("prices", {})
    awaited = answer.why if isinstance(answer, Waiting) else "reading" if isinstance(answer, Ready) and answer.renewing else ""
    if not awaited:
        st.rerun()
    look.note(f":material/hourglass_empty: Prices: {look.plain(awaited)}")


def stale(price: Price, today: date) -> str:
    """The date of a price, flagged when it is old; Markdown."""
    if not price.stale(today):
        return f"{price.dated:%Y-%m-%d}"
    return f"{price.dated:%Y-%m-%d} :orange-badge[:material/event_busy: {price.age_days(today)} days old]"


def _frame(table: Sequence[Price]) -> pd.DataFrame:
    """The table as text, so that what is typed is judged by `core.prices` alone."""
    rows = [(p.provider, p.instance, p.gpu, str(p.gpus), f"{p.usd_per_hour!r}", p.dated.isoformat(), p.source) for p in table]
    return pd.DataFrame(rows, columns=list(prices.COLUMNS), dtype="string")
