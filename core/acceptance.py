"""Alpha of a run: the mean over all answer positions of the probability that the draft's token is accepted.

It belongs to the pair, the prompts and the decoding, not to a policy. Its interval takes prompts as
the unit, on the log odds (t interval, jackknife).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np

from core.errors import NotMeasured
from core.intervals import LEAST_PROMPTS, Floats, Interval, jackknife_error, t_quantile
from core.runs import Run
from core.trace import PromptTrace


@dataclass(frozen=True)
class Alpha:
    """Alpha with its 95 % interval for traffic like these prompts; None below 8 prompts and where all or none was accepted."""

    value: float
    for_traffic: Interval | None
    prompts: int
    tokens: int


def alpha(run: Run) -> Alpha:
    """Alpha over all recorded prompts. Raises NotMeasured without any."""
    if not run.traces:
        raise NotMeasured("This run has no trace of any prompt yet: wait for the draft pass, or measure again.")
    accepted = np.array([float(trace.accept.sum()) for trace in run.traces])
    tokens = np.array([float(len(trace.answer)) for trace in run.traces])
    value = mean_accept(run.traces)
    return Alpha(value, _interval(accepted, tokens - accepted), len(tokens), int(tokens.sum()))


def mean_accept(traces: Sequence[PromptTrace]) -> float:
    """Mean acceptance over all positions of all traces."""
    return sum(float(trace.accept.sum(dtype=np.float64)) for trace in traces) / sum(len(trace.answer) for trace in traces)


def _interval(accepted: Floats, missed: Floats) -> Interval | None:
    """Interval of accepted / (accepted + missed) over prompts."""
    rest, rest_missed = accepted.sum() - accepted, missed.sum() - missed
    if len(accepted) < LEAST_PROMPTS or not (rest > 0).all() or not (rest_missed > 0).all():
        return None
    half = t_quantile(len(accepted) - 1) * float(jackknife_error(np.log(rest) - np.log(rest_missed)))
    odds = log(accepted.sum() / missed.sum())
    return Interval(1 / (1 + exp(half - odds)), 1 / (1 + exp(-half - odds)))
