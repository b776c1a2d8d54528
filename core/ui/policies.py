"""The table of policies: predicted and measured side by side, where the time goes, and the setting to copy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from core import columns as col
from core import details
from core.analysis import Analysis, sentence_case
from core.policies import Oracle, Plain, Policy, PromptLookup, describe, is_persistent, to_transformers
from core.ui import look, numbers


def table(analysis: Analysis) -> None:
    """One row per policy, the answer first and tinted; where the time goes; a setting to copy and the table as CSV."""
    st.subheader("Policies", anchor=False)
    listed = analysis.policies()
    usable = [policy for policy in listed if not isinstance(policy, Oracle)]
    _rows(analysis, listed)
    left, right = st.columns(2, gap="large")
    with left:
        _time_parts(analysis, usable)
    with right:
        words = [sentence_case(describe(policy)) for policy in usable]
        policy = usable[words.index(st.selectbox("Setting to copy", words, key="setting", bind="query-params"))]
        st.code(snippet(policy), language="python", wrap_lines=True)
        every = analysis.table[list(col.FOR_PEOPLE)].to_csv(index=False)
        st.download_button(
            "Table as CSV", every, f"draftgauge-{analysis.run.id}-policies.csv", "text/csv", icon=":material/download:", on_click="ignore"
        )


def _rows(analysis: Analysis, listed: Sequence[Policy]) -> None:
    ratio = st.column_config.NumberColumn(format="%.2fx", width=80)
    st.dataframe(
        look.mark_row(pd.DataFrame([_row(analysis, policy) for policy in listed]), 0),
        hide_index=True,
        height="content",
        placeholder="",
        alt="Policies with predicted and measured speedup",
        column_config={
            "Policy": st.column_config.TextColumn(width=190),
            "Predicted": ratio,
            "Measured": ratio,
            "End to end": ratio,
            "Tokens per round": st.column_config.NumberColumn(format="%.2f", width=105),
            "Utilisation": st.column_config.ProgressColumn(format="%.0f %%", min_value=0, max_value=100, width=120, color="green"),
            "These prompts": st.column_config.TextColumn(width=100),
            "Traffic": st.column_config.TextColumn(width=100),
            "Note": st.column_config.TextColumn(width=240),
        },
    )
    look.note(
        "Speedups are ratios to plain decoding, decode only; end to end includes both prefills. 95 % intervals on these prompts and for traffic like "
        "these: of the measurement where there is one, else of the prediction. Utilisation is accepted / drafted."
    )


def _time_parts(analysis: Analysis, policies: Sequence[Policy]) -> None:
    """Draft, verify and rest of every policy as bars, with their table."""
    rows = [analysis.row(policy) for policy in policies]
    names = [sentence_case(row[col.SETTING]) for row in rows]
    shares = np.array([[row[col.DRAFT_SHARE], row[col.VERIFY_SHARE], row[col.REST_SHARE]] for row in rows], dtype=np.float64)
    per_token = shares / np.array([[row[col.SPEEDUP]] for row in rows], dtype=np.float64)
    fig = look.drawn(details.time_parts, look.palette(), names, *per_token.T)
    first = f"{names[0]}: draft {shares[0, 0]:.0%}, verify {shares[0, 1]:.0%}, rest {shares[0, 2]:.0%}"
    look.show(fig, "time_parts", f"Predicted time per answer token by policy, in draft, verify and rest. {first}.")
    table = pd.DataFrame(100 * shares, columns=["Draft", "Verify", "Rest"])
    table.insert(0, "Policy", names)
    look.behind("The shares as a table", table, "Shares of predicted time by policy", dict.fromkeys(("Draft", "Verify", "Rest"), "%.0f %%"))


def snippet(policy: Policy) -> str:
    """How to set a policy in Transformers, ready to paste."""
    settings = to_transformers(policy)
    if isinstance(policy, Plain):
        return "target.generate(**inputs)  # no assistant_model: leave drafting off"
    if isinstance(policy, PromptLookup):
        return f"target.generate(**inputs, {', '.join(f'{name}={value!r}' for name, value in settings.items())})"
    lines = [f"draft.generation_config.{name} = {value!r}" for name, value in settings.items()]
    return "\n".join([*lines, "target.generate(**inputs, assistant_model=draft)"])


def _row(analysis: Analysis, policy: Policy) -> dict[str, Any]:
    row = analysis.row(policy)
    plain, measured = isinstance(policy, Plain), analysis.is_confirmed(policy)
    these = (col.MEASURED_LOW, col.MEASURED_HIGH) if measured else (col.THESE_LOW, col.THESE_HIGH)
    traffic = (col.MEASURED_TRAFFIC_LOW, col.MEASURED_TRAFFIC_HIGH) if measured else (col.TRAFFIC_LOW, col.TRAFFIC_HIGH)
    return {
        "Policy": sentence_case(row[col.SETTING]),
        "Predicted": row[col.SPEEDUP],
        "Measured": 1.0 if plain else row[col.MEASURED],
        "These prompts": "" if plain else _interval(row, *these),
        "Traffic": "" if plain else _interval(row, *traffic),
        "End to end": row[col.END_TO_END],
        "Tokens per round": row[col.TOKENS_PER_ROUND],
        "Utilisation": None if row[col.UTILISATION] is None else 100 * row[col.UTILISATION],
        "Note": _remark(analysis, policy),
    }


def _interval(row: dict[str, Any], low: str, high: str) -> str:
    return "" if row[low] is None else numbers.interval((row[low], row[high]))


def _remark(analysis: Analysis, policy: Policy) -> str:
    """What a reader must know of a row, in a few words."""
    advice = analysis.advice
    if isinstance(policy, Oracle):
        return "upper limit for this draft, cannot be run"
    if isinstance(policy, Plain):
        return "use" if advice.verdict == "leave_off" else "reference"
    if policy == advice.policy and advice.verdict == "use":
        return "use" if advice.confirmed else "use, predicted"
    words = ["slower"] if analysis.known(policy) < 1 else ["within 2 % of best"] if policy in advice.flat else []
    if policy == analysis.best_of_sweep:
        words.append("best of limit x threshold")
    if isinstance(policy, PromptLookup):
        words.append("loop cost of drafting assumed")
    if is_persistent(policy):
        words.append("depends on prompt order")
    if not analysis.is_confirmed(policy):
        words.append("not run")
    return ", ".join(words)
