"""What each draft is likely to gain, as ranges around break-even: an estimate from configurations, before anything is measured."""

import html
from collections.abc import Sequence

import streamlit as st

from core import figures
from core.candidates import Candidate
from core.estimate import ALPHA_HIGH, ALPHA_LOW, ALPHA_MIDDLE
from core.figures import Range
from core.ui import look

LONGEST_NAME = 22


def expected(drafts: Sequence[Candidate], device: str) -> None:
    """One row per draft that runs natively; the others would run at another acceptance or cost, if at all."""
    known = [(draft, draft.estimate) for draft in drafts if draft.fits and draft.estimate is not None]
    if not known:
        st.markdown("**Expected speedup**")
        look.note("Nothing to draw: a speedup is estimated for pairs that run natively, once both sizes are known.")
        return
    rows = [
        Range(_label(draft, at, drafts), found.speedup_middle, found.speedup_low, found.speedup_high, "estimate")
        for at, (draft, found) in enumerate(known)
    ]
    subtitle = f"estimate; ring: alpha {ALPHA_MIDDLE:g}, bar: {ALPHA_LOW:g} to {ALPHA_HIGH:g}"  # as much as 400 pixels hold
    fig = look.drawn(figures.ranges, look.palette(), "Expected speedup at the best gamma", subtitle, rows)
    says = "; ".join(f"{row.name} {row.speedup:.2f}x, {row.low:.2f} to {row.high:.2f}" for row in rows)
    look.show(fig, "expected", f"Expected speedup of each draft on {device}, ratio to plain: {says}.")


def _label(draft: Candidate, at: int, drafts: Sequence[Candidate]) -> str:
    """A name that is short, its own, and no HTML."""
    name = draft.model.name
    short = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
    twice = sum(other.model.name == name for other in drafts) > 1
    return html.escape(f"{short} ({at + 1})" if twice else short)
