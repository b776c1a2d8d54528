"""Two to six runs side by side: what may be compared, curves, acceptance against cost, numbers, the paired test, labels, settings.

Reached as `/runs?compare=ID,ID&baseline=ID`; the baseline can be chosen on the page and stands in the address.
"""

from html import escape

import streamlit as st

from core.analysis import Analysis, Unfinished
from core.compare_runs import Entry, paired
from core.comparison import LEAST, LETTERS, MOST, Caution, Row, cautions, confounded, gaps, rows
from core.errors import InvalidInput, StoreError
from core.imports import WORDS, is_record
from core.runs import Run
from core.ui import compare_charts, compare_tables, desk, look, numbers, result
from core.ui.frame import page_path

KEY, PARAMETER, _WRITTEN = "compare_baseline", "baseline", "_compare_baseline"


def show(ids: list[str], baseline: str) -> None:
    """The whole page for the runs with these ids; those that are not here are named and left out."""
    wanted = list(dict.fromkeys(ids))
    found, lost = _find(wanted[:MOST])
    if len(found) < LEAST:
        _too_few(lost)
        return
    entries = [Entry(place, run, None if run.status in desk.ALIVE else desk.analysis(run)) for place, run in enumerate(found)]
    headline = st.container()
    base = entries[_choose(entries, baseline)]
    every = rows([entry.run for entry in entries], base.place)
    with headline:
        look.headline(*_headline(entries, base, confounded(every)))
    _legend(entries, base)
    _warn(entries, every, [*lost, *_too_many(wanted)])
    if any(entry.analysis for entry in entries):
        compare_charts.curves_and_quadrant(entries, base)
        compare_tables.quantities(entries, base)
        compare_tables.tests(entries, base, confounded(every))
        compare_charts.labels(entries)
    else:
        compare_charts.quadrant(entries, base)
    compare_tables.settings(entries, base, every)
    look.next_step("Open the baseline: its answers, settings and timings.", "measure", "Open the run", {"run": base.run.id})


def _find(ids: list[str]) -> tuple[list[Run], list[str]]:
    """The runs that can be read, and a sentence for each that cannot, or that was deleted and is kept for a while."""
    store, _ = desk.desk()
    found: list[Run] = []
    lost: list[str] = []
    for run_id in ids:
        try:
            found.append(desk.example() if run_id == desk.EXAMPLE else store.get(run_id))
        except (InvalidInput, StoreError) as error:
            lost.append(str(error))
    hidden = store.hidden([run.id for run in found])
    lost += [
        f"Run {run.id}, {result.pair_name(run)}, was deleted. It can still be restored on the page of runs." for run in found if run.id in hidden
    ]
    return found, lost


def _too_few(lost: list[str]) -> None:
    look.headline("Choose at least two runs to compare")
    for said in lost:
        st.warning(look.plain(said), icon=":material/search_off:")
    look.note(f"{LEAST} to {MOST} runs stand beside each other. Measure a pair, or go back to the list and choose more.")
    look.next_step("Measure another pair to compare with.", "measure", "Measure")


def _choose(entries: list[Entry], asked: str) -> int:
    """The place of the baseline: as chosen on the page, or as the address asks when it was changed; written back to it."""
    ids = [entry.run.id for entry in entries]
    state = st.session_state
    if state.get(_WRITTEN) != asked or state.get(KEY) not in ids:
        state[KEY] = asked if asked in ids else ids[0]
    chosen = st.selectbox("Baseline", ids, format_func=lambda run_id: _title(entries[ids.index(run_id)]), key=KEY, width=420)
    state[_WRITTEN] = chosen
    if st.query_params.get(PARAMETER) != chosen:
        st.query_params[PARAMETER] = chosen
    return ids.index(chosen)


def _title(entry: Entry) -> str:
    return f"{entry.letter}: {result.pair_name(entry.run)}, {numbers.when(entry.run.created)}"


def _headline(entries: list[Entry], base: Entry, confounded: str) -> tuple[str, str]:
    """Who gains most, and how that compares with the baseline on the prompts that both have. confounded: letters of `core.comparison`."""
    known = [(entry, entry.analysis) for entry in entries if entry.analysis]
    if not known:
        return f"{len(entries)} runs side by side: none has a speedup", ""
    best, seen = max(known, key=lambda pair: pair[1].advice.speedup)
    said = [f"{look.plain(compare_tables.setting_words(seen))}; {look.ORIGINS['confirmed' if seen.advice.confirmed else 'replayed']}"]
    if best is base or base.analysis is None:
        tests = {entry.letter: paired(other, seen) for entry, other in known if entry is not best}
        untested = [letter for letter, test in tests.items() if test.between is None]
        close = [letter for letter, test in tests.items() if test.between and test.between.low <= 1 <= test.between.high]
        said.append(f":small[:gray[Not told apart from it by the paired test: {', '.join(close)}.]]" if close else "")
        said.append(f":small[:gray[Not tested against it, for want of common prompts: {', '.join(untested)}.]]" if untested else "")
        return _gains(best, seen, "", alone=not close and not untested), " ".join(said)
    test = paired(seen, base.analysis)
    ratio = "" if test.ratio is None else f" **{numbers.ratio(test.ratio)} {numbers.interval(test.between)}** of the speedup of {base.letter}"
    on = f" on {numbers.counted(test.shared, 'prompt')} of both;" if test.shared else ""
    said.append(f":small[:gray[Beside the baseline:{ratio}{on} {compare_tables.verdict(test, best, confounded)}.]]")
    but = {"gains more": "", "gains as much": f", not more than {base.letter}", "gains less": f", less than {base.letter} on the same prompts"}
    unknown = f", not {'told apart from' if test.between else 'tested against'} {base.letter}"
    return _gains(best, seen, but.get(test.says, unknown)), " ".join(said)


