"""Several drafts for one target, ranked: the runs of one group in one table, "no draft" and prompt lookup among the rows.

Each row has its own best setting, confirmed if it was really run, and its speedup against plain runs of its own neighbourhood (so a machine
that drifts between runs cancels). Rows are compared with the best one by their paired interval over the prompts that both have:
prompts are the unit, and what they have in common cancels. Whoever looks for the best of several drafts finds the luckiest one: the
drafts' own intervals hold for all of them together, and the paired ones for every pair of rows (`core.intervals.among`), so they also
hold for the rows that come out first. Speedups are ratios to plain decoding, decode only.
Runs in several ways give rows beside them (`core.group_ways`) that were really run, and for which no replay is claimed.
Not covered: runs whose target, decoding or answers differ; they are left out with a sentence.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from typing import Any, Literal, cast

import numpy as np
import pandas as pd  # pyright: ignore[reportMissingTypeStubs]

from core import columns as col
from core.errors import InvalidInput, NotMeasured
from core.group_rows import Contender, Key, Kind, Row, keys
from core.group_ways import way_rows
from core.intervals import LEAST_PROMPTS, Floats, Interval, among, paired_ratio, t_quantile
from core.policies import Drafting, Plain, PromptLookup, describe
from core.predict import default_policies, predict
from core.recommend import FLAT, Recommendation, decide, verdict
from core.runs import Placement, Run


@dataclass(frozen=True, eq=False)
class Ranking:
    """The rows, the fastest first; sentences about runs that are not among them."""

    contenders: tuple[Contender, ...]
    left_out: tuple[str, ...]

    @property
    def best(self) -> Contender:
        """The first row."""
        return self.contenders[0]


def rank(runs: Sequence[Run]) -> Ranking:
    """The ranking of the newest usable run of each draft, and of the newest of each way. Raises NotMeasured when there is none, with a reason."""
    newest_first = sorted(runs, key=lambda run: run.created, reverse=True)
    rows, lookups, left_out, reference = _replayed([run for run in newest_first if run.spec.extent == "full"])
    for run in (run for run in newest_first if run.spec.extent == "ways"):
        why = None if reference is None else _unlike(run, reference)
        found, lossy = ([], [f"A run in several ways: {why}"]) if why else way_rows(run)
        reference = reference if why else reference or run
        left_out += lossy
        lookups += [row for row in found if row.contender.kind == "lookup"]
        known = {(row.contender.draft, row.contender.name) for row in rows}
        rows += [row for row in found if row.contender.kind == "way" and (row.contender.draft, row.contender.name) not in known]
    if not rows and not lookups:
        raise NotMeasured(left_out[0] if left_out else "There is no run to rank. Measure at least one draft.")
    lookup = sorted(lookups, key=lambda row: not row.contender.confirmed)[:1]
    chosen_from = [_one_of(row, len(rows)) for row in rows]
    ordered = sorted([*chosen_from, *lookup, _plain()], key=lambda row: -row.contender.speedup)
    level = among(len(ordered) * (len(ordered) - 1) // 2)
    return Ranking(tuple(_against(row, ordered[0], level) for row in ordered), tuple(left_out))


def _replayed(newest_first: Sequence[Run]) -> tuple[list[Row], list[Row], list[str], Run | None]:
    """Rows of the drafts and of prompt lookup, sentences about runs that are left out, and the run that the others must be like."""
    rows: list[Row] = []
    lookups: list[Row] = []
    left_out: list[str] = []
    reference: Run | None = None
    for run in newest_first:
        if any(row.contender.draft == run.spec.draft for row in rows):
            continue
        why = None if reference is None else _unlike(run, reference)
        try:
            if why:
                raise NotMeasured(why)
            table = predict(run, default_policies(run))
            rows.append(_row(run, table, "draft"))
        except (NotMeasured, InvalidInput) as error:
            left_out.append(f"{run.spec.draft.name}: {error}")
            continue
        reference = reference or run
        if any(isinstance(policy, PromptLookup) for policy in table[col.POLICY]):
            lookups.append(_row(run, table, "lookup"))
    return rows, lookups, left_out, reference


def _one_of(row: Row, drafts: int) -> Row:
    """The row with intervals that hold for so many drafts together, and the verdict that they give."""
    if drafts == 1 or len(row.amounts) < LEAST_PROMPTS:
        return row
    freedom = len(row.amounts) - 1
    factor = t_quantile(freedom, among(drafts)) / t_quantile(freedom)
    these, traffic = (_wider(each, factor) for each in (row.contender.on_these_prompts, row.contender.for_traffic))
    known = row.contender
    said = () if traffic is None else (f"As one of {drafts} drafts, for such traffic {traffic.low:.2f}x to {traffic.high:.2f}x.",)
    wider = replace(known, on_these_prompts=these, for_traffic=traffic, verdict=verdict(traffic), reasons=(*known.reasons, *said))
    return replace(row, contender=wider)


def _wider(interval: Interval | None, factor: float) -> Interval | None:
    """Its half-width on the log scale times a factor."""
    if interval is None:
        return None
    middle, half = (log(interval.high) + log(interval.low)) / 2, factor * log(interval.high / interval.low) / 2
    return Interval(exp(middle - half), exp(middle + half))


def _unlike(run: Run, reference: Run) -> str | None:
    """Why a run's speedups may not stand beside those of `reference`."""
    mine, theirs = run.spec, reference.spec
    checks = {
        "another target": mine.target == theirs.target,
        "another way of decoding": mine.decoding.for_target() == theirs.decoding.for_target(),
        "another chat template setting": mine.chat_template == theirs.chat_template,
        "other stop strings": mine.stop == theirs.stop,
        "another precision": (mine.dtype, mine.placement.quantization) == (theirs.dtype, theirs.placement.quantization),
        "another placement of the target": _of_target(mine.placement) == _of_target(theirs.placement),
        "another length of answers": mine.max_new_tokens == theirs.max_new_tokens,
        "another device": _machine(run) == _machine(reference),
        "other prompts": bool(set(mine.prompts) & set(theirs.prompts)),
    }
    wrong = [name for name, same in checks.items() if not same]
    return f"it was measured with {', '.join(wrong)}, so it is not ranked here. Measure it with the group's settings." if wrong else None


