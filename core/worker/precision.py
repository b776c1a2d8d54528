"""Where greedy answers part with a draft and without: how nearly both choices tied, computed in float32.

A batch, a check of several tokens and a single step sum in different orders, so that two nearly equal logits can come out either
way; anything else is a fault. Only the weights are widened, one after the other, which loses nothing, and put back. Weights that
are kept in fewer bits have no float32 of their own, so nothing is computed for them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LogitsProcessorList, PreTrainedModel

from core.measured import Difference
from core.policies import MeasuredOnly, Policy
from core.runs import RunSpec
from core.worker.generate import first_difference
from core.worker.loading import packed
from core.worker.models import Pair
from core.worker.processors import lists
from core.worker.room import out_of_memory, release_memory

Tokens = NDArray[np.int32]
MOST = 64
"""Differences looked into; one forward pass each."""


def differences(
    pair: Pair, spec: RunSpec, prompts: Sequence[torch.Tensor], answers: Sequence[Tokens], parted: Mapping[tuple[int, Policy | MeasuredOnly], Tokens]
) -> list[Difference]:
    """The record of each answer in `parted` (by prompt and policy) that differs from the one expected in `answers`."""
    if not parted:
        return []
    processors = lists(pair, spec.decoding).target
    rows = list(parted.items())[:MOST]
    margins: list[float | None] = []
    try:
        with _in_float32(pair.target):
            margins += (
                [] if packed(pair.target) else [_margin(pair, processors, prompts[index], answers[index], tokens) for (index, _), tokens in rows]
            )
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
    if len(margins) < len(rows):
        release_memory()
        margins += [None] * (len(rows) - len(margins))
    return [
        Difference(prompt=index, policy=policy, token=first_difference(tokens, answers[index]) or 0, dtype=spec.dtype, margin=margin)
        for ((index, policy), tokens), margin in zip(rows, margins, strict=True)
    ]


@torch.no_grad()
def _margin(pair: Pair, processors: LogitsProcessorList, prompt: torch.Tensor, expected: Tokens, tokens: Tokens) -> float | None:
    """The largest logit after the text both share less that of the worse of both choices; None where one is only cut short."""
    at = first_difference(tokens, expected)
    if at is None or at >= min(len(tokens), len(expected)):
        return None
    shared = torch.from_numpy(expected[:at]).long().to(prompt.device)[None]
    text = torch.cat([pair.feeding.opening(prompt), shared], dim=1)
    reader = pair.feeding.begin(pair.target, [prompt])
    scores = processors(text, reader.read(text, kept=1)[:, -1].float())[0]  # pyright: ignore[reportArgumentType]
    return float(scores.max() - torch.minimum(scores[int(expected[at])], scores[int(tokens[at])]))


@contextmanager
def _in_float32(model: PreTrainedModel) -> Iterator[None]:
    """The model's weights in float32 inside; buffers stay, because some are float32 already."""
    before = [] if packed(model) else [(weight, weight.dtype) for weight in model.parameters()]
    try:
        for weight, _ in before:
            weight.data = weight.data.float()
        yield
    finally:
        for weight, dtype in before:
            weight.data = weight.data.to(dtype)
