"""The result of a run that timed passes: which alpha a speedup needs, what checking costs, both costs by batch and length; never a recommendation."""

import pandas as pd
import streamlit as st

from core import encoders, shapes
from core.address import address
from core.analysis import Analysis
from core.errors import NotMeasured
from core.estimate_time import Speed
from core.runs import Run, RunSpec
from core.shapes import CHECKED, DEAR, WANTED, Cell, Shapes
from core.shapes_ask import seconds, wider
from core.shapes_figures import by_alpha, grid, verify_curve
from core.theory import NeededAlpha
from core.timing import LoopCosts
from core.ui import desk, export_box, look, numbers, pair_pick, provenance, shapes_estimate
from core.ui.result import STATUS_ICONS

NEWEST = 50
WIDER = "Time larger batches and longer texts"
WIDER_HELP = "Passes of 1 to 16 texts at once and at several cache lengths; no prompts are needed, and no speedup is claimed from them."
UNKNOWN = "How often this draft is right is not known, so nothing is recommended."


def show(run: Run) -> None:
    """The whole page of a run that has ended."""
    try:
        found = shapes.results(run)
    except NotMeasured as error:
        look.headline("No timings from this run", look.plain(run.error or str(error)))
        _buttons(run)
        provenance.provenance(run)
        _next(run, None)
        return
    real = measured(run)
    costs = shapes.with_loop(found.costs, real.costs if real else None)
    needed = shapes.needed(costs)
    look.headline(*(_needs(found, needed, real) if 1 in found.batches and run.spec.random_weights else _checking(found)))
    _ended_early(run, found)
    for said in run.environment.notes if run.environment else ():
        look.note(f":material/info: {look.plain(said)}")
    _figures(found)
    shapes_estimate.beside(run, found)
    if len(found.batches) > 1:
        _grids(found)
    elif found.dear:
        look.note(look.plain(shapes.says(found)))
    left, right = st.columns(2, gap="large")
    with left:
        fig = look.drawn(verify_curve, look.palette(), found)
        ratios = ", ".join(f"{width} tokens {found.costs.verify[width]:.2f}" for width in (2, 5, 9, 21) if width < len(found.costs.verify))
        look.show(fig, "shapes_verify", f"Target pass over n tokens in plain steps: {ratios}.")
    with right:
        if 1 in found.batches:
            fig = look.drawn(by_alpha, look.palette(), shapes.column(costs), costs.c, needed, real.alpha.value if real else None)
            look.show(fig, "shapes_alpha", f"Best gamma and speedup by acceptance at c {costs.c:.2f}; {_plainly(needed)}.")
    _table(found)
    _buttons(run)
    provenance.provenance(run)
    export_box.show(run)
    _next(run, real)


def measured(run: Run) -> Analysis | None:
    """The newest real measurement of the same pair on the same device in the same format, whose loop and alpha are known."""
    spec = run.spec
    for other in desk.desk()[0].recent(NEWEST):
        asked = other.spec
        alike = (asked.target, asked.draft, asked.device, asked.dtype, asked.placement) == (
            spec.target,
            spec.draft,
            spec.device,
            spec.dtype,
            spec.placement,
        )
        if alike and other.status == "done":
            found = desk.analysis(other)
            return found if isinstance(found, Analysis) else None
    return None


def wider_button(run: Run, costs: LoopCosts | None = None) -> None:
    """Time the pair of `run` at larger batches and longer texts. costs: its own, by which to say about how long that takes."""
    encoded = run.environment is not None and run.environment.encoder_decoder
    why = encoders.timed(run.spec.target.name) if encoded else WIDER_HELP
    if costs and not encoded:
        why = f"{why} Takes about {numbers.duration(_wider_seconds(run, costs))}, an estimate from this run's own steps."
    if st.button(WIDER, icon=":material/grid_on:", key="time_wider", help=look.plain(why), disabled=encoded):
        desk.submit(wider(run))


