"""The charts of a comparison: curves, the quadrant of acceptance and cost, and labels; from plain data and a palette.

Each run has a hue of its own (`Palette.runs`), its letter at its line and points, and a dash of its own, none of which stands for
anything else in this program. Speedups are ratios to plain decoding; alpha and c as in `core.theory`.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from core.figures import GAMMA_TICKS, Band, Confirmed, across, break_even, figure
from core.landscape import GAMMAS, Floats, best_speedup
from core.maps import add_published
from core.palette import Palette
from core.published import Published

DASHES = ("solid", "18px,4px", "12px,3px,3px,3px", "18px,3px,3px,3px,3px,3px", "10px,3px", "3px,2px,12px,2px")
LEVELS = (1.25, 1.5, 2.0, 3.0, 4.0, 6.0)
C_RANGE = (0.005, 2.0)
CORNERS = ("top left", "top right", "bottom right", "bottom left", "middle right", "middle left")
"""Where a run's letter stands beside its point: runs that lie together then keep readable letters."""
APART = 0.055
"""Least distance of two letters at the curves' ends, as a share of the axis."""


@dataclass(frozen=True, eq=False)
class Line:
    """One run's curve: its place and letter, (20,) replayed speedups with their interval, and the gammas that were really run."""

    place: int
    letter: str
    replay: Band
    confirmed: Sequence[Confirmed]


@dataclass(frozen=True)
class Point:
    """One run's alpha and c; measured False where they were imported."""

    place: int
    letter: str
    name: str
    alpha: float
    c: float
    measured: bool = True


def curves(palette: Palette, lines: Sequence[Line]) -> go.Figure:
    """Speedup by gamma of every run: replay with its band, diamonds where it was really run, the letter at the line's end."""
    subtitle = "decode only; line: replay, 95 %; diamond: confirmed"
    fig = figure(palette, "Speedup by draft length, run by run", subtitle, height=450, top=72)
    for line in lines:
        _add_band(fig, palette.runs[line.place], line.replay)
    for line in lines:
        _add_line(fig, palette, line)
    low, high = _range(lines)
    for line, y in zip(lines, _spread([float(line.replay.mid[-1]) for line in lines], APART * (high - low)), strict=True):
        look = {"showarrow": False, "font": {"size": 13, "color": palette.runs[line.place]}, "bgcolor": palette.paper, "borderpad": 1}
        fig.add_annotation(x=GAMMAS[-1], y=max(y, low), xanchor="left", xshift=8, text=f"<b>{line.letter}</b>", **look)
    across(fig, "y", 0, 1, fillcolor=palette.danger, line_width=0, layer="below")
    _add_one(fig, palette, lines, high - low)
    fig.update_yaxes(range=[low, high], tick0=0, dtick=0.2 if high - low <= 2 else 0.5, tickformat=".1f", ticksuffix="x")
    fig.update_xaxes(range=[0.4, GAMMAS[-1] + 1.4], tickvals=GAMMA_TICKS, unifiedhovertitle={"text": "gamma %{x}"}, showspikes=False)
    fig.update_layout(hovermode="x unified", xaxis_title_text="gamma, tokens drafted per round", showlegend=False)
    return fig


def _add_band(fig: go.Figure, colour: str, band: Band) -> None:
    around, edge = np.concatenate([GAMMAS, GAMMAS[::-1]]), np.concatenate([band.high, band.low[::-1]])
    look: dict[str, Any] = {"fill": "toself", "fillcolor": _faint(colour), "line_width": 0, "hoverinfo": "skip", "mode": "lines"}
    fig.add_scatter(x=around, y=edge, **look)


def _add_line(fig: go.Figure, palette: Palette, line: Line) -> None:
    colour = palette.runs[line.place]
    fig.add_scatter(
        x=GAMMAS,
        y=line.replay.mid,
        name=line.letter,
        mode="lines",
        line={"color": colour, "width": 2.5, "dash": DASHES[line.place]},
        customdata=np.column_stack([line.replay.low, line.replay.high]),
        hovertemplate="<b>%{y:.2f}x</b> [%{customdata[0]:.2f}, %{customdata[1]:.2f}]",
    )
    if line.confirmed:
        fig.add_scatter(
            x=[point.gamma for point in line.confirmed],
            y=[point.speedup for point in line.confirmed],
            name=f"{line.letter}, confirmed",
            mode="markers",
            marker={"symbol": "diamond", "size": 11, "color": colour, "line": {"color": palette.paper, "width": 1.5}},
            error_y={
                "array": [point.high - point.speedup for point in line.confirmed],
                "arrayminus": [point.speedup - point.low for point in line.confirmed],
                "color": colour,
                "thickness": 2,
                "width": 0,
            },
            customdata=[(point.low, point.high) for point in line.confirmed],
            hovertemplate="<b>%{y:.2f}x</b> [%{customdata[0]:.2f}, %{customdata[1]:.2f}]",
        )


