"""The charts of timed passes: what checking costs, what this cost of drafting would allow, and both costs by batch and length.

From plain data and a palette, as `core.figures`. Ratios are to the target's one-token pass of the same batch at the same length. In the grids
grey is cheap and orange dear; the numbers say the same. Speedups are ratios to plain decoding, with the colours of the maps.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import plotly.graph_objects as go

from core.figures import DASHED, figure
from core.maps import add_cells, add_numbers, ink_on, luminance
from core.palette import Palette
from core.shapes import WANTED, Cell, Column, Shapes
from core.theory import NeededAlpha

HEIGHT, GRID_ROW, GRID_REST = 430, 46, 128
CHEAP, DEAREST = 3, 1
"""Places of grey and of a deep orange in the palette's speedup colours."""


def verify_curve(palette: Palette, shapes: Shapes) -> go.Figure:
    """v(n) by n, one line per cache length, at the smallest batch; above the dashed line n separate steps would be no dearer."""
    batch = shapes.batches[0]
    cells = [cell for cell in shapes.timed if cell.batch == batch]
    fig = figure(palette, "What checking costs", "target pass over n tokens / plain step, measured", height=HEIGHT, top=88)
    colours = [*palette.steps[-len(cells) :]] if len(cells) <= len(palette.steps) else [palette.target] * len(cells)
    highest = 1.0
    for cell, colour in zip(cells, colours, strict=True):
        assert cell.costs is not None
        assert cell.times is not None
        widths = sorted(cell.times.target)
        ratios = [float(cell.costs.verify[width]) for width in widths]
        highest = max(highest, *ratios)
        fig.add_scatter(
            x=widths,
            y=ratios,
            name=f"after {cell.cache_tokens:,} tokens",
            mode="lines+markers",
            line={"color": colour, "width": 2.5},
            marker={"size": 7, "color": colour},
            hovertemplate="%{y:.2f} plain steps",
        )
    free = {"color": palette.formula, "width": 1.75, "dash": DASHED}
    fig.add_scatter(x=[1, 21], y=[1, 1], mode="lines", line=free, showlegend=False, hoverinfo="skip")
    words: dict[str, Any] = {"showarrow": False, "font": {"size": 12, "color": palette.muted}, "yanchor": "top", "xanchor": "right"}
    fig.add_annotation(x=21, y=1, text="free: as much as one token", **words)
    fig.update_xaxes(range=[0.4, 21.6], tickvals=[1, 2, 3, 5, 7, 9, 13, 21], unifiedhovertitle={"text": "%{x} tokens"}, showspikes=False)
    fig.update_yaxes(range=[0, highest * 1.08], tickformat=".1f")
    fig.update_layout(hovermode="x unified", xaxis_title_text="n, tokens in one pass")
    return fig


def by_alpha(palette: Palette, column: Column, c: float, needed: NeededAlpha | None, known: float | None = None) -> go.Figure:
    """The map's column at this c: best gamma and its speedup by alpha; a line where `WANTED` is reached. known: the alpha that was measured."""
    fig = figure(palette, f"What c {c:.2f} would allow", "best gamma and its speedup; formula, measured v", height=HEIGHT, top=88)
    alpha = (column.alpha_edges[:-1] + column.alpha_edges[1:]) / 2
    add_cells(fig, palette, np.array([0.0, 1.0]), column.alpha_edges, column.speedup[:, None], HEIGHT)
    words = np.array(["off" if gamma == 0 else f"{speedup:.2f}x, gamma {gamma}" for gamma, speedup in zip(column.gamma, column.speedup, strict=True)])
    add_numbers(fig, palette, np.array([0.72]), alpha, column.speedup[:, None], words[:, None], "alpha %{y:.2f}<br>%{text}<extra></extra>")
    if needed is not None and column.alpha_edges[0] <= needed.alpha <= column.alpha_edges[-1]:
        fig.add_shape(type="line", x0=0, x1=0.45, y0=needed.alpha, y1=needed.alpha, line={"color": palette.ink, "width": 2})
        label: dict[str, Any] = {"showarrow": False, "font": {"size": 12, "color": palette.ink}, "bgcolor": palette.paper, "borderpad": 2}
        fig.add_annotation(x=0, xanchor="left", xshift=4, y=needed.alpha, text=f"<b>{WANTED:g}x from alpha {needed.alpha:.2f}</b>", **label)
    fig.update_xaxes(range=[0, 1], showticklabels=False, showline=False)
    fig.update_yaxes(range=[column.alpha_edges[0], column.alpha_edges[-1]], tick0=0, dtick=0.1, tickformat=".1f", showgrid=False, ticklabelstandoff=6)
    fig.update_layout(yaxis_title_text=f"alpha, acceptance ({'not known yet' if known is None else f'measured: {known:.2f}'})")
    return fig


def grid(
    palette: Palette, shapes: Shapes, title: str, subtitle: str, value: Callable[[Cell], float | None], *, cheap: float, dear: float, ring: bool
) -> go.Figure:
    """A number by batch and length; grey at `cheap`, the deepest orange at `dear`. ring: around the cells where checking is dear."""
    batches, lengths = shapes.batches, shapes.lengths
    height = GRID_REST + GRID_ROW * len(lengths)
    fig = figure(palette, title, subtitle, height=height, top=74)
    shares: list[list[float | None]] = []
    for at, length in enumerate(lengths):
        cells = [shapes.cell(batch, length) for batch in batches]
        known = [value(cell) for cell in cells]
        shares.append([None if number is None else float(np.clip((number - cheap) / (dear - cheap), 0, 1)) for number in known])
        for column, (cell, number) in enumerate(zip(cells, known, strict=True)):
            share = shares[at][column]
            look: dict[str, Any] = {"showarrow": False, "font": {"size": 13, "color": palette.muted if share is None else _ink(palette, share)}}
            fig.add_annotation(x=column, y=at, text="left out" if number is None else f"{number:.2f}", **look)
            if ring and cell.dear:
                edge: dict[str, Any] = {"type": "rect", "line": {"color": palette.ink, "width": 2}}
                fig.add_shape(x0=column - 0.47, x1=column + 0.47, y0=at - 0.46, y1=at + 0.46, **edge)
    scale = [[0, palette.diverging[CHEAP]], [1, palette.diverging[DEAREST]]]
    look = {"xgap": 2, "ygap": 2, "zmin": 0, "zmax": 1, "showscale": False, "hoverinfo": "skip", "hoverongaps": False}
    fig.add_heatmap(z=shares, colorscale=scale, **look)
    fig.update_xaxes(tickvals=list(range(len(batches))), ticktext=[str(batch) for batch in batches], showline=False, title_text="texts in one batch")
    fig.update_yaxes(
        tickvals=list(range(len(lengths))),
        ticktext=[f"{length:,}" for length in lengths],
        showgrid=False,
        title_text="tokens cached",
        ticklabelstandoff=6,
    )
    return fig


def _ink(palette: Palette, share: float) -> str:
    """White or ink on a cell so far from grey to orange."""
    grey, orange = (np.array([int(palette.diverging[at][i : i + 2], 16) / 255 for i in (1, 3, 5)]) for at in (CHEAP, DEAREST))
    return str(ink_on(luminance(grey + share * (orange - grey))))
