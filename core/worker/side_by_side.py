"""A side-by-side run: one prompt, written once by each lane, one lane after the other, every round streamed as it is written.

Each lane is one call of the unmodified library, after a few tokens to warm up. Lanes run in the spec's order, so that plain decoding is
not always the first, and share nothing but the loaded models: draft settings are restored, and each call begins with its own seed.
Afterwards greedy answers are compared with the plain one, and the main draft reads the plain answer, from which a measurement's
costs predict the lanes. Under sampling p is computed again for that, because keeping it would slow the plain lane down.
Lossy lanes (`ensemble_weight`) may differ, so their differences are not looked into. Times in seconds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from core.measured import Environment, Generation
from core.policies import Drafting, Plain
from core.runs import Lane, RunSpec
from core.sink import Sink
from core.worker.calls import plain_arguments
from core.worker.environment import environment
from core.worker.generate import RoundClock, Timed, first_difference, run_policy
from core.worker.inputs import encode_prompts
from core.worker.listening import Ear, Heard, Spent, shared, watched
from core.worker.memory import peaks
from core.worker.models import Garage, Pair
from core.worker.precision import differences
from core.worker.rival import fastest_plain
from core.worker.streaming import Stream
from core.worker.timing import Quiet
from core.worker.tracing import trace
from core.worker.translated import check, translated

WARM_UP_TOKENS = 8

Tokens = NDArray[np.int32]


def side_by_side(spec: RunSpec, sink: Sink, garage: Garage) -> None:
    """Write the prompt with every lane and report to `sink`. Raises as `measure`, and InvalidInput or ModelError for a lane that cannot run."""
    begun = _begin(spec, sink, garage)
    run = _SideBySide(spec, sink, garage, begun)
    for lane in spec.order:
        run.write(lane)
    run.compare()
    run.read()
    used = dict.fromkeys((*begun.target_devices, *begun.draft_devices))
    sink.environment(begun.model_copy(update=peaks([torch.device(name) for name in used])))


def _begin(spec: RunSpec, sink: Sink, garage: Garage) -> Environment:
    """Nothing of the pair may be held here when a lane with another draft begins."""
    pair = garage.get(spec, sink.stage)
    begun = environment(spec, pair)
    sink.environment(begun)
    known = begun.model_copy(update=fastest_plain(pair, encode_prompts(pair, spec), spec)._asdict())
    if known != begun:
        sink.environment(known)
    return known


class _SideBySide:
    """One run's state: the answers so far, by lane."""

    def __init__(self, spec: RunSpec, sink: Sink, garage: Garage, begun: Environment) -> None:
        self._spec, self._sink, self._garage, self._begun = spec, sink, garage, begun
        self._answers: dict[int, Tokens] = {}

    def write(self, index: int) -> None:
        """One lane: its pair, a warm-up, the timed call, its record."""
        lane = self._spec.lanes[index]
        told = () if lane.draft is None else (self._sink.stage,)
        pair = self._garage.get(self._spec.model_copy(update={"draft": lane.draft or self._spec.draft}), *told)
        self._sink.stage("writing", len(self._answers), len(self._spec.lanes))
        prompt = encode_prompts(pair, self._spec)[0]
        check(pair, prompt, lane, self._spec)
        spent = self._warm_up(pair, prompt, lane)
        timed, drafted, share = self._timed(pair, prompt, index, spent)
        self._answers[index] = timed.tokens
        self._sink.stage("writing", len(self._answers), len(self._spec.lanes))
        self._sink.generation(self._record(index, timed, drafted, share))

    def compare(self) -> None:
        """Where greedy answers part from the plain one, and how nearly both choices tied."""
        if self._spec.decoding.sample:
            return
        pair = self._garage.get(self._spec)
        alone = replace(pair, draft=pair.target)  # only the target's scores are asked for, and any draft would do
        prompt, plain = encode_prompts(pair, self._spec), self._answers[0]
        for index, tokens in self._answers.items():
            lane = self._spec.lanes[index]
            if lane.ensemble_weight is None and first_difference(tokens, plain) is not None:
                for difference in differences(alone, self._spec, prompt, [plain], {(0, lane.policy): tokens}):
                    self._sink.difference(difference.model_copy(update={"lane": index}))

    def read(self) -> None:
        """The trace of the plain answer by the run's own draft, followed after wrong tokens as far as the lanes' thresholds need."""
        pair = self._garage.get(self._spec)
        if pair.draft_tokenizer is not None:
            return
        thresholds = [lane.policy.threshold for lane in self._spec.lanes if isinstance(lane.policy, Drafting)]
        prompt, spec = encode_prompts(pair, self._spec)[0], self._spec
        self._sink.trace(0, trace(pair, prompt, self._answers[0], spec.max_new_tokens, spec.decoding, least=min(thresholds, default=1.0)))

    def _warm_up(self, pair: Pair, prompt: torch.Tensor, lane: Lane) -> Spent | None:
        """First calls are slow. On an accelerator it is a whole one, which says how its time is shared; on a CPU the timed call does.

        A compiled pass cannot be looked into, so that plain decoding counts as the target's altogether there.
        """
        most = self._spec.max_new_tokens
        if pair.device.type == "cpu":
            self._call(pair, prompt, lane, min(WARM_UP_TOKENS, most), RoundClock())
            return None
        if isinstance(lane.policy, Plain) and self._begun.plain != "dynamic cache":
            self._call(pair, prompt, lane, min(WARM_UP_TOKENS, most), RoundClock())
            return shared(0.0, 1.0)
        with watched(pair) as spent:
            timed = self._call(pair, prompt, lane, most, RoundClock())
            draft_s, verify_s = spent(0.0)
        return shared(draft_s / timed.total_s, verify_s / timed.total_s)

    def _timed(self, pair: Pair, prompt: torch.Tensor, index: int, known: Spent | None) -> tuple[Timed, list[int], float]:
        """The lane's answer, what each round drafted, and the call's share of its core. Never repeated: it is watched."""
        lane, drafted = self._spec.lanes[index], list[int]()
        quiet = Quiet(pair.device, self._sink.disturbed, patience_s=0.0)
        with _spent(pair, known) as spent, Stream(self._sink.steps, index, pair.tokenizer) as stream:

            def tell(heard: Heard) -> None:
                drafted.append(len(heard.drafted))
                stream.tell(heard)

            ear = Ear(pair, prompt, spent, tell)
            with ear.at(pair.target, listening=not isinstance(lane.policy, Plain)):
                timed, share = quiet(lambda: self._call(pair, prompt, lane, self._spec.max_new_tokens, ear))
        return timed, drafted, share

    def _call(self, pair: Pair, prompt: torch.Tensor, lane: Lane, budget: int, clock: RoundClock) -> Timed:
        more: dict[str, Any] = {}
        if isinstance(lane.policy, Plain):
            more = plain_arguments(self._begun.plain, [prompt], self._spec.max_new_tokens)
        if lane.ensemble_weight is not None:
            more = {"assistant_ensemble_weight": lane.ensemble_weight}
        with translated(pair):
            return run_policy(pair, prompt, lane.policy, budget, self._spec.decoding, self._spec.seed, clock=clock, **more)

    def _record(self, index: int, timed: Timed, drafted: list[int], share: float) -> Generation:
        """`equal` is known only when plain decoding is done already; afterwards the tokens tell."""
        policy, plain = self._spec.lanes[index].policy, self._answers.get(0)
        compared = plain is not None and not self._spec.decoding.sample
        difference = first_difference(timed.tokens, plain) if plain is not None and compared else None
        return Generation(
            purpose="side_by_side",
            block=0,
            prompt=0,
            policy=policy,
            tokens=len(timed.tokens),
            total_s=timed.total_s,
            first_token_s=timed.first_token_s,
            rounds=() if isinstance(policy, Plain) else timed.rounds,
            drafted=() if isinstance(policy, Plain) else tuple(drafted),
            equal=difference is None if compared else None,
            first_difference=difference,
            cpu_share=share,
            budget=self._spec.max_new_tokens,
            lane=index,
        )


@contextmanager
def _spent(pair: Pair, known: Spent | None) -> Iterator[Spent]:
    """How long passes take: measured inside, unless it is known how the time is shared."""
    if known is not None:
        yield known
        return
    with watched(pair) as spent:
        yield spent
