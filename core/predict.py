"""Predictions for any policy from one run, beside what was really measured; and the recommendation.

Replayed rounds (`core.replay`) times the price of a round (`core.timing`). Speedups are decode
only: plain and assisted time without both prefills, as ratios of sums over prompts; end to end is a
second column. Intervals as in `core.intervals`. Not covered: requests batched together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, nan
from typing import Any

import numpy as np
import pandas as pd  # pyright: ignore[reportMissingTypeStubs]

from core import columns as col
from core import intervals
from core.acceptance import Alpha, alpha, mean_accept
from core.errors import NotMeasured
from core.evidence import NOTHING, Evidence, Gathered, Measured, Noise, gather
from core.intervals import LEAST_PROMPTS, NORMAL, Floats, Interval, in_quadrature, jackknife_error, leave_one_out, log_ratio, t_quantile
from core.policies import (
    Confidence,
    Drafting,
    FixedGamma,
    Heuristic,
    MeasuredOnly,
    Oracle,
    Plain,
    Policy,
    PromptLookup,
    TransformersDefault,
    describe,
    is_persistent,
)
from core.recommend import Recommendation, decide
from core.runs import Run
from core.timing import LoopCosts

__all__ = ["Alpha", "Gap", "Recommendation", "alpha", "best_fixed", "by_label", "default_policies", "explain_gap", "predict", "recommend", "sweep"]

GAMMAS = tuple(range(1, 21))
THRESHOLDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True)
class Gap:
    """How far a prediction was from its confirmation: predicted / measured - 1, and a sentence about it."""

    relative: float
    sentence: str


def default_policies(run: Run) -> tuple[Policy, ...]:
    """Plain, fixed gamma 1..20, the library's default, both heuristics, what was confirmed, prompt lookup where recorded, the oracle."""
    sizes = set[int].intersection(*({*(trace.lookup or {})} for trace in run.traces)) if run.traces else set[int]()
    lookups = [PromptLookup(tokens, ngram) for ngram in sorted(sizes) for tokens in (2, 5, 10)]
    usual = [*map(FixedGamma, GAMMAS), TransformersDefault(), Heuristic(), Heuristic(persistent=False), *lookups]
    confirmed = [g.policy for g in run.generations if g.purpose == "confirmation" and not isinstance(g.policy, MeasuredOnly)]
    return tuple(dict.fromkeys([Plain(), *usual, *confirmed, Oracle()]))


def sweep(limits: Sequence[int] = GAMMAS, thresholds: Sequence[float] = THRESHOLDS) -> tuple[Drafting, ...]:
    """Every limit with every confidence threshold, limit by limit."""
    return tuple(Confidence(threshold, limit) for limit in limits for threshold in thresholds)


def predict(run: Run, policies: Sequence[Policy]) -> pd.DataFrame:
    """One row per policy, in order; the columns are those of `core.columns`.

    Raises NotMeasured when the run has no traces, timings or calibration, and InvalidInput for a policy
    that its traces cannot replay.
    """
    gathered = gather(run, policies)
    prefill_s, draft_prefill_s = _prefills(run, gathered)
    noise = _shared_noise(gathered.policies)
    rows = [_row(gathered, one, noise, prefill_s, draft_prefill_s) for one in gathered.policies]
    return pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=object) for name in rows[0]})


def recommend(source: pd.DataFrame | Run) -> Recommendation:
    """The answer from a table of `predict`, or from a run with the default policies. Raises NotMeasured as `predict` does."""
    return decide(source if isinstance(source, pd.DataFrame) else predict(source, default_policies(source)))


def best_fixed(run: Run) -> Drafting:
    """The fixed gamma to confirm: within 2 % of the best predicted one, the fewest drafted tokens. Confirmations are not needed."""
    unconfirmed = run.model_copy(update={"generations": tuple(g for g in run.generations if g.purpose != "confirmation")})
    answer = decide(predict(unconfirmed, [FixedGamma(gamma) for gamma in GAMMAS]))
    assert isinstance(answer.policy, Drafting)
    return answer.policy


