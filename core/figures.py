"""The charts, from plain data and a palette; no Streamlit, no run.

Every figure carries its title, its quantity and its unit, so that an exported picture explains
itself. Line by how we know it: formula dashed grey, replay solid with a band, confirmed a diamond in
ink, what-if dotted. Break-even is one thin red line at 1x, always labelled. Speedups are ratios to
plain decoding. The two maps live in `core.maps`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from core.palette import FONT, Palette

Floats = NDArray[np.floating[Any]]
Known = Literal["confirmed", "replayed", "estimate", "lossy"]

DASHED = "6px,4px"
WIDEST = 2.0
"""Intervals are drawn up to so many times the largest speedup."""
GAMMA_TICKS = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 18, 20)


@dataclass(frozen=True)
class Band:
    """A line with its interval: (G,) speedups and their lower and upper bounds; equal bounds when there are none."""

    mid: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Confirmed:
    """One setting that was really run: speedup with its interval."""

    gamma: int
    speedup: float
    low: float
    high: float


@dataclass(frozen=True)
class Range:
    """One row of a ranking: speedup with its interval, and how it is known."""

    name: str
    speedup: float
    low: float
    high: float
    known: Known


def figure(palette: Palette, title: str, subtitle: str, *, height: int = 400, top: int = 84) -> go.Figure:
    """An empty figure with our own template; `top` leaves room for title, subtitle and legend."""
    axis: dict[str, Any] = {
        "gridcolor": palette.grid,
        "linecolor": palette.axis,
        "zeroline": False,
        "ticks": "",
        "showline": False,
        "automargin": True,
        "tickfont": {"size": 12.5, "color": palette.muted},
        "title": {"font": {"size": 13, "color": palette.muted}, "standoff": 10},
    }
    heading = f"<b>{title}</b><br><span style='font-size:13px;color:{palette.muted}'>{subtitle}</span>"
    return go.Figure(
        layout={
            "height": height,
            "margin": {"l": 8, "r": 8, "t": top, "b": 8},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": FONT, "size": 13, "color": palette.ink},
            "dragmode": False,
            "hovermode": "closest",
            "title": {
                "text": heading,
                "font": {"size": 15.5, "color": palette.ink},
                "x": 0,
                "xref": "container",
                "xanchor": "left",
                "y": 1 - 16 / height,
                "yref": "container",
                "yanchor": "top",
            },
            "legend": {
                "orientation": "h",
                "x": 0,
                "xanchor": "left",
                "y": 1.0,
                "yanchor": "bottom",
                "font": {"size": 12.5, "color": palette.ink},
                "itemsizing": "trace",
                "itemwidth": 30,
                "traceorder": "normal",
                "bgcolor": "rgba(0,0,0,0)",
                "tracegroupgap": 0,
            },
            "hoverlabel": {
                "bgcolor": palette.paper,
                "bordercolor": palette.axis,
                "font": {"family": FONT, "size": 13, "color": palette.ink},
                "align": "left",
            },
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": palette.muted, "activecolor": palette.ink},
            "xaxis": axis | {"showgrid": False, "showline": True},
            "yaxis": axis,
            "bargap": 0.3,
        }
    )


def across(fig: go.Figure, axis: Literal["x", "y"], start: float, end: float | None = None, **look: Any) -> None:
    """A line at `start`, or a band from there to `end`, through the whole plot, drawn as `look` says.

    For figures without subplots; Plotly's own `add_hline` and its like search all of them, which takes more than twice as long.
    """
    other = "y" if axis == "x" else "x"
    ends = {f"{axis}0": start, f"{axis}1": start if end is None else end, f"{axis}ref": axis}
    fig.add_shape(type="line" if end is None else "rect", **ends, **{f"{other}0": 0, f"{other}1": 1, f"{other}ref": f"{other} domain"}, **look)


def break_even(fig: go.Figure, palette: Palette, *, vertical: bool = False, below: bool = False) -> None:
    """The thin red line at 1x with its label; `below` the line where curves end just above it."""
    across(fig, "x" if vertical else "y", 1.0, line={"color": palette.break_even, "width": 1.25})
    words = {"text": "break-even 1x", "showarrow": False, "font": {"size": 12, "color": palette.break_even}}
    if vertical:
        fig.add_annotation(x=1.0, y=1, yref="y domain", xanchor="center", yanchor="bottom", **words)
    else:
        fig.add_annotation(x=1, xref="x domain", y=1.0, xanchor="right", yanchor="top" if below else "bottom", **words)


def curve(
    palette: Palette,
    gammas: NDArray[np.integer[Any]],
    *,
    formula: Floats,
    replay: Band | None = None,
    confirmed: Sequence[Confirmed] = (),
    what_if: Floats | None = None,
    level: tuple[str, float] | None = None,
    recommended: int | None = None,
) -> go.Figure:
    """Speedup against gamma (G,): formula dashed, replay with its band, confirmed diamonds, what-if dotted.

    level: name and speedup of a setting without a fixed gamma, drawn as a thin line across. recommended: the gamma to use,
    named at its point.
    """
    fig = figure(palette, "Speedup by draft length", "decode only, ratio to plain", height=430, top=88)
    main = replay.mid if replay else what_if if what_if is not None else formula
    across(fig, "y", 0, 1, fillcolor=palette.danger, line_width=0, layer="below")
    _mark_flat_top(fig, palette, gammas, main)
    dash = {"color": palette.formula, "width": 1.75, "dash": DASHED}
    fig.add_scatter(x=gammas, y=formula, name="formula", mode="lines", line=dash, hovertemplate="%{y:.2f}x")
    if replay:
        _add_replay(fig, palette, gammas, replay)
    if what_if is not None:
        dots = {"color": palette.ink, "width": 2, "dash": "dot"}
        fig.add_scatter(x=gammas, y=what_if, name="what-if", mode="lines", line=dots, hovertemplate="%{y:.2f}x")
    if confirmed:
        _add_confirmed(fig, palette, confirmed)
    if level:
        _add_level(fig, palette, *level)
    if recommended:
        points = {point.gamma: point.speedup for point in confirmed}
        _mark_recommended(fig, palette, recommended, points.get(recommended, float(main[recommended - 1])))
    ends_above = any(((line[-4:] >= 1) & (line[-4:] < 1.15)).any() for line in (formula, main))
    break_even(fig, palette, below=ends_above)
    words = {"showarrow": False, "font": {"size": 12, "color": palette.danger_text}}
    fig.add_annotation(x=0.01, xref="paper", y=0.02, yref="paper", xanchor="left", yanchor="bottom", text="slower than plain", **words)
    others = [point.speedup for point in confirmed] + ([level[1]] if level else [])
    low, high = _speedup_range([formula, main] + ([what_if] if what_if is not None else []), others)
    fig.update_yaxes(range=[low, high], tick0=0, dtick=0.2 if high - low <= 2 else 0.5, tickformat=".1f", ticksuffix="x")
    fig.update_xaxes(range=[0.4, gammas[-1] + 0.6], tickvals=GAMMA_TICKS, unifiedhovertitle={"text": "gamma %{x}"}, showspikes=False)
    fig.update_layout(hovermode="x unified", xaxis_title_text="gamma, tokens drafted per round")
    return fig


def _mark_flat_top(fig: go.Figure, palette: Palette, gammas: NDArray[np.integer[Any]], speedup: Floats) -> None:
    """A pale band over the gammas within 2 % of the best; none when nothing beats plain."""
    best = speedup.max()
    if best <= 1:
        return
    flat = gammas[speedup > 0.98 * best]
    across(fig, "x", flat[0] - 0.5, flat[-1] + 0.5, fillcolor=palette.flat, line_width=0, layer="below")
    words = {"text": "within 2 % of best", "showarrow": False, "font": {"size": 12, "color": palette.muted}}
    fig.add_annotation(x=flat[0] - 0.5, xanchor="left", xshift=3, y=1.0, yref="paper", yanchor="top", **words)


def _add_replay(fig: go.Figure, palette: Palette, gammas: NDArray[np.integer[Any]], replay: Band) -> None:
    around = np.concatenate([gammas, gammas[::-1]])
    edge = np.concatenate([replay.high, replay.low[::-1]])
    fig.add_scatter(x=around, y=edge, fill="toself", fillcolor=palette.band, line_width=0, hoverinfo="skip", showlegend=False, mode="lines")
    fig.add_scatter(
        x=gammas,
        y=replay.mid,
        name="replay, 95 %",
        mode="lines",
        line={"color": palette.draft, "width": 2.5},
        customdata=np.column_stack([replay.low, replay.high]),
        hovertemplate="<b>%{y:.2f}x</b> [%{customdata[0]:.2f}, %{customdata[1]:.2f}]",
    )


def _add_confirmed(fig: go.Figure, palette: Palette, confirmed: Sequence[Confirmed]) -> None:
    fig.add_scatter(
        x=[point.gamma for point in confirmed],
        y=[point.speedup for point in confirmed],
        name="confirmed",
        mode="markers",
        marker={"symbol": "diamond", "size": 9, "color": palette.ink},
        error_y={
            "array": [point.high - point.speedup for point in confirmed],
            "arrayminus": [point.speedup - point.low for point in confirmed],
            "color": palette.ink,
            "thickness": 2,
            "width": 0,
        },
        customdata=[(point.low, point.high) for point in confirmed],
        hovertemplate="<b>%{y:.2f}x</b> [%{customdata[0]:.2f}, %{customdata[1]:.2f}]",
    )


def _add_level(fig: go.Figure, palette: Palette, name: str, speedup: float) -> None:
    across(fig, "y", speedup, line={"color": palette.ink, "width": 1.25})
    words = {"text": f"{speedup:.2f}x {name}", "showarrow": False, "font": {"size": 12, "color": palette.ink}}
    fig.add_annotation(x=1, xref="x domain", y=speedup, xanchor="right", yanchor="bottom", **words)


def _mark_recommended(fig: go.Figure, palette: Palette, gamma: int, speedup: float) -> None:
    """A thin line from the axis up to the point, with the words below it, on a plate so that they can be read over a falling curve."""
    line = {"color": palette.ink, "width": 1.25, "dash": "dot"}
    fig.add_shape(type="line", x0=gamma, x1=gamma, y0=0, y1=speedup, line=line, layer="below")
    words = {"text": f"<b>use gamma {gamma}</b>", "showarrow": False, "font": {"size": 12, "color": palette.ink}}
    fig.add_annotation(x=gamma, xanchor="left", xshift=6, y=speedup, yshift=-30, bgcolor=palette.paper, opacity=0.88, borderpad=2, **words)


def _speedup_range(lines: Sequence[Floats], points: Sequence[float]) -> tuple[float, float]:
    """Axis limits in steps of 0.2 that show every maximum, 1x, and the way down without the long tail."""
    peaks = [1.0, *points, *(float(line.max()) for line in lines)]
    lowest = min(0.8, *(float(line.min()) for line in lines))
    bottom = max(0.0, lowest, min(peaks) - 0.45)
    return float(np.floor(bottom / 0.2) * 0.2), float(np.ceil((max(peaks) + 0.08) / 0.2) * 0.2)


def ranges(palette: Palette, title: str, subtitle: str, rows: Sequence[Range]) -> go.Figure:
    """Settings or drafts against each other: one row each, interval as a bar, the number in a column of its own.

    A diamond was confirmed, a dot replayed, a hollow ring is an estimate; a hollow grey diamond was run and is not to be used.
    Names are HTML to Plotly: escape those of foreign origin.
    """
    fig = figure(palette, title, subtitle, height=128 + 44 * len(rows), top=78)
    for row in rows:
        colour = {"confirmed": palette.ink, "replayed": palette.draft, "estimate": palette.formula, "lossy": palette.rejected}[row.known]
        fill = palette.paper if row.known in ("estimate", "lossy") else colour
        symbol = "diamond" if row.known in ("confirmed", "lossy") else "circle"
        fig.add_scatter(
            x=[row.speedup],
            y=[row.name],
            mode="markers",
            showlegend=False,
            error_x={"array": [row.high - row.speedup], "arrayminus": [row.speedup - row.low], "thickness": 2, "width": 0, "color": colour},
            marker={"symbol": symbol, "size": 11, "color": fill, "line": {"color": colour, "width": 1.75}},
            hovertemplate=f"{row.name}<br>{row.known} <b>{row.speedup:.2f}x</b> [{row.low:.2f}, {row.high:.2f}]<extra></extra>",
        )
        text = f"{row.speedup:.2f}x" if row.known == "lossy" else f"<b>{row.speedup:.2f}x</b>"
        number = {"text": text, "showarrow": False, "font": {"size": 13.5, "color": palette.muted if row.known == "lossy" else palette.ink}}
        fig.add_annotation(x=1, xref="paper", y=row.name, xanchor="left", xshift=10, **number)
    break_even(fig, palette, vertical=True)
    low, high, most = min(row.low for row in rows), max(row.high for row in rows), WIDEST * max(1.0, *(row.speedup for row in rows))
    if high > most:  # an interval that says nothing would squeeze all the others, and fill the axis with ticks
        high = most
        fig.update_xaxes(range=[min(low, 1.0) - 0.05 * most, most])
    spread = high - low
    fig.update_layout(margin_r=60)
    fig.update_yaxes(autorange="reversed", showgrid=True, tickfont={"size": 13, "color": palette.ink})
    step = next((step for step, most in ((0.1, 0.25), (0.2, 0.6), (0.5, 2.5)) if spread < most), 1.0)
    fig.update_xaxes(tickformat=".1f", ticksuffix="x", dtick=step, tickangle=0)
    fig.update_layout(xaxis_title_text="speedup, decode only")
    return fig
