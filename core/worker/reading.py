"""One pass of a model over texts that are there already, part by part: the scores from which each answer token would be drawn.

Several texts go together, padded on the right, where causal attention never looks, so that a row comes out as it would alone. fp32 after
the model, then the library's processors, as in its own loops. Only a few rows of the vocabulary are held at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import pad
from transformers import DynamicCache, LogitsProcessorList, PreTrainedModel

from core.worker.processors import prefixes

_HELD_CELLS = 1 << 25  # bounds the logits held at once: texts x tokens x vocabulary
_CELLS = 1 << 22  # bounds rows x vocabulary while they are processed


@dataclass(frozen=True, eq=False)
class Texts:
    """Prompts with their answers. ids: (B, L) on the device, shorter ones padded; prompt_tokens, answer_tokens: (B,) of each."""

    ids: torch.Tensor
    prompt_tokens: tuple[int, ...]
    answer_tokens: tuple[int, ...]

    @staticmethod
    def of(prompts: Sequence[torch.Tensor], answers: Sequence[torch.Tensor]) -> "Texts":
        """Of prompts (1, P) and answers (N,), at least one of each."""
        rows = [torch.cat([prompt[0], answer.to(prompt.device, torch.long)]) for prompt, answer in zip(prompts, answers, strict=True)]
        longest = max(len(row) for row in rows)
        ids = torch.stack([pad(row, (0, longest - len(row)), value=int(row[0])) for row in rows])
        return Texts(ids, tuple(prompt.shape[1] for prompt in prompts), tuple(len(answer) for answer in answers))

    def on(self, device: torch.device) -> "Texts":
        """The same where another model reads them."""
        return Texts(self.ids.to(device), self.prompt_tokens, self.answer_tokens)

    def answer(self, at: int) -> torch.Tensor:
        """(N,) the answer's tokens of row `at`."""
        return self.ids[at, self.prompt_tokens[at] : self.prompt_tokens[at] + self.answer_tokens[at]]


def scores_of(model: PreTrainedModel, processors: LogitsProcessorList, texts: Texts, cache: DynamicCache) -> Iterator[tuple[int, torch.Tensor]]:
    """Processed scores (rows, V) of answer positions with their text's row, each text's in order; `cache` has read L - 1 tokens in the end.

    Two models with vocabularies of equal size give parts of equal length in the same order.
    """
    for first, logits in _logits(model, texts, cache):
        for at, (prompt, answer) in enumerate(zip(texts.prompt_tokens, texts.answer_tokens, strict=True)):
            begin = max(first, prompt - 1)
            own = logits[at, begin - first : max(0, prompt + answer - 1 - first)]  # (rows, V)
            for known, part in _parts(own, begin + 1):
                lengths = known + torch.arange(len(part), device=part.device)
                scores = part.float()
                yield at, processors(prefixes(texts.ids[at : at + 1], lengths), scores) if len(processors) else scores  # pyright: ignore[reportArgumentType]


def _parts(rows: torch.Tensor, known: int) -> Iterator[tuple[int, torch.Tensor]]:
    """A few rows at a time, and how many tokens are known before the first of them."""
    size = max(1, _CELLS // rows.shape[1])
    for start in range(0, len(rows), size):
        yield known + start, rows[start : start + size]


def _logits(model: PreTrainedModel, texts: Texts, cache: DynamicCache) -> Iterator[tuple[int, torch.Tensor]]:
    """(B, tokens, V) from the first place at which any answer is chosen, and the place of their first token."""
    ids, first = texts.ids, min(texts.prompt_tokens) - 1
    size = max(1, _HELD_CELLS // (len(ids) * model.config.get_text_config(decoder=True).vocab_size))
    starts = [0, *range(first + size, ids.shape[1] - 1, size)]
    for start, end in zip(starts, [*starts[1:], ids.shape[1] - 1], strict=True):
        wanted = end - max(start, first)
        seen = torch.ones_like(ids[:, :end])
        logits = model(input_ids=ids[:, start:end], attention_mask=seen, cache=cache, use_cache=True, logits_to_keep=wanted).logits
        yield end - wanted, logits[:, -wanted:]
