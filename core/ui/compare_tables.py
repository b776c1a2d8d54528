"""The tables of a comparison: numbers beside the baseline's, the paired test of the best settings, and the settings that differ."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core import compare_runs
from core.analysis import Analysis, sentence_case
from core.compare_runs import Entry, Paired, Quantity, paired, setting
from core.comparison import Row, differences, same
from core.policies import describe
from core.ui import look, numbers


def setting_words(seen: Analysis) -> str:
    """The best setting of a run, for a sentence's beginning."""
    return sentence_case(describe(seen.advice.policy))


def quantities(entries: Sequence[Entry], base: Entry) -> None:
    """Alpha, costs and speedups of every run with an analysis, with the difference to the baseline."""
    known = [(entry, compare_runs.quantities(entry.analysis)) for entry in entries if entry.analysis]
    reference = compare_runs.quantities(base.analysis) if base.analysis else None
    st.subheader("Numbers", anchor=False)
    table: dict[str, list[str]] = {"": [each.name for each in known[0][1]]}
    for entry, values in known:
        table[entry.letter + (", baseline" if entry is base else "")] = [_value(value) for value in values]
        if reference and entry is not base:
            table[f"{entry.letter} beside {base.letter}"] = [_beside(value, other) for value, other in zip(values, reference, strict=True)]
    look.table(pd.DataFrame(table), "Speedups, acceptance and costs of each run, with the difference to the baseline")
    look.note(
        "95 % intervals in brackets. Beside the baseline: speedups, tokens and times as its multiple, alpha and costs as the difference. "
        "Costs c, v, h and e are in plain target steps of each run's own target."
    )


def _value(one: Quantity) -> str:
    if one.value is None:
        return ""
    bounds = f" {numbers.interval(one.bounds)}" if one.bounds else ""
    return {
        "ratio": numbers.ratio,
        "share": lambda value: f"{value:.2f}",
        "cost": numbers.cost,
        "ms": lambda value: f"{value:.2f} ms",
        "tokens": lambda value: f"{value:.2f}",
        "error": lambda value: f"{value:.1%}",
    }[one.unit](one.value) + bounds


def _beside(one: Quantity, other: Quantity) -> str:
    if one.value is None or other.value is None or one.unit == "error":
        return ""
    if one.unit in ("share", "cost"):
        difference = round(one.value - other.value, 2)
        return f"{difference:+.2f}" if difference else "0.00"
    return numbers.ratio(one.value / other.value)


def tests(entries: Sequence[Entry], base: Entry, confounded: str) -> None:
    """The paired test of each run's best setting against the baseline's. confounded: letters of `core.comparison`."""
    if base.analysis is None:
        look.note(f"The baseline {base.letter} has no speedup, so nothing is tested against it. Choose another baseline.")
        return
    others = [(entry, entry.analysis, paired(entry.analysis, base.analysis)) for entry in entries if entry.analysis and entry is not base]
    if not others:
        return
    st.subheader(f"Best setting beside that of {base.letter}", anchor=False)
    table = pd.DataFrame([_tested(entry, seen, test, verdict(test, entry, confounded)) for entry, seen, test in others])
    look.table(table, "Paired test of the best settings against the baseline's", {"Speedup": "%.2fx", "Beside the baseline": "%.2fx"})
    best = look.plain(setting(base.analysis))
    look.note(
        f"Tested is the speedup of each run's best setting / that of {base.letter} ({best}), on the prompts that both have, each over plain "
        "decoding of its own run: not the speeds themselves, which also depend on target and machine. Paired: what a prompt does to both cancels, "
        "so the 95 % interval is tighter than those of the speedups; a predicted side adds its own error."
    )
    if any(entry.letter in confounded for entry, _, _ in others):
        look.note("Settings differ too: the drafts are not the only reason for the difference; the box above says what else is.")


def verdict(test: Paired, entry: Entry, confounded: str) -> str:
    """What a test says of a run, and whether something else than the draft could be the reason."""
    return f"{test.says}; settings differ too" if test.shared and entry.letter in confounded else test.says


def _tested(entry: Entry, seen: Analysis, test: Paired, says: str) -> dict[str, object]:
    return {
        "Run": f"{entry.letter}: {entry.run.spec.draft.name}",
        "Best setting": setting(seen),
        "Speedup": seen.advice.speedup,
        "Beside the baseline": test.ratio,
        "Paired interval": numbers.interval(test.between),
        "Prompts of both": test.shared,
        "Says": says,
    }


def settings(entries: Sequence[Entry], base: Entry, every: Sequence[Row]) -> None:
    """What differs between the runs' settings; folded away what does not, or is not known."""
    st.subheader("Settings that differ", anchor=False)
    names = [entry.letter + (", baseline" if entry is base else "") for entry in entries]
    rows, equal = differences(every), [row for row in same(every) if row.words[0]]
    partly = [row for row in every if row.unknown and not row.others]
    known = ", as far as it is known" if partly else ""
    if rows:
        look.table(_table(rows, names), "The settings that are not the same in all runs")
        hashed = "Prompts by their number and a hash of their texts. " if any(row.name == "Prompts" for row in rows) else ""
        look.note(f"{hashed}Everything else that could change a result is the same in all runs{known}.")
    else:
        look.note(f"None: these runs were measured with the same settings, on the same machine, with the same versions{known}.")
    if equal:
        with st.expander(f"{numbers.counted(len(equal), 'setting')} that all runs share", icon=":material/table:", type="compact"):
            shared = pd.DataFrame({"Setting": [row.name for row in equal], "All runs": [row.words[0] for row in equal]})
            look.table(shared, "Settings that all runs share")
    if partly:
        with st.expander(f"{numbers.counted(len(partly), 'setting')} not known in every run", icon=":material/help:", type="compact"):
            look.table(_table(partly, names), "Settings that are not known in every run")


def _table(rows: Sequence[Row], names: Sequence[str]) -> pd.DataFrame:
    return pd.DataFrame([{"Setting": row.name, **dict(zip(names, (words or "none" for words in row.words), strict=True))} for row in rows])