def _add_one(fig: go.Figure, palette: Palette, lines: Sequence[Line], height: float) -> None:
    """The break-even line, with its label where the curves leave most room: at either end, above or below the line."""
    across(fig, "y", 1.0, line={"color": palette.break_even, "width": 1.25})
    ends = {"left": slice(0, 4), "right": slice(-5, None)}
    room = {
        (side, sign): min(float(np.abs(line.replay.mid[part] - 1 - sign * 0.04 * height).min()) for line in lines)
        for side, part in ends.items()
        for sign in (1, -1)
    }
    side, sign = max(room, key=lambda place: room[place])
    words = {"showarrow": False, "text": "break-even 1x", "font": {"size": 12, "color": palette.break_even}}
    anchor = "bottom" if sign > 0 else "top"
    fig.add_annotation(x=0.5 if side == "left" else GAMMAS[-1] - 0.2, y=1, xanchor=side, yanchor=anchor, **words)


def _range(lines: Sequence[Line]) -> tuple[float, float]:
    """Axis limits in steps of 0.2 that show every curve and every diamond; bands may run out of the picture."""
    values = np.concatenate([np.concatenate([line.replay.mid, [point.speedup for point in line.confirmed]]) for line in lines])
    low, high = min(0.8, float(values.min()) - 0.05), max(1.2, float(values.max()) + 0.1)
    return max(0.0, float(np.floor(low / 0.2) * 0.2)), float(np.ceil(high / 0.2) * 0.2)


def _spread(values: Sequence[float], apart: float) -> list[float]:
    """The same values, moved up until no two are closer than `apart`; in the given order."""
    moved = list(values)
    last = -np.inf
    for at in np.argsort(values, kind="stable").tolist():
        moved[at] = last = max(values[at], last + apart)
    return moved


def _faint(colour: str) -> str:
    """A hex colour at one tenth."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.10)"


def quadrant(
    palette: Palette, points: Sequence[Point], verify: ArrayLike, overhead: float, costs: str, published: Sequence[Published] = ()
) -> go.Figure:
    """Alpha against c with lines of equal speedup at the best gamma, for one machine's `verify` and `overhead`; `costs` says whose, in words."""
    fig = figure(palette, "Acceptance against cost", f"lines: speedup at the best gamma, {costs}", height=450, top=72)
    lowest = min(0.3, *(point.alpha - 0.06 for point in points)) if points else 0.3
    low = max(0.0, float(np.floor(lowest * 10) / 10))
    c, alpha = np.geomspace(*C_RANGE, 120), np.linspace(low, 1.0, 181)
    speedup = best_speedup(alpha[:, None], c[None, :], np.broadcast_to(np.asarray(verify, dtype=float), GAMMAS.shape), overhead)[1]
    for level in LEVELS:
        _add_level(fig, palette, c, _alpha_at(level, alpha, speedup), f"{level:g}x", low)
    _add_break_even(fig, palette, c, _alpha_at(1.0, alpha, speedup), low)
    if published:
        add_published(fig, palette, published)
    for point in points:
        _add_point(fig, palette, point)
    ticks = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2]
    fig.update_xaxes(type="log", range=np.log10(C_RANGE).tolist(), tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])
    fig.update_yaxes(range=[low, 1.0], tick0=0, dtick=0.1, tickformat=".1f", ticklabelstandoff=6)
    fig.update_layout(xaxis_title_text="c, one drafted token / one plain target step", yaxis_title_text="alpha, acceptance", showlegend=False)
    return fig


def _alpha_at(level: float, alpha: Floats, speedup: Floats) -> Floats:
    """(C,) the alpha at which each column of speedup (A, C), which never falls with alpha, reaches `level`; NaN where it is not in the range."""
    reached = speedup >= level
    at = reached.argmax(axis=0)
    inside = reached.any(axis=0) & (at > 0)
    columns = np.arange(speedup.shape[1])
    after, before = speedup[at, columns], speedup[np.maximum(at - 1, 0), columns]
    with np.errstate(divide="ignore", invalid="ignore"):
        found = alpha[at] - (alpha[1] - alpha[0]) * (after - level) / (after - before)
    return np.where(inside, found, np.nan)


def _add_level(fig: go.Figure, palette: Palette, c: Floats, alpha: Floats, words: str, lowest: float) -> None:
    fig.add_scatter(x=c, y=alpha, mode="lines", line={"color": palette.draft_soft, "width": 1.25}, hoverinfo="skip")
    clear = np.flatnonzero(alpha > lowest + 0.03)  # not over the axis below
    if clear.size:
        at = clear[0]
        look: dict[str, Any] = {"showarrow": False, "font": {"size": 12, "color": palette.draft}, "bgcolor": palette.paper, "borderpad": 1}
        fig.add_annotation(x=np.log10(c[at]), y=alpha[at], xanchor="left", xshift=6, text=words, **look)


