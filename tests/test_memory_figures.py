"""The memory bar, its curves and the fleet chart: right numbers in, nothing over the edge, readable in both themes."""

from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from core import memory_figures as figs
from core.memory_figures import GIB, Gains, Growth, Load, Part
from core.palette import DARK, LIGHT, Palette
from tests.test_figures import contrast, traces

BOTH = pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
PARTS = [
    Part("target weights", 15 * GIB, "target"),
    Part("target cache", 8 * GIB, "target_soft"),
    Part("draft weights", 2.5 * GIB, "draft"),
    Part("draft cache", 2 * GIB, "draft_soft"),
    Part("logits and overhead", 0.5 * GIB, "other"),
    Part("free", 43.2 * GIB, "free"),
]
TOKENS = (0, 4096, 8192)


def layout(fig: go.Figure) -> Any:
    return fig["layout"]


def words(fig: go.Figure) -> list[str]:
    return [annotation.text for annotation in layout(fig).annotations]


def line(sequences: int, gib_per_token: float, fits: int | None = None) -> Growth:
    return Growth(sequences, TOKENS, [(5 + sequences * gib_per_token * tokens) * GIB for tokens in TOKENS], fits)


def curve(*lines: Growth, usable: float = 71.2) -> go.Figure:
    return figs.memory_curve(LIGHT, lines, usable_bytes=usable * GIB, gpu="H100 SXM")


def test_bar_holds_every_part_in_gib_and_ends_at_the_limit():
    fig = figs.memory_bar(LIGHT, PARTS, usable_bytes=71.2 * GIB, subtitle="GiB of 71.2 usable")
    assert [trace.name for trace in traces(fig)] == [part.name for part in PARTS]
    assert [trace.x[0] for trace in traces(fig)] == pytest.approx([15, 8, 2.5, 2, 0.5, 43.2])
    assert tuple(layout(fig).xaxis.range) == pytest.approx((0, 71.2))
    assert [trace.text for trace in traces(fig)] == ["15.0", "8.0", "2.5", "", "", "43.2"], "no number in a part too narrow for it"
    assert words(fig) == []


def test_bar_that_does_not_fit_goes_beyond_the_line():
    fig = figs.memory_bar(LIGHT, PARTS[:-1], usable_bytes=20 * GIB, subtitle="too much")
    assert tuple(layout(fig).xaxis.range) == pytest.approx((0, 28))
    assert words(fig) == ["usable: 20.0"]
    assert [shape.x0 for shape in layout(fig).shapes if shape.type == "line"] == [20]


@BOTH
def test_numbers_in_the_bar_are_readable(palette: Palette):
    fig = figs.memory_bar(palette, PARTS, usable_bytes=71.2 * GIB, subtitle="")
    for trace in traces(fig):
        assert contrast(trace.textfont.color, trace.marker.color) >= 4.5 or trace.text == "", trace.name


def test_curve_marks_where_a_line_meets_the_limit():
    fig = curve(line(1, 0.0001), line(64, 0.0002, fits=5171))
    rings = [trace for trace in traces(fig) if trace.mode == "markers"]
    assert [(ring.x[0], ring.y[0]) for ring in rings] == [(5171, pytest.approx(71.2))]
    assert "5,171 tokens" in words(fig)
    assert "usable: 71.2 GiB" in words(fig)
    assert [trace.y[-1] for trace in traces(fig) if trace.mode == "lines"] == pytest.approx([5 + 0.8192, 5 + 64 * 1.6384])


def test_limit_stays_in_the_picture_when_little_is_used_and_when_much_is():
    little = layout(curve(line(1, 0.0001))).yaxis.range
    assert little[1] == pytest.approx(71.2 * 1.15)
    much = layout(curve(line(64, 0.01, fits=100))).yaxis.range
    assert much[1] == pytest.approx(71.2 * figs.MOST_ABOVE_LIMIT), "a line far above does not press the others to the floor"


def test_a_line_that_leaves_the_plot_is_named_where_it_leaves():
    fig = curve(line(64, 0.01, fits=100))
    label = next(annotation for annotation in layout(fig).annotations if annotation.text == "64")
    top = layout(fig).yaxis.range[1]
    assert label.y == pytest.approx(top)
    assert label.x == pytest.approx(np.interp(top, [5, 5 + 64 * 0.01 * 8192], [0, 8192]), rel=1e-6)


