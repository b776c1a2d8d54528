"""What came of a run in several ways: the answer in a sentence, one chart, the ways that may be used, and those that may not.

A way that changes the text, or whose differences from plain are not explained, stands in a table of its own and is never marked:
its speed is no gain that could be had. All numbers are of real calls; nothing is replayed. Speedups are ratios to plain decoding.
"""

from html import escape, unescape

import pandas as pd
import streamlit as st

from core import way_words, ways
from core.address import address
from core.analysis import sentence_case
from core.candidates import Setting, gather
from core.engines import intersection
from core.figures import Known, Range, ranges
from core.policies import Drafting, Plain, describe
from core.runs import Run
from core.ui import desk, look, numbers, provenance, result
from core.way_calls import Speed, beside_plain
from core.way_results import WayResult
from core.ways import Choice

RATIOS = {"Tokens per round": "%.2f", "Acceptance examined": "%.2f", "Utilisation": "%.2f", "Speedup": "%.2fx", "End to end": "%.2fx"}
MEANING = (
    "Speedup: decoding alone, against plain calls of the same prompt just before or after; end to end: whole calls, prompts read included. "
    "Acceptance examined: accepted / (accepted + rounds that ended in a rejection), which is near alpha and not alpha. Utilisation: "
    "accepted / drafted, what vLLM and llama.cpp call acceptance rate. Lossless: whatever is proposed, the target decides every token, or draws it."
)


@st.cache_resource(max_entries=16, show_spinner=False)
def _answer(run_id: str, status: str, share_id: str) -> tuple[Run, tuple[WayResult, ...], Choice]:
    """Kept as in `core.ui.desk`."""
    del status, share_id  # parts of the key alone
    run = desk.desk()[0].get(run_id)
    found = ways.results(run)
    return run, found, ways.choice(run, found)


def show(run: Run) -> Choice:
    """The whole result of a run that has ended, without its buttons."""
    run, found, choice = _answer(run.id, run.status, run.share_id)
    headline(run, choice)
    _ended(run)
    usable = [way for way in found if ways.proven(run, way)]
    others = [way for way in found if not ways.proven(run, way)]
    if any(way.decode for way in found):
        chart(run, usable, others)
    if any(way.calls for way in found):
        _table(run, usable, choice)
        _not_to_be_used(others)
        _notes(run, found)
        _per_prompt(run, usable)
        _overlap(run, found)
        _how(run, found, choice)
    provenance.provenance(run)
    return choice


def headline(run: Run, found: Choice) -> None:
    """The page's one sentence, then intervals, origin and reasons."""
    look.headline(way_words.sentence(run, found, result.mark, look.plain(found.draft)), f"{_facts(run, found)}\n\n{_reasons(found)}")


def _facts(run: Run, found: Choice) -> str:
    if found.speed is None or found.lane is None:
        return look.plain(found.reasons[0])
    way = ways.results(run)[found.lane]
    these, traffic = numbers.interval(found.speed.these), numbers.interval(found.speed.traffic)
    name = look.plain(sentence_case(describe(run.spec.lanes[found.lane].policy)))
    parts = [f"{name} gives **{numbers.ratio(found.speed.value)}**;"] if found.verdict == "leave_off" else []
    parts.append(f"**{these}** on these prompts;" if these else "Each prompt was run once, so no interval on these prompts;")
    wide = ", too wide to decide" if found.verdict == "undecided" else ""
    parts.append(f"**{traffic}** for traffic like these{wide}." if traffic else "too few prompts for an interval for other traffic.")
    if way.end_to_end:
        parts.append(f"End to end **{numbers.ratio(way.end_to_end.value)}**.")
    return " ".join([*parts, look.ORIGINS["measured"]])


def _reasons(found: Choice) -> str:
    """Why this answer, beyond what the facts say."""
    said = " ".join(sentence_case(reason) for reason in found.reasons[2:])
    return f":small[:gray[{look.plain(f'Really run, nothing replayed. {said}'.strip())}]]"