def _add_break_even(fig: go.Figure, palette: Palette, c: Floats, alpha: Floats, low: float) -> None:
    """The line, and below it the floor where nothing beats plain; both end where the picture does."""
    known = np.flatnonzero(~np.isnan(alpha))
    if not known.size:
        return
    x, y = c[known], alpha[known]
    top = 1.0 if x[-1] < c[-1] else y[-1]  # it leaves the picture through the top, or at the right
    floor_x, floor_y = np.concatenate([x, [x[-1], c[-1], c[-1], x[0]]]), np.concatenate([y, [top, top, low, low]])
    fig.add_scatter(x=floor_x, y=floor_y, fill="toself", fillcolor=palette.danger, line_width=0, mode="lines", hoverinfo="skip")
    fig.add_scatter(x=x, y=y, mode="lines", line={"color": palette.break_even, "width": 1.5}, hoverinfo="skip")
    look: dict[str, Any] = {"showarrow": False, "bgcolor": palette.paper, "borderpad": 2}
    middle = len(x) // 3
    fig.add_annotation(
        x=np.log10(x[middle]), y=y[middle], text="break-even 1x", font={"size": 12, "color": palette.break_even}, xanchor="left", **look
    )
    words: dict[str, Any] = {"showarrow": False, "font": {"size": 12, "color": palette.danger_text}}
    fig.add_annotation(x=1, xref="paper", xanchor="right", y=0.02, yref="paper", yanchor="bottom", text="slower than plain", **words)


def _add_point(fig: go.Figure, palette: Palette, point: Point) -> None:
    """A disc in the run's hue with its letter beside it, a ring where the numbers were imported; drawn at the edge when it lies outside."""
    colour = palette.runs[point.place]
    c = float(np.clip(point.c, C_RANGE[0] * 1.08, C_RANGE[1] / 1.08))
    said = "" if point.measured else ", imported"
    fig.add_scatter(
        x=[c],
        y=[min(point.alpha, 0.985)],
        mode="markers+text",
        text=[f"<b>{point.letter}</b>"],
        textposition=CORNERS[point.place],
        textfont={"size": 13.5, "color": colour},
        marker={
            "size": 14,
            "color": colour if point.measured else palette.paper,
            "line": {"color": palette.paper if point.measured else colour, "width": 1.5 if point.measured else 2.5},
        },
        hovertemplate=f"{point.letter}: {html.escape(point.name, quote=False)}{said}<br>alpha {point.alpha:.2f}, c {point.c:.3f}<extra></extra>",
    )


def by_label(
    palette: Palette,
    title: str,
    subtitle: str,
    rows: Sequence[str],
    values: Sequence[tuple[int, str, Sequence[float | None]]],
    *,
    ratio: bool,
) -> go.Figure:
    """One value per label and run, as discs with the run's letter, one below the other within a label.

    rows: the labels, HTML to Plotly. values: (place, letter, values in the order of the rows). ratio: they are speedups, else shares.
    """
    runs = len(values)
    fig = figure(palette, title, subtitle, height=126 + max(52, 24 * runs) * len(rows), top=72)
    step, first = (0.68 / (runs - 1), -0.34) if runs > 1 else (0.0, 0.0)
    for at, (place, letter, known) in enumerate(values):
        fig.add_scatter(
            x=list(known),
            y=[row + first + at * step for row in range(len(rows))],
            mode="markers+text",
            text=[f"<b>{letter}</b>"] * len(rows),
            textfont={"size": 11, "color": palette.paper},
            marker={"size": 19, "color": palette.runs[place]},
            hovertemplate=f"{letter}: <b>%{{x:.2f}}{'x' if ratio else ''}</b><extra></extra>",
        )
    for row in range(1, len(rows)):
        across(fig, "y", row - 0.5, line={"color": palette.grid, "width": 1})
    axis = {"tickvals": list(range(len(rows))), "ticktext": list(rows), "tickfont": {"size": 13, "color": palette.ink}}
    fig.update_yaxes(range=[len(rows) - 0.5, -0.5], showgrid=False, **axis)
    fig.update_xaxes(tickformat=".2f" if not ratio else ".1f", ticksuffix="x" if ratio else "", showgrid=True)
    if ratio:
        break_even(fig, palette, vertical=True)
    fig.update_layout(showlegend=False, xaxis_title_text="speedup, decode only" if ratio else "alpha, acceptance")
    return fig
