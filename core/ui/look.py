"""The shared look: palette by theme, headline, badges, figures with their table, the way on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import ParamSpec

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from pandas.io.formats.style import Styler

from core.markdown import code, plain
from core.palette import DARK, LIGHT, Palette
from core.ui.frame import page_path

ORIGINS = {
    "confirmed": ":green-badge[:material/verified: confirmed]",
    "measured": ":gray-badge[:material/straighten: measured]",
    "replayed": ":gray-badge[:material/replay: replayed]",
    "formula": ":gray-badge[:material/function: formula]",
    "estimate": ":gray-badge[:material/pan_zoom: estimate]",
    "published": ":gray-badge[:material/menu_book: published]",
    "imported": ":gray-badge[:material/move_to_inbox: imported]",
    "what-if": ":gray-badge[:material/tune: what-if]",
}
Data = ParamSpec("Data")
CONFIG = {"displaylogo": False, "modeBarButtons": [["toImage"]], "scrollZoom": False}

__all__ = ["Fact", "behind", "code", "drawn", "fact_row", "headline", "mark_row", "next_step", "note", "palette", "plain", "show", "table"]


@dataclass(frozen=True)
class Fact:
    """One figure of a row: value, its interval or spread, how it is known, what it means."""

    label: str
    value: str
    spread: str = ""
    origin: str = ""
    meaning: str = ""


def palette() -> Palette:
    """The colours of the theme the reader sees."""
    return DARK if st.context.theme.type == "dark" else LIGHT


def note(text: str) -> None:
    """Quiet text that still reaches 4.5:1; st.caption does not."""
    st.markdown(f":small[:gray[{text}]]")


def headline(sentence: str, facts: str = "") -> None:
    """The page's one sentence, then intervals and origin in one quiet line."""
    with st.container(gap="xxsmall"):
        st.title(sentence, anchor=False)
        if facts:
            st.markdown(facts)
    st.space("xxsmall")


def fact_row(facts: Sequence[Fact]) -> None:
    """Figures side by side; they wrap to two per row on a narrow screen."""
    with st.container(horizontal=True, gap="small"):
        for fact in facts:
            st.metric(
                fact.label,
                fact.value,
                fact.spread or None,
                delta_color="off",
                delta_arrow="off",
                delta_description=fact.origin or None,
                help=fact.meaning or None,
                border=True,
            )


def _name(make: FunctionType) -> str:
    """Streamlit itself would tell functions of different modules apart by their last name alone."""
    return f"{make.__module__}.{make.__qualname__}"


@st.cache_resource(max_entries=200, show_spinner=False, hash_funcs={FunctionType: _name, Palette: hash})
def _drawn(make: Callable[..., go.Figure], args: tuple[object, ...], kwargs: dict[str, object]) -> go.Figure:
    return make(*args, **kwargs)


def drawn(make: Callable[Data, go.Figure], *args: Data.args, **kwargs: Data.kwargs) -> go.Figure:
    """What `make` draws of this data, kept, because Plotly takes 10 to 30 ms of the processor for it; nobody may change it."""
    return _drawn(make, args, kwargs)


def show(fig: go.Figure, key: str, alt: str) -> None:
    """Draw a figure; the template is ours, so Streamlit's is off."""
    st.plotly_chart(fig, key=key, alt=alt, theme=None, config=CONFIG, width="stretch")


def table(
    data: pd.DataFrame | Styler, alt: str, formats: dict[str, str] | None = None, widths: dict[str, int] | None = None, *, height: int | None = None
) -> None:
    """A table, at its full height unless `height` pixels are given. `formats` are printf formats by column, `widths` pixels by column."""
    columns = {name: st.column_config.NumberColumn(format=form, width=(widths or {}).get(name)) for name, form in (formats or {}).items()}
    columns |= {name: st.column_config.Column(width=width) for name, width in (widths or {}).items() if name not in columns}
    st.dataframe(data, hide_index=True, alt=alt, height=height or "content", placeholder="", column_config=columns)


def behind(label: str, data: pd.DataFrame, alt: str, formats: dict[str, str] | None = None) -> None:
    """The table behind a figure, folded."""
    with st.expander(label, icon=":material/table:", type="compact"):
        table(data, alt, formats)


def mark_row(data: pd.DataFrame, row: int) -> Styler:
    """Tint one row, so that the eye finds it before it reads."""
    tint = f"background-color: {palette().draft_tint}"
    return data.style.apply(lambda values: [tint if values.name == row else ""] * len(values), axis=1)


def next_step(text: str, page: str, label: str, query: Mapping[str, str | list[str]] | None = None) -> None:
    """The end of a page: one sentence, one way on."""
    st.divider()
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.markdown(f"**Next.** {text}", width="content")
        st.page_link(
            page_path(page), label=f"**{label}**", icon=":material/arrow_forward:", icon_position="right", query_params=dict(query) if query else None
        )
