"""The charts of a comparison with their tables: curves, acceptance against cost, labels."""

from collections.abc import Sequence
from html import escape

import pandas as pd
import streamlit as st

from core import compare_figures, compare_runs
from core.analysis import Analysis
from core.compare_figures import Line, Point
from core.compare_runs import Entry
from core.landscape import GAMMAS
from core.published import PAPERS, t5_pairs
from core.ui import desk, look, numbers, result

OWN, FORMULA = "baseline's v, h", "formula"
SPEEDUP, ALPHA = "speedup", "alpha"


def curves_and_quadrant(entries: Sequence[Entry], base: Entry) -> None:
    """Both charts side by side."""
    left, right = st.columns(2, gap="large")
    with left:
        _curves(entries)
    with right:
        quadrant(entries, base)


def _curves(entries: Sequence[Entry]) -> None:
    found = [(entry, entry.analysis) for entry in entries if entry.analysis]
    lines = [Line(entry.place, entry.letter, seen.replay, seen.confirmed) for entry, seen in found]
    peaks = [f"{entry.letter} {seen.replay.mid.max():.2f}x at gamma {seen.best_fixed}" for entry, seen in found]
    look.show(
        look.drawn(compare_figures.curves, look.palette(), lines),
        "compare_curves",
        f"Replayed speedup by gamma 1 to 20 of each run. Best: {'; '.join(peaks)}.",
    )
    table = pd.DataFrame({"gamma": GAMMAS})
    for entry, seen in found:
        table[entry.letter] = seen.replay.mid
        bounds = zip(seen.replay.low, seen.replay.high, strict=True)
        table[f"{entry.letter}, 95 %"] = [numbers.interval(pair) for pair in bounds]
    look.behind("The curves as a table", table, "Replayed speedup by gamma of each run", {entry.letter: "%.2fx" for entry, _ in found})
    others = [f"{entry.letter} {numbers.ratio(seen.level[1])} ({seen.level[0]})" for entry, seen in found if seen.level]
    if others:
        look.note(f"Best settings that have no fixed gamma, and so no place on a curve: {look.plain('; '.join(others))}.")


def quadrant(entries: Sequence[Entry], base: Entry) -> None:
    """Alpha against c; the lines hold for the costs of the baseline, or by the formula alone."""
    place = st.container()
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="right"):
        published = st.toggle("Published T5 pairs", key="published", bind="query-params")
        costs = FORMULA
        if base.analysis:
            costs = st.segmented_control(
                "Costs behind the lines", [OWN, FORMULA], default=OWN, required=True, key="costs", label_visibility="collapsed", bind="query-params"
            )
    own = base.analysis.costs if base.analysis and costs == OWN else None
    verify, overhead = (own.verify_up_to(20)[1:], max(0.0, own.overhead)) if own else (1.0, 0.0)
    points = [point for entry in entries if (point := _point(entry, passes_alone=own is None))]
    words = f"with v and h of {base.letter}" if own else "by Theorem 3.8"
    fig = look.drawn(compare_figures.quadrant, look.palette(), points, verify, overhead, words, t5_pairs() if published else ())
    where = "; ".join(f"{point.letter}: alpha {point.alpha:.2f}, c {numbers.cost(point.c)}" for point in points) or "No run has both."
    with place:
        look.show(fig, "compare_quadrant", f"Acceptance alpha against cost ratio c, with lines of equal speedup {words} and break-even. {where}")
    said = f"The lines hold for the costs of {base.letter} only; c is that of the loop." if own else "c is that of the draft's pass alone."
    paper = PAPERS["leviathan2022"]
    hollow = f" Hollow squares: published, not measured here, {paper.title}, on {paper.hardware}." if published else ""
    look.note(f"{said} Rings: imported numbers.{hollow}" if any(not point.measured for point in points) else f"{said}{hollow}")


def _point(entry: Entry, *, passes_alone: bool) -> Point | None:
    """Where a run lies; None where alpha or c is not known."""
    name = result.pair_name(entry.run)
    if entry.analysis:
        costs = entry.analysis.costs
        return Point(entry.place, entry.letter, name, entry.analysis.alpha.value, costs.draft_next if passes_alone else costs.c)
    kept = entry.run.imported
    if kept and kept.alpha is not None and kept.c is not None:
        return Point(entry.place, entry.letter, name, kept.alpha, kept.c, measured=False)
    return None


@st.cache_resource(max_entries=32, show_spinner=False)
def _labels(run_id: str, status: str, share_id: str) -> pd.DataFrame:
    """A run's numbers by label, kept as in `core.ui.desk`."""
    del status, share_id  # parts of the key alone
    seen = desk.analysis(desk.load(run_id))
    assert isinstance(seen, Analysis)
    return compare_runs.labels(seen)


def labels(entries: Sequence[Entry]) -> None:
    """Speedup or alpha by label, where any run has labels."""
    tables = [(entry, _labels(entry.run.id, entry.run.status, entry.run.share_id)) for entry in entries if entry.analysis]
    names = list(dict.fromkeys(label for _, table in tables for label in table["label"]))
    if not any(names):
        return
    st.subheader("By label", anchor=False)
    shown = st.segmented_control(
        "Shown by label", [SPEEDUP, ALPHA], default=SPEEDUP, required=True, key="labels_by", label_visibility="collapsed", bind="query-params"
    )
    values = [(entry, dict(zip(table["label"], table[shown], strict=True))) for entry, table in tables]
    counts = [(entry, dict(zip(table["label"], table["prompts"], strict=True))) for entry, table in tables]
    title = "Speedup by label" if shown == SPEEDUP else "Acceptance by label"
    subtitle = "predicted, each run's best setting, decode only" if shown == SPEEDUP else "alpha over the prompts of each label"
    rows = [escape(name or "no label", quote=False) for name in names]  # Plotly knows no &quot;
    points = [(entry.place, entry.letter, [known.get(name) for name in names]) for entry, known in values]
    look.show(
        look.drawn(compare_figures.by_label, look.palette(), title, subtitle, rows, points, ratio=shown == SPEEDUP),
        "compare_labels",
        f"{title}. {_said(names, values)}",
    )
    behind = pd.DataFrame({"label": [name or "no label" for name in names]})
    for (entry, known), (_, count) in zip(values, counts, strict=True):
        behind[entry.letter] = [known.get(name) for name in names]
        behind[f"{entry.letter}, prompts"] = [count.get(name) for name in names]
    form = "%.2fx" if shown == SPEEDUP else "%.2f"
    look.behind("Labels as a table", behind, title, {entry.letter: form for entry, _ in values})
    look.note("A label is what the prompts were called; where the prompts of two runs differ, so may what is behind the same label.")


def _said(names: Sequence[str], values: Sequence[tuple[Entry, dict[str, float]]]) -> str:
    return "; ".join(
        f"{name or 'no label'}: " + ", ".join(f"{entry.letter} {known[name]:.2f}" for entry, known in values if name in known) for name in names
    )
