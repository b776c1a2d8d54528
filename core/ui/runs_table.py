"""The list of runs: one page of it as a table whose rows can be chosen."""

import hashlib
from collections.abc import Sequence

import streamlit as st
from streamlit.elements.lib.column_types import ColumnConfig

from core.history import Entry
from core.ui import look, numbers, runs_columns
from core.ui.desk import desk

ROW_PIXELS, MOST_ROWS = 36, 16


def show(entries: Sequence[Entry], columns: Sequence[str]) -> list[Entry]:
    """The table, and the runs that are chosen in it."""
    store, _ = desk()
    sizes = store.sizes([entry.id for entry in entries]) if runs_columns.SIZE in columns else {}
    chosen = st.dataframe(
        runs_columns.table(entries, look.palette(), sizes),
        key=key_of(entries),
        hide_index=True,
        height="content" if len(entries) <= MOST_ROWS else ROW_PIXELS * (MOST_ROWS + 1),
        row_height=ROW_PIXELS,
        placeholder="",
        column_order=columns,
        column_config=_config(entries),
        on_select="rerun",
        selection_mode="multi-row",
        alt="Runs, one per row: models, answer, speedup with its interval, acceptance, cost, device, tags",
    )
    return [entries[row] for row in chosen["selection"]["rows"] if row < len(entries)]


def key_of(entries: Sequence[Entry]) -> str:
    """Another key for other rows, so that a choice never passes to a run that was not chosen."""
    return "runs_" + hashlib.sha256(",".join(entry.id for entry in entries).encode()).hexdigest()[:16]


def _config(entries: Sequence[Entry]) -> dict[str, ColumnConfig | str | None]:
    scale, number = runs_columns.scale_of(entries), st.column_config.NumberColumn
    ends = f"{numbers.ratio(scale.low)} to {numbers.ratio(scale.high)}"
    return {
        "When": st.column_config.TextColumn(width=130),
        "Answer": st.column_config.TextColumn(width=210),
        "Speedup": number(format="%.2fx", width=80, help="Of the recommended setting against plain decoding; for an imported run as it was given."),
        runs_columns.BAR: st.column_config.ImageColumn(
            f"Speedup {ends}, red: 1x",
            width=210,
            help="95 % intervals on a log scale: bar on these prompts, thin line for traffic like them. Diamond: confirmed; dot: predicted.",
        ),
        "These prompts": st.column_config.TextColumn(help="95 % interval of the speedup on these prompts"),
        "Traffic": st.column_config.TextColumn(help="95 % interval of the speedup for traffic like these prompts"),
        "alpha": number(format="%.2f", width=70, help="Acceptance"),
        "c": number(format="%.3f", width=70, help="One drafted token / one plain target step"),
        "Took, s": number(format="%.0f"),
        "Tags": st.column_config.ListColumn(width=140),
        runs_columns.SIZE: number(format="%.2f"),
    }