def _ended(run: Run) -> None:
    """What a reader must know before the numbers: a run that ended early, answers that part, a busy machine."""
    if run.status in way_words.STOPPED:
        words = {"failed": "This run failed", "cancelled": "This run was cancelled", "interrupted": "This run was interrupted"}[run.status]
        kept = f"Kept: {numbers.counted(sum(g.purpose == 'way' for g in run.generations), 'timed call')}."
        reason = f" {look.plain(run.error)}" if run.error else ""
        parted = any(g.equal is False for g in run.generations)
        open_ = " Differences from plain are looked into at the end, so a way that had some counts as not proven." if parted else ""
        st.warning(f"**{words}.**{reason} {kept}{open_}", icon=result.STATUS_ICONS[run.status])
    if run.disturbed:
        look.note(":material/warning: Something else used the machine while this run was timed; the times are less certain than usual.")


def chart(run: Run, usable: list[WayResult], others: list[WayResult]) -> None:
    """Every way that was timed, the fastest first; below them those that may not be used, hollow."""
    on_these = all(way.decode.these for way in usable if way.decode)
    rows = [_range(run, way, way.decode, "confirmed", on_these=on_these) for way in _fastest_first(usable) if way.decode]
    rows += [_range(run, way, way.decode, "lossy", on_these=on_these) for way in _fastest_first(others) if way.decode]
    bar = "on these prompts" if on_these else "for traffic like these"
    fig = look.drawn(ranges, look.palette(), "Ways by speedup", f"diamond: really run; bar: 95 % {bar}", rows)
    said = ", ".join(f"{unescape(row.name)} {row.speedup:.2f}x{'' if row.known == 'confirmed' else ' (not to be used)'}" for row in rows)
    look.show(fig, "ways", f"Ways to draft by speedup, break-even at 1x: {said}.")
    if others:
        look.note("Hollow: timed, but not to be used; why is said below.")


def _fastest_first(found: list[WayResult]) -> list[WayResult]:
    return sorted((way for way in found if way.decode), key=lambda way: -way.decode.value if way.decode else 0.0)


def _range(run: Run, way: WayResult, speed: Speed, known: Known, *, on_these: bool) -> Range:
    low, high = (speed.these if on_these else speed.traffic) or (speed.value, speed.value)
    why = "" if known == "confirmed" else "Not proven: " if way.lossless else "Lossy: "
    return Range(escape(f"{why}{label(run, way)}"), speed.value, low, high, known)


def label(run: Run, way: WayResult) -> str:
    """A way's name, with its draft where several drafts are in the run."""
    name = describe(run.spec.lanes[way.lane].policy)
    drafts = {address(lane.draft or run.spec.draft) for lane in run.spec.lanes if isinstance(lane.policy, Drafting)}
    return sentence_case(f"{way.draft}, {name}" if way.draft and len(drafts) > 1 else name)


def _table(run: Run, usable: list[WayResult], found: Choice) -> None:
    plain = [way for way in usable if isinstance(run.spec.lanes[way.lane].policy, Plain)]
    ordered = [*_fastest_first(usable), *(way for way in usable if way.decode is None and way not in plain), *plain]
    table = pd.DataFrame([_cells(run, way) for way in ordered])
    marked = next((at for at, way in enumerate(ordered) if way.lane == found.lane), None) if found.verdict == "use" else None
    if found.verdict == "leave_off":
        marked = next((at for at, way in enumerate(ordered) if way in plain), None)
    shown = table if marked is None else look.mark_row(table, marked)
    look.table(shown, "Ways to draft, really run", RATIOS | {"Tokens/s": "%.1f"})
    look.note(MEANING)


def _cells(run: Run, way: WayResult) -> dict[str, object]:
    plain = isinstance(run.spec.lanes[way.lane].policy, Plain)
    return {
        "Way": label(run, way),
        "Draft": way.draft,
        "Tokens per round": way.tokens_per_round,
        "Acceptance examined": way.alpha_examined,
        "Utilisation": way.utilisation,
        "Speedup": 1.0 if plain else _value(way.decode),
        "These prompts": numbers.interval(way.decode.these) if way.decode else "",
        "Traffic": numbers.interval(way.decode.traffic) if way.decode else "",
        "End to end": 1.0 if plain else _value(way.end_to_end),
        "End to end, these": numbers.interval(way.end_to_end.these) if way.end_to_end else "",
        "Tokens/s": way.tokens_per_s,
        "Equal to plain": way_words.equality(run, way),
        "Lossless": "yes",
    }