def by_label(run: Run, policy: Policy) -> pd.DataFrame:
    """For each label: label, prompts, alpha and predicted speedup of `policy` (NaN for answers too short), in order of appearance."""
    gathered = gather(run, [policy])
    kept = [int(at) for at in gathered.kept]
    groups: dict[str, list[int]] = {}
    for place, at in enumerate(kept):
        groups.setdefault(run.spec.prompts[at].label, []).append(place)
    rows: list[dict[str, Any]] = []
    for label, places in groups.items():
        steps, cost = float(gathered.steps[places].sum()), float(gathered.policies[0].cost[places].sum())
        accepted = mean_accept([run.traces[kept[place]] for place in places])
        rows.append({"label": label, "prompts": len(places), "alpha": accepted, "speedup": steps / cost if cost >= NOTHING else nan})
    return pd.DataFrame(rows)


def explain_gap(prediction: float, confirmation: float, *, half: float | None = None, disturbed: bool = False) -> Gap:
    """Predicted against measured speedup. half: half-width of the prediction's log interval; disturbed: other work shared the machine."""
    relative = prediction / confirmation - 1
    size = f"The prediction was {abs(relative):.1%} {'above' if relative > 0 else 'below'} the measurement"
    if half is not None and abs(log(prediction / confirmation)) <= half:
        return Gap(relative, f"{size}, within its error of {exp(half) - 1:.1%}.")
    if disturbed:
        return Gap(relative, f"{size}; other work disturbed this run, so measure again on a quiet machine.")
    reason = (
        "rounds cost more in the long runs than in the calibration" if relative > 0 else "rounds cost less in the long runs than in the calibration"
    )
    known = "" if half is None else f", more than its error of {exp(half) - 1:.1%}"
    return Gap(relative, f"{size}{known}: {reason}. The measurement counts.")


def _shared_noise(policies: Sequence[Evidence]) -> Noise | None:
    """Timing noise for settings that were not run: the root mean square of those that were."""
    known = [one.measured.noise for one in policies if one.measured and one.measured.noise is not None]
    if not known:
        return None
    return Noise(float(np.sqrt(np.mean(np.square([noise.error for noise in known])))), sum(noise.freedom for noise in known))


def _prefills(run: Run, gathered: Gathered) -> tuple[Floats, Floats]:
    """(P,), (P,) seconds of the target's and of the draft's prefill of each kept prompt; by its tokens where plain decoding was not timed on it."""
    times: dict[int, list[float]] = {}
    for g in run.generations:
        if isinstance(g.policy, Plain) and g.tells_speed:
            times.setdefault(g.prompt, []).append(g.first_token_s)
    means = {prompt: sum(seconds) / len(seconds) for prompt, seconds in times.items()}
    tokens = [trace.prompt_tokens for trace in run.traces]
    known = [prompt for prompt in means if prompt < len(tokens)]
    per_token = sum(means[prompt] for prompt in known) / max(1, sum(tokens[prompt] for prompt in known))
    draft = run.draft_prefill_s
    if not draft:
        raise NotMeasured("This run has no prefill times of the draft: it was stopped before them. Measure it again.")
    kept: list[int] = gathered.kept.tolist()
    usual_draft = sum(draft) / len(draft)
    return (
        np.array([means.get(at, per_token * tokens[at]) for at in kept]),
        np.array([draft[at] if at < len(draft) else usual_draft for at in kept]),
    )


