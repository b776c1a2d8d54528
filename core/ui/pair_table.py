"""All figures of all drafts in one table to sort, with the target's first."""

from typing import Any

import pandas as pd

from core.candidates import Candidate, Model, View, promised
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
    look.note("c and speedup are estimates. A speedup is estimated for pairs that run as they are. Sizes come from the files' headers and configs.")


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
    found, gain, verdict = draft.estimate, promised(target, draft), draft.verdict_value
    word = verdict.word if verdict else ("not read" if draft.model.listed else "cannot be used") if draft.problem else None
    return _model(target, draft.model) | {
        "Verdict": word,
        "c": found.c if found else None,
        "c low": found.low if found else None,
        "c high": found.high if found else None,
        "Speedup": gain.speedup_middle if gain else None,
        "Speedup low": gain.speedup_low if gain else None,
        "Speedup high": gain.speedup_high if gain else None,
    }