def _value(speed: Speed | None) -> float | None:
    return speed.value if speed else None


def _not_to_be_used(others: list[WayResult]) -> None:
    """Ways whose text is not the target's own, or not proven to be: first why, then what was timed."""
    if not others:
        return
    st.subheader("Not to be used", anchor=False)
    meaning = "These were timed as well, but what they write is not what the target alone would write, or nobody knows whether it is."
    st.markdown(f":orange-badge[:material/blur_on: lossy or not proven] {meaning}")
    rows = [
        {
            "Way": sentence_case(way.name),
            "Draft": way.draft,
            "Timed at, no gain": _value(way.decode),
            "Tokens per round": way.tokens_per_round,
        }
        for way in others
    ]
    look.table(pd.DataFrame(rows), "Ways that are not to be used", {"Timed at, no gain": "%.2fx", "Tokens per round": "%.2f"})
    for why in dict.fromkeys(map(way_words.why_not, others)):
        names = ", ".join(sentence_case(way.name) for way in others if way_words.why_not(way) == why)
        st.markdown(f"**{look.plain(names)}.** {look.plain(why)}")


def _notes(run: Run, found: tuple[WayResult, ...]) -> None:
    """What must be known to read the numbers of a way rightly."""
    for way in found:
        if way.notes:
            look.note(f"{look.plain(label(run, way))}: {look.plain(' '.join(way.notes))}")


def _per_prompt(run: Run, usable: list[WayResult]) -> None:
    """The speedup of each way on each prompt."""
    timed = {label(run, way): beside_plain(run, way.lane) for way in _fastest_first(usable)}
    if not timed:
        return
    count = len(run.spec.prompts)
    speeds = {name: (each.by_prompt(each.plain_s, count), each.by_prompt(each.own_s, count)) for name, each in timed.items()}
    rows = [
        {"Prompt": at + 1, "Label": prompt.label}
        | {name: plain_s[at] / own_s[at] if own_s[at] else None for name, (plain_s, own_s) in speeds.items()}
        | {"Begins": " ".join(prompt.text[:80].split())}
        for at, prompt in enumerate(run.spec.prompts)
    ]
    with st.expander("Per prompt", icon=":material/table:"):
        look.table(pd.DataFrame(rows), "Speedup of each way on each prompt", dict.fromkeys(speeds, "%.2fx"))
        look.note("Decode only, measured. One prompt is a few calls: single values scatter more than their sum.")


def _overlap(run: Run, found: tuple[WayResult, ...]) -> None:
    """What vLLM's way with other tokens would draft from, where both vocabularies have been compared here."""
    if not any(way.translated for way in found) or run.imported is not None or desk.read_only():
        return
    drafts = dict.fromkeys(address(lane.draft or run.spec.draft) for lane in run.spec.lanes if isinstance(lane.policy, Drafting))
    for candidate in gather(desk.planner().ask, address(run.spec.target), list(drafts), Setting()).drafts:
        verdict = candidate.verdict_value
        if verdict is not None and not verdict.native:
            name = f"{look.plain(candidate.model.name)} has other tokens than the target, so Transformers carried every proposal over as text."
            look.note(f"{name} {look.plain(intersection(verdict))}")


def _how(run: Run, found: tuple[WayResult, ...], choice: Choice) -> None:
    """The call of the way to use; nothing where none is."""
    if choice.verdict != "use" or choice.lane is None:
        return
    way = found[choice.lane]
    with st.expander("The call in Transformers 5.24", icon=":material/terminal:"):
        st.code(way_words.call(run.spec.lanes[way.lane].policy, translated=way.translated), language="python", wrap_lines=True)
