"""The what-if sliders: alpha, c, v and h, kept in the address, moved by hand or by a click on the map."""

from dataclasses import dataclass

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from core import theory
from core.analysis import Analysis
from core.landscape import GAMMAS
from core.ui import look, numbers

MAP = "map"
LIMITS = {"alpha": (0.0, 1.0), "c": (0.0, 1.5), "v": (0.5, 3.0), "h": (0.0, 3.0)}


@dataclass(frozen=True)
class Costs:
    """Acceptance and costs as the sliders hold them; v and h as ratios to one plain target step, v for every gamma alike."""

    alpha: float
    c: float
    v: float
    h: float

    def speedup(self, verify: NDArray[np.floating] | None = None) -> NDArray[np.float64]:
        """(20,) speedup by the formula with these costs; `verify` (20,) takes the place of v."""
        return theory.speedup(self.alpha, GAMMAS, self.c, self.v if verify is None else verify, self.h)


NO_RUN = Costs(alpha=0.70, c=0.10, v=1.0, h=0.0)


def rounded(costs: Costs) -> Costs:
    """To the sliders' steps and limits, so that "not moved" can be told from "moved"."""
    values = {name: float(np.clip(round(getattr(costs, name), 3 if name == "c" else 2), *LIMITS[name])) for name in LIMITS}
    return Costs(**values)


def sliders(start: Costs, subject: str) -> Costs:
    """Draw the sliders and return their values. They start at `start`; a new `subject` (a run's id) sets them back."""
    state = st.session_state
    if state.get("_what_if") not in (None, subject):
        for name in LIMITS:
            state[name] = getattr(start, name)
    state["_what_if"] = subject
    for name in LIMITS:
        state.setdefault(name, getattr(start, name))
    columns = st.columns(4, gap="medium")
    with columns[0]:
        alpha = st.slider("alpha, acceptance", *LIMITS["alpha"], step=0.01, key="alpha", bind="query-params")
    with columns[1]:
        c = st.slider("c, drafted token", *LIMITS["c"], step=0.001, format="%.3f", key="c", bind="query-params")
    with columns[2]:
        v = st.slider("v, verify pass", *LIMITS["v"], step=0.01, key="v", bind="query-params")
    with columns[3]:
        h = st.slider("h, rest of a round", *LIMITS["h"], step=0.01, key="h", bind="query-params")
    return rounded(Costs(alpha, c, v, h))


def take_cell() -> None:
    """A click on the map: its alpha and c go into the sliders, and so into the curve."""
    points = st.session_state[MAP].selection.points
    if points:
        st.session_state["alpha"] = round(float(points[0]["y"]), 2)
        st.session_state["c"] = round(float(points[0]["x"]), 3)


def of_run(analysis: Analysis) -> Costs:
    """The sliders' start for a run: its alpha and costs, with v at its best fixed gamma."""
    costs, alpha = analysis.costs, analysis.alpha
    best = analysis.best_fixed
    return rounded(Costs(alpha.value, costs.c, float(costs.verify_up_to(best)[best]), costs.overhead))


def words(best: theory.BestGamma) -> tuple[str, str]:
    """Headline and facts for values without a run."""
    basis = "No run behind this: every token has the same chance, as in the classical formula, with your v and h."
    quiet = f"{look.ORIGINS['what-if']} :small[:gray[{basis}]]"
    if not best.gamma:
        return "What if: leave drafting off, :orange[nothing beats plain]", quiet
    tokens = "1 token" if best.gamma == 1 else f"{best.gamma} tokens"
    return f"What if: draft {tokens} at a time, :green[{numbers.speed(float(best.speedup))}]", quiet
