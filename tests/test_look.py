"""Figures are drawn once for the same data, and told apart by everything that they show."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from core import figures
from core.figures import Band, Confirmed
from core.landscape import GAMMAS
from core.palette import DARK, LIGHT
from core.ui import look

LINE = np.linspace(1.3, 0.9, 20)
BAND = Band(LINE, LINE - 0.1, LINE + 0.1)


@pytest.fixture(autouse=True)
def _afresh() -> None:
    look._drawn.clear()


def speedups(**changed: object) -> go.Figure:
    """The curve as a page asks for it."""
    data: dict[str, object] = {"palette": LIGHT, "replay": BAND, "confirmed": [Confirmed(3, 1.2, 1.1, 1.3)], "recommended": 3} | changed
    return look.drawn(figures.curve, data.pop("palette"), GAMMAS, formula=LINE, **data)  # pyright: ignore[reportArgumentType]


def test_the_same_data_are_drawn_once() -> None:
    first = speedups()
    assert (
        first.to_json() == figures.curve(LIGHT, GAMMAS, formula=LINE, replay=BAND, confirmed=[Confirmed(3, 1.2, 1.1, 1.3)], recommended=3).to_json()
    )
    assert speedups(replay=Band(LINE.copy(), BAND.low.copy(), BAND.high.copy())) is first


@pytest.mark.parametrize(
    "changed",
    [
        {"palette": DARK},
        {"palette": replace(LIGHT, ink="#000000")},
        {"replay": Band(LINE, LINE - 0.1, LINE + 0.1000001)},
        {"confirmed": [Confirmed(3, 1.2, 1.1, 1.31)]},
        {"recommended": 4},
        {"level": ("prompt lookup", 1.1)},
    ],
)
def test_whatever_differs_is_drawn_anew(changed: dict[str, object]) -> None:
    assert speedups(**changed) is not speedups()


def chart_of(module: str) -> Callable[[str], go.Figure]:
    """A function whose name is the same in every module."""

    def chart(text: str) -> go.Figure:
        return go.Figure(layout={"title": {"text": f"{module}: {text}"}})

    chart.__module__ = module
    return chart


def test_functions_of_one_name_in_two_modules_are_two() -> None:
    titles = [look.drawn(chart_of(module), "speedup").to_plotly_json()["layout"]["title"]["text"] for module in ("here", "there")]
    assert titles == ["here: speedup", "there: speedup"]
