"""Beside a timed c the one that was estimated from the configs (`core.estimate`), as far as the planner knows both models by now."""

import streamlit as st

from core import prices
from core.address import address
from core.candidates import Setting, gather
from core.devices import CPU, gpu
from core.errors import InvalidInput
from core.estimate import Estimate
from core.runs import Run
from core.shapes import Shapes
from core.ui import desk, look, numbers


def beside(run: Run, found: Shapes) -> None:
    """One line: estimated with its range, timed, and whether it lies inside; nothing where no estimate can be made for this device."""
    known = estimated(run)
    if known is None or found.base.batch != 1:
        return
    c = found.costs.draft_next
    inside = "inside that range" if known.low <= c <= known.high else "outside that range"
    st.markdown(
        f"c was estimated from the configs as **{numbers.cost(known.c)}**, {numbers.cost(known.low)} to {numbers.cost(known.high)} "
        f"{look.ORIGINS['estimate']} and timed as **{numbers.cost(c)}** {look.ORIGINS['measured']}, {inside}."
    )


def estimated(run: Run) -> Estimate | None:
    """The estimate for the run's pair on its device, in its number format; None while it is not known, or where that device is not."""
    where = run.environment
    setting = _setting(run.spec.device, where.device_name if where else "")
    if run.imported is not None or setting is None or setting.dtype != run.spec.dtype:
        return None
    try:
        view = gather(desk.planner().ask, address(run.spec.target), [address(run.spec.draft)], setting)
    except InvalidInput:
        return None
    return view.drafts[0].estimate


def _setting(device: str, name: str) -> Setting | None:
    """The kind of device that the estimate knows by this name."""
    if device == "cpu":
        return Setting(CPU)
    known = {row.name: gpu(row.name, row.bandwidth_bytes_per_s / 1e9) for row in prices.gpus()}
    kind = next((kind for kind in known if kind.removeprefix("RTX ").split()[0].casefold() in name.casefold()), None)
    return Setting(known[kind]) if kind else None
