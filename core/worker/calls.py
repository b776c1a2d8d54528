"""Real calls of the library, timed one by one, each reported with what it drafted and whether it wrote the expected text.

Under sampling every call has a seed of its own and a text of its own, so that only sums per token are compared. How many tokens
each round drafted is read off the width of the target's passes: a hook on each, microseconds beside milliseconds.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from core.decoding import Decoding
from core.measured import Generation, PlainKind, Purpose
from core.policies import MeasuredOnly, Plain, Policy
from core.runs import RunSpec
from core.worker.generate import Timed, first_difference, run_policy, timed_generate
from core.worker.models import Pair
from core.worker.recorder import Recorder
from core.worker.timing import Quiet

_SEED_STEP = 7919


class Calls:
    """Runs policies on the prompts (1, P) of a run. answers: the expected text of each; plain: which plain decoding is the rival.

    parted: the tokens written by prompt and policy where they were not the expected ones; the first of each.
    """

    def __init__(
        self,
        pair: Pair,
        spec: RunSpec,
        prompts: Sequence[torch.Tensor],
        answers: Sequence[NDArray[np.int32]],
        sink: Recorder,
        plain: PlainKind = "dynamic cache",
    ) -> None:
        self._pair, self._spec, self._prompts, self._answers, self._sink = pair, spec, prompts, answers, sink
        self._quiet = Quiet(pair.device, sink.disturbed)
        self._block = len(prompts)
        self._count = 0
        self._plain = plain_arguments(plain, prompts, spec.max_new_tokens)
        self.parted: dict[tuple[int, Policy | MeasuredOnly], NDArray[np.int32]] = {}

    def block(self, purpose: Purpose, index: int, policies: Sequence[Policy], budget: int) -> None:
        """Every policy once on prompt `index` with `budget` new tokens, directly one after the other."""
        for policy in policies:
            self._count += 1
            seed = self._spec.seed + _SEED_STEP * self._count
            (timed, drafted), share = self._quiet(lambda policy=policy, seed=seed: self._run(index, policy, budget, seed))
            self._report(purpose, index, policy, budget, timed, drafted, share)
        self._block += 1

    def _run(self, index: int, policy: Policy, budget: int, seed: int) -> tuple[Timed, tuple[int, ...]]:
        prompt, decoding = self._prompts[index], self._spec.decoding
        if isinstance(policy, Plain):
            return timed_generate(self._pair, prompt, budget, decoding, seed, **self._plain), ()
        return counted(self._pair, prompt, policy, budget, decoding, seed)

    def _report(self, purpose: Purpose, index: int, policy: Policy, budget: int, timed: Timed, drafted: tuple[int, ...], share: float) -> None:
        sampled = self._spec.decoding.sample
        difference = None if sampled else first_difference(timed.tokens, self._answers[index][:budget])
        if difference is not None:
            self.parted.setdefault((index, policy), timed.tokens)
        self._sink.generation(
            Generation(
                purpose=purpose,
                block=self._block,
                prompt=index,
                policy=policy,
                tokens=len(timed.tokens),
                total_s=timed.total_s,
                first_token_s=timed.first_token_s,
                rounds=() if isinstance(policy, Plain) else timed.rounds,
                drafted=drafted,
                equal=None if sampled else difference is None,
                first_difference=difference,
                cpu_share=share,
                budget=budget,
            )
        )


def plain_arguments(kind: PlainKind, prompts: Sequence[torch.Tensor], max_new_tokens: int) -> dict[str, Any]:
    """For `generate`, in plain decoding of a run with these prompts (1, P).

    The static cache is as long as the longest text from the first call on: for a longer one the library would compile anew, amid a timed call.
    """
    if kind == "dynamic cache":
        return {}
    return {"cache_implementation": "static", "max_cache_len": max(prompt.shape[1] for prompt in prompts) + max_new_tokens}


def counted(pair: Pair, prompt: torch.Tensor, policy: Policy, budget: int, decoding: Decoding, seed: int) -> tuple[Timed, tuple[int, ...]]:
    """An assisted call after `prompt` (1, P), and how many tokens each of its rounds drafted."""
    widths: list[int] = []

    def note(_model: torch.nn.Module, _args: tuple[Any, ...], given: dict[str, Any]) -> None:
        widths.append(given[pair.feeding.ids].shape[1])

    hook = pair.target.register_forward_pre_hook(note, with_kwargs=True)
    try:
        timed = run_policy(pair, prompt, policy, budget, decoding, seed)
    finally:
        hook.remove()
    return timed, (widths[0] - pair.feeding.opening(prompt).shape[1], *(width - 1 for width in widths[1:]))