def _gains(best: Entry, seen: Analysis, but: str, *, alone: bool = True) -> str:
    """The headline. but: what the paired test against the baseline takes back, where prompts or chance made the larger number.

    alone: whether every other run is known to gain less.
    """
    speed = numbers.speed(seen.advice.speedup)
    if round(seen.advice.speedup, 2) <= 1:
        return f"None of these gains: the best, {best.letter}, reaches :orange[{speed}]"
    verb = "shows the largest gain" if but or not alone else "gains most"
    return f"{best.letter}, {look.plain(best.run.spec.draft.name)}, {verb}: :green[{speed}]{but}"


def _legend(entries: list[Entry], base: Entry) -> None:
    """Which letter and colour is which run, what is known of it, and the way to it."""
    palette = look.palette()
    with st.container(gap="xxsmall"):
        for entry in entries:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                style = f"background:{palette.runs[entry.place]};color:{palette.paper};border-radius:.375rem;padding:.1rem .5rem;font-weight:600"
                st.html(f"<span style='{style}'>{escape(entry.letter)}</span>", width="content")
                label = f"**{look.plain(result.pair_name(entry.run))}**"
                page = "side_by_side" if entry.run.spec.extent == "side_by_side" else "measure"
                st.page_link(page_path(page), label=label, query_params={"run": entry.run.id})
                look.note(f"{'baseline; ' if entry is base else ''}{look.plain(_known(entry))}")


def _known(entry: Entry) -> str:
    """When and where, and for a run without a speedup what it has instead."""
    run = entry.run
    if is_record(run):
        return f"{numbers.when(run.created)}. {_lacks(entry)}"
    where = run.environment.device_name if run.environment else run.spec.device
    about = f"{numbers.when(run.created)}, {where}, {run.spec.dtype}, {run.spec.decoding.words()}, {numbers.counted(len(run.spec.prompts), 'prompt')}"
    if entry.analysis:
        return f"{about}." if run.status == "done" else f"{about}. {_ended(run)}; what it had measured is compared."
    return f"{about}. {_lacks(entry)}"


def _lacks(entry: Entry) -> str:
    """Why a run stands in no curve, and what is known of it all the same."""
    run, kept = entry.run, entry.run.imported
    alpha = "" if entry.alpha is None else f" alpha {entry.alpha:.2f}."
    if entry.seen is None:
        return "Still being measured: its numbers appear here when it has ended."
    if kept is not None and is_record(run):
        given = [f"{name} {value}" for name, value in (("c", kept.c), ("gamma", kept.gamma), ("speedup as given", kept.speedup)) if value is not None]
        return f"Imported, {WORDS[kept.source]}: no curve.{alpha}{_listed(given)}"
    if run.spec.extent == "side_by_side":
        return "A side-by-side run of one prompt: it has no curve."
    if run.spec.extent == "ways":
        return "A run in several ways: nothing is replayed, so it has no curve. Open it for its speedups."
    if run.spec.extent == "shapes":
        return "A run that timed single passes: no answers were written, so it has no curve. Open it for its costs."
    if run.status != "done":
        return f"{_ended(run)}, so there is no speedup. {run.error}{alpha}".strip()
    missing = entry.seen.missing if isinstance(entry.seen, Unfinished) else ""
    return f"No speedup: {missing}{alpha}"


def _ended(run: Run) -> str:
    return "This run has failed" if run.status == "failed" else f"This run was {run.status}"


def _listed(given: list[str]) -> str:
    return f" {', '.join(given)}." if given else ""


def _too_many(wanted: list[str]) -> list[str]:
    more = len(wanted) - MOST
    return [f"At most {MOST} runs are compared; {numbers.counted(more, 'further run')} left out."] if more > 0 else []


def _warn(entries: list[Entry], every: list[Row], lost: list[str]) -> None:
    """What cannot be compared, in one box; nothing when all can."""
    for said in lost:
        st.warning(look.plain(said), icon=":material/search_off:")
    lines = [f"* **{look.plain(_differs(caution))}** {look.plain(caution.sentence)}" for caution in cautions(every)]
    letters, names = gaps(every)
    silent = [letter for letter in letters if not is_record(entries[LETTERS.index(letter)].run)]  # of a record the caution on its source says it
    if silent:
        missing = f"Not known in {', '.join(silent)}: {', '.join(names)}."
        lines.append(f"* **{look.plain(missing)}** Where they differ, what depends on them cannot be compared.")
    if lines:
        st.warning("Not everything here can be compared.\n\n" + "\n".join(lines), icon=":material/compare_arrows:")


def _differs(caution: Caution) -> str:
    """Which settings, and in which runs: "Device name, Threads: other in B, C; Platform: other in C."."""
    together: dict[str, list[str]] = {}
    for name, others in zip(caution.names, caution.others, strict=True):
        together.setdefault(others, []).append(name)
    return "; ".join(f"{', '.join(names)}: other in {', '.join(others)}" for others, names in together.items()) + "."
