"""The target's answers to many prompts, written in batches: the reference text of a measurement, not its speed.

Prompts of similar length go together, padded as their models expect it (`core.worker.feeding`).
In float32 a row comes out as it would alone; in 16 bits a batch rounds
differently. Where memory does not suffice a batch is halved. No row of scores is kept.
Source of the decoding: the library's own `generate` (transformers 5.24). Times in seconds.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from core.decoding import Decoding
from core.errors import DeviceError
from core.worker.generate import RoundClock, kept_arguments
from core.worker.models import Pair
from core.worker.processors import Keeper
from core.worker.room import out_of_memory, release_memory

Result = TypeVar("Result")

MOST_ROWS = 16
MOST_TOKENS = 65_536
"""Rows x length of a batch at most, so that its cache stays small beside the models."""


@dataclass(frozen=True)
class Written:
    """One answer: its tokens (N,) with the end of text, p of each (N,) under sampling, and the call that wrote it with `batch` - 1 others."""

    tokens: NDArray[np.int32]
    p: NDArray[np.float32] | None
    total_s: float
    first_token_s: float
    batch: int
    reused: bool = False


def write(pair: Pair, prompts: Sequence[torch.Tensor], max_new_tokens: int, decoding: Decoding, seed: int) -> Iterator[tuple[int, Written]]:
    """The answers to `prompts` (1, P), with their places, as they are done: the shortest prompts first.

    Raises DeviceError when not even one prompt fits, and ModelError when the target's scores are not numbers.
    """
    lengths = [prompt.shape[1] for prompt in prompts]
    order = sorted(range(len(prompts)), key=lambda at: lengths[at])

    def together(chosen: Sequence[int]) -> list[Written]:
        return _write(pair, [prompts[at] for at in chosen], max_new_tokens, decoding, seed + 1_000_003 * chosen[0])

    yield from in_batches(order, rows_at_most(max(lengths, default=0) + max_new_tokens), together, lengths, pair.device)


def rows_at_most(longest: int) -> int:
    """Rows of a batch of texts of up to `longest` tokens."""
    return max(1, min(MOST_ROWS, MOST_TOKENS // max(1, longest)))


def in_batches(
    order: Sequence[int], rows: int, work: Callable[[Sequence[int]], Sequence[Result]], lengths: Sequence[int], device: torch.device
) -> Iterator[tuple[int, Result]]:
    """The results of `work` for `order`, with their places, up to `rows` at once; where memory does not suffice, half as many from then on.

    Raises DeviceError, naming the prompt's length, when not even one fits.
    """
    done = 0
    while done < len(order):
        chosen = order[done : done + rows]
        found = _attempt(work, chosen)
        if found is None:
            if len(chosen) == 1:
                raise DeviceError(f"Not even one prompt of {lengths[chosen[0]]:,} tokens fits into the memory of {device}.")
            rows = len(chosen) // 2
            continue
        yield from zip(chosen, found, strict=True)
        done += len(chosen)


def _attempt(work: Callable[[Sequence[int]], Sequence[Result]], chosen: Sequence[int]) -> Sequence[Result] | None:
    """The results, or None when memory did not suffice; it is given back outside the except block, whose traceback holds it."""
    try:
        return work(chosen)
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
    release_memory()
    return None


def _write(pair: Pair, prompts: Sequence[torch.Tensor], max_new_tokens: int, decoding: Decoding, seed: int) -> list[Written]:
    given = pair.feeding.arguments(prompts)
    before = given[pair.feeding.ids].shape[1]
    clock, keeper = RoundClock(), Keeper(pair.target, decoding.sample)
    if decoding.sample:
        torch.manual_seed(seed)
    began = time.perf_counter()
    text = pair.target.generate(  # pyright: ignore[reportCallIssue]  # the library's classes do not fit its own protocol
        **given, max_new_tokens=max_new_tokens, streamer=clock, **kept_arguments(pair, decoding, keeper)
    )
    tokens, p = text[:, before:].to("cpu", torch.int32).numpy(), keeper.p(text)
    total_s = time.perf_counter() - began
    first_s = total_s if clock.first_at is None else clock.first_at - began
    ends = [_length(row, pair.eos_ids) for row in tokens]
    return [Written(tokens[at, :end], None if p is None else p[at, :end], total_s, first_s, len(prompts)) for at, end in enumerate(ends)]


def _length(row: NDArray[np.int32], eos_ids: tuple[int, ...]) -> int:
    """Tokens up to and with the first end of text; behind it a batch goes on with padding."""
    ends = np.flatnonzero(np.isin(row, eos_ids))
    return int(ends[0]) + 1 if len(ends) else len(row)
