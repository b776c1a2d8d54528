"""Curve and map side by side, with the what-if values in both; used with and without a run."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core import figures, maps
from core.figures import Band, Confirmed, Floats
from core.landscape import GAMMAS, Landscape
from core.published import PAPERS, t5_pairs
from core.ui import look, numbers
from core.ui.what_if import MAP, take_cell


def curve(
    key: str,
    *,
    formula: Floats,
    replay: Band | None = None,
    confirmed: Sequence[Confirmed] = (),
    what_if: Floats | None = None,
    level: tuple[str, float] | None = None,
    recommended: int | None = None,
) -> None:
    """Speedup against gamma, with its table behind it."""
    fig = look.drawn(
        figures.curve,
        look.palette(),
        GAMMAS,
        formula=formula,
        replay=replay,
        confirmed=confirmed,
        what_if=what_if,
        level=level,
        recommended=recommended,
    )
    main = replay.mid if replay else what_if if what_if is not None else formula
    origin = "replayed" if replay else "what-if" if what_if is not None else "formula"
    best = int(GAMMAS[main.argmax()])
    says = f"The {origin} curve is best at gamma {best} with {main.max():.2f}x; the formula says {formula.max():.2f}x."
    look.show(fig, key, f"Speedup against gamma 1 to 20. {says}{f' Recommended: gamma {recommended}.' if recommended else ''}")
    table = pd.DataFrame({"gamma": GAMMAS, "formula": formula})
    if replay:
        table["replay"] = replay.mid
        table["95 % interval"] = [numbers.interval((low, high)) for low, high in zip(replay.low, replay.high, strict=True)]
    if confirmed:
        table["confirmed"] = [next((point.speedup for point in confirmed if point.gamma == gamma), None) for gamma in GAMMAS]
    if what_if is not None:
        table["what-if"] = what_if
    ratios = {name: "%.2fx" for name in ("formula", "replay", "confirmed", "what-if") if name in table}
    look.behind("The curve as a table", table, "Speedup by gamma", ratios)


def best_gamma_map(land: Landscape, spots: Sequence[maps.Spot], published: bool) -> None:
    """The clickable map, with its table behind it."""
    fig = look.drawn(maps.best_gamma, look.palette(), land, spots, t5_pairs() if published else ())
    where = "; ".join(f"{spot.name}: alpha {spot.alpha:.2f}, c {spot.c:.2f}" for spot in spots)
    alt = f"Best gamma for every acceptance alpha and cost ratio c, with the break-even line. {where}."
    _clickable(fig, alt)
    gamma = np.where(land.gamma == 0, "off", land.gamma.astype(str))
    cells = [[f"{number}, {gain:.2f}x" for number, gain in zip(row, gains, strict=True)] for row, gains in zip(gamma, land.speedup, strict=True)]
    table = pd.DataFrame(cells, columns=[f"c {c:.3f}" for c in land.c])
    table.insert(0, "alpha", [f"{alpha:.2f}" for alpha in land.alpha])
    look.behind("The map as a table", table.iloc[::-1], "Best gamma and its speedup by alpha and c")
    if published:
        paper = PAPERS["leviathan2022"]
        look.note(f"Hollow squares, published, not measured here: {paper.title}: T5-XXL 11B on {paper.hardware}. Hover for the speedups found there.")


def _clickable(fig: go.Figure, alt: str) -> None:
    st.plotly_chart(fig, key=MAP, alt=alt, theme=None, config=look.CONFIG, width="stretch", on_select=take_cell, selection_mode="points")
