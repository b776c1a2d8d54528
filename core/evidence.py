"""What a run says about each policy, prompt by prompt: predicted costs, and measured times where it was really run.

Prompts are the unit of every comparison, so nothing is averaged here. Costs are in plain target
steps, times in seconds; decoding only, both prefills left out. Prompts whose answer has fewer than
two tokens have no decoding and are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.errors import NotMeasured
from core.intervals import Floats, jackknife_error, leave_one_out
from core.policies import Drafting, Oracle, Plain, Policy, PromptLookup
from core.replay import replay_all, replay_prompt
from core.rounds import Rounds
from core.runs import Run
from core.stalled import keeps_moving
from core.timing import LoopCosts, Parts, assisted_decode_s, blocks, per_step
from core.trace import PromptTrace

NOTHING = 1e-6
"""Plain steps below which a whole answer's decoding is a rounding error of the fit."""


class Noise(NamedTuple):
    """Standard error of a log speedup that comes from timing alone, and the degrees of freedom it was estimated with."""

    error: float
    freedom: int


@dataclass(frozen=True, eq=False)
class Measured:
    """Confirmation runs of one policy beside plain ones.

    plain_s, assisted_s: (P,) decoding seconds of each kept prompt, summed over its blocks and for the
    same number of tokens; 0 where it was not run. noise: from how block by block the speedup departs
    from the prediction; None with one block. stalled: calls that stood still, or whose plain call did, and were left out.
    """

    plain_s: Floats
    assisted_s: Floats
    noise: Noise | None
    stalled: int = 0


@dataclass(frozen=True, eq=False)
class Evidence:
    """One policy: its rounds per kept prompt, predicted cost (P,) in plain steps, where the time goes, and what was measured."""

    policy: Policy
    rounds: tuple[Rounds, ...]
    cost: Floats
    parts: Parts
    measured: Measured | None


@dataclass(frozen=True, eq=False)
class Gathered:
    """All policies of a run. kept: (P,) prompt numbers; steps: (P,) plain steps after the first token; prices: of each kept prompt."""

    costs: LoopCosts
    prices: tuple[LoopCosts, ...]
    kept: NDArray[np.int64]
    steps: Floats
    policies: tuple[Evidence, ...]


def gather(run: Run, policies: Sequence[Policy]) -> Gathered:
    """The evidence for `policies`, in order. Raises NotMeasured when the run has no traces, timings or calibration."""
    costs = LoopCosts.from_run(run)
    lengths = np.array([len(trace.answer) for trace in run.traces])
    kept = np.flatnonzero(lengths > 1)
    if len(kept) == 0:
        raise NotMeasured("All answers are shorter than two tokens, so nothing was decoded after the first. Ask for more new tokens.")
    every = costs.by_prompt(run)
    prices = [every[at] for at in kept]
    steps = (lengths[kept] - 1).astype(np.float64)
    replayable = [policy for policy in policies if not isinstance(policy, Oracle)]
    replayed = dict(zip(replayable, replay_all(run.traces, replayable), strict=True))
    rows = [
        _oracle(policy, prices, [run.traces[at] for at in kept])
        if isinstance(policy, Oracle)
        else _evidence(run, prices, kept, steps, policy, [replayed[policy][at] for at in kept])
        for policy in policies
    ]
    if any(_is_nothing(row.cost) for row in rows):
        raise NotMeasured("The answers are so short that nothing is left beside the prefills. Ask for more new tokens.")
    return Gathered(costs, tuple(prices), kept, steps, tuple(rows))


def _is_nothing(cost: Floats) -> bool:
    """Whether so little is left, of all prompts or without one of them, that no ratio to it means anything."""
    left = cost.sum() - cost if len(cost) > 1 else cost
    return bool(cost.sum() < NOTHING or (left < NOTHING).any())


