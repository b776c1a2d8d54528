"""A run in several ways, answered: its lanes in figures (`core.way_results`), and which of them to use, if any.

The rules are those of a measurement (`core.recommend`): for traffic like the measured prompts (prompts as the unit, the best lane
chosen again with each prompt left out) the lower bound above 1: use it; the upper bound below 1.02, or an interval that includes 1 and is
narrower than +-10 %: leave it off; else not decided. Among lanes within 2 % of the best on the same prompts: one without a second model,
then the fewest drafted tokens. A lossy lane is never chosen, nor one whose
differences from plain are not explained in float32, nor a heuristic that carries its length from prompt to prompt.
Speedups are ratios to plain decoding, decode only.
"""

from dataclasses import dataclass
from math import ceil, log
from typing import Literal, NamedTuple

import numpy as np

from core.intervals import LEAST_PROMPTS, Floats, Interval, interval, jackknife_error, leave_one_out, log_ratio, t_quantile
from core.numbers import counted, ratio
from core.policies import Plain, is_persistent
from core.recommend import FLAT, NARROW, verdict
from core.record import Summary
from core.runs import Run
from core.way_calls import Speed, beside_plain
from core.way_results import Verdict, WayResult, results, traffic_line

__all__ = ["Choice", "Speed", "Verdict", "WayResult", "choice", "proven", "results", "summary"]


@dataclass(frozen=True)
class Choice:
    """The answer of the whole run. lane: the one to use, or that came closest; None where no lossless lane was timed.

    name, draft: of that lane. speed: its speedup decode only, its interval for traffic wide enough for having chosen the best of several.
    prompts: that all lanes of the choice share. prompts_needed: about how many more would narrow it to +-10 %; None when it is narrow enough.
    flat: lanes within 2 % of the best on the same prompts, this one among them. reasons: sentences.
    """

    verdict: Literal["use", "leave_off", "undecided"]
    lane: int | None
    name: str
    draft: str
    speed: Speed | None
    prompts: int
    prompts_needed: int | None
    flat: tuple[int, ...]
    reasons: tuple[str, ...]


class _Field(NamedTuple):
    """Lanes compared on the same prompts: decoding seconds of plain and of each, (L, P)."""

    lanes: list[WayResult]
    plain_s: Floats
    own_s: Floats


def choice(run: Run, found: tuple[WayResult, ...] | None = None) -> Choice:
    """Which lane to use, if any. found: `results(run)`, where it is known already."""
    lanes = results(run) if found is None else found
    able = [way for way in lanes if _can_be_chosen(run, way)]
    if not able:
        return Choice("undecided", None, "", "", None, 0, None, (), ("No lossless way was timed beside plain decoding.",))
    field = _field(run, able)
    values = log_ratio(field.plain_s, field.own_s)
    flat = np.flatnonzero(values >= values.max() - log(FLAT)).tolist()
    chosen = min(flat, key=lambda at: (field.lanes[at].draft != "", field.lanes[at].drafted / field.lanes[at].tokens, -values[at]))
    way, prompts = field.lanes[chosen], field.plain_s.shape[1]
    assert way.decode is not None
    traffic, needed = _for_traffic(field, log(way.decode.value))
    speed, said = Speed(way.decode.value, way.decode.these, traffic), verdict(traffic)
    return Choice(
        verdict=said,
        lane=way.lane,
        name=way.name,
        draft=way.draft,
        speed=speed,
        prompts=prompts,
        prompts_needed=needed,
        flat=tuple(field.lanes[at].lane for at in flat),
        reasons=(
            f"{way.name}: {ratio(speed.value)} measured on {counted(prompts, 'prompt')}.",
            traffic_line(said, speed, prompts),
            *_others(field, flat, chosen),
        ),
    )


def proven(run: Run, way: WayResult) -> bool:
    """Whether its text is the target's own: lossless, and in float32, where rounding is small, no difference that nobody could explain."""
    return way.lossless and not (way.unexplained and run.spec.dtype == "float32")


def _can_be_chosen(run: Run, way: WayResult) -> bool:
    policy = run.spec.lanes[way.lane].policy
    return proven(run, way) and way.decode is not None and not isinstance(policy, Plain) and not is_persistent(policy)


def _field(run: Run, able: list[WayResult]) -> _Field:
    """On the prompts that all of them wrote; where there is none, the lane with the most prompts alone."""
    prompts = len(run.spec.prompts)
    timed = [beside_plain(run, way.lane) for way in able]
    plain_s = np.array([each.by_prompt(each.plain_s, prompts) for each in timed])
    own_s = np.array([each.by_prompt(each.own_s, prompts) for each in timed])
    shared = (own_s > 0).all(axis=0)
    if not shared.any():
        most = int((own_s > 0).sum(axis=1).argmax())
        able, plain_s, own_s, shared = [able[most]], plain_s[[most]], own_s[[most]], own_s[most] > 0
    return _Field(able, plain_s[:, shared], own_s[:, shared])


def _for_traffic(field: _Field, value: float) -> tuple[Interval | None, int | None]:
    """The interval for traffic, the best lane chosen again with each prompt left out; and the prompts still needed."""
    prompts = field.plain_s.shape[1]
    if prompts < 2:
        return None, LEAST_PROMPTS - prompts
    error = float(jackknife_error(leave_one_out(field.plain_s, field.own_s).max(axis=0)))
    needed = ceil(prompts * (2 * error / NARROW) ** 2) - prompts
    if prompts < LEAST_PROMPTS:
        return None, max(LEAST_PROMPTS - prompts, needed)
    half = t_quantile(prompts - 1) * error
    return interval(value, half), None if half < NARROW else max(1, needed)


def _others(field: _Field, flat: list[int], chosen: int) -> list[str]:
    if len(flat) == 1:
        return []
    names = ", ".join(field.lanes[at].name for at in flat if at != chosen)
    why = "needs no second model" if not field.lanes[chosen].draft and any(field.lanes[at].draft for at in flat) else "drafts the fewest tokens"
    return [f"Within 2 % of the best: {names}; {field.lanes[chosen].name} {why}."]


def summary(run: Run) -> Summary | None:
    """The answer in short, for lists of runs; None where no lossless lane was timed. alpha and c are None: only a replay tells them.

    Where there is no interval on these prompts, both its ends are the speedup itself.
    """
    found = choice(run)
    if found.speed is None:
        return None
    low, high = found.speed.these or (found.speed.value, found.speed.value)
    return Summary(
        verdict=found.verdict, policy=found.name, speedup=found.speed.value, low=low, high=high, traffic=found.speed.traffic, confirmed=True
    )
