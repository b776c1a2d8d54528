"""From the table of predictions and confirmations to one answer: use this setting, leave it off, or not decided yet.

The rules, for traffic like the measured prompts (log scale, prompts as the unit, the best setting
chosen again with each prompt left out): lower bound above 1, use it; upper bound below 1.02, or an
interval that includes 1 and is narrower than +-10 %, leave it off; else undecided. Below 8 prompts
there is no such interval and nothing is decided. Among settings within 2 % of the best on the same
prompts, the one that drafts the fewest tokens. If settings were really run, only they are recommended;
a confirmation that was cut short below 8 prompts is set aside when more were traced. A heuristic that
carries its length from prompt to prompt depends on their order and is never the answer.
"""

from dataclasses import dataclass, replace
from math import ceil, exp, log
from typing import Any, Literal

import numpy as np
import pandas as pd  # pyright: ignore[reportMissingTypeStubs]

from core import columns as col
from core.errors import NotMeasured
from core.intervals import (
    LEAST_PROMPTS,
    Floats,
    Interval,
    in_quadrature,
    interval,
    jackknife_error,
    leave_one_out,
    log_ratio,
    paired_ratio,
    t_quantile,
)
from core.policies import Drafting, Policy, PromptLookup, describe, is_persistent

Verdict = Literal["use", "leave_off", "undecided"]

FLAT = 1.02
"""Settings whose speedup is within this factor of the best count as equally good."""
NARROW = log(1.10)


