"""Published pairs as rows: what a paper measured, and what the formula says for its alpha and c. Nothing of it was measured here."""

import pandas as pd
import streamlit as st

from core.published import PAPERS, Published, published
from core.ui import look

FORMATS = {"Temperature": "%g", "alpha": "%.2f", "c": "%.2f", "Published": "%gx", "Formula": "%.2fx", "Formula off by": "%+.0f%%"}


def show() -> None:
    """The whole part, folded: what it is, the table, the sources."""
    with st.expander("Published pairs, not measured here", icon=":material/menu_book:"):
        look.note(
            "From papers: other machines, other prompts. Formula: Theorem 3.8 with the paper's own alpha, c and gamma. "
            "Where the paper gives no alpha and c, nothing can be computed."
        )
        table = pd.DataFrame([_cells(pair) for pair in published()])
        st.dataframe(
            table,
            hide_index=True,
            alt="Published speculative decoding pairs with the paper's speedup and what the formula says",
            height=386,
            placeholder="",
            column_config={name: st.column_config.NumberColumn(format=form) for name, form in FORMATS.items()}
            | {"What if": st.column_config.LinkColumn(display_text="open", help="Its alpha and c as what-if values on the page Choose gamma.")},
        )
        for paper in PAPERS.values():
            look.note(f"[{paper.title}]({paper.address}), {paper.date}, {paper.hardware}.")


def _cells(pair: Published) -> dict[str, object]:
    return {
        "Paper": pair.paper.title.split(",")[0].replace(" and Intel", ""),
        "Target": pair.target,
        "Draft": pair.draft,
        "Task": pair.task,
        "Temperature": pair.temperature,
        "Setting": pair.setting,
        "alpha": pair.alpha,
        "c": pair.c,
        "Published": pair.speedup,
        "Formula": pair.formula,
        "Formula off by": None if pair.gap is None else pair.gap * 100,
        "What if": f"/gamma?alpha={pair.alpha:g}&c={pair.c:g}&published=true" if pair.alpha is not None and pair.c is not None else None,
    }
