"""The charts of a report, each with its words and the table behind it: the pages' own figures, on light paper."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import wrap

import numpy as np
import plotly.graph_objects as go

from core import figures, maps, numbers
from core import memory_figures as figs
from core.analysis import Analysis
from core.landscape import GAMMAS, landscape
from core.maps import Spot
from core.memory_figures import GIB
from core.memory_gain import cache as sized
from core.memory_served import SEQUENCES, contexts, growth, parts
from core.palette import LIGHT
from core.report_memory import Served
from core.report_tables import Table

NAME_WIDTH = 18
"""Characters of a setting's name in a line, so that a phone has room for the plot."""


@dataclass(frozen=True)
class Chart:
    """A figure, what it shows in a sentence, and its numbers; table None where they stand beside it anyway."""

    key: str
    figure: go.Figure
    alt: str
    table: Table | None = None


def charts(analysis: Analysis) -> tuple[Chart, ...]:
    """The curve, the map with the run's point, and the ranking; intervals are on these prompts."""
    return (_curve(analysis), _map(analysis), _ranking(analysis))


def _curve(analysis: Analysis) -> Chart:
    formula, replay, confirmed = analysis.formula, analysis.replay, analysis.confirmed
    fig = figures.curve(LIGHT, GAMMAS, formula=formula, replay=replay, confirmed=confirmed, level=analysis.level, recommended=analysis.recommended)
    best = int(GAMMAS[replay.mid.argmax()])
    alt = f"Speedup against gamma 1 to 20: the replay is best at gamma {best} with {replay.mid.max():.2f}x, the formula says {formula.max():.2f}x."
    run = {point.gamma: numbers.ratio(point.speedup) for point in confirmed}
    rows = [
        (str(gamma), numbers.ratio(line), numbers.ratio(mid), numbers.interval((low, high)), run.get(gamma, ""))
        for gamma, line, mid, low, high in zip(GAMMAS.tolist(), formula, replay.mid, replay.low, replay.high, strict=True)
    ]
    return Chart("curve", fig, alt, Table("The curve as a table", ("gamma", "Formula", "Replay", "95 % interval", "Confirmed"), tuple(rows)))


def _map(analysis: Analysis) -> Chart:
    """With this run's own v and h, as the page gamma begins."""
    alpha, costs = analysis.alpha.value, analysis.costs
    land = landscape(costs.verify_up_to(20)[1:], max(0.0, costs.overhead), lowest_alpha=alpha)
    fig = maps.best_gamma(LIGHT, land, [Spot("this run", alpha, costs.c, "run")])
    words = np.where(land.gamma == 0, "off", land.gamma.astype(str))
    rows = [
        (f"{row:.2f}", *(f"{word}, {gain:.2f}x" for word, gain in zip(texts, gains, strict=True)))
        for row, texts, gains in zip(land.alpha[::-1], words[::-1], land.speedup[::-1], strict=True)
    ]
    alt = f"Best gamma for every acceptance and cost. This run lies at alpha {alpha:.2f} and c {numbers.cost(costs.c)}."
    return Chart("map", fig, alt, Table("The map as a table", ("alpha", *(f"c {c:.3f}" for c in land.c)), tuple(rows)))


def _ranking(analysis: Analysis) -> Chart:
    rows = analysis.ranking()
    wrapped = [replace(row, name="<br>".join(wrap(row.name, NAME_WIDTH))) for row in rows]
    fig = figures.ranges(LIGHT, "Ranking", "diamond: confirmed; dot: replayed; bar: 95 %", wrapped)
    fig.update_xaxes(tickmode="auto", dtick=None, nticks=4)
    return Chart("ranking", fig, "Settings by speedup: " + ", ".join(f"{row.name} {row.speedup:.2f}x" for row in rows) + ".")


def memory_charts(shown: Served) -> tuple[Chart, ...]:
    """What fills the GPU, and how that grows with the context."""
    return (_bar(shown), _growth(shown))


def _bar(shown: Served) -> Chart:
    found, pieces = shown.found, parts(shown.found)
    budget = found.gpu.usable_bytes - found.parts.held_back_bytes
    fig = figs.memory_bar(LIGHT, pieces, usable_bytes=budget, subtitle=f"GiB of {budget / GIB:.1f} usable on one {found.gpu.name}")
    rows = tuple((piece.name, f"{piece.bytes:,.0f}", f"{piece.bytes / GIB:,.2f}") for piece in pieces)
    alt = f"Memory on one {found.gpu.name}: " + ", ".join(f"{piece.name} {sized(piece.bytes)}" for piece in pieces) + "."
    return Chart("memory", fig, alt, Table("The bar as a table", ("Part", "Bytes", "GiB"), rows))


def _growth(shown: Served) -> Chart:
    setting, gpu = shown.setting, shown.found.gpu
    drawn = contexts(setting)
    lines = [growth(setting, gpu, drawn, sequences) for sequences in SEQUENCES]
    budget = int(gpu.usable_bytes * setting.utilisation)
    fig = figs.memory_curve(LIGHT, lines, usable_bytes=budget, gpu=gpu.name)
    met = [f"{numbers.counted(line.sequences, 'sequence')} up to {line.fits_tokens:,} tokens" for line in lines if line.fits_tokens is not None]
    alt = f"Memory against context for 1, 4, 16 and 64 sequences on {gpu.name}. {_fits(met)}"
    every = (len(drawn) - 1) // 8 or 1
    rows = [(f"{tokens:,}", *(f"{line.bytes[at] / GIB:,.1f}" for line in lines)) for at, tokens in list(enumerate(drawn))[::every]]
    names = tuple(f"{numbers.counted(line.sequences, 'sequence')}, GiB" for line in lines)
    return Chart("growth", fig, alt, Table("The curves as a table", ("Context, tokens", *names), tuple(rows)))


def _fits(met: Sequence[str]) -> str:
    return f"What fits: {'; '.join(met)}." if met else "All of them fit."
