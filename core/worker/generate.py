"""One real call of the library's `generate`, timed round by round from outside.

A streamer's `put` is called once for the prompt and then once per round with the tokens of that
round, so the rounds of the unmodified library are exact. Draft settings are read by the library
only from the draft's `generation_config` (keyword arguments are ignored silently), and the
heuristic schedule writes its last length back into it: they are set for a call and restored.
Greedy decoding, batch 1. Times in seconds. Source: transformers 5.24, `_assisted_decoding`.
"""

import copy
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel
from transformers.generation.streamers import BaseStreamer

from core.policies import Drafting, Policy, to_transformers
from core.worker.models import Pair


@dataclass(frozen=True)
class Timed:
    """The new tokens (N,) int32, how many each round emitted, the whole call and the time until the first tokens were out."""

    tokens: NDArray[np.int32]
    rounds: tuple[int, ...]
    total_s: float
    first_token_s: float


class RoundClock(BaseStreamer):
    """Counts the tokens of every round and notes when the first were out."""

    def __init__(self) -> None:
        self.rounds: list[int] = []
        self.first_at: float | None = None
        self._prompt_seen = False

    def put(self, value: torch.Tensor) -> None:
        """`value` is the prompt (1, P) in the first call, then (k,) or (1, k) new tokens."""
        if not self._prompt_seen:
            self._prompt_seen = True
            return
        if self.first_at is None:
            self.first_at = time.perf_counter()
        self.rounds.append(value.numel())

    def end(self) -> None:
        """The library says that it is done; nothing is left to note."""


def run_policy(pair: Pair, prompt: torch.Tensor, policy: Policy, max_new_tokens: int) -> Timed:
    """Generate with `policy` after `prompt` (1, P); the draft's settings are as before afterwards. InvalidInput for the oracle."""
    if isinstance(policy, Drafting):
        with draft_settings(pair.draft, policy):
            return timed_generate(pair, prompt, max_new_tokens, assistant_model=pair.draft)
    return timed_generate(pair, prompt, max_new_tokens, **to_transformers(policy))


@contextmanager
def draft_settings(draft: PreTrainedModel, policy: Drafting) -> Iterator[None]:
    """Let the library draft by `policy` inside; a persistent heuristic carries its length from call to call until the end."""
    before = draft.generation_config
    draft.generation_config = copy.deepcopy(before)
    for name, value in to_transformers(policy).items():
        setattr(draft.generation_config, name, value)
    try:
        yield
    finally:
        draft.generation_config = before


def timed_generate(pair: Pair, prompt: torch.Tensor, max_new_tokens: int, **how: Any) -> Timed:
    """Call the target's `generate`, greedy, with a clock as its streamer; `how` chooses the kind of assistance."""
    clock = RoundClock()
    synchronise(pair.device)
    began = time.perf_counter()
    output = pair.target.generate(  # pyright: ignore[reportCallIssue]  # the library's classes do not fit its own protocol
        input_ids=prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=max_new_tokens, streamer=clock, **how
    )
    synchronise(pair.device)
    total_s = time.perf_counter() - began
    tokens = output[0, prompt.shape[1] :].to("cpu", torch.int32).numpy()
    first_s = total_s if clock.first_at is None else clock.first_at - began
    return Timed(tokens, tuple(clock.rounds), total_s, first_s)


def first_difference(tokens: NDArray[np.int32], expected: NDArray[np.int32]) -> int | None:
    """Where two answers first differ (the shorter one's length when one is cut short), or None when they are equal."""
    shared = min(len(tokens), len(expected))
    different = np.flatnonzero(tokens[:shared] != expected[:shared])
    if len(different):
        return int(different[0])
    return None if len(tokens) == len(expected) else shared


def synchronise(device: torch.device) -> None:
    """Wait for what was started on an accelerator; nothing to do on a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
