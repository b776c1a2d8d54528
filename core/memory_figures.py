"""The charts of memory and fleet, from plain data and a palette; no Streamlit, no model.

Bytes in, GiB (2^30) on the axes. Target indigo, draft teal, caches in the softer shade of their
model, everything else ochre. The GPU's limit is a line in ink: red is kept for break-even at 1x.
Axes are linear, because memory is linear in tokens. What is in the numbers is said by `core.memory`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go

from core.figures import across, break_even, figure
from core.palette import Palette

GIB = 2**30
BAR_HEIGHT, CURVE_HEIGHT, FLEET_HEIGHT = 212, 360, 320
MOST_ABOVE_LIMIT = 1.75
LEAST_ABOVE_WEIGHTS = 1.3
MANY_REQUESTS = 500_000
"""From here on the ticks of a load are too wide for six of them on a phone."""
LABEL_SHARE = 0.06
APART_SHARE = 0.16

Role = Literal["target", "target_soft", "draft", "draft_soft", "other", "free"]


@dataclass(frozen=True)
class Part:
    """One piece of the memory bar."""

    name: str
    bytes: float
    role: Role


@dataclass(frozen=True)
class Growth:
    """Memory of so many sequences at rising context: (N,) tokens each and (N,) bytes; `fits_tokens` is where the limit is met, if it is."""

    sequences: int
    tokens: Sequence[int]
    bytes: Sequence[float]
    fits_tokens: int | None = None


@dataclass(frozen=True)
class Load:
    """GPUs that a load needs: (N,) requests per day, (N,) GPUs with and without the draft."""

    requests: Sequence[float]
    without: Sequence[float]
    with_draft: Sequence[float]


@dataclass(frozen=True)
class Gains:
    """(N,) requests at once, and the speedup of decoding and of whole requests at each."""

    sequences: Sequence[int]
    decoding: Sequence[float]
    request: Sequence[float]


def memory_bar(palette: Palette, parts: Sequence[Part], *, usable_bytes: float, subtitle: str) -> go.Figure:
    """What fills the GPU: one stacked bar in GiB. Parts beyond `usable_bytes` stand right of the limit's line."""
    fig = figure(palette, "What fills the GPU", subtitle, height=BAR_HEIGHT, top=58)
    used = sum(part.bytes for part in parts)
    width = max(used, usable_bytes) / GIB
    for part in parts:
        gib, colour = part.bytes / GIB, getattr(palette, part.role)
        fig.add_bar(
            x=[gib],
            y=[""],
            orientation="h",
            name=part.name,
            width=0.8,
            text=f"{gib:.1f}" if gib > 0.03 * width else "",
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            marker={"color": colour, "line": {"color": palette.paper, "width": 1}},
            textfont={"size": 12.5, "color": _on(palette, part.role)},
            hovertemplate=f"{part.name} <b>%{{x:.2f}} GiB</b><extra></extra>",
        )
    if used > usable_bytes:
        _limit_of_bar(fig, palette, usable_bytes / GIB, width)
    fig.update_layout(barmode="stack", bargap=0, margin_l=0, margin_r=0, uniformtext={"minsize": 11, "mode": "hide"})
    fig.update_layout(legend={"y": -0.42, "yanchor": "top"})
    fig.update_xaxes(range=[0, width], showline=False, nticks=9, tickangle=0)
    fig.update_yaxes(showticklabels=False, showgrid=False)
    return fig


def _on(palette: Palette, role: Role) -> str:
    """The colour of a number that can be read on a part: ochre is light in both themes."""
    if role == "other":
        return min((palette.ink, palette.paper), key=lambda colour: sum(bytes.fromhex(colour[1:])))
    return palette.paper if role in ("target", "draft") else palette.ink


def _limit_of_bar(fig: go.Figure, palette: Palette, limit: float, width: float) -> None:
    """A line through the bar where the GPU ends, its words above the bar."""
    across(fig, "x", limit, width, fillcolor=palette.danger, line_width=0, layer="below")
    across(fig, "x", limit, line={"color": palette.ink, "width": 2})
    side: dict[str, Any] = {"xanchor": "right", "xshift": -4} if limit > 0.85 * width else {"xanchor": "left", "xshift": 4}
    words = f"usable: {limit:.1f}"
    fig.add_annotation(x=limit, y=1, yref="paper", yanchor="bottom", text=words, showarrow=False, font={"size": 12, "color": palette.ink}, **side)