@dataclass(frozen=True)
class Recommendation:
    """The answer. Speedups are ratios to plain decoding, prefills left out.

    policy: the best setting, also when the verdict is to leave it off. on_these_prompts: timing noise
    and, for a prediction, calibration error; None when neither is known. for_traffic: None below 8 prompts.
    prompts_needed: about how many more prompts would narrow for_traffic to +-10 %; None when it is narrow
    enough, and when the prediction's own error is larger than that.
    flat: the settings within 2 % of the best, `policy` among them.
    """

    policy: Policy
    speedup: float
    on_these_prompts: Interval | None
    for_traffic: Interval | None
    verdict: Verdict
    confirmed: bool
    reasons: tuple[str, ...]
    runner_up: Policy | None
    prompts_needed: int | None
    flat: tuple[Policy, ...]


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Settings compared on the same prompts: rows of the table, plain (S, P) and assisted (S, P) amounts in one unit."""

    rows: list[dict[str, Any]]
    plain: Floats
    assisted: Floats
    confirmed: bool

    @property
    def prompts(self) -> int:
        return self.plain.shape[1]


def decide(table: pd.DataFrame) -> Recommendation:
    """The recommendation from a table of `core.predict.predict`. Raises NotMeasured when it holds no setting that could be used."""
    rows = [row for row in _records(table) if isinstance(row[col.POLICY], Drafting | PromptLookup) and not is_persistent(row[col.POLICY])]
    if not rows:
        raise NotMeasured("There is no setting to choose from. Predict at least one way of drafting.")
    among = _candidates(rows)
    values = log_ratio(among.plain, among.assisted)
    flat = np.flatnonzero(values >= values.max() - log(FLAT))
    chosen = int(min(flat, key=lambda at: (among.rows[at][col.DRAFTED_PER_TOKEN], -values[at])))
    row = among.rows[chosen]
    # Chosen on the prompts that all confirmed settings share; said of it is what every chart says, over all prompts it was run on.
    value = log(row[col.MEASURED]) if among.confirmed else float(values[chosen])
    traffic, more = _for_traffic(among, value, row)
    others = sorted((at for at in range(len(values)) if at != chosen), key=lambda at: -values[at])
    answer = Recommendation(
        policy=row[col.POLICY],
        speedup=exp(value),
        on_these_prompts=_these(row, among.confirmed),
        for_traffic=traffic,
        verdict=verdict(traffic),
        confirmed=among.confirmed,
        reasons=(),
        runner_up=among.rows[others[0]][col.POLICY] if others else None,
        prompts_needed=more,
        flat=tuple(among.rows[int(at)][col.POLICY] for at in flat),
    )
    reasons = [
        _origin(answer, row, int((row[col.MEASURED_ASSISTED] > 0).sum()) if among.confirmed else among.prompts),
        _traffic_line(answer, among.prompts),
        *_flat(answer),
    ]
    if others:
        reasons.append(_runner_up(among, others[0], chosen))
    return replace(answer, reasons=(*reasons, *(_untried(answer, rows) if among.confirmed else _cut_short(rows))))


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [dict(zip(table.columns, values, strict=True)) for values in table.itertuples(index=False, name=None)]


def verdict(traffic: Interval | None) -> Verdict:
    """What an interval for traffic says."""
    if traffic is None:
        return "undecided"
    if traffic.low > 1:
        return "use"
    includes_one = traffic.low <= 1 <= traffic.high
    narrow = log(traffic.high / traffic.low) / 2 < NARROW
    return "leave_off" if traffic.high < FLAT or (includes_one and narrow) else "undecided"


def _candidates(rows: list[dict[str, Any]]) -> _Candidates:
    """The confirmed settings on the prompts they share; or all settings on all prompts when none was run, or on too few."""
    confirmed, traced = _confirmed(rows), len(rows[0][col.STEPS])
    if confirmed is None or confirmed.prompts < LEAST_PROMPTS <= traced:
        return _Candidates(rows, np.array([row[col.STEPS] for row in rows]), np.array([row[col.COST] for row in rows]), False)
    return confirmed


def _confirmed(rows: list[dict[str, Any]]) -> _Candidates | None:
    run = [row for row in rows if row[col.MEASURED_ASSISTED] is not None]
    if not run:
        return None
    assisted = np.array([row[col.MEASURED_ASSISTED] for row in run])
    shared = np.min(assisted, axis=0) > 0
    if not shared.any():
        most = int((assisted > 0).sum(axis=1).argmax())
        run, shared = [run[most]], assisted[most] > 0
        assisted = assisted[[most]]
    plain = np.array([row[col.MEASURED_PLAIN] for row in run])
    return _Candidates(run, plain[:, shared], assisted[:, shared], True)


def _for_traffic(among: _Candidates, value: float, row: dict[str, Any]) -> tuple[Interval | None, int | None]:
    """The interval for traffic, the best setting chosen again with each prompt left out; and the prompts still needed.

    More prompts narrow what prompts vary, not the error of the prediction itself.
    """
    prompts = among.prompts
    if prompts < 2:
        return None, LEAST_PROMPTS - prompts
    error = float(jackknife_error(leave_one_out(among.plain, among.assisted).max(axis=0)))
    model: float = 0.0 if among.confirmed else row[col.MODEL_HALF] or 0.0
    needed = ceil(prompts * (2 * error) ** 2 / (NARROW**2 - model**2)) - prompts if model < NARROW else None
    if prompts < LEAST_PROMPTS:
        return None, max(LEAST_PROMPTS - prompts, needed or 0)
    half = in_quadrature(t_quantile(prompts - 1) * error, model) or 0.0
    return interval(value, half), None if needed is None or half < NARROW else max(1, needed)


def _these(row: dict[str, Any], confirmed: bool) -> Interval | None:
    low, high = (row[col.MEASURED_LOW], row[col.MEASURED_HIGH]) if confirmed else (row[col.THESE_LOW], row[col.THESE_HIGH])
    return None if low is None else Interval(low, high)


def _origin(answer: Recommendation, row: dict[str, Any], prompts: int) -> str:
    how = "measured" if answer.confirmed else "predicted, not run yet" if row[col.MEASURED] is None else "predicted"
    return f"{describe(answer.policy)}: {answer.speedup:.2f}x {how}, on {_prompts(prompts)}."


def _traffic_line(answer: Recommendation, prompts: int) -> str:
    if answer.for_traffic is None:
        return f"{_prompts(prompts)} {'says' if prompts == 1 else 'say'} too little about other traffic; {LEAST_PROMPTS} are the least."
    low, high = answer.for_traffic
    span = f"For traffic like these prompts {low:.2f}x to {high:.2f}x"
    more = "" if answer.prompts_needed is None else f"bout {_prompts(answer.prompts_needed, ' more')} would narrow it to +-10 %."
    match answer.verdict:
        case "use":
            return f"{span}: faster than plain throughout.{f' A{more}' if more else ''}"
        case "leave_off":
            return f"{span}: no gain worth a second model."
        case "undecided":
            real = "more prompts would not help, but really running this setting on all of them would."
            return f"{span}: too wide to decide; {f'a{more}' if more else real}"


def _prompts(count: int, more: str = "") -> str:
    return f"{count}{more} {'prompt' if count == 1 else 'prompts'}"


def _flat(answer: Recommendation) -> list[str]:
    """A sentence when others are as good."""
    if len(answer.flat) == 1:
        return []
    others = ", ".join(describe(policy) for policy in answer.flat if policy != answer.policy)
    return [f"Within 2 % of the best: {others}; {describe(answer.policy)} drafts the fewest tokens."]


def _runner_up(among: _Candidates, other: int, chosen: int) -> str:
    """How the next best compares on the same prompts."""
    ratio, span = paired_ratio(among.plain[[other, chosen]], among.assisted[[other, chosen]])
    between = f" [{span.low:.2f}, {span.high:.2f}]" if span else ""
    return f"Next best on the same prompts: {describe(among.rows[other][col.POLICY])}, at {ratio:.2f}x its speed{between}."


def _cut_short(rows: list[dict[str, Any]]) -> list[str]:
    """A sentence when settings were run, but on too few prompts to decide by."""
    run = [int((row[col.MEASURED_ASSISTED] > 0).sum()) for row in rows if row[col.MEASURED_ASSISTED] is not None]
    if not run:
        return []
    return [
        f"The confirmation was cut short after {_prompts(max(run))}, so this rests on what all {len(rows[0][col.STEPS])} prompts predict. "
        "Measure again with more seconds to confirm for a real answer."
    ]


def _untried(answer: Recommendation, rows: list[dict[str, Any]]) -> list[str]:
    """A sentence when the replay predicts more for a setting that was not run."""
    own = next(row for row in rows if row[col.POLICY] == answer.policy)
    best = max(rows, key=lambda row: row[col.SPEEDUP])
    known = max(own[col.SPEEDUP], own[col.MEASURED])
    if best[col.MEASURED] is not None or best[col.SPEEDUP] <= FLAT * known:
        return []
    gain = best[col.SPEEDUP] / known - 1
    return [f"{describe(best[col.POLICY])} was not run; the replay predicts {100 * gain:.0f} % more for it."]
