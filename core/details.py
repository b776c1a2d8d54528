"""The charts that explain a result: how far rounds get, where the time goes, acceptance along the answer.

Same rules as `core.figures`: plain data and a palette in, title and unit inside the picture.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from core.figures import DASHED, Floats, across, break_even, figure
from core.palette import Palette


def survival(palette: Palette, replayed: Floats, formula: Floats, conditional: Floats) -> go.Figure:
    """How far rounds get, for k = 1..K.

    replayed: (K,) of the rounds that drafted at least k tokens, the share that accepted at least k, as bars; formula: (K,) the
    same with one chance for every token, dashed. conditional: (K,) of the drafts at place k that were examined, the share accepted.
    """
    k = np.arange(1, len(replayed) + 1)
    fig = figure(palette, "How far a round gets", "of the rounds that drafted k tokens, share that accepted k", height=320)
    hover = "k %{x}: <b>%{y:.0%}</b> of the rounds that drafted so many<extra></extra>"
    fig.add_bar(x=k, y=replayed, name="replay", marker_color=palette.draft_soft, width=0.62, hovertemplate=hover)
    dash = {"color": palette.formula, "width": 1.75, "dash": DASHED}
    fig.add_scatter(
        x=k, y=formula, name="formula", mode="lines+markers", line=dash, marker={"size": 5}, hovertemplate="formula %{y:.0%}<extra></extra>"
    )
    ring = {"symbol": "circle-open", "size": 8, "color": palette.draft, "line": {"width": 2}}
    fig.add_scatter(
        x=k, y=conditional, name="token k alone", mode="markers", marker=ring, hovertemplate="token k, if examined: %{y:.0%}<extra></extra>"
    )
    fig.update_yaxes(range=[0, 1.04], tickformat=".0%", tick0=0, dtick=0.25)
    fig.update_xaxes(dtick=1 if len(k) <= 12 else 2, title_text="k, drafts accepted in a row")
    return fig


def time_parts(palette: Palette, names: Sequence[str], draft: Floats, verify: Floats, rest: Floats) -> go.Figure:
    """Where the time of each setting (S,) goes: draft, verify and rest as stacked bars, in plain steps per answer token."""
    parts = (("draft", draft, palette.draft_soft), ("verify", verify, palette.target_soft), ("rest", rest, palette.axis))
    keys = " ".join(f"<span style='color:{colour}'>■</span> {name}" for name, _, colour in parts)  # a legend would wrap over the title at 400 px
    fig = figure(palette, "Where the time goes", f"{keys}: predicted time per answer token", height=108 + 30 * len(names), top=78)
    for name, value, colour in parts:
        share = 100 * value / (draft + verify + rest)
        fig.add_bar(
            x=value,
            y=list(names),
            orientation="h",
            name=name,
            marker_color=colour,
            customdata=share,
            hovertemplate=f"%{{y}}<br>{name}: <b>%{{x:.2f}}</b>, %{{customdata:.0f}} % of its time<extra></extra>",
        )
    break_even(fig, palette, vertical=True)
    fig.update_yaxes(autorange="reversed", tickfont={"size": 12.5, "color": palette.ink}, showgrid=False, ticklabelstandoff=6)
    fig.update_xaxes(tickformat=".1f", rangemode="tozero", title_text="plain steps per token")
    fig.update_layout(barmode="stack", bargap=0.35, showlegend=False)
    return fig


def histogram(palette: Palette, share: Floats) -> go.Figure:
    """Share of rounds that accepted exactly 0..K drafts (K+1,)."""
    fig = figure(palette, "Accepted per round", "share of rounds with exactly so many drafts accepted", height=300, top=64)
    fig.add_bar(
        x=np.arange(len(share)), y=share, marker_color=palette.draft_soft, width=0.62, hovertemplate="%{x} accepted: <b>%{y:.0%}</b><extra></extra>"
    )
    fig.update_yaxes(tickformat=".0%", rangemode="tozero")
    fig.update_xaxes(dtick=1, title_text="drafts accepted in the round")
    return fig


def by_position(palette: Palette, start: NDArray[np.integer[Any]], alpha: Floats, overall: float) -> go.Figure:
    """Acceptance along the answer: mean alpha (B,) of blocks that begin at token `start` (B,), and the overall mean."""
    fig = figure(
        palette,
        "Acceptance along the answer",
        f"mean alpha per block of eight tokens; line: overall, {overall:.2f}",
        height=300,
        top=64,
    )
    fig.add_scatter(
        x=start,
        y=alpha,
        mode="lines+markers",
        showlegend=False,
        line={"color": palette.draft, "width": 2.5},
        marker={"size": 6},
        hovertemplate="from token %{x}: <b>%{y:.2f}</b><extra></extra>",
    )
    across(fig, "y", overall, line={"color": palette.axis, "width": 1.25})
    fig.update_yaxes(range=[0, 1], tickformat=".2f", dtick=0.25)
    fig.update_xaxes(title_text="position in the answer, tokens")
    return fig