def memory_curve(palette: Palette, lines: Sequence[Growth], *, usable_bytes: float, gpu: str) -> go.Figure:
    """Memory against context for several numbers of sequences, the GPU's limit, and where each line meets it.

    lines: from the fewest sequences to the most, at most four.
    """
    fig = figure(palette, "Memory by context", f"GiB on one {gpu} with the draft, by sequences", height=CURVE_HEIGHT, top=64)
    limit = usable_bytes / GIB
    highest = max(max(line.bytes) for line in lines) / GIB
    least = min(line.bytes[0] for line in lines) / GIB
    top = max(min(max(highest * 1.06, limit * 1.15), limit * MOST_ABOVE_LIMIT), least * LEAST_ABOVE_WEIGHTS)
    widest = max(line.tokens[-1] for line in lines)
    for line, colour in zip(lines, palette.steps[-len(lines) :], strict=True):
        fig.add_scatter(
            x=list(line.tokens),
            y=[value / GIB for value in line.bytes],
            mode="lines",
            line={"color": colour, "width": 2.25},
            showlegend=False,
            hovertemplate=f"{_sequences(line)}, %{{x:,}} tokens each<br><b>%{{y:.1f}} GiB</b><extra></extra>",
        )
    _label_ends(fig, palette, lines, top, widest)
    across(fig, "y", limit, top, fillcolor=palette.danger, line_width=0, layer="below")
    fig.add_hline(
        limit,
        line={"color": palette.ink, "width": 1.25},
        annotation_text=f"usable: {limit:.1f} GiB",
        annotation_position=_clear_side([line.fits_tokens / widest for line in lines if line.fits_tokens is not None]),
        annotation_font={"size": 12, "color": palette.ink},
    )
    _mark_crossings(fig, palette, lines, limit, widest)
    ticks = [round(widest * share) for share in (0, 0.25, 0.5, 0.75, 1)]
    fig.update_xaxes(range=[0, widest * 1.08], tickvals=ticks, ticktext=[f"{tick:,}" for tick in ticks], tickangle=0)
    fig.update_xaxes(title_text="context, tokens per sequence")
    fig.update_yaxes(range=[0, top], nticks=6)
    return fig


def _label_ends(fig: go.Figure, palette: Palette, lines: Sequence[Growth], top: float, widest: int) -> None:
    """The number of sequences where each line ends, or leaves the plot; never one over the other."""
    below = -1.0
    for line in lines:
        gib = np.array(line.bytes) / GIB
        if gib[-1] <= top:
            y = max(float(gib[-1]), below + LABEL_SHARE * top)
            below = y
            place: dict[str, Any] = {"x": line.tokens[-1], "y": y, "xanchor": "left", "xshift": 6}
        else:
            leaves = float(np.interp(top, gib, np.array(line.tokens)))
            place = {"x": leaves, "y": top, "xanchor": "left", "yanchor": "top", "xshift": 6}
            if leaves > 0.97 * widest:
                place |= {"xanchor": "right", "xshift": -6}
        fig.add_annotation(text=f"{line.sequences:,}", showarrow=False, font={"size": 12.5, "color": palette.ink}, **place)


def _clear_side(crossings: Sequence[float]) -> str:
    """Where along the limit its words are on no line, which cross it at these shares of the width."""
    sides = {"top left": (0.0, 0.36), "top right": (0.66, 1.0), "top": (0.36, 0.66)}
    return next((side for side, (low, high) in sides.items() if not any(low <= at <= high for at in crossings)), "top left")


