"""One run, analysed once for every page: predictions, the recommendation, and the plain data that figures take.

Nothing is measured or predicted here; `core.predict`, `core.timing` and `core.replay` do that. A run
that ended too early for that is `Unfinished`, and says in a sentence what it lacks.
Speedups are ratios to plain decoding, decode only.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from core import columns as col
from core import predict, theory
from core.acceptance import Alpha, alpha, alpha_greedy_draft, mean_accept
from core.errors import InvalidInput, NotMeasured
from core.evidence import NOTHING
from core.figures import Band, Confirmed, Range
from core.intervals import Floats
from core.landscape import GAMMAS
from core.policies import Drafting, FixedGamma, Heuristic, Oracle, Plain, Policy, PromptLookup, TransformersDefault, describe
from core.recommend import Recommendation
from core.record import Summary
from core.replay import Rounds, replay_all, rounds_drawn
from core.runs import Extent, Run
from core.timing import LoopCosts
from core.trace import repeated_share

SWEEP_LIMITS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20)
BLOCK_TOKENS = 8
RANKED = 7
NOT_REPLAYED: dict[Extent, str] = {
    "ways": "This run was written in several ways and replays nothing. Measure one of its drafts to see alpha, c and every gamma.",
    "shapes": "This run timed passes alone: it has no answers to replay. Measure the pair to see alpha.",
}
DRAWS = 16
"""Of a sampled run's rounds, where only single rounds tell."""


@dataclass(frozen=True)
class Unfinished:
    """A run that says nothing about time: `missing` tells why in a sentence; alpha is there once the draft has read an answer."""

    run: Run
    missing: str
    alpha: Alpha | None


