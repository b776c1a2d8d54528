"""One pass of a model over a text that is there already, part by part: the scores from which each answer token would be drawn.

fp32 after the model, then the library's processors, as in its own loops. Only a few rows of the vocabulary are held at once.
"""

from collections.abc import Iterator

import torch
from transformers import DynamicCache, LogitsProcessorList, PreTrainedModel

from core.worker.processors import prefixes

_CHUNK_TOKENS = 256  # bounds the logits held at once
_CELLS = 1 << 22  # bounds rows x vocabulary while they are processed


def scores_of(
    model: PreTrainedModel, processors: LogitsProcessorList, text: torch.Tensor, prompt_tokens: int, cache: DynamicCache
) -> Iterator[torch.Tensor]:
    """Processed scores (rows, V) of the answer positions of `text` (1, P + N), in order; `cache` has read P + N - 1 tokens in the end.

    Two models with vocabularies of equal size give parts of equal length.
    """
    known = prompt_tokens
    for logits in _logits(model, text, prompt_tokens, cache):
        for part in logits.split(max(1, _CELLS // logits.shape[1])):
            lengths = known + torch.arange(len(part), device=text.device)
            known += len(part)
            yield processors(prefixes(text, lengths), part.float()) if len(processors) else part.float()  # pyright: ignore[reportArgumentType]


def _logits(model: PreTrainedModel, text: torch.Tensor, prompt_tokens: int, cache: DynamicCache) -> Iterator[torch.Tensor]:
    starts = [0, *range(prompt_tokens - 1 + _CHUNK_TOKENS, text.shape[1] - 1, _CHUNK_TOKENS)]
    for start, end in zip(starts, [*starts[1:], text.shape[1] - 1], strict=True):
        wanted = end - max(start, prompt_tokens - 1)
        logits = model(
            input_ids=text[:, start:end], attention_mask=torch.ones_like(text[:, :end]), cache=cache, use_cache=True, logits_to_keep=wanted
        ).logits
        yield logits[0, -wanted:]
