"""Choose gamma: the verdict, the curve beside the map, the policies, and why. With a run (?run=id) or with what-if values alone."""

import streamlit as st

from core import theory
from core.analysis import Analysis
from core.imports import is_record
from core.landscape import GAMMAS, landscape
from core.maps import Spot
from core.record import Imported
from core.ui import compare, explore, imported_page, look, numbers, paste, policies, report, result, what_if, why
from core.ui.desk import ALIVE, EXAMPLE, analysis, desk, load, run_id
from core.ui.frame import frame

OWN, FORMULA = "this run's v, h", "formula"

frame()
desk()
chosen = run_id()
seen: Analysis | None = None
record: Imported | None = None
if chosen:
    run = load(chosen)
    result.pair_header(run, "Example run" if chosen == EXAMPLE else "")
    if run.status in ALIVE:
        look.headline("Still being measured")
        look.next_step("The curve appears here when the run has ended.", "measure", "Watch it", {"run": chosen})
        st.stop()
    found = analysis(run)
    if is_record(run):
        record = imported_page.headline(run)
        look.note(imported_page.guesses(record))
    elif isinstance(found, Analysis):
        seen = found
        result.headline(seen)
    else:
        report.unfinished(found)
        st.markdown("Until then, what-if values:")

start = what_if.of_run(seen) if seen else imported_page.start(record) if record else what_if.NO_RUN
above, charts, below = st.container(), st.container(), st.container()
with below if seen else above:
    if seen:
        st.subheader("What if", anchor=False)
        look.note("Move a value, or click a cell of the map: the dotted line in the curve shows what the formula gives with these costs.")
    headline = st.container()
    values = what_if.sliders(start, chosen or "none")
    if not seen and not chosen:
        best = theory.best_gamma(values.alpha, values.c, verify=values.v, overhead=values.h)
        with headline:
            look.headline(*what_if.words(best))
moved = values != start
own_costs = seen is not None and (values.v, values.h) == (start.v, start.h)
line = values.speedup(seen.costs.verify_up_to(20)[1:] if seen and own_costs else None)

with charts:
    left, right = st.columns(2, gap="large")
    with right:
        place = st.container()
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="right"):
            published = st.toggle("Published T5 pairs", key="published", bind="query-params")
            costs = FORMULA
            if seen:
                costs = st.segmented_control(
                    "Costs in the map", [OWN, FORMULA], default=OWN, required=True, key="costs", label_visibility="collapsed", bind="query-params"
                )
        others = compare.spots(compare.choose(seen.run.id), passes_alone=costs == FORMULA) if seen else []
        spots = [*others, Spot("what-if", values.alpha, values.c, "what-if")] if moved or not seen else others
        if seen and costs == OWN:
            verify, overhead = seen.costs.verify_up_to(20)[1:], max(0.0, seen.costs.overhead)
            spots = [*spots, Spot("this run", seen.alpha.value, seen.costs.c, "run")]
        elif seen:
            verify, overhead = 1.0, 0.0
            spots = [*spots, Spot("this run, passes alone", seen.alpha.value, seen.costs.draft_next, "run")]
        else:
            verify, overhead = values.v, values.h
        land = landscape(verify, overhead, lowest_alpha=min(spot.alpha for spot in spots))
        with place:
            explore.best_gamma_map(land, spots, published)
            compare.legend(others)
    with left:
        if seen:
            result.curve(seen, "curve", what_if=line if moved else None)
            promised, passes = numbers.ratio(float(seen.formula.max())), numbers.cost(seen.costs.draft_next)
            look.note(
                f"The formula promises {promised} with c {passes}, the draft's pass alone: "
                "it takes a verify pass for one plain step and the loop for free."
            )
        else:
            explore.curve("curve", formula=theory.speedup(values.alpha, GAMMAS, values.c), what_if=line)
            look.note("Dashed: the classical formula. Dotted: the same with your v and h.")
    if seen:
        policies.table(seen)
        why.show(seen)
    else:
        paste.alpha_from_elsewhere()

why.how_to_read(sampled=seen is not None and seen.run.spec.decoding.sample)
if chosen:
    look.next_step("Read what the record says." if record else "See the answers, prompt by prompt.", "measure", "Open the run", {"run": chosen})
else:
    look.next_step("Replace the guesses with measurements of your own prompts.", "measure", "Measure")