@dataclass(frozen=True, eq=False)
class Analysis:
    """A run with what follows from it. `table` has the columns of `core.columns`, one row per policy."""

    run: Run
    alpha: Alpha
    costs: LoopCosts
    table: pd.DataFrame
    advice: Recommendation

    @cached_property
    def alpha_greedy_draft(self) -> Alpha | None:
        """Alpha in an engine whose draft proposes its first choice whatever the temperature; None where it is alpha itself, or not recorded."""
        return alpha_greedy_draft(self.run) if self.alpha.origin == "overlap" else None

    @property
    def formula(self) -> Floats:
        """(20,) Theorem 3.8 with this run's alpha and c of the draft's pass alone, d1: free loop, verify at the price of a plain step."""
        return theory.speedup(self.alpha.value, GAMMAS, self.costs.draft_next)

    @property
    def replay(self) -> Band:
        """(20,) replayed speedup of each fixed gamma; the wider of both intervals that exists, or none."""
        rows = [self.row(FixedGamma(int(gamma))) for gamma in GAMMAS]
        mid = np.array([row[col.SPEEDUP] for row in rows], dtype=np.float64)
        low, high = (col.TRAFFIC_LOW, col.TRAFFIC_HIGH) if rows[0][col.TRAFFIC_LOW] is not None else (col.THESE_LOW, col.THESE_HIGH)
        if rows[0][low] is None:
            return Band(mid, mid, mid)
        return Band(mid, np.array([row[low] for row in rows], dtype=np.float64), np.array([row[high] for row in rows], dtype=np.float64))

    @property
    def best_fixed(self) -> int:
        """The fixed gamma with the largest replayed speedup."""
        return int(GAMMAS[self.replay.mid.argmax()])

    @property
    def level(self) -> tuple[str, float] | None:
        """Name and speedup of the recommended setting where it is not a fixed gamma, and so no point of the curve."""
        policy = self.advice.policy
        return None if policy in [FixedGamma(gamma) for gamma in range(1, 21)] else (describe(policy), self.known(policy))

    @property
    def recommended(self) -> int | None:
        """The gamma to use; None when drafting is not recommended or the setting has no fixed gamma."""
        policy = self.advice.policy
        return policy.limit if self.advice.verdict == "use" and self.level is None and isinstance(policy, Drafting) else None

    @property
    def confirmed(self) -> list[Confirmed]:
        """The fixed gammas that were really run."""
        rows = [(int(gamma), self.row(FixedGamma(int(gamma)))) for gamma in GAMMAS]
        return [Confirmed(gamma, row[col.MEASURED], *_bounds(row, confirmed=True)) for gamma, row in rows if row[col.MEASURED] is not None]

    @property
    def sweep(self) -> Floats:
        """(thresholds, limits) replayed speedup of `SWEEP_LIMITS` by `predict.THRESHOLDS`."""
        return np.array(self._swept[col.SPEEDUP], dtype=np.float64).reshape(len(SWEEP_LIMITS), len(predict.THRESHOLDS)).T

    @property
    def best_of_sweep(self) -> Policy:
        """The setting with the largest replayed speedup in the sweep."""
        return self._swept[col.POLICY].iloc[int(np.array(self._swept[col.SPEEDUP], dtype=np.float64).argmax())]

    @cached_property
    def _swept(self) -> pd.DataFrame:
        return predict.predict(self.run, predict.sweep(SWEEP_LIMITS))

    def row(self, policy: Policy) -> dict[str, Any]:
        """The row of a policy, from the table or else from the sweep."""
        return self._rows[policy] if policy in self._rows else self._swept_rows[policy]

    @cached_property
    def _rows(self) -> dict[Policy, dict[str, Any]]:
        return {row[col.POLICY]: row for row in self.table.to_dict("records")}

    @cached_property
    def _swept_rows(self) -> dict[Policy, dict[str, Any]]:
        return {row[col.POLICY]: row for row in self._swept.to_dict("records")}

    def policies(self) -> list[Policy]:
        """What the policy table lists: the answer first, then its like, the usual ones, plain, and the oracle last."""
        fixed = [FixedGamma(int(gamma)) for gamma in GAMMAS]
        best_fixed = sorted(fixed, key=lambda policy: -self.row(policy)[col.SPEEDUP])[:3]
        known = list(self.table[col.POLICY])
        run = [policy for policy in known if self.is_confirmed(policy)]
        lookups = [policy for policy in known if isinstance(policy, PromptLookup)]
        best_lookup = sorted(lookups, key=lambda policy: -self.row(policy)[col.SPEEDUP])[:1]
        usual: list[Policy] = [*best_fixed, *run, self.best_of_sweep, TransformersDefault(), Heuristic(), Heuristic(persistent=False), *best_lookup]
        usual.sort(key=lambda policy: -self.known(policy))
        first: list[Policy] = [Plain(), self.advice.policy] if self.advice.verdict == "leave_off" else [self.advice.policy]
        return list(dict.fromkeys([*first, *usual, Plain(), Oracle()]))

    def ranking(self) -> list[Range]:
        """The best settings, every setting that was really run, and plain, for the ranking chart; the fastest first."""
        shown = [policy for policy in self.policies() if not isinstance(policy, Oracle)]
        always = [policy for policy in shown if isinstance(policy, Plain) or self.is_confirmed(policy)]
        best = sorted(set(shown) - set(always), key=lambda policy: -self.known(policy))
        chosen = [*always, *best[: max(0, RANKED - len(always))]]
        return [self._range(policy) for policy in sorted(chosen, key=lambda policy: -self.known(policy))]

    def known(self, policy: Policy) -> float:
        """Measured speedup where there is one, else the predicted."""
        row = self.row(policy)
        return row[col.SPEEDUP] if row[col.MEASURED] is None else row[col.MEASURED]

    @property
    def really_run(self) -> int:
        """On how many prompts settings were really run, those of the one that was run the most."""
        measured = [row for row in self.table[col.MEASURED_ASSISTED] if row is not None]
        return max((int((row > 0).sum()) for row in measured), default=0)

    def is_confirmed(self, policy: Policy) -> bool:
        """Whether the policy was really run."""
        return self.row(policy)[col.MEASURED] is not None

    def _range(self, policy: Policy) -> Range:
        row = self.row(policy)
        confirmed = row[col.MEASURED] is not None
        low, high = _bounds(row, confirmed=confirmed)
        return Range(
            sentence_case(row[col.SETTING]), self.known(policy), low, high, "confirmed" if confirmed or isinstance(policy, Plain) else "replayed"
        )

    def rounds(self, policy: Policy) -> list[Rounds]:
        """The replayed rounds of every prompt."""
        return replay_all(self.run.traces, [policy])[0]

    def per_prompt(self, policy: Policy) -> pd.DataFrame:
        """One row per traced prompt: label, tokens, how it ended, alpha, predicted speedup, share of repeated 8-grams, and its beginning."""
        row = self.row(policy)
        kept = [at for at, trace in enumerate(self.run.traces) if len(trace.answer) > 1]
        predicted = {at: steps / cost for at, steps, cost in zip(kept, row[col.STEPS], row[col.COST], strict=True) if cost >= NOTHING}
        prompts = self.run.spec.prompts
        rows = [
            {
                "prompt": at + 1,
                "label": prompts[at].label,
                "answer tokens": len(trace.answer),
                "ended by": trace.ended,
                "alpha": mean_accept([trace]),
                "predicted speedup": predicted.get(at),
                "repeated 8-grams": repeated_share(trace.answer),
                "begins": " ".join(prompts[at].text[:80].split()),
            }
            for at, trace in enumerate(self.run.traces)
        ]
        return pd.DataFrame(rows)


