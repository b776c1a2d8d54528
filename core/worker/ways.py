"""A run in several ways: every prompt really written by each lane, again and again beside plain decoding, nothing replayed.

Each lane is one call of the unmodified library, heard from outside: a streamer for its rounds, a hook for what they drafted. All drafts
stay loaded for the whole run, because the ways take turns prompt by prompt. In a block of one prompt plain decoding is called first, then after
every two lanes, so that each lane has a plain call directly before or after it; the lanes' order is drawn anew for each block with the seed.
A first turn goes through all prompts, a few more follow while `confirm_s` lasts: they tell how calls scatter. Before anything is timed each
lane is tried with a few tokens, and a lane that cannot run ends the run with a sentence. Everything reported before a cancellation stays
valid. Under sampling every call has a seed of its own. Times in seconds. Not covered: alpha, c, and settings that were not run.
"""

import random
import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from core.lanes import check_ways
from core.measured import Environment, Generation, WayCall
from core.policies import Drafting, EarlyExit, OwnHeads, Plain
from core.runs import Lane, RunSpec
from core.sink import Sink
from core.worker import own_draft, translated
from core.worker.calls import plain_arguments
from core.worker.environment import environment
from core.worker.fresh import check_shared, fresh
from core.worker.generate import RoundClock, Timed, exiting, first_difference, run_policy
from core.worker.inputs import encode_prompts, spread
from core.worker.listening import Ear, Heard
from core.worker.memory import peaks
from core.worker.models import Garage, Pair
from core.worker.precision import differences
from core.worker.rival import fastest_plain
from core.worker.timing import Quiet, prefill_seconds

WARM_UP_TOKENS = 8
MOST_TURNS = 3
_SEED_STEP = 7919

Tokens = NDArray[np.int32]


@dataclass(frozen=True)
class _Way:
    """A lane, ready to be called: target and draft, the prompts (1, P) on its device, and what else `generate` is given.

    prefill_s: of the draft's own first pass over each prompt, as they become known.
    """

    lane: Lane
    pair: Pair
    prompts: list[torch.Tensor]
    more: dict[str, Any]
    prefill_s: dict[int, float] = field(default_factory=dict)

    @property
    def drafts(self) -> bool:
        """Whether anything is proposed."""
        return not isinstance(self.lane.policy, Plain)


def ways(spec: RunSpec, sink: Sink, garage: Garage) -> None:
    """Write every prompt in every way and report to `sink`.

    Raises as `measure`, and InvalidInput or ModelError for a lane that cannot run.
    """
    check_ways(spec)
    found, begun = _load(spec, sink, garage)
    run = _Ways(spec, sink, found)
    run.warm_up()
    run.write()
    run.compare()
    sink.environment(begun.model_copy(update=peaks(found[0].pair.devices)))


def _load(spec: RunSpec, sink: Sink, garage: Garage) -> tuple[list[_Way], Environment]:
    """All lanes with what they need, and where they run. The draft that names the run is loaded first, so that the target is not left alone."""
    own = _own_pair(spec, sink, garage)
    begun = environment(spec, own)
    sink.environment(begun)
    prompts = encode_prompts(own, spec)
    rival = fastest_plain(own, prompts, spec)
    known = begun.model_copy(update=rival._asdict())
    if known != begun:
        sink.environment(known)
    found: list[_Way] = []
    for lane in spec.lanes:
        pair = own if isinstance(lane.policy, Drafting) else replace(own, draft_tokenizer=None)
        more: dict[str, Any] = {}
        if isinstance(lane.policy, Drafting) and lane.draft not in (None, spec.draft):
            pair = garage.get(spec.model_copy(update={"draft": lane.draft}), sink.stage)
        if isinstance(lane.policy, OwnHeads) and lane.draft is not None:
            more = {"assistant_model": own_draft.load_dflash(own.target, lane.draft, spec, sink.stage)}
        if isinstance(lane.policy, Plain):
            more = plain_arguments(rival.plain, prompts, spec.max_new_tokens)
        if lane.ensemble_weight is not None:
            more = {"assistant_ensemble_weight": lane.ensemble_weight}
        found.append(_Way(lane, pair, encode_prompts(pair, spec), more))
    return found, known


