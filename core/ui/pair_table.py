"""All figures of all drafts in one table to sort, with the target's first."""

from typing import Any

import pandas as pd

from core.candidates import Candidate, Model, View
from core.ui import look
from core.ui.pair_cards import parameters

FORMATS = {
    "Parameters, M": "localized",
    "Share of target, %": "%.1f",
    "Weights, GB": "%.3f",
    "Cache, KiB per token": "%.1f",
    "c": "%.2f",
    "c low": "%.2f",
    "c high": "%.2f",
    "Speedup": "%.2fx",
    "Speedup low": "%.2fx",
    "Speedup high": "%.2fx",
    "Downloads": "localized",
}


def table(view: View) -> None:
    """One row per model; cells that are not known are empty."""
    rows = [_model(view.target, view.target) | {"Verdict": "target"}, *(_draft(view.target, draft) for draft in view.drafts)]
    look.table(pd.DataFrame(rows), "Every figure of the target and of each draft; click a column's head to sort.", FORMATS)
    look.note("c and speedup are estimates. Sizes come from the files' headers and configs.")


def _model(target: Model, model: Model) -> dict[str, Any]:
    info, shape, own, other = model.usable, model.shape, parameters(model), parameters(target)
    return {
        "Model": model.address,
        "Verdict": None,
        "Parameters, M": own / 1e6 if own else None,
        "Share of target, %": 100 * own / other if own and other else None,
        "Layers": shape.layers if shape else None,
        "Weights, GB": info.weights.bytes / 1e9 if info and info.weights else None,
        "Cache, KiB per token": shape.bytes_per_token / 1024 if shape else None,
        "Context, tokens": model.sizes.context if model.sizes else None,
        "Licence": (info.licence or None) if info else None,
        "Downloads": info.downloads if info else None,
    }


def _draft(target: Model, draft: Candidate) -> dict[str, Any]:
    found, verdict = draft.estimate, draft.verdict_value
    word = verdict.word if verdict else "cannot be used" if draft.problem else None
    row = _model(target, draft.model) | {"Verdict": word}
    if found is None:
        return row
    return row | {
        "c": found.c,
        "c low": found.low,
        "c high": found.high,
        "Speedup": found.speedup_middle,
        "Speedup low": found.speedup_low,
        "Speedup high": found.speedup_high,
    }