def _row(gathered: Gathered, one: Evidence, shared_noise: Noise | None, prefill_s: Floats, draft_prefill_s: Floats) -> dict[str, Any]:
    steps, step_s, whole = gathered.steps, gathered.costs.plain_step_s, float(one.cost.sum())
    drafts = isinstance(one.policy, Drafting | Oracle)
    value = log(steps.sum() / whole)
    noise = one.measured.noise if one.measured else shared_noise
    half = 0.0 if isinstance(one.policy, Plain) else _model_half(gathered.costs, noise)
    tokens, rounds = sum(r.tokens for r in one.rounds), sum(r.rounds for r in one.rounds)
    drafted, accepted = sum(r.drafted for r in one.rounds), sum(r.accepted for r in one.rounds)
    assisted_s = prefill_s.sum() + (draft_prefill_s.sum() if drafts else 0.0) + whole * step_s
    return {
        col.POLICY: one.policy,
        col.SETTING: describe(one.policy),
        col.KIND: "confirmed" if one.measured else "predicted",
        col.SPEEDUP: exp(value),
        col.END_TO_END: float((prefill_s.sum() + steps.sum() * step_s) / assisted_s),
        col.TOKENS_PER_ROUND: tokens / rounds,
        col.DRAFTED_PER_TOKEN: drafted / tokens,
        col.UTILISATION: accepted / drafted if drafted else None,
        **_pair(col.THESE_LOW, col.THESE_HIGH, None if half is None else intervals.interval(value, half)),
        **_pair(col.TRAFFIC_LOW, col.TRAFFIC_HIGH, None if is_persistent(one.policy) else _traffic(steps, one.cost, half)),
        **dict(zip((col.DRAFT_SHARE, col.VERIFY_SHARE, col.REST_SHARE), (part / sum(one.parts) for part in one.parts), strict=True)),
        **_measured_columns(one.measured),
        col.NOTE: _note(one.policy),
        col.MODEL_HALF: half,
        col.STEPS: steps,
        col.COST: one.cost,
    }


def _note(policy: Policy) -> str | None:
    match policy:
        case Oracle():
            return (
                "The upper limit for this draft: it knows every outcome beforehand and cannot be run. Prompt lookup drafts otherwise and may pass it."
            )
        case PromptLookup():
            return "Priced with the time per round of the draft's loop; prompt lookup was not timed itself."
        case Drafting() if is_persistent(policy):
            return "Its draft length goes over from prompt to prompt, so it depends on their order: there is no interval for other traffic."
        case _:
            return None


def _model_half(costs: LoopCosts, noise: Noise | None) -> float | None:
    """Half-width of a prediction's log interval on these prompts: timing noise and calibration error in quadrature; None when neither is known."""
    calibration = None if costs.calibration_error is None else NORMAL * costs.calibration_error
    return in_quadrature(_timing_half(noise), calibration)


def _timing_half(noise: Noise | None) -> float | None:
    """Half-width of a measurement's log interval on these prompts; None when its noise is not known."""
    return None if noise is None else t_quantile(noise.freedom) * noise.error


def _traffic(steps: Floats, cost: Floats, model_half: float | None) -> Interval | None:
    """Interval of a prediction for traffic: prompts as the unit, and the model's own error in quadrature."""
    if len(steps) < LEAST_PROMPTS:
        return None
    prompts = t_quantile(len(steps) - 1) * float(jackknife_error(leave_one_out(steps, cost)))
    return intervals.interval(float(log_ratio(steps, cost)), in_quadrature(prompts, model_half) or 0.0)


def _measured_columns(measured: Measured | None) -> dict[str, Any]:
    """What was really run; no calibration went into it, so its interval on these prompts is timing noise alone."""
    if measured is None:
        names = (col.MEASURED, col.MEASURED_LOW, col.MEASURED_HIGH, col.MEASURED_TRAFFIC_LOW, col.MEASURED_TRAFFIC_HIGH)
        return dict.fromkeys((*names, col.MEASURED_PLAIN, col.MEASURED_ASSISTED))
    run = measured.assisted_s > 0
    value, half = float(log_ratio(measured.plain_s, measured.assisted_s)), _timing_half(measured.noise)
    return {
        col.MEASURED: exp(value),
        **_pair(col.MEASURED_LOW, col.MEASURED_HIGH, None if half is None else intervals.interval(value, half)),
        **_pair(col.MEASURED_TRAFFIC_LOW, col.MEASURED_TRAFFIC_HIGH, intervals.ratio_interval(measured.plain_s[run], measured.assisted_s[run])),
        col.MEASURED_PLAIN: measured.plain_s,
        col.MEASURED_ASSISTED: measured.assisted_s,
    }


def _pair(low: str, high: str, value: Interval | None) -> dict[str, Any]:
    return {low: None if value is None else value.low, high: None if value is None else value.high}
