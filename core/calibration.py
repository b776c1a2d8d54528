"""What calibration runs tell: h and e, what else a round and a drafted token cost, fitted to real assisted calls.

Amounts are in plain target steps, rounds and tokens. The rounds are those that the call really ran: under sampling they are
chance, so that the replay's expected rounds would put the luck of the draw into the prices. Runs from before sampling did
not note what they drafted; they were greedy, so that the replay knows. Not covered: what a pass costs (`core.timing`).
"""

from collections.abc import Iterable
from dataclasses import replace
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from core.measured import Generation
from core.policies import Drafting
from core.replay import replay_prompt, rounds_of
from core.rounds import Rounds, Walk, total
from core.trace import PromptTrace, Tails


class Row(NamedTuple):
    """One calibration run: its gamma, its time in plain steps, what passes explain of it, its rounds and drafted tokens."""

    gamma: int
    measured: float
    passes: float
    rounds: float
    drafted: float


def rounds_run(g: Generation, policy: Drafting, trace: PromptTrace) -> tuple[Rounds, bool]:
    """The rounds of a real call with a constant schedule, and whether a greedy replay says the same; that is not asked under sampling."""
    budget = g.budget or trace.budget
    if g.drafted:
        known = total(_walk(g.rounds, g.drafted, policy.limit))
        return known, trace.sampled is not None or _as_replayed(g, policy, beginning(trace, budget))
    if _as_replayed(g, policy, trace):
        return replay_prompt(trace, policy), True
    return total(own_rounds(g.rounds, policy.limit, budget)), False


def _as_replayed(g: Generation, policy: Drafting, trace: PromptTrace) -> bool:
    return tuple(r.emitted for r in rounds_of(trace, policy)) == g.rounds


def own_rounds(emitted: Iterable[int], gamma: int, budget: int) -> Walk:
    """The rounds of a real run at a fixed gamma, from the tokens that each emitted; an end of text that the draft wrote itself is not known."""
    counts = np.array(tuple(emitted))
    starts = np.cumsum(counts) - counts
    return _walk(counts.tolist(), np.minimum(gamma, budget - 1 - starts).tolist(), gamma)


def _walk(emitted: Iterable[int], drafted: Iterable[int], gamma: int) -> Walk:
    counts, proposed = np.array(tuple(emitted)), np.array(tuple(drafted))
    return Walk(np.cumsum(counts) - counts, proposed, counts - 1, counts <= proposed, proposed, gamma)


def beginning(trace: PromptTrace, budget: int) -> PromptTrace:
    """A greedy trace as it had been recorded with `budget` new tokens, at most its own; without prompt lookup."""
    kept = min(budget, len(trace.answer))
    if budget >= trace.budget:
        return trace
    ended_itself = kept == len(trace.answer) and (trace.ended == "eos" or kept < budget)
    return replace(
        trace,
        answer=trace.answer[:kept],
        pieces=trace.pieces[:kept],
        ended=trace.ended if ended_itself else "length",
        budget=budget,
        accept=trace.accept[:kept],
        confidence=trace.confidence[:kept],
        draft_choice=trace.draft_choice[:kept],
        draft_eos=trace.draft_eos[:kept],
        tails=None if trace.tails is None else _tails(trace.tails, kept),
        lookup=None,
    )


def _tails(tails: Tails, kept: int) -> Tails:
    inside = tails.position < kept
    return Tails(tails.position[inside], tails.confidence[inside], tails.eos_at[inside])


def fit(rows: list[Row]) -> tuple[float, float]:
    """The h and e of at least 0 with the smallest sum of squared relative errors."""
    scale = np.array([1 / row.measured for row in rows])
    factors = np.array([[row.rounds, row.drafted] for row in rows]) * scale[:, None]  # (rows, 2)
    missing = np.array([row.measured - row.passes for row in rows]) * scale
    both = np.linalg.lstsq(factors, missing)[0]
    alone = np.maximum(0, factors.T @ missing / (factors**2).sum(axis=0))
    choices = [np.array([alone[0], 0.0]), np.array([0.0, alone[1]])]
    if (both >= 0).all():
        choices.insert(0, both)
    best = min(choices, key=lambda choice: float(((factors @ choice - missing) ** 2).sum()))
    return float(best[0]), float(best[1])


def left_out_error(rows: list[Row]) -> float | None:
    """Root mean square of the log error of each gamma's total, predicted from the other gammas; None with fewer than two or nothing to predict."""
    gammas = sorted({row.gamma for row in rows})
    if len(gammas) < 2:
        return None
    errors: list[float] = []
    for gamma in gammas:
        h, e = fit([row for row in rows if row.gamma != gamma])
        left_out = [row for row in rows if row.gamma == gamma]
        predicted = sum(row.passes + h * row.rounds + e * row.drafted for row in left_out)
        if predicted <= 0:
            return None
        errors.append(log(predicted / sum(row.measured for row in left_out)))
    return sqrt(sum(error**2 for error in errors) / len(errors))
