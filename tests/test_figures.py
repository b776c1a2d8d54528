"""Figures and landscape: right numbers in, readable in both themes."""

from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from core import details, figures, landscape, maps, theory
from core.palette import DARK, LIGHT, Palette
from core.published import t5_pairs

GAMMAS = landscape.GAMMAS
BOTH = pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])


def layout(fig: go.Figure) -> Any:
    return fig["layout"]


def traces(fig: go.Figure) -> list[Any]:
    """What a figure draws; Plotly's own annotations call these attributes unknown."""
    drawn: Any = fig.data
    return list(drawn)


def relative_luminance(colour: str) -> float:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(first: str, second: str) -> float:
    light, dark = sorted([relative_luminance(first), relative_luminance(second)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


@BOTH
def test_text_reaches_4_5_and_lines_reach_3_on_paper(palette: Palette):
    for role in ("ink", "muted", "danger_text", "target", "draft", "break_even"):
        assert contrast(getattr(palette, role), palette.paper) >= 4.5, role
    for role in ("formula", "rejected"):
        assert contrast(getattr(palette, role), palette.paper) >= 3, role


@BOTH
def test_numbers_in_cells_are_readable_on_every_shade(palette: Palette):
    """A grid that runs through the whole scale: each number's ink against its own cell."""
    speedup = np.logspace(np.log10(0.4), np.log10(4.5), 60).reshape(6, 10)
    fig = maps.sweep(palette, range(10), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5], speedup)
    numbers = next(trace for trace in traces(fig) if trace.type == "scatter" and trace.mode == "markers+text")
    shades = maps._luminance(palette, maps._place(speedup.ravel()))
    for ink, shade in zip(numbers.textfont.color, shades, strict=True):
        light, dark = sorted([relative_luminance(ink), shade], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3.8


def test_curve_shows_each_way_of_knowing_with_its_own_line():
    formula = theory.speedup(0.8, GAMMAS, 0.1)
    band = figures.Band(formula - 0.2, formula - 0.3, formula - 0.1)
    confirmed = [figures.Confirmed(4, 1.5, 1.4, 1.65)]
    fig = figures.curve(LIGHT, GAMMAS, formula=formula, replay=band, confirmed=confirmed, what_if=formula - 0.4)
    by_name = {trace.name: trace for trace in traces(fig) if trace.name}
    assert by_name["formula"].line.dash == "6px,4px"
    assert by_name["what-if"].line.dash == "dot"
    assert by_name["replay, 95 %"].line.dash is None
    assert by_name["confirmed"].marker.symbol == "diamond"
    assert by_name["confirmed"].error_y.array[0] == pytest.approx(0.15)
    assert by_name["confirmed"].error_y.arrayminus[0] == pytest.approx(0.10)
    low, high = layout(fig).yaxis.range
    assert low < 1 < high
    assert high > formula.max()
    texts = [annotation.text for annotation in layout(fig).annotations]
    assert {"break-even 1x", "within 2 % of best", "slower than plain"} <= set(texts)


def test_curve_shows_a_setting_without_a_gamma_as_a_line_across():
    fig = figures.curve(LIGHT, GAMMAS, formula=theory.speedup(0.8, GAMMAS, 0.1), level=("library default", 3.3))
    assert "3.30x library default" in [annotation.text for annotation in layout(fig).annotations]
    assert layout(fig).yaxis.range[1] > 3.3


def test_curve_marks_no_flat_top_where_nothing_beats_plain():
    losing = theory.speedup(0.3, GAMMAS, 0.6)
    fig = figures.curve(LIGHT, GAMMAS, formula=losing)
    assert "within 2 % of best" not in [annotation.text for annotation in layout(fig).annotations]
    assert layout(fig).yaxis.range[1] >= 1.0


def test_every_figure_carries_title_and_unit():
    land = landscape.landscape()
    rows = [figures.Range("gamma 3", 1.3, 1.2, 1.4, "confirmed"), figures.Range("plain", 1.0, 1.0, 1.0, "confirmed")]
    every = [
        figures.curve(LIGHT, GAMMAS, formula=theory.speedup(0.8, GAMMAS, 0.1)),
        figures.ranges(LIGHT, "Ranking", "decode only", rows),
        details.survival(LIGHT, np.array([0.8, 0.6]), np.array([0.7, 0.5]), np.array([0.8, 0.75])),
        details.time_parts(LIGHT, ["a", "b"], np.array([0.1, 0.2]), np.array([0.5, 0.4]), np.array([0.1, 0.1])),
        details.histogram(LIGHT, np.array([0.2, 0.8])),
        details.by_position(LIGHT, np.array([0, 8]), np.array([0.7, 0.6]), 0.65),
        maps.best_gamma(LIGHT, land),
        maps.sweep(LIGHT, [1, 2], [0.0, 0.4], np.array([[1.0, 1.1], [0.9, 1.2]])),
    ]
    for fig in every:
        assert layout(fig).title.text.startswith("<b>")
        assert layout(fig).xaxis.title.text
        assert layout(fig).paper_bgcolor == "rgba(0,0,0,0)"


def test_ranking_draws_confirmed_as_diamond_and_replayed_as_dot():
    rows = [figures.Range("a", 1.3, 1.2, 1.5, "confirmed"), figures.Range("b", 1.1, 1.0, 1.2, "replayed")]
    fig = figures.ranges(LIGHT, "Ranking", "x", rows)
    assert [trace.marker.symbol for trace in traces(fig)] == ["diamond", "circle"]
    assert "<b>1.30x</b>" in [annotation.text for annotation in layout(fig).annotations]


def test_an_interval_that_says_nothing_does_not_squeeze_the_others():
    rows = [figures.Range("a", 1.3, 1.2, 1.5, "confirmed"), figures.Range("b", 1.1, 0.001, 1000.0, "replayed")]
    axis = layout(figures.ranges(LIGHT, "Ranking", "x", rows)).xaxis
    assert axis.range[1] == pytest.approx(2.6)
    assert (axis.range[1] - axis.range[0]) / axis.dtick < 10
    usual = layout(figures.ranges(LIGHT, "Ranking", "x", rows[:1])).xaxis
    assert usual.range is None


def test_landscape_agrees_with_the_formula_cell_by_cell():
    land = landscape.landscape()
    best = theory.best_gamma(land.alpha[:, None], land.c[None, :])
    np.testing.assert_array_equal(land.gamma, best.gamma)
    np.testing.assert_allclose(np.maximum(land.speedup, 1.0), best.speedup)


def test_costs_move_break_even_up_and_speedups_down():
    free, costly = landscape.landscape(), landscape.landscape(1 + 0.05 * GAMMAS, 0.3)
    assert (costly.speedup < free.speedup).all()
    at = np.interp(np.log(0.2), np.log(costly.break_even_c), costly.break_even_alpha)
    assert at > np.interp(np.log(0.2), np.log(free.break_even_c), free.break_even_alpha)
    # Without overhead a single draft pays exactly when alpha exceeds c.
    np.testing.assert_allclose(free.break_even_alpha, free.break_even_c, atol=0.005)


def test_map_takes_the_click_on_an_invisible_layer_and_shows_the_run():
    land = landscape.landscape(lowest_alpha=0.1)
    fig = maps.best_gamma(DARK, land, [maps.Spot("this run", 0.12, 1.7, "run")], t5_pairs())
    layer = next(trace for trace in traces(fig) if trace.type == "scatter" and trace.mode == "markers+text")
    assert layer.marker.opacity == 0
    assert len(layer.x) == land.speedup.size
    assert layout(fig).xaxis.type == "log"
    run = next(trace for trace in traces(fig) if (trace.hovertemplate or "").startswith("this run"))
    assert land.c_edges[0] < run.x[0] < land.c_edges[-1], "a point outside is drawn at the edge"
    assert "c 1.700" in run.hovertemplate, "and its hover text says where it really is"


def test_other_runs_are_numbered_on_the_map_and_their_names_stay_text():
    spots = [maps.Spot("<b>a</b>", 0.6, 0.1, "other"), maps.Spot("b", 0.7, 0.2, "other"), maps.Spot("this run", 0.8, 0.3, "run")]
    fig = maps.best_gamma(LIGHT, landscape.landscape(), spots)
    by_hover = {(trace.hovertemplate or "").split("<br>")[0]: trace for trace in traces(fig)}
    assert by_hover["&lt;b&gt;a&lt;/b&gt;"].text == ("1",)
    assert by_hover["b"].text == ("2",)
    assert by_hover["this run"].text is None
    labels = [annotation.text for annotation in layout(fig).annotations]
    assert "<b>this run</b>" in labels
    assert "b" not in labels, "a number and a legend; names would cover each other"


def test_curve_names_the_recommended_gamma_at_its_place():
    formula = theory.speedup(0.8, GAMMAS, 0.1)
    fig = figures.curve(LIGHT, GAMMAS, formula=formula, confirmed=[figures.Confirmed(4, 1.5, 1.4, 1.6)], recommended=4)
    assert "<b>use gamma 4</b>" in [annotation.text for annotation in layout(fig).annotations]
    [line] = [shape for shape in layout(fig).shapes if shape.type == "line" and shape.x0 == 4]
    assert line.y1 == 1.5


def test_time_is_stacked_in_plain_steps_and_shares_are_of_each_bar():
    fig = details.time_parts(LIGHT, ["a", "b"], np.array([0.2, 0.1]), np.array([0.2, 0.5]), np.array([0.4, 0.4]))
    by_name = {trace.name: trace for trace in traces(fig)}
    assert layout(fig).barmode == "stack"
    np.testing.assert_allclose(by_name["draft"].x, [0.2, 0.1])
    np.testing.assert_allclose(by_name["verify"].customdata, [25, 50])


def test_survival_names_its_denominator():
    fig = details.survival(LIGHT, np.array([0.8, 0.6]), np.array([0.7, 0.5]), np.array([0.8, 0.75]))
    assert "of the rounds that drafted k tokens" in layout(fig).title.text
    alone = next(trace for trace in traces(fig) if trace.name == "token k alone")
    np.testing.assert_allclose(alone.y, [0.8, 0.75])
