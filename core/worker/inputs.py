"""What a measurement begins with: token ids of every prompt, and which prompts and cache lengths are timed. Units: tokens."""

import random
import statistics
from collections.abc import Sequence

import torch

from core import chat
from core.errors import InvalidInput
from core.runs import RunSpec
from core.worker.models import Pair
from core.worker.timing import WIDEST


def encode_prompts(pair: Pair, spec: RunSpec) -> list[torch.Tensor]:
    """Token ids (1, P) of every prompt on the pair's device, in the target's chat template where the run asks for it.

    Raises InvalidInput naming a prompt that is empty, too long, or refused by the template.
    """
    encoded: list[torch.Tensor] = []
    for number, prompt in enumerate(spec.prompts, 1):
        ids = chat.ids(pair.tokenizer, prompt, spec.chat_template)
        if not ids:
            raise InvalidInput(f"Prompt {number} is empty. Remove it, or write something.")
        refusal = pair.feeding.refusal(len(ids), spec.max_new_tokens)
        if refusal:
            raise InvalidInput(f"Prompt {number} {refusal}")
        encoded.append(torch.tensor([ids], dtype=torch.long, device=pair.device))
    return encoded


def text_of(prompts: Sequence[torch.Tensor], tokens: int) -> torch.Tensor:
    """(1, tokens) of these prompts (1, P), over and over: real text, because experts and caches may depend on it."""
    whole = torch.cat(list(prompts), dim=1)
    return whole.repeat(1, -(-tokens // whole.shape[1]))[:, :tokens]


def cache_lengths(prompt_tokens: Sequence[int], answer_tokens: Sequence[int], context: int | None) -> tuple[int, int]:
    """The median number of cached tokens over the run, and the longest; half the median where the two are close."""
    most = max(1, context - WIDEST) if context is not None else None
    halfway = [prompt + answer // 2 for prompt, answer in zip(prompt_tokens, answer_tokens, strict=True)]
    longest = max(prompt + answer for prompt, answer in zip(prompt_tokens, answer_tokens, strict=True))
    middle = round(statistics.median(halfway))
    if most is not None:
        middle, longest = min(middle, most), min(longest, most)
    return middle, longest if longest >= 1.25 * middle else max(1, middle // 2)


def spread(labels: Sequence[str], count: int, seed: int) -> list[int]:
    """Up to `count` indices, drawn with `seed` and taken from the labels in turn."""
    order = list(range(len(labels)))
    random.Random(seed).shuffle(order)
    turns: dict[str, int] = {}
    ranked: list[tuple[int, int]] = []
    for place, index in enumerate(order):
        turn = turns.get(labels[index], 0)
        turns[labels[index]] = turn + 1
        ranked.append((turn, place))
    return [order[place] for _, place in sorted(ranked)[:count]]
