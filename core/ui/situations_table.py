"""The method note's situations as a table, with the row marked where the user's own pair stands."""

from math import inf

import pandas as pd

from core.analysis import sentence_case
from core.policies import LOOKUP
from core.runs import Run
from core.situations import SITUATIONS, Placed, Situation, place
from core.ui import look, result


def show(run: Run | None) -> None:
    """The table; with a finished measurement the row of its pair is tinted and a sentence says why. Its kept answer is read, nothing computed."""
    placed = placed_run(run) if run else None
    rows = [SITUATIONS.index(placed.situation)] if placed else []
    table = pd.DataFrame([_cells(row) for row in SITUATIONS])
    if placed:
        table.insert(0, "Your pair", ["here" if at in rows else "" for at in range(len(SITUATIONS))])
    shown = look.mark_row(table, rows[0]) if rows else table
    look.table(shown, f"Which draft in which situation.{f' Your pair stands at: {placed.situation.situation}.' if placed else ''}")
    if run and placed:
        look.note(
            f"{look.plain(result.pair_name(run))}: {look.plain(placed.reason)} The row is a rule of thumb; measured was: {result.outcome(run)}."
        )
    else:
        look.note("Rules of thumb. After a measurement the row is marked where your own pair stands.")


def placed_run(run: Run) -> Placed | None:
    """Where a measured pair stands; None for a run without an answer, or one that does not tell alpha and c."""
    answer = run.summary
    if answer is None or answer.alpha is None or answer.c is None:
        return None
    return place(answer.alpha, answer.c, lookup_is_best=answer.policy.startswith(LOOKUP))


def _cells(row: Situation) -> dict[str, str]:
    """One row in words; the ranges are this program's, not the note's."""
    return {
        "Situation": sentence_case(row.situation),
        "Draft": sentence_case(row.draft),
        "Gamma": row.setting,
        "Here taken to be": _ranges(row),
    }


def _ranges(row: Situation) -> str:
    if row.key == "copying":
        return "prompt lookup beats the draft"
    if row.alpha is None or row.c is None:
        return ""
    low, high = row.alpha
    alpha = f"alpha below {high:g}" if low == 0 else f"alpha from {low:g}"
    cheap, dear = row.c
    c = "" if (cheap, dear) == (0, inf) else f", c up to {dear:g}" if cheap == 0 else f", c above {cheap:g}"
    return alpha + c