def _oracle(policy: Oracle, prices: Sequence[LoopCosts], traces: Sequence[PromptTrace]) -> Evidence:
    """The oracle chooses by each prompt's own prices."""
    rounds, cost, parts = list[Rounds](), list[float](), list[Parts]()
    for one, trace in zip(prices, traces, strict=True):
        later, first = _oracle_prices(one, len(trace.answer) if policy.limit is None else policy.limit)
        row = replay_prompt(trace, policy, round_cost=[later, first], beside=len(traces))
        size = len(row.rounds_by_drafted)
        rounds.append(row)
        cost.append(float((row.rounds_by_drafted - row.first_by_drafted) @ later[:size] + row.first_by_drafted @ first[:size]))
        parts.append(one.parts(row))
    draft, rest = sum(part.draft for part in parts), sum(part.rest for part in parts)
    return Evidence(policy, tuple(rounds), np.array(cost), Parts(draft, max(0.0, sum(cost) - draft - rest), rest), None)


def _oracle_prices(costs: LoopCosts, limit: int) -> tuple[Floats, Floats]:
    """(limit+1,), (limit+1,) prices of later rounds and of the first, where not drafting is a plain step. They rise with the length."""
    later = costs.round(limit)
    first = costs.rest(limit) + costs.first(limit) + np.maximum(0, np.arange(limit + 1) - 1) * costs.draft_next
    later[0], first[0] = 1.0, 0.0
    return later, first


def _evidence(
    run: Run,
    prices: Sequence[LoopCosts],
    kept: NDArray[np.int64],
    steps: Floats,
    policy: Plain | Drafting | PromptLookup,
    rounds: list[Rounds],
) -> Evidence:
    if isinstance(policy, Plain):
        return Evidence(policy, tuple(rounds), steps.copy(), Parts(0.0, float(steps.sum()), 0.0), None)
    drafts = isinstance(policy, Drafting)
    checks = isinstance(policy, Drafting) and policy.threshold > 0
    parts = [one.parts(row, drafts=drafts, checks=checks) for one, row in zip(prices, rounds, strict=True)]
    cost = np.array([sum(part) for part in parts])
    together = Parts(*(sum(column) for column in zip(*parts, strict=True)))
    return Evidence(policy, tuple(rounds), cost, together, _measured(run, kept, steps, policy, cost))


def _measured(run: Run, kept: NDArray[np.int64], steps: Floats, policy: Policy, cost: Floats) -> Measured | None:
    """The confirmation of `policy`; None when it was not run beside plain."""
    place = {int(prompt): at for at, prompt in enumerate(kept)}
    rows: list[tuple[int, float, float]] = []
    for block in blocks(run, "confirmation"):
        plain = [g for g in block if isinstance(g.policy, Plain) and g.tokens > 1]
        for g in block:
            if plain and g.policy == policy and g.tokens > 1 and g.prompt in place and g.prompt < len(run.draft_prefill_s):
                assisted = assisted_decode_s(g, plain, run.draft_prefill_s[g.prompt])
                # Else a call of a few tokens: its first round wrote all of them, or it was shorter than its prefills by timing noise.
                if assisted > 0 and cost[place[g.prompt]] > 0:
                    rows.append((place[g.prompt], per_step(plain) * (g.tokens - 1), assisted))
    if not rows:
        return None
    moved = keeps_moving(np.array([assisted / plain * steps[at] / (1 + cost[at]) for at, plain, assisted in rows]))
    stalled = len(rows) - int(moved.sum())
    rows = [row for row, kept in zip(rows, moved, strict=True) if kept]
    at, plain_s, assisted_s = np.array([row[0] for row in rows]), np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    noise = None
    if len(rows) > 1:
        departure = leave_one_out(plain_s, assisted_s) - leave_one_out(steps[at], cost[at])
        noise = Noise(float(jackknife_error(departure)), len(rows) - 1)
    prompts = len(kept)
    return Measured(_by_prompt(at, plain_s, prompts), _by_prompt(at, assisted_s, prompts), noise, stalled)


def _by_prompt(at: NDArray[np.int64], seconds: Floats, prompts: int) -> Floats:
    sums: Floats = np.zeros(prompts)
    np.add.at(sums, at, seconds)
    return sums
