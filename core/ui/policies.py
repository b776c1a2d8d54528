"""The table of policies: predicted and measured side by side, and the setting to copy."""

from typing import Any

import pandas as pd
import streamlit as st

from core import columns as col
from core.analysis import Analysis, sentence_case
from core.policies import Oracle, Plain, Policy, PromptLookup, describe, to_transformers
from core.ui import look, numbers


def table(analysis: Analysis) -> None:
    """One row per policy, the answer first and tinted; a setting to copy and the table as CSV."""
    st.subheader("Policies", anchor=False)
    listed = analysis.policies()
    rows = pd.DataFrame([_row(analysis, policy) for policy in listed])
    ratio = st.column_config.NumberColumn(format="%.2fx", width=85)
    st.dataframe(
        look.mark_row(rows, 0),
        hide_index=True,
        height="content",
        placeholder="",
        alt="Policies with predicted and measured speedup",
        column_config={
            "Policy": st.column_config.TextColumn(width=220),
            "Predicted": ratio,
            "Measured": ratio,
            "End to end": ratio,
            "Tokens per round": st.column_config.NumberColumn(format="%.2f", width=110),
            "Utilisation": st.column_config.ProgressColumn(format="%.0f %%", min_value=0, max_value=100, width=140, color="green"),
            "95 % interval": st.column_config.TextColumn(width=110),
            "Note": st.column_config.TextColumn(width=190),
        },
    )
    look.note(
        "Speedups are ratios to plain decoding, decode only; end to end includes both prefills. The interval is on these prompts: of the measurement "
        "where there is one, else of the prediction. Utilisation is accepted / drafted."
    )
    copy, save = st.columns([3, 1], gap="medium", vertical_alignment="bottom")
    with copy:
        usable = [policy for policy in listed if not isinstance(policy, Oracle)]
        policy = st.selectbox("Setting to copy", usable, format_func=lambda policy: sentence_case(describe(policy)), key="setting")
        st.code(snippet(policy), language="python")
    with save:
        every = analysis.table[list(col.FOR_PEOPLE)].to_csv(index=False)
        st.download_button(
            "Table as CSV", every, f"draftgauge-{analysis.run.id}-policies.csv", "text/csv", icon=":material/download:", on_click="ignore"
        )


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
    measured = row[col.MEASURED] is not None
    low, high = (col.MEASURED_LOW, col.MEASURED_HIGH) if measured else (col.THESE_LOW, col.THESE_HIGH)
    plain = isinstance(policy, Plain)
    return {
        "Policy": sentence_case(row[col.SETTING]),
        "Predicted": row[col.SPEEDUP],
        "Measured": 1.0 if plain else row[col.MEASURED],
        "95 % interval": "" if plain or row[low] is None else numbers.interval((row[low], row[high])),
        "End to end": row[col.END_TO_END],
        "Tokens per round": row[col.TOKENS_PER_ROUND],
        "Utilisation": None if row[col.UTILISATION] is None else 100 * row[col.UTILISATION],
        "Note": _remark(analysis, policy, row),
    }


def _remark(analysis: Analysis, policy: Policy, row: dict[str, Any]) -> str:
    advice = analysis.advice
    if isinstance(policy, Oracle):
        return "upper limit, cannot be run"
    if isinstance(policy, Plain):
        return "use" if advice.verdict == "leave_off" else "reference"
    if policy == advice.policy and advice.verdict == "use":
        return "use" if advice.confirmed else "use, predicted"
    known = row[col.SPEEDUP] if row[col.MEASURED] is None else row[col.MEASURED]
    words = ["slower"] if known < 1 else ["within 2 % of best"] if policy in advice.flat else []
    return ", ".join([*words, *(["not run"] if row[col.MEASURED] is None else [])])
