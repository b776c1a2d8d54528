"""What a run says about each policy, prompt by prompt: predicted costs, and measured times where it was really run.

Prompts are the unit of every comparison, so nothing is averaged here. Costs are in plain target
steps, times in seconds; decoding only, both prefills left out. Prompts whose answer has fewer than
two tokens have no decoding and are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.errors import NotMeasured
from core.intervals import Floats, jackknife_error, leave_one_out
from core.policies import Drafting, Oracle, Plain, Policy
from core.replay import replay_all
from core.rounds import Rounds
from core.runs import Run
from core.timing import LoopCosts, Parts, assisted_decode_s, blocks, plain_step

NOTHING = 1e-6
"""Plain steps below which a whole answer's decoding is a rounding error of the fit."""


@dataclass(frozen=True, eq=False)
class Measured:
    """Confirmation runs of one policy beside plain ones.

    plain_s, assisted_s: (P,) decoding seconds of each kept prompt, summed over its blocks and for the
    same number of tokens; 0 where it was not run. noise: standard error of the log speedup that comes
    from timing alone, from how block by block it departs from the prediction; None with one block.
    """

    plain_s: Floats
    assisted_s: Floats
    noise: float | None


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
    """All policies of a run. kept: (P,) prompt numbers; steps: (P,) plain steps after the first token."""

    costs: LoopCosts
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
    steps = (lengths[kept] - 1).astype(np.float64)
    replayed = replay_all(run.traces, policies, round_cost=_oracle_prices(costs, policies))
    rows = [_evidence(run, costs, kept, steps, policy, [rounds[at] for at in kept]) for policy, rounds in zip(policies, replayed, strict=True)]
    if any((row.cost < NOTHING).any() for row in rows):
        raise NotMeasured("The answers are so short that nothing is left beside the prefills. Ask for more new tokens.")
    return Gathered(costs, kept, steps, tuple(rows))


def _oracle_prices(costs: LoopCosts, policies: Sequence[Policy]) -> Floats:
    """(2, K+1) prices of later rounds and of the first. Not drafting is a plain step; a longer draft is never taken as cheaper."""
    limit = max([policy.limit for policy in policies if isinstance(policy, Oracle)], default=1)
    later = costs.round(limit)
    first = costs.rest(limit) + np.maximum(0, np.arange(limit + 1) - 1) * costs.draft_next
    later[0], first[0] = 1.0, 0.0
    return np.minimum.accumulate(np.array([later, first])[:, ::-1], axis=1)[:, ::-1]


def _evidence(run: Run, costs: LoopCosts, kept: NDArray[np.int64], steps: Floats, policy: Policy, rounds: list[Rounds]) -> Evidence:
    match policy:
        case Plain():
            return Evidence(policy, tuple(rounds), steps.copy(), Parts(0.0, float(steps.sum()), 0.0), None)
        case Oracle():
            later, first = _oracle_prices(costs, [policy])
            cost = np.array([(r.rounds_by_drafted - r.first_by_drafted) @ later[: _size(r)] + r.first_by_drafted @ first[: _size(r)] for r in rounds])
            parts = [costs.parts(r) for r in rounds]
            draft, rest = sum(p.draft for p in parts), sum(p.rest for p in parts)
            return Evidence(policy, tuple(rounds), cost, Parts(draft, max(0.0, float(cost.sum()) - draft - rest), rest), None)
        case _:
            parts = [costs.parts(r, drafts=isinstance(policy, Drafting)) for r in rounds]
            cost = np.array([sum(part) for part in parts])
            together = Parts(*(sum(column) for column in zip(*parts, strict=True)))
            return Evidence(policy, tuple(rounds), cost, together, _measured(run, kept, steps, policy, cost))


def _size(rounds: Rounds) -> int:
    return len(rounds.rounds_by_drafted)


def _measured(run: Run, kept: NDArray[np.int64], steps: Floats, policy: Policy, cost: Floats) -> Measured | None:
    """The confirmation of `policy`; None when it was not run beside plain."""
    place = {int(prompt): at for at, prompt in enumerate(kept)}
    rows: list[tuple[int, float, float]] = []
    for block in blocks(run, "confirmation"):
        plain = [g for g in block if isinstance(g.policy, Plain) and g.tokens > 1]
        for g in block:
            if plain and g.policy == policy and g.tokens > 1 and g.prompt in place and g.prompt < len(run.draft_prefill_s):
                assisted = assisted_decode_s(g, plain, run.draft_prefill_s[g.prompt])
                if assisted > 0:  # else a call of a few tokens, shorter than its prefills by timing noise
                    rows.append((place[g.prompt], plain_step(plain) * (g.tokens - 1), assisted))
    if not rows:
        return None
    at, plain_s, assisted_s = np.array([row[0] for row in rows]), np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    noise = None
    if len(rows) > 1:
        departure = leave_one_out(plain_s, assisted_s) - leave_one_out(steps[at], cost[at])
        noise = float(jackknife_error(departure))
    prompts = len(kept)
    return Measured(_by_prompt(at, plain_s, prompts), _by_prompt(at, assisted_s, prompts), noise)


def _by_prompt(at: NDArray[np.int64], seconds: Floats, prompts: int) -> Floats:
    sums: Floats = np.zeros(prompts)
    np.add.at(sums, at, seconds)
    return sums
