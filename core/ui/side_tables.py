"""The folded tables of a side-by-side run: what each round proposed and threw away, and both answers token by token."""

import pandas as pd
import streamlit as st

from core import side
from core.player import lane_name
from core.runs import Run
from core.ui import look

HIGH_PX = 420


def folded(run: Run) -> None:
    """Both parts, each drawn only when it is opened."""
    part = st.expander("Rejected drafts, round by round", icon=":material/strikethrough_s:", on_change="rerun", key="side_rounds")
    if part.open:
        with part:
            for lane in range(1, len(run.spec.lanes)):
                if len(run.spec.lanes) > 2:
                    st.markdown(f"**{look.plain(lane_name(run, lane))}**")
                look.table(rounds(run, lane), f"Rounds of {lane_name(run, lane)}", {"ms": "%.1f"}, height=HIGH_PX)
    part = st.expander("Token by token comparison", icon=":material/compare_arrows:", on_change="rerun", key="side_tokens")
    if part.open:
        with part:
            look.table(compared(run), "Token by token, plain beside each other column", height=HIGH_PX)


def rounds(run: Run, lane: int) -> pd.DataFrame:
    """One row per round of a column. Texts are quoted, so that spaces and line breaks are seen."""
    before, rows = 0.0, list[dict[str, object]]()
    for number, step in enumerate(side.steps_of(run.steps, lane), 1):
        accepted = "".join(step.pieces[: step.accepted])
        rows.append(
            {
                "round": number,
                "drafted": step.drafted,
                "accepted": step.accepted,
                "accepted text": repr(accepted) if accepted else "",
                "thrown away": " ".join(map(repr, step.rejected)),
                "target's own": repr("".join(step.pieces[step.accepted :])),
                "ms": (step.at_s - before) * 1000,
            }
        )
        before = step.at_s
    return pd.DataFrame(rows)


def compared(run: Run) -> pd.DataFrame:
    """One row per token: its text in each column, who wrote it there, and whether it is plain's own token."""
    lanes = range(len(run.spec.lanes))
    ids = [side.tokens_of(run, lane) for lane in lanes]
    texts = [side.written(side.steps_of(run.steps, lane), run.spec.lanes[lane].policy) for lane in lanes]
    longest = max(map(len, ids), default=0)
    table: dict[str, list[object]] = {"token": list(range(1, longest + 1))}
    for lane in lanes:
        name = lane_name(run, lane)
        table[name] = [repr(texts[lane][at].text) if at < len(texts[lane]) else None for at in range(longest)]
        if lane:
            table[f"{name}: written by"] = [texts[lane][at].writer if at < len(texts[lane]) else None for at in range(longest)]
            same = [at < min(len(ids[0]), len(ids[lane])) and ids[0][at] == ids[lane][at] for at in range(longest)]
            table[f"{name}: same"] = ["yes" if yes else "no" for yes in same]
    return pd.DataFrame(table)