def _of_target(placement: Placement) -> tuple[bool, str]:
    """Where drafts may lie apart, what the target's times depend on."""
    return placement.spread, placement.attention


def _machine(run: Run) -> tuple[str, ...]:
    found = run.environment
    return (run.spec.device,) if found is None else (run.spec.device, found.host, found.device_name)


def _row(run: Run, table: pd.DataFrame, kind: Literal["draft", "lookup"]) -> Row:
    wanted = Drafting if kind == "draft" else PromptLookup
    among = cast("pd.DataFrame", table.loc[[isinstance(policy, wanted) for policy in table[col.POLICY]]])
    answer = decide(among)
    row = next(row for row in _records(among) if row[col.POLICY] == answer.policy)
    names = keys(run)
    return Row(_contender(run, kind, answer, row), {names[at]: pair for at, pair in amounts(run, row, confirmed=answer.confirmed).items()})


def amounts(run: Run, row: dict[str, Any], *, confirmed: bool) -> dict[int, tuple[float, float]]:
    """Plain and assisted amounts of a policy's row, in one unit, by the number of the prompt: as measured, or as predicted."""
    plain, assisted = (row[col.MEASURED_PLAIN], row[col.MEASURED_ASSISTED]) if confirmed else (row[col.STEPS], row[col.COST])
    kept = [at for at, trace in enumerate(run.traces) if len(trace.answer) > 1]
    return {at: (float(a), float(b)) for at, a, b in zip(kept, plain, assisted, strict=True) if b > 0}


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [dict(zip(table.columns, values, strict=True)) for values in table.itertuples(index=False, name=None)]


def _contender(run: Run, kind: Kind, answer: Recommendation, row: dict[str, Any]) -> Contender:
    note = [row[col.NOTE]] if row[col.NOTE] and not answer.confirmed else []
    return Contender(
        kind=kind,
        run_id=run.id,
        draft=run.spec.draft if kind == "draft" else None,
        policy=answer.policy,
        speedup=answer.speedup,
        confirmed=answer.confirmed,
        on_these_prompts=answer.on_these_prompts,
        for_traffic=answer.for_traffic,
        verdict=answer.verdict,
        against_best=1.0,
        between=None,
        shared=0,
        reasons=(*answer.reasons[:2], *note),
    )


def _plain() -> Row:
    """The row that needs no measurement: everything else is relative to it."""
    reasons = ("Plain decoding: what every speedup here is relative to.",)
    return Row(Contender("plain", "", None, Plain(), 1.0, True, None, None, "undecided", 1.0, None, 0, reasons), {})


def _against(row: Row, best: Row, level: float) -> Contender:
    """The row's contender with its comparison to the best one, its interval at that level."""
    if row is best:
        return replace(row.contender, shared=len(row.amounts))
    shared = sorted(row.amounts.keys() & best.amounts.keys(), key=list(best.amounts or row.amounts).index)
    if row.contender.kind == "plain" or best.contender.kind == "plain":
        shared = list(row.amounts or best.amounts)
    if not shared:
        ratio = row.contender.speedup / best.contender.speedup
        return replace(row.contender, against_best=ratio, reasons=(*row.contender.reasons, "It shares no prompt with the best, so no interval."))
    first, second = _arrays(row, shared), _arrays(best, shared)
    ratio, between = paired_ratio(np.stack([first[0], second[0]]), np.stack([first[1], second[1]]), level)
    said = (*row.contender.reasons, _sentence(row.contender, best.contender, ratio, between, len(shared)))
    return replace(row.contender, against_best=ratio, between=between, shared=len(shared), reasons=said)


def _arrays(row: Row, shared: Sequence[Key]) -> tuple[Floats, Floats]:
    """Plain and assisted amounts of these prompts; plain beside itself is 1 to 1."""
    rows = [row.amounts.get(key, (1.0, 1.0)) for key in shared]
    return np.array([plain for plain, _ in rows]), np.array([assisted for _, assisted in rows])


def _sentence(row: Contender, best: Contender, ratio: float, between: Interval | None, shared: int) -> str:
    prompts = f"on {shared} {'prompt' if shared == 1 else 'prompts'}"
    name = best.name if best.draft is None else f"{best.name} with {describe(best.policy)}"
    if between is None:
        return f"{ratio:.2f}x the speed of {name} {prompts}, too few for an interval."
    said = f"{ratio:.2f}x the speed of {name} [{between.low:.2f}, {between.high:.2f}] {prompts}"
    if between.high < 1:
        return f"{said}: slower."
    close = log(between.high / between.low) / 2 < 2 * log(FLAT)
    return f"{said}: {'as fast' if close else 'not told apart yet; more prompts would help'}."
