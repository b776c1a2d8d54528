"""What a measurement would have predicted for a side-by-side run, and where the difference comes from.

Rounds are replayed on this very prompt (trace 0: the draft's reading of the plain answer), prices are those of the reference, at
this answer's cache length. Speedups are decode only. One prompt run once has no interval: how much of a difference is timing noise
is not known, and the sentence says so. Not covered: re-encoding between different tokenizers, and columns with another draft.
"""

from dataclasses import dataclass, replace

from core.errors import NotMeasured
from core.policies import Drafting, MeasuredOnly, Plain
from core.replay import replay_prompt
from core.runs import Run
from core.side import call_of, decode_s_per_token, speedup
from core.timing import LoopCosts, middle_cache, passes_of


@dataclass(frozen=True)
class Prediction:
    """A column as predicted and as run. rounds are whole in greedy decoding, expected ones under sampling; round costs in plain steps.

    error: relative, one standard deviation, of the reference's calibration; None when it is not known.
    """

    speedup: float
    measured: float
    rounds: float
    measured_rounds: int
    round_cost: float
    measured_round_cost: float
    error: float | None
    sampled: bool

    @property
    def relative(self) -> float:
        """Predicted / measured - 1."""
        return self.speedup / self.measured - 1

    @property
    def same_rounds(self) -> bool:
        """Whether the replay gave as many rounds as were run."""
        return round(self.rounds, 2) == self.measured_rounds

    @property
    def sentence(self) -> str:
        """The gap in a sentence: how large, how much of it is rounds and how much the price of a round, and what is not known."""
        size = f"The prediction was {100 * abs(self.relative):.1f} % {'above' if self.relative > 0 else 'below'} this run"
        cost = f"a round took {self.measured_round_cost:.2f} plain steps, {self.round_cost:.2f} were expected"
        if self.same_rounds:
            where = f"the rounds are the same, {self.measured_rounds}; {cost}"
        else:
            luck = ", because sampling draws them anew" if self.sampled else ""
            where = f"{self.measured_rounds} rounds were run and {self.rounds:.4g} expected{luck}; {cost}"
        known = "" if self.error is None else f" The reference's own error is {100 * self.error:.1f} %."
        return f"{size}: {where}.{known} One run each: how much is timing noise is not known."


def predict(run: Run, reference: Run, lane: int) -> Prediction:
    """The prediction of one column. Both runs with their traces. Raises NotMeasured or InvalidInput saying what is missing."""
    _check_alike(run, reference, lane)
    policy, measured, plain_s = run.spec.lanes[lane].policy, speedup(run, lane), decode_s_per_token(run, 0)
    call, own_s = call_of(run, lane), decode_s_per_token(run, lane)
    if not run.traces or measured is None or plain_s is None or own_s is None or call is None:
        raise NotMeasured("Nothing was predicted: the answer has fewer than two tokens, or the draft did not read it.")
    trace = run.traces[0]
    known = LoopCosts.from_run(reference)
    here = passes_of(reference, middle_cache(trace))
    costs = replace(known, verify=here.verify, draft_first=here.draft_first, draft_next=here.draft_next)
    if isinstance(policy, MeasuredOnly):
        raise NotMeasured("Nothing was predicted: this way to draft uses the target's own states, which no trace holds.")
    rounds = replay_prompt(trace, policy)
    cost = sum(costs.parts(rounds, drafts=isinstance(policy, Drafting), checks=isinstance(policy, Drafting) and policy.threshold > 0))
    if cost <= 0:
        raise NotMeasured("Nothing was predicted: the answer is so short that nothing is left beside the prefills.")
    run_rounds = len(call.rounds)
    return Prediction(
        speedup=(len(trace.answer) - 1) / cost,
        measured=measured,
        rounds=rounds.rounds,
        measured_rounds=run_rounds,
        round_cost=cost / rounds.rounds,
        measured_round_cost=own_s * (call.tokens - 1) / plain_s / run_rounds,
        error=known.calibration_error,
        sampled=run.spec.decoding.sample,
    )


def _check_alike(run: Run, reference: Run, lane: int) -> None:
    """Prices hold for the same models, device and number format only."""
    asked, known = run.spec, reference.spec
    column = asked.lanes[lane]
    if isinstance(column.policy, Plain):
        raise NotMeasured("Plain decoding is what speedups are relative to, so there is nothing to predict.")
    own = (asked.target, column.draft or asked.draft, asked.device, asked.dtype, asked.placement)
    if own != (known.target, known.draft, known.device, known.dtype, known.placement):
        raise NotMeasured("Nothing was predicted: the measurement it refers to has other models, or another device, number format or placement.")
    if column.ensemble_weight is not None:
        raise NotMeasured("Nothing was predicted: a replay knows no ensemble weight.")