def _mark_crossings(fig: go.Figure, palette: Palette, lines: Sequence[Growth], limit: float, widest: int) -> None:
    """A ring where a line meets the limit, and the tokens there in words unless a neighbour's words are in the way."""
    taken: list[float] = []
    for line in lines:
        if line.fits_tokens is None or line.fits_tokens >= line.tokens[-1]:
            continue
        tokens = line.fits_tokens
        fig.add_scatter(
            x=[tokens],
            y=[limit],
            mode="markers",
            showlegend=False,
            marker={"size": 8, "color": palette.paper, "line": {"color": palette.ink, "width": 1.75}},
            hovertemplate=f"{_sequences(line)}: up to <b>{tokens:,} tokens</b> each<extra></extra>",
        )
        if all(abs(tokens - other) > APART_SHARE * widest for other in taken) and tokens > 0:
            taken.append(tokens)
            right = tokens > 0.8 * widest
            words: dict[str, Any] = {"xanchor": "right", "xshift": -8} if right else {"xanchor": "left", "xshift": 8}
            words |= {"yanchor": "top", "yshift": -2, "showarrow": False, "font": {"size": 12, "color": palette.muted}}
            fig.add_annotation(x=tokens, y=limit, text=f"{tokens:,} tokens", **words)


def _sequences(line: Growth) -> str:
    return "1 sequence" if line.sequences == 1 else f"{line.sequences:,} sequences"


def fleet(palette: Palette, load: Load, *, now: float) -> go.Figure:
    """GPUs against requests per day, without the draft in indigo and with it in teal; `now` is the reader's own load."""
    fig = figure(palette, "GPUs by load", "GPUs needed at peak, by requests per day", height=FLEET_HEIGHT, top=84)
    series: tuple[tuple[str, Sequence[float], str], ...] = (
        ("without draft", load.without, palette.target),
        ("with draft", load.with_draft, palette.draft),
    )
    for name, gpus, colour in series:
        fig.add_scatter(
            x=list(load.requests),
            y=list(gpus),
            name=name,
            mode="lines",
            line={"color": colour, "width": 2.25, "shape": "hv"},
            hovertemplate="<b>%{y:,.0f} GPUs</b>",
        )
    small: dict[str, Any] = {"annotation_font": {"size": 12, "color": palette.muted}}
    fig.add_vline(now, line={"color": palette.axis, "width": 1.25}, annotation_text="your load", annotation_position="top right", **small)
    fig.update_layout(hovermode="x unified")
    fig.update_xaxes(
        tickformat=",",
        nticks=6 if load.requests[-1] < MANY_REQUESTS else 4,
        tickangle=0,
        title_text="requests per day",
        unifiedhovertitle={"text": "%{x:,.0f} requests a day"},
    )
    fig.update_yaxes(rangemode="tozero", tickformat=",", nticks=6)
    if max(*load.without, *load.with_draft) < 6:
        fig.update_yaxes(dtick=1)
    return fig


def gain(palette: Palette, gains: Gains) -> go.Figure:
    """Speedup against the requests that one GPU serves at once, with break-even; modelled, so dotted."""
    fig = figure(palette, "Gain by requests at once", "ratio to plain, one GPU", height=FLEET_HEIGHT, top=84)
    top = max(1.1, *gains.decoding, *gains.request) * 1.08
    low = min(0.9, *gains.decoding, *gains.request) - 0.1
    across(fig, "y", low, 1, fillcolor=palette.danger, line_width=0, layer="below")
    series = (("decoding", gains.decoding, palette.draft), ("whole request", gains.request, palette.ink))
    for name, values, colour in series:
        fig.add_scatter(
            x=list(gains.sequences),
            y=list(values),
            name=name,
            mode="lines",
            line={"color": colour, "width": 2.25, "dash": "dot"},
            hovertemplate="<b>%{y:.2f}x</b>",
        )
    break_even(fig, palette, below=True)
    ticks = [2**power for power in range(0, 20, 2 if gains.sequences[-1] > 64 else 1) if 2**power <= gains.sequences[-1]]
    fig.update_layout(hovermode="x unified")
    fig.update_xaxes(type="log", tickvals=ticks, ticktext=[f"{tick:,}" for tick in ticks], tickangle=0, title_text="requests at once")
    fig.update_xaxes(unifiedhovertitle={"text": "%{x:,.0f} at once"})
    fig.update_yaxes(range=[max(0.0, low), top], tickformat=".1f", ticksuffix="x", nticks=6)
    return fig
