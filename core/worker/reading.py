"""One pass of a model over texts that are there already, part by part: the scores from which each answer token would be drawn.

Several texts go together, padded on the right, where causal attention never looks, so that a row comes out as it would alone. fp32 after
the model, then the library's processors, as in its own loops. Only a few rows of the vocabulary are held at once. A text is what the
decoder reads: where an encoder reads the prompt, it is the decoder's start tokens and the answer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch.nn.functional import pad
from transformers import LogitsProcessorList, PreTrainedModel

from core.worker.feeding import CAUSAL, Feeding
from core.worker.processors import prefixes
from core.worker.reader import Reader

HELD_CELLS = 1 << 25  # bounds the logits held at once: texts x tokens x vocabulary
_CELLS = 1 << 22  # bounds rows x vocabulary while they are processed


@dataclass(frozen=True, eq=False)
class Texts:
    """Prompts with their answers. ids: (B, L) on the device, shorter ones padded; opening_tokens, answer_tokens: (B,) of each, what comes
    before the answer, and the answer. prompts: each (1, P), where an encoder reads them; else none.
    """

    ids: torch.Tensor
    opening_tokens: tuple[int, ...]
    answer_tokens: tuple[int, ...]
    prompts: tuple[torch.Tensor, ...] = ()
    feeding: Feeding = CAUSAL

    @staticmethod
    def of(prompts: Sequence[torch.Tensor], answers: Sequence[torch.Tensor], feeding: Feeding = CAUSAL) -> "Texts":
        """Of prompts (1, P) and answers (N,), at least one of each; feeding: how the models get them."""
        openings = [feeding.opening(prompt) for prompt in prompts]
        rows = [torch.cat([opening[0], answer.to(opening.device, torch.long)]) for opening, answer in zip(openings, answers, strict=True)]
        longest = max(len(row) for row in rows)
        ids = torch.stack([pad(row, (0, longest - len(row)), value=int(row[0])) for row in rows])
        before, own = tuple(opening.shape[1] for opening in openings), tuple(len(answer) for answer in answers)
        return Texts(ids, before, own, tuple(prompts) if feeding.encodes else (), feeding)

    def on(self, device: torch.device) -> "Texts":
        """The same where another model reads them."""
        return replace(self, ids=self.ids.to(device))

    @property
    def longest(self) -> int:
        """The most tokens of which keys and values are kept for one row, a prompt's that an encoder reads among them."""
        return max((prompt.shape[1] for prompt in self.prompts), default=0) + self.ids.shape[1]

    def answer(self, at: int) -> torch.Tensor:
        """(N,) the answer's tokens of row `at`."""
        return self.ids[at, self.opening_tokens[at] : self.opening_tokens[at] + self.answer_tokens[at]]

    def begin(self, model: PreTrainedModel) -> Reader:
        """A reader that has read nothing of these texts yet."""
        return self.feeding.begin(model, self.prompts, whole=True)


def scores_of(reader: Reader, processors: LogitsProcessorList, texts: Texts) -> Iterator[tuple[int, torch.Tensor]]:
    """Processed scores (rows, V) of answer positions with their text's row, each text's in order; `reader` has read L - 1 tokens in the end.

    Two models with vocabularies of equal size give parts of equal length in the same order.
    """
    for first, logits in _logits(reader, texts):
        for at, (opening, answer) in enumerate(zip(texts.opening_tokens, texts.answer_tokens, strict=True)):
            begin = max(first, opening - 1)
            own = logits[at, begin - first : max(0, opening + answer - 1 - first)]  # (rows, V)
            for known, part in _parts(own, begin + 1):
                lengths = known + torch.arange(len(part), device=part.device)
                scores = part.float()
                yield at, processors(prefixes(texts.ids[at : at + 1], lengths), scores) if len(processors) else scores  # pyright: ignore[reportArgumentType]


def _parts(rows: torch.Tensor, known: int) -> Iterator[tuple[int, torch.Tensor]]:
    """A few rows at a time, and how many tokens are known before the first of them."""
    size = max(1, _CELLS // rows.shape[1])
    for start in range(0, len(rows), size):
        yield known + start, rows[start : start + size]


def _logits(reader: Reader, texts: Texts) -> Iterator[tuple[int, torch.Tensor]]:
    """(B, tokens, V) from the first place at which any answer is chosen, and the place of their first token."""
    ids, first = texts.ids, min(texts.opening_tokens) - 1
    size = max(1, HELD_CELLS // (len(ids) * reader.model.config.get_text_config(decoder=True).vocab_size))
    starts = [0, *range(first + size, ids.shape[1] - 1, size)]
    for start, end in zip(starts, [*starts[1:], ids.shape[1] - 1], strict=True):
        wanted = end - max(start, first)
        yield end - wanted, reader.read(ids[:, start:end], kept=wanted)