def analyse(run: Run) -> Analysis | Unfinished:
    """Predict and recommend as far as the run allows."""
    if run.spec.extent == "smoke":
        return Unfinished(run, "This run is a smoke test: eight tokens say nothing about speed. Measure the pair.", None)
    if run.spec.extent in NOT_REPLAYED:
        return Unfinished(run, NOT_REPLAYED[run.spec.extent], None)
    try:
        table = predict.predict(run, predict.default_policies(run))
        return Analysis(run, alpha(run), LoopCosts.from_run(run), table, predict.recommend(table))
    except (NotMeasured, InvalidInput) as error:
        return Unfinished(run, str(error), alpha(run) if run.traces else None)


def summary(analysis: Analysis) -> Summary:
    """The answer in short, for lists of runs. Where a run has no interval on these prompts, both its ends are the speedup itself."""
    advice = analysis.advice
    low, high = advice.on_these_prompts or (advice.speedup, advice.speedup)
    return Summary(
        verdict=advice.verdict,
        policy=describe(advice.policy),
        speedup=advice.speedup,
        low=low,
        high=high,
        traffic=advice.for_traffic,
        confirmed=advice.confirmed,
        alpha=analysis.alpha.value,
        c=analysis.costs.c,
    )


def sentence_case(text: str) -> str:
    """The first letter upper, the rest as it is."""
    return text[:1].upper() + text[1:]


def together(rounds: list[Rounds]) -> Rounds:
    """The rounds of all prompts added up."""
    return Rounds(
        tokens=sum(r.tokens for r in rounds),
        rounds=sum(r.rounds for r in rounds),
        drafted=sum(r.drafted for r in rounds),
        accepted=sum(r.accepted for r in rounds),
        rejected=sum(r.rejected for r in rounds),
        drafted_low=sum(r.drafted_low for r in rounds),
        rounds_by_drafted=_sum([r.rounds_by_drafted for r in rounds]),
        first_by_drafted=_sum([r.first_by_drafted for r in rounds]),
        reached=_sum([r.reached for r in rounds]),
        passed=_sum([r.passed for r in rounds]),
    )


def accepted_shares(rounds: Rounds) -> Floats:
    """(K+1,) share of rounds that accepted exactly 0, 1, ... K drafts."""
    at_least = np.concatenate([[rounds.rounds], rounds.passed, [0.0]])
    return -np.diff(at_least) / at_least[0]


def conditional_acceptance(run: Run, policy: Drafting) -> Floats:
    """(K,) of the drafts at place k = 1..K of a round that were examined, the share that was accepted; 0 where none was.

    Sampled traces are drawn a few times each, with seeds of their own.
    """
    seeds = range(0, DRAWS * len(run.traces) if run.spec.decoding.sample else 1, len(run.traces))
    rounds = [each for at, trace in enumerate(run.traces) for seed in seeds for each in rounds_drawn(trace, policy, seed + at)]
    longest = max(each.drafted for each in rounds)
    accepted, rejected = np.zeros(longest), np.zeros(longest)
    for each in rounds:
        accepted[: each.accepted] += 1
        if each.rejected:
            rejected[each.accepted] += 1
    examined = accepted + rejected
    return np.divide(accepted, examined, out=np.zeros(longest), where=examined > 0)


def alpha_by_position(run: Run) -> tuple[Floats, Floats]:
    """Start of each block of eight answer tokens (B,), and alpha there over all prompts (B,)."""
    longest = max(len(trace.accept) for trace in run.traces)
    total, count = np.zeros(longest), np.zeros(longest)
    for trace in run.traces:
        chance = trace.accept if trace.sampled is None else trace.sampled.overlap
        total[: len(chance)] += chance
        count[: len(chance)] += 1
    starts = np.arange(0, longest, BLOCK_TOKENS)
    return starts.astype(np.float64), np.add.reduceat(total, starts) / np.add.reduceat(count, starts)


def _sum(rows: list[Floats]) -> Floats:
    """Sum of arrays of different lengths, each continued with zeros."""
    out = np.zeros(max(len(row) for row in rows))
    for row in rows:
        out[: len(row)] += row
    return out


def _bounds(row: dict[str, Any], *, confirmed: bool) -> tuple[float, float]:
    """The interval on these prompts; the value itself where there is none."""
    value, low, high = (col.MEASURED, col.MEASURED_LOW, col.MEASURED_HIGH) if confirmed else (col.SPEEDUP, col.THESE_LOW, col.THESE_HIGH)
    return (row[value], row[value]) if row[low] is None else (row[low], row[high])