def _needs(found: Shapes, needed: NeededAlpha | None, real: Analysis | None) -> tuple[str, str]:
    """The headline of a pair whose acceptance is not known."""
    costs = found.costs
    c = f"**{numbers.cost(shapes.with_loop(costs, real.costs if real else None).c)}**"
    if real:
        c += f" (d1 {numbers.cost(costs.draft_next)} and the loop's e)"
    loop = (
        f"with the loop of its measurement (h {numbers.cost(real.costs.round_overhead)}, e {numbers.cost(real.costs.token_overhead)})"
        if real
        else "with a loop that is free (h = e = 0), which is optimistic: a real loop needs more"
    )
    known = f" Measured for real, its alpha was {real.alpha.value:.2f}." if real else f" {UNKNOWN}"
    facts = f"c {c}, v({CHECKED}) **{numbers.cost(float(costs.verify[CHECKED]))}** {look.ORIGINS['measured']} :small[:gray[{{}}{loop}.{known}]]"
    if needed is None:
        return f"No acceptance makes this pair {WANTED:g}x as fast here", facts.format("Even always right, ")
    return f"{WANTED:g}x needs an acceptance of {needed.alpha:.2f} or more", facts.format(f"At gamma {needed.gamma}, ")


def _plainly(needed: NeededAlpha | None) -> str:
    return f"{WANTED:g}x is never reached" if needed is None else f"{WANTED:g}x from alpha {needed.alpha:.2f}"


def _checking(found: Shapes) -> tuple[str, str]:
    """The headline where batches and lengths are the question."""
    dear, timed = sum(cell.dear for cell in found.timed), len(found.timed)
    title = f"Checking is no longer cheap at {dear} of {timed} combinations" if dear else "Checking stays cheap wherever it was timed"
    return title, f"{look.ORIGINS['measured']} :small[:gray[Measured ratios of single passes; no speedup is claimed from them.]]"


def _ended_early(run: Run, found: Shapes) -> None:
    words = {"failed": "This run failed", "cancelled": "This run was cancelled", "interrupted": "This run was interrupted"}
    if run.status in words:
        reason = f" {look.plain(run.error)}" if run.error else ""
        kept = f"Kept: {len(found.timed)} of {numbers.counted(len(found.cells), 'combination')}."
        st.warning(f"**{words[run.status]}.**{reason} {kept}", icon=STATUS_ICONS[run.status])
    if run.disturbed:
        look.note(":material/warning: Something else used the machine while this run was timed; the times are less certain than usual.")


def _figures(found: Shapes) -> None:
    """What was timed at the smallest batch and the shortest length."""
    costs, base, where = found.costs, found.base, found.run.environment
    assert base.times is not None
    place = f"{'one text' if base.batch == 1 else f'{base.batch} texts'} after {base.cache_tokens:,} tokens"

    def price(label: str, value: float, meaning: str) -> look.Fact:
        return look.Fact(label, numbers.cost(value), numbers.milliseconds(value * costs.plain_step_s), "measured", f"{meaning}; {place}.")

    facts = [
        look.Fact(
            "plain step",
            numbers.milliseconds(costs.plain_step_s),
            f"{base.batch / costs.plain_step_s:,.0f} tokens/s",
            "measured",
            f"One-token pass of the target, {place}.",
        ),
        price("d1, drafted token", costs.draft_next, "The draft's pass over one token after another of its own / plain step; c without a loop"),
        price("d2, first of a round", costs.draft_first, "The draft's first pass of a round, two tokens wide / plain step"),
        price(f"v({CHECKED}), verify", float(costs.verify[CHECKED]), f"Target pass over {CHECKED} tokens / plain step"),
    ]
    both = [
        (role, seconds) for role, seconds in (("target", base.times.target_prefill_s), ("draft", base.times.draft_prefill_s)) if seconds is not None
    ]
    if len(both) == 2:
        meaning = f"Reading {base.cache_tokens:,} tokens of one text in one pass."
        facts.append(look.Fact("prefill, target", numbers.milliseconds(both[0][1]), f"draft {numbers.milliseconds(both[1][1])}", "measured", meaning))
    if where and where.target_bytes is not None and where.draft_bytes is not None:
        most = f"peak {numbers.file_size(where.peak_bytes)}" if where.peak_bytes is not None else ""
        meaning = "Weights and buffers of both models as built here. Peak: the most in use during the run; on a CPU the worker since it started."
        facts.append(look.Fact("weights of both", numbers.file_size(where.target_bytes + where.draft_bytes), most, "measured", meaning))
    look.fact_row(facts)
    st.space("xxsmall")