def test_labels_at_the_ends_do_not_lie_on_each_other():
    fig = curve(line(1, 0.00001), line(4, 0.00001), line(16, 0.00001), line(64, 0.00001))
    ends = sorted(annotation.y for annotation in layout(fig).annotations if annotation.text in ("1", "4", "16", "64"))
    top = layout(fig).yaxis.range[1]
    assert len(ends) == 4
    assert np.diff(ends).min() >= figs.LABEL_SHARE * top - 1e-9


def test_crossings_close_to_each_other_share_one_label():
    fig = curve(line(16, 0.0009, fits=4597), line(64, 0.00023, fits=4600))
    assert len([trace for trace in traces(fig) if trace.mode == "markers"]) == 2
    assert [text for text in words(fig) if text.endswith("tokens")] == ["4,597 tokens"]


def test_fleet_names_both_lines_and_the_load():
    load = Load([0, 50_000, 100_000], [1, 4, 8], [1, 3, 9])
    fig = figs.fleet(LIGHT, load, now=40_000)
    assert [(trace.name, list(trace.y)) for trace in traces(fig)] == [("without draft", [1, 4, 8]), ("with draft", [1, 3, 9])]
    assert [shape.x0 for shape in layout(fig).shapes] == [40_000]
    assert words(fig) == ["your load"]


def test_gain_by_requests_at_once_shows_break_even_and_both_lines():
    fig = figs.gain(LIGHT, Gains([1, 2, 4, 8], [1.5, 1.3, 1.0, 0.7], [1.4, 1.2, 0.95, 0.6]))
    assert [list(trace.y) for trace in traces(fig)] == [[1.5, 1.3, 1.0, 0.7], [1.4, 1.2, 0.95, 0.6]]
    assert words(fig) == ["break-even 1x"]
    low, high = layout(fig).yaxis.range
    assert low == pytest.approx(0.5)
    assert high == pytest.approx(1.5 * 1.08)
    assert list(layout(fig).xaxis.ticktext) == ["1", "2", "4", "8"]


def test_every_figure_carries_title_and_unit():
    every = [
        figs.memory_bar(LIGHT, PARTS, usable_bytes=71.2 * GIB, subtitle="GiB of 71.2 usable; 16 sequences of 8,192 tokens"),
        curve(line(1, 0.0001)),
        figs.fleet(LIGHT, Load([0, 1], [1, 1], [1, 1]), now=0),
        figs.gain(LIGHT, Gains([1, 2], [1.2, 1.1], [1.1, 1.05])),
    ]
    for fig, unit in zip(every, ("GiB", "GiB", "GPUs", "ratio"), strict=True):
        assert layout(fig).title.text.startswith("<b>")
        assert unit in layout(fig).title.text


def test_lines_that_begin_above_the_limit_are_still_seen():
    fig = curve(Growth(1, TOKENS, [760 * GIB, 761 * GIB, 762 * GIB], 0), Growth(64, TOKENS, [760 * GIB, 900 * GIB, 1100 * GIB], 0))
    assert layout(fig).yaxis.range[1] == pytest.approx(760 * 1.3)
    at = {note.text: (note.x, note.y) for note in layout(fig).annotations}
    assert at["1"] != at["64"]
    assert at["1"][0] == 8192


def test_few_gpus_have_whole_ticks():
    assert layout(figs.fleet(LIGHT, Load([0, 100], [1, 2], [1, 1]), now=50)).yaxis.dtick == 1


@BOTH
def test_number_on_a_wide_overhead_is_readable(palette: Palette):
    fig = figs.memory_bar(
        palette, [Part("logits and overhead", 2 * GIB, "other"), Part("free", 10 * GIB, "free")], usable_bytes=12 * GIB, subtitle=""
    )
    assert traces(fig)[0].text == "2.0"
    assert contrast(traces(fig)[0].textfont.color, traces(fig)[0].marker.color) >= 4.5


def test_long_loads_have_fewer_ticks():
    ticks = [layout(figs.fleet(LIGHT, Load([0, most], [1, 9], [1, 8]), now=most / 2)).xaxis.nticks for most in (200_000, 6_000_000)]
    assert ticks == [6, 4]
