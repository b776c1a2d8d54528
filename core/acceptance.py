"""Alpha of a run: the mean over all answer positions of the probability that the draft's token is accepted.

It belongs to the pair, the prompts and the decoding, not to a policy. Greedy: the share of positions where the draft's
first choice is the answer's token. Sampling: there are two unbiased estimates. sum min(p, q) at a position is the
chance that whatever the draft proposes there is accepted; min(1, q(y) / p(y)) is that for the one token y that was drawn.
Their means are the same in the long run (Leviathan et al. 2022, Corollary 3.6); the first scatters less, so alpha is that
one, and the second is kept beside it, because the replay of these very answers uses it.
Its interval takes prompts as the unit, on the log odds (t interval, jackknife).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from core.errors import NotMeasured
from core.intervals import LEAST_PROMPTS, Floats, Interval, jackknife_error, t_quantile
from core.runs import Run
from core.trace import PromptTrace

Chance = NDArray[np.float32] | NDArray[np.bool_]
Origin = Literal["first choice", "overlap", "text"]
"""first choice: greedy, or an engine whose draft is; overlap: sum of min(p, q); text: min(1, q / p) of the tokens that were drawn."""


@dataclass(frozen=True)
class Alpha:
    """Alpha with its 95 % interval for traffic like these prompts; None below 8 prompts and where all or none was accepted.

    origin: what was averaged. on_text: the mean of what the replay of these answers uses; the same as `value` but for "overlap".
    """

    value: float
    for_traffic: Interval | None
    prompts: int
    tokens: int
    origin: Origin
    on_text: float


def alpha(run: Run) -> Alpha:
    """Alpha over all recorded prompts. Raises NotMeasured without any."""
    traces = _recorded(run)
    return _mean(traces, _chances(traces), _origin(traces))


def alpha_greedy_draft(run: Run) -> Alpha:
    """Alpha for an engine whose draft always proposes its first choice, whatever the temperature, on the same answers.

    The first choice is taken after the processors; only a repetition penalty can move it. Raises NotMeasured without traces, or
    when they were sampled without recording it.
    """
    traces = _recorded(run)
    if run.spec.decoding.sample and any(trace.sampled is None for trace in traces):
        raise NotMeasured("These answers were sampled without noting the draft's first choices; measure again.")
    return _mean(traces, [trace.accept if trace.sampled is None else trace.sampled.greedy_hit for trace in traces], "first choice")


def mean_accept(traces: Sequence[PromptTrace]) -> float:
    """Mean acceptance over all positions of all traces, from the same estimate as `alpha`."""
    return _sum(_chances(traces)) / sum(len(trace.answer) for trace in traces)


def _recorded(run: Run) -> tuple[PromptTrace, ...]:
    if not run.traces:
        raise NotMeasured("The draft has read no answer of this run, so nothing can be said of it. Measure again, or wait while it is measured.")
    return run.traces


def _origin(traces: Sequence[PromptTrace]) -> Origin:
    if all(trace.sampled is not None for trace in traces):
        return "overlap"
    return "first choice" if all(bool(np.isin(trace.accept, (0, 1)).all()) for trace in traces) else "text"


def _chances(traces: Sequence[PromptTrace]) -> Sequence[Chance]:
    """Each position's chance of acceptance, by the estimate that scatters least and that all traces have."""
    known = [trace.sampled.overlap for trace in traces if trace.sampled is not None]
    return known if len(known) == len(traces) else [trace.accept for trace in traces]


def _sum(chances: Sequence[Chance]) -> float:
    return sum(float(each.sum(dtype=np.float64)) for each in chances)


def _mean(traces: Sequence[PromptTrace], chances: Sequence[Chance], origin: Origin) -> Alpha:
    accepted = np.array([float(each.sum(dtype=np.float64)) for each in chances])
    tokens = np.array([float(len(trace.answer)) for trace in traces])
    value = float(accepted.sum() / tokens.sum())
    on_text = _sum([trace.accept for trace in traces]) / float(tokens.sum()) if origin == "overlap" else value
    return Alpha(value, _interval(accepted, tokens - accepted), len(tokens), int(tokens.sum()), origin, on_text)


def _interval(accepted: Floats, missed: Floats) -> Interval | None:
    """Interval of accepted / (accepted + missed) over prompts."""
    rest, rest_missed = accepted.sum() - accepted, missed.sum() - missed
    if len(accepted) < LEAST_PROMPTS or not (rest > 0).all() or not (rest_missed > 0).all():
        return None
    half = t_quantile(len(accepted) - 1) * float(jackknife_error(np.log(rest) - np.log(rest_missed)))
    odds = log(accepted.sum() / missed.sum())
    return Interval(1 / (1 + exp(half - odds)), 1 / (1 + exp(-half - odds)))