def _grids(found: Shapes) -> None:
    """Both costs by batch and length, and whether checking stays cheap."""
    st.subheader("Larger batches and longer texts", anchor=False)
    look.note(f"{look.plain(shapes.says(found))} Measured ratios; no speedup is claimed from them.")
    left, right = st.columns(2, gap="large")
    with left:
        subtitle = f"target pass over {CHECKED} tokens / plain step; ringed: above {DEAR:g}"
        fig = look.drawn(grid, look.palette(), found, f"v({CHECKED}), checking", subtitle, _verify, cheap=1.0, dear=float(CHECKED), ring=True)
        look.show(fig, "shapes_grid_v", _spoken(found, f"v({CHECKED})", _verify))
    with right:
        fig = look.drawn(grid, look.palette(), found, "c, drafting", "draft pass over one token / plain step", _c, cheap=0.0, dear=1.0, ring=False)
        look.show(fig, "shapes_grid_c", _spoken(found, "c", _c))
    left_out = [cell for cell in found.cells if cell.costs is None]
    if left_out:
        reasons = dict.fromkeys(cell.problem for cell in left_out)
        look.note(f"Left out, {len(left_out)} of {len(found.cells)}: {look.plain(' '.join(reasons))}")


def _verify(cell: Cell) -> float | None:
    return cell.verify


def _c(cell: Cell) -> float | None:
    return cell.c


def _spoken(found: Shapes, name: str, value: object) -> str:
    assert callable(value)
    said = [f"batch {cell.batch} after {cell.cache_tokens:,} tokens {value(cell):.2f}" for cell in found.timed]
    return f"{name} by batch and cache length: {', '.join(said)}."


def _table(found: Shapes) -> None:
    rows = [_row(cell) for cell in found.cells]
    formats = {"Plain step, ms": "%.2f", "Tokens/s": "%.0f", "d1 (c)": "%.3f", "d2": "%.3f"} | {f"v({n})": "%.2f" for n in (2, CHECKED, 9)}
    look.behind("Every combination as a table", pd.DataFrame(rows), "Every combination that was asked for, with its timings.", formats)


def _row(cell: Cell) -> dict[str, object]:
    costs = cell.costs
    row: dict[str, object] = {"Batch": cell.batch, "Tokens cached": cell.cache_tokens}
    row |= {"Plain step, ms": costs.plain_step_s * 1000 if costs else None, "Tokens/s": cell.batch / costs.plain_step_s if costs else None}
    row |= {f"v({n})": float(costs.verify[n]) if costs else None for n in (2, CHECKED, 9)}
    return row | {"d1 (c)": costs.draft_next if costs else None, "d2": costs.draft_first if costs else None, "Left out because": cell.problem}


def _buttons(run: Run) -> None:
    """On to a real measurement; larger batches; the same again."""
    here = run.imported is None and not desk.read_only()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("Measure for real", type="primary", icon=":material/timer:", on_click=_take_pair, args=(run.spec,))
        if here and run.status == "done" and len(run.spec.batches) == 1:
            wider_button(run)
        if here and st.button("Time it again", icon=":material/replay:"):
            desk.submit(run.spec)
        if here and run.status == "done" and len(run.spec.batches) == 1:
            look.note(_how_long(run))


def _how_long(run: Run) -> str:
    """Of the larger batches, from this run's own steps."""
    about = numbers.duration(_wider_seconds(run, shapes.results(run).costs))
    return f"Larger batches take about {about} {look.ORIGINS['estimate']} from this run's own steps."


def _wider_seconds(run: Run, costs: LoopCosts) -> float:
    where = run.environment
    held = (where.target_bytes or 0) + (where.draft_bytes or 0) if where else 0
    return seconds(wider(run), Speed(costs.plain_step_s, costs.plain_step_s * costs.draft_next, held, "measured"))


def _take_pair(spec: RunSpec) -> None:
    desk.forget_run()
    pair_pick.choose(address(spec.target), [address(spec.draft)])


def _next(run: Run, real: Analysis | None) -> None:
    """Back to the pair's measurement where there is one, else on to it."""
    if real:
        text = "Set this beside what the pair reached on your prompts, one request at a time."
        look.next_step(text, "measure", "Open the measurement", {"run": real.run.id})
        return
    query = pair_pick.in_address(address(run.spec.target), [address(run.spec.draft)])
    look.next_step("Measure how often the draft is right, on your own prompts.", "pair", "See the pair", query)
