"""The two maps: best gamma by acceptance and cost, and the limit x threshold sweep.

Colour is log2 of the speedup and diverges at 1x; the number is always printed, in white or in ink by
the luminance of its cell (WCAG). A click on a Plotly heatmap returns nothing, so an invisible scatter
layer carries the numbers and takes the click. Alpha and c are ratios; speedups are ratios to plain.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from core.figures import figure
from core.landscape import Landscape
from core.palette import DIVERGING_STOPS, Palette
from core.published import Published

Floats = NDArray[np.floating[Any]]
HEIGHT = 430
SWEEP_HEIGHT = 360
LOG2_LOW, LOG2_HIGH = -1.0, 2.0


@dataclass(frozen=True)
class Spot:
    """One point on the map with its words: this run, another one, or a what-if."""

    name: str
    alpha: float
    c: float
    kind: Literal["run", "other", "what-if"]


def best_gamma(palette: Palette, land: Landscape, spots: Sequence[Spot] = (), published: Sequence[Published] = ()) -> go.Figure:
    """Best gamma for every alpha and c; `spots` are marked, other runs by their number, `published` pairs are hollow squares."""
    fig = figure(palette, "Best gamma by acceptance and cost", "number: best gamma; colour: its speedup", height=HEIGHT, top=88)
    add_cells(fig, palette, land.c_edges, land.alpha_edges, land.speedup, HEIGHT)
    line = {"color": palette.break_even, "width": 2}
    fig.add_scatter(x=land.break_even_c, y=land.break_even_alpha, mode="lines", line=line, showlegend=False, hoverinfo="skip")
    words = np.where(land.gamma == 0, "off", land.gamma.astype(str))
    hover = "alpha %{y:.2f}, c %{x:.3f}<br>best gamma <b>%{text}</b>, %{customdata:.2f}x<extra></extra>"
    add_numbers(fig, palette, land.c, land.alpha, land.speedup, words, hover)
    if published:
        add_published(fig, palette, published)
    others = [spot for spot in spots if spot.kind == "other"]
    for spot in spots:
        _add_spot(fig, palette, land, spot, others.index(spot) + 1 if spot in others else None)
    _label_break_even(fig, palette, land)
    ticks = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1]
    fig.update_xaxes(type="log", range=[-2, 0], tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks], showline=False)
    fig.update_yaxes(range=[land.alpha_edges[0], land.alpha_edges[-1]], tick0=0, dtick=0.1, tickformat=".1f", showgrid=False)
    fig.update_layout(xaxis_title_text="c, one drafted token / one plain target step", yaxis_title_text="alpha, acceptance")
    fig.update_yaxes(ticklabelstandoff=6)
    return fig


def sweep(palette: Palette, limits: Sequence[int], thresholds: Sequence[float], speedup: Floats) -> go.Figure:
    """Speedup (T, L) of every draft limit and confidence threshold of one run."""
    fig = figure(palette, "Limit x threshold", "number and colour: replayed speedup, decode only", height=SWEEP_HEIGHT, top=88)
    x, y = np.arange(float(len(limits))), np.arange(float(len(thresholds)))
    add_cells(fig, palette, np.arange(len(limits) + 1) - 0.5, np.arange(len(thresholds) + 1) - 0.5, speedup, SWEEP_HEIGHT)
    words = np.array([f"{value:.2f}" for value in speedup.ravel()]).reshape(speedup.shape)
    add_numbers(fig, palette, x, y, speedup, words, "%{text}x<extra></extra>")
    best = np.unravel_index(int(speedup.argmax()), speedup.shape)
    ring = {"type": "rect", "line": {"color": palette.ink, "width": 2}}
    fig.add_shape(x0=best[1] - 0.5, x1=best[1] + 0.5, y0=best[0] - 0.5, y1=best[0] + 0.5, **ring)
    fig.update_xaxes(tickvals=x, ticktext=[str(limit) for limit in limits], showline=False, title_text="limit, most tokens drafted per round")
    fig.update_yaxes(tickvals=y, ticktext=[f"{value:g}" for value in thresholds], showgrid=False, ticklabelstandoff=6)
    fig.update_layout(yaxis_title_text="confidence threshold")
    return fig


def _place(speedup: Floats) -> Floats:
    """Where a speedup lies on the colour scale, 0..1."""
    return (np.clip(np.log2(speedup), LOG2_LOW, LOG2_HIGH) - LOG2_LOW) / (LOG2_HIGH - LOG2_LOW)


def ink_on(shade: Floats) -> NDArray[np.str_]:
    """White or ink, whichever can be read on colours of these luminances."""
    return np.where(shade < 0.21, "#FFFFFF", "#1C2230")


def _luminance(palette: Palette, place: Floats) -> Floats:
    """WCAG relative luminance of the colour scale at each `place`; white text is readable below about 0.21."""
    rgb = np.array([[int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)] for colour in palette.diverging])
    return luminance(np.stack([np.interp(place, DIVERGING_STOPS, rgb[:, i]) for i in range(3)]))


def luminance(parts: Floats) -> Floats:
    """WCAG relative luminance of red, green and blue, (3, ...) from 0 to 1."""
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return np.array([0.2126, 0.7152, 0.0722]) @ linear


def add_cells(fig: go.Figure, palette: Palette, x_edges: Floats, y_edges: Floats, speedup: Floats, height: int) -> None:
    """The coloured cells with their scale above them; edges (C+1,) and (R+1,), speedup (R, C)."""
    bar: dict[str, Any] = {
        "orientation": "h",
        "x": 1,
        "xanchor": "right",
        "y": 1 - 50 / height,
        "yref": "container",
        "yanchor": "top",
        "len": 0.46,
        "thickness": 8,
        "outlinewidth": 0,
        "xpad": 0,
        "ypad": 0,
        "tickvals": [-1, 0, 1, 2],
        "ticktext": ["0.5x", "1x", "2x", "4x"],
        "tickfont": {"size": 12, "color": palette.muted},
        "ticks": "",
        "ticklabelposition": "outside top",
    }
    fig.add_heatmap(
        x=x_edges,
        y=y_edges,
        z=np.log2(speedup),
        xgap=1,
        ygap=1,
        zmin=LOG2_LOW,
        zmax=LOG2_HIGH,
        hoverinfo="skip",
        colorscale=list(zip(DIVERGING_STOPS, palette.diverging, strict=True)),
        colorbar=bar,
    )


def add_numbers(fig: go.Figure, palette: Palette, x: Floats, y: Floats, speedup: Floats, words: NDArray[np.str_], hover: str) -> None:
    """The numbers in the cells; also what a click lands on. `unselected` keeps them readable after a click."""
    grid_x, grid_y = np.meshgrid(x, y)
    ink = ink_on(_luminance(palette, _place(speedup.ravel())))
    fig.add_scatter(
        x=grid_x.ravel(),
        y=grid_y.ravel(),
        mode="markers+text",
        text=words.ravel(),
        customdata=speedup.ravel(),
        showlegend=False,
        marker={"size": 8, "opacity": 0},
        textfont={"size": 12, "color": ink},
        hovertemplate=hover,
        selected={"marker": {"opacity": 0}},
        unselected={"marker": {"opacity": 0}},
    )
    fig.update_layout(hoverdistance=40)


def add_published(fig: go.Figure, palette: Palette, pairs: Sequence[Published]) -> None:
    """Hollow squares at alpha and c of published pairs, which all have both; their hover text says what was measured there."""
    names = [f"{pair.task}, {pair.draft}, temperature {pair.temperature:g}<br>measured {pair.speedup:.1f}x at gamma {pair.gamma}" for pair in pairs]
    fig.add_scatter(
        x=[pair.c for pair in pairs],
        y=[pair.alpha for pair in pairs],
        mode="markers",
        showlegend=False,
        text=names,
        marker={"symbol": "square-open", "size": 10, "color": palette.ink, "line": {"width": 2}},
        hovertemplate="published<br>%{text}<br>alpha %{y:.2f}, c %{x:.2f}<extra></extra>",
        unselected={"marker": {"opacity": 1}},
    )


def _add_spot(fig: go.Figure, palette: Palette, land: Landscape, spot: Spot, number: int | None) -> None:
    """A point, drawn at the map's edge when it lies outside; its hover text gives the true values. `number` stands in the point of another run."""
    c = float(np.clip(spot.c, land.c_edges[0] * 1.04, land.c_edges[-1] / 1.04))
    alpha = float(np.clip(spot.alpha, land.alpha_edges[0] + 0.01, land.alpha_edges[-1] - 0.01))
    run, name = spot.kind == "run", html.escape(spot.name)
    rim = {"color": palette.paper if run else palette.ink, "width": 2 if number is None else 1.5}
    mark: dict[str, Any] = {"symbol": "diamond" if run else "circle", "color": palette.ink if run else palette.paper, "line": rim}
    fig.add_scatter(
        x=[c],
        y=[alpha],
        mode="markers" if number is None else "markers+text",
        text=None if number is None else [str(number)],
        textfont={"size": 12, "color": palette.ink},
        showlegend=False,
        marker=mark | {"size": 13 if number is None else 18},
        hovertemplate=f"{name}<br>alpha {spot.alpha:.2f}, c {spot.c:.3f}<extra></extra>",
        unselected={"marker": {"opacity": 1}},
    )
    if number is None:
        above = alpha < land.alpha_edges[-1] - 0.06
        look: dict[str, Any] = {"showarrow": False, "font": {"size": 12, "color": palette.ink}, "bgcolor": palette.paper, "borderpad": 2}
        text = f"<b>{name}</b>" if run else name
        fig.add_annotation(x=np.log10(c), y=alpha, text=text, yshift=16 if above else -16, opacity=0.92, **look)


def _label_break_even(fig: go.Figure, palette: Palette, land: Landscape) -> None:
    """In the bottom row, right of the line, over a cell that says "off"."""
    if land.break_even_c.size == 0:
        return
    column = int(np.clip(np.searchsorted(land.c_edges, land.break_even_c[0]), 2, len(land.c) - 2))  # not over the axis at the left
    look: dict[str, Any] = {"showarrow": False, "font": {"size": 12, "color": palette.break_even}, "bgcolor": palette.paper, "borderpad": 2}
    fig.add_annotation(x=np.log10(land.c[column]), y=land.alpha[0], text="break-even 1x", **look)
