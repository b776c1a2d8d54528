"""One real call of the library's `generate`, timed round by round from outside.

A streamer's `put` is called once for the prompt and then once per round with the tokens of that
round, so the rounds of the unmodified library are exact. Draft settings are read by the library
only from the draft's `generation_config` (keyword arguments are ignored silently), and the
heuristic schedule writes its last length back into it: they are set for a call and restored.
How the text is decoded, greedily or by sampling, is passed as a service would (`core.worker.processors`). A draft with another
vocabulary is translated by the library through text.
Batch 1. Times in seconds. Source: transformers 5.24, `_assisted_decoding`.
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

from core.decoding import Decoding
from core.errors import InvalidInput, ModelError
from core.policies import Drafting, EarlyExit, MeasuredOnly, Plain, Policy, drafting_of, to_transformers
from core.worker.models import Pair
from core.worker.processors import Keeper, arguments, check_numbers, name_of, own_temperature

GREEDY = Decoding()


@dataclass(frozen=True)
class Timed:
    """The new tokens (N,) int32, how many each round emitted, the whole call and the time until the first tokens were out.

    p: (N,) float32, p of each token as it was drawn, where it was to be kept.
    """

    tokens: NDArray[np.int32]
    rounds: tuple[int, ...]
    total_s: float
    first_token_s: float
    p: NDArray[np.float32] | None = None


class RoundClock(BaseStreamer):
    """Counts the tokens of every round and notes when the first were out. `began`: when the call was made."""

    def __init__(self) -> None:
        self.began = 0.0
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


def run_policy(
    pair: Pair,
    prompt: torch.Tensor,
    policy: Policy | MeasuredOnly,
    max_new_tokens: int,
    decoding: Decoding = GREEDY,
    seed: int = 0,
    *,
    keep: bool = False,
    clock: RoundClock | None = None,
    **more: Any,
) -> Timed:
    """Generate with `policy` after `prompt` (1, P); the draft's settings, and a target's that drafts for itself, are as before afterwards.

    seed: of this call, so that a run repeats; unused when greedy. keep: plain decoding only; keep p of what is written, and
    look at every score, which takes time: leave it out where time is measured. clock: hears every round. more: for `generate`
    itself, as the head of a DFlash lane (`assistant_model`). A draft with another vocabulary is edited when sampling
    (`core.worker.fresh`). InvalidInput for the oracle, or when keeping with a draft; ModelError when a model's scores are not numbers.
    """
    if keep and not isinstance(policy, Plain):
        raise InvalidInput("The probabilities of an answer are kept in plain decoding only; write it without a draft.")
    if isinstance(policy, Drafting):
        if pair.draft_tokenizer is not None:
            more |= {"tokenizer": pair.tokenizer, "assistant_tokenizer": pair.draft_tokenizer}
        with draft_settings(pair.draft, policy), own_temperature(pair.draft, decoding):
            return timed_generate(pair, prompt, max_new_tokens, decoding, seed, clock=clock, assistant_model=pair.draft, **more)
    if isinstance(policy, EarlyExit):
        with exiting(pair.target), draft_settings(pair.target, drafting_of(policy)), own_temperature(pair.target, decoding):
            return timed_generate(pair, prompt, max_new_tokens, decoding, seed, clock=clock, assistant_early_exit=policy.layers, **more)
    return timed_generate(pair, prompt, max_new_tokens, decoding, seed, keep=keep, clock=clock, **to_transformers(policy), **more)


@contextmanager
def exiting(target: PreTrainedModel, layers: int | None = None) -> Iterator[None]:
    """Passes inside stop after so many layers, as the library does it; None: as many as before. Afterwards all layers run again.

    The library puts them back after a draft's passes, but not when one is interrupted: the next call would run a shorter model.
    """
    config = getattr(target, target.base_model_prefix).config
    before = config.num_hidden_layers
    try:
        if layers is not None:
            config.num_hidden_layers = layers
        yield
    finally:
        config.num_hidden_layers = before


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


def timed_generate(
    pair: Pair,
    prompt: torch.Tensor,
    max_new_tokens: int,
    decoding: Decoding = GREEDY,
    seed: int = 0,
    *,
    keep: bool = False,
    clock: RoundClock | None = None,
    **how: Any,
) -> Timed:
    """Call the target's `generate` with a clock as its streamer; `how` chooses the kind of assistance."""
    clock = clock or RoundClock()
    keeper = Keeper(pair.target, decoding.sample) if keep else None
    how |= kept_arguments(pair, decoding, keeper) if keeper else arguments(pair.target, decoding)
    given = pair.feeding.arguments([prompt], drafts="assistant_model" in how)
    if decoding.sample:
        torch.manual_seed(seed)
    synchronise(*pair.devices)
    clock.began = began = time.perf_counter()
    with _named_failure(pair, prompt):
        output = pair.target.generate(  # pyright: ignore[reportCallIssue]  # the library's classes do not fit its own protocol
            **given, max_new_tokens=max_new_tokens, streamer=clock, **how
        )
    synchronise(*pair.devices)
    total_s = time.perf_counter() - began
    tokens = output[0, given[pair.feeding.ids].shape[1] :].to("cpu", torch.int32).numpy()
    first_s = total_s if clock.first_at is None else clock.first_at - began
    p = keeper.p(output) if keeper else None
    return Timed(tokens, tuple(clock.rounds), total_s, first_s, None if p is None else p[0])


def kept_arguments(pair: Pair, decoding: Decoding, keeper: Keeper) -> dict[str, Any]:
    """Arguments with the keeper behind all warpers; passed from outside they act in the same order as those of the config."""
    how = arguments(pair.target, decoding.model_copy(update={"warpers_once": decoding.sample}))
    return {**how, "logits_processor": [*how.get("logits_processor", []), keeper]}


@contextmanager
def _named_failure(pair: Pair, prompt: torch.Tensor) -> Iterator[None]:
    """Turn the library's failure to draw from NaN into a sentence that names the model."""
    try:
        yield
    except RuntimeError as error:
        if "probability tensor contains" not in str(error):
            raise
        check_pair(pair, prompt)
        raise ModelError(
            f"The target {name_of(pair.target)} or the draft {name_of(pair.draft)} gave scores that are not numbers (NaN) amid an answer. "
            "Measure in float32, or choose another model."
        ) from error


@torch.no_grad()
def check_pair(pair: Pair, prompt: torch.Tensor) -> None:
    """Raise ModelError when the target or the draft gives scores for `prompt` (1, P) that are not numbers."""
    for model, role in ((pair.target, "target"), (pair.draft, "draft")):
        logits = pair.feeding.begin(model, [prompt]).read(pair.feeding.opening(prompt).to(model.device))
        check_numbers(logits[0].float().softmax(-1)[:, 0], model, role)


def first_difference(tokens: NDArray[np.int32], expected: NDArray[np.int32]) -> int | None:
    """Where two answers first differ (the shorter one's length when one is cut short), or None when they are equal."""
    shared = min(len(tokens), len(expected))
    different = np.flatnonzero(tokens[:shared] != expected[:shared])
    if len(different):
        return int(different[0])
    return None if len(tokens) == len(expected) else shared


def synchronise(*devices: torch.device) -> None:
    """Wait for what was started on these accelerators; nothing to do on a CPU."""
    for device in devices:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        elif device.type == "mps":
            torch.mps.synchronize()