def _own_pair(spec: RunSpec, sink: Sink, garage: Garage) -> Pair:
    """The run's own pair; the target in both places where no lane has a draft model."""
    if any(isinstance(lane.policy, Drafting) and lane.draft in (None, spec.draft) for lane in spec.lanes):
        return garage.get(spec, sink.stage)
    return garage.alone(spec, sink.stage)


class _Ways:
    """One run's state: the plain answers so far by prompt, and what other lanes wrote instead, by lane."""

    def __init__(self, spec: RunSpec, sink: Sink, found: list[_Way]) -> None:
        self._spec, self._sink, self._ways = spec, sink, found
        self._quiet = Quiet(found[0].pair.device, sink.disturbed)
        self._plain: dict[int, Tokens] = {}
        self._parted: dict[int, dict[int, Tokens]] = {}
        self._calls = 0

    def warm_up(self) -> None:
        """First calls are slow; and every lane shows whether it can run, before anything is timed."""
        for lane, way in enumerate(self._ways):
            self._sink.stage("load", 1 + lane, 1 + len(self._ways))
            self._check(way)
            self._try(way)

    def _try(self, way: _Way) -> None:
        with fresh(way.pair, self._spec.decoding) as (pair, _):
            self._generate(way, pair, way.prompts[0], min(WARM_UP_TOKENS, self._spec.max_new_tokens), self._spec.seed, RoundClock())

    def _check(self, way: _Way) -> None:
        own_draft.check(way.pair.target, way.lane)
        for prompt in way.prompts:
            translated.check(way.pair, prompt, way.lane, self._spec)
        if _translates(way) and self._spec.decoding.sample:
            check_shared(way.pair, f"The draft {(way.lane.draft or self._spec.draft).name} has other tokens than the target")

    def write(self) -> None:
        """The first turn goes through all prompts, spread over their labels; further ones end when the time is up."""
        count, began_s = len(self._spec.prompts), time.monotonic()
        order = spread([prompt.label for prompt in self._spec.prompts], count, self._spec.seed)
        turns, done = 1, 0
        while done < turns * count:
            if done and done % count == 0 and time.monotonic() - began_s >= self._spec.confirm_s:
                break
            self._sink.stage("ways", done, turns * count)
            self._block(done, order[done % count])
            done += 1
            if done == count:
                turns = max(1, min(MOST_TURNS, int(self._spec.confirm_s / (time.monotonic() - began_s))))
        self._sink.stage("ways", done, done)

    def _block(self, block: int, prompt: int) -> None:
        for lane in block_order(len(self._ways), f"{self._spec.seed} {block}"):
            self._calls += 1
            self._call(block, prompt, lane, self._spec.seed + _SEED_STEP * self._calls)

    def _call(self, block: int, prompt: int, lane: int, seed: int) -> None:
        """Alone in a method, so that a fresh draft is let go before the next one is made."""
        way = self._ways[lane]
        prefill_s = self._draft_prefill_s(way, prompt)
        with fresh(way.pair, self._spec.decoding) as (pair, prepared_s):
            (timed, heard), share = self._quiet(lambda: self._heard(way, pair, prompt, seed))
        noted = WayCall(rejected=sum(map(_ended_wrong, heard)), draft_prefill_s=prefill_s, prepared_s=prepared_s, translated=_translates(way))
        self._report(block, prompt, lane, timed, heard, share, noted if way.drafts else None)

    def _heard(self, way: _Way, pair: Pair, prompt: int, seed: int) -> tuple[Timed, list[Heard]]:
        """A whole call, and what each of its rounds drafted; plain decoding has no rounds to hear."""
        ids, budget, heard = way.prompts[prompt], self._spec.max_new_tokens, list[Heard]()
        if not way.drafts:
            return self._generate(way, pair, ids, budget, seed, RoundClock()), heard
        ear = Ear(pair, ids, lambda _took_s: (0.0, 0.0), heard.append)
        with ear.at(pair.target, listening=True):
            return self._generate(way, pair, ids, budget, seed, ear), heard

    def _generate(self, way: _Way, pair: Pair, ids: torch.Tensor, budget: int, seed: int, clock: RoundClock) -> Timed:
        with own_draft.explained(pair, way.lane), translated.translated(pair):
            return run_policy(pair, ids, way.lane.policy, budget, self._spec.decoding, seed, clock=clock, **way.more)

    def _draft_prefill_s(self, way: _Way, prompt: int) -> float:
        """Timed once for each prompt, by itself. Heads read the prompt when they draft first, and nothing reads it for prompt lookup."""
        if prompt not in way.prefill_s:
            way.prefill_s[prompt] = self._read(way, prompt)
        return way.prefill_s[prompt]

    def _read(self, way: _Way, prompt: int) -> float:
        policy, ids = way.lane.policy, way.prompts[prompt]
        if isinstance(policy, EarlyExit):
            with exiting(way.pair.target, policy.layers):
                return prefill_seconds(way.pair.target, ids, self._quiet)
        if not isinstance(policy, Drafting):
            return 0.0
        own = torch.tensor([translated.draft_ids(way.pair, ids)], dtype=torch.long)
        return prefill_seconds(way.pair.draft, own.to(way.pair.draft.device), self._quiet, feeding=way.pair.feeding)

    def _report(self, block: int, prompt: int, lane: int, timed: Timed, heard: list[Heard], share: float, noted: WayCall | None) -> None:
        plain = self._plain.setdefault(prompt, timed.tokens)
        difference = None if self._spec.decoding.sample else first_difference(timed.tokens, plain)
        if difference is not None:
            self._parted.setdefault(lane, {}).setdefault(prompt, timed.tokens)
        self._sink.generation(
            Generation(
                purpose="way",
                block=block,
                prompt=prompt,
                policy=self._spec.lanes[lane].policy,
                tokens=len(timed.tokens),
                total_s=timed.total_s,
                first_token_s=timed.first_token_s,
                rounds=timed.rounds if noted else (),
                drafted=tuple(len(one.drafted) for one in heard),
                equal=None if self._spec.decoding.sample else difference is None,
                first_difference=difference,
                cpu_share=share,
                budget=self._spec.max_new_tokens,
                lane=lane,
                way=noted,
            )
        )

    def compare(self) -> None:
        """Where greedy answers part from the plain ones, and how nearly both choices tied; not for a lane that may change the text."""
        pair = self._ways[0].pair
        alone = replace(pair, draft=pair.target, draft_tokenizer=None)  # only the target's scores are asked for, and any draft would do
        answers = [self._plain.get(prompt, np.zeros(0, np.int32)) for prompt in range(len(self._spec.prompts))]
        for lane, parted in self._parted.items():
            asked = self._spec.lanes[lane]
            if asked.ensemble_weight is None:
                rows = {(prompt, asked.policy): tokens for prompt, tokens in parted.items()}
                for difference in differences(alone, self._spec, self._ways[0].prompts, answers, rows):
                    self._sink.difference(difference.model_copy(update={"lane": lane}))


def block_order(lanes: int, seed: str) -> list[int]:
    """The lanes of one block as they are called: plain (0) first, after every two others, and last."""
    others = list(range(1, lanes))
    random.Random(seed).shuffle(others)
    order = [0]
    for start in range(0, len(others), 2):
        order += [*others[start : start + 2], 0]
    return order


def _ended_wrong(heard: Heard) -> bool:
    """Whether a proposal was wrong. One that was right where the answer ended counts as the target's own token in the library."""
    *accepted, own = heard.tokens
    rejected = heard.drafted[len(accepted) :]
    return bool(rejected) and rejected[0] != own


def _translates(way: _Way) -> bool:
    return isinstance(way.lane.policy, Drafting) and way.pair.draft_tokenizer is not None
