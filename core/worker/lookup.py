"""What the library's own prompt lookup proposes over an answer; it needs no draft.

The library asks the target's processors which candidates are forbidden, by applying them to scores that are all
one. Under sampling this matters: top-k and top-p forbid tokens then, with a repetition penalty above 1 often all of
them, because candidates are always tokens of the text. The verdict depends on the set of tokens in the text alone,
and a candidate adds none to it, so it is asked for once per position instead of once per candidate.
"""

import numpy as np
import torch
from transformers import LogitsProcessor, LogitsProcessorList
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

from core.trace import LONGEST_TAIL, Lookup
from core.worker.models import Pair

NGRAM_SIZES = (1, 2, 3)


class _Verdict(LogitsProcessor):
    """The processors' answer on the pair's device, remembered until `forget`."""

    def __init__(self, processors: LogitsProcessorList, device: torch.device) -> None:
        self._processors = processors
        self._device = device
        self._scores: torch.Tensor | None = None

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self._scores is None:
            self._scores = self._processors(input_ids.to(self._device), scores.to(self._device)).cpu()  # pyright: ignore[reportArgumentType]
        return self._scores

    def forget(self) -> None:
        """The text has grown."""
        self._scores = None


def lookups(pair: Pair, processors: LogitsProcessorList, text: torch.Tensor, prompt_tokens: int, budget: int) -> dict[int, Lookup]:
    """By n-gram size, what is proposed at each answer position of `text` (1, P + N), at most 20 tokens."""
    verdict = _Verdict(processors, pair.device)
    generators = {size: _generator(pair, verdict if len(processors) else None, prompt_tokens + budget, size) for size in NGRAM_SIZES}
    whole = text.cpu()
    found = {size: np.zeros((2, whole.shape[1] - prompt_tokens), np.int16) for size in NGRAM_SIZES}
    for position in range(whole.shape[1] - prompt_tokens):
        verdict.forget()
        for size, generator in generators.items():
            found[size][:, position] = _proposed(generator, whole, prompt_tokens + position)
    return {size: Lookup(*rows) for size, rows in found.items()}


def _generator(pair: Pair, verdict: _Verdict | None, longest: int, ngram: int) -> PromptLookupCandidateGenerator:
    return PromptLookupCandidateGenerator(
        eos_token_id=torch.tensor(pair.eos_ids, dtype=torch.long) if pair.eos_ids else None,
        num_output_tokens=LONGEST_TAIL,
        max_matching_ngram_size=ngram,
        max_length=longest,
        logits_processor=verdict,  # pyright: ignore[reportArgumentType]  # it is only called
        vocab_size=pair.target.config.get_text_config().vocab_size,
    )


def _proposed(generator: PromptLookupCandidateGenerator, whole: torch.Tensor, known: int) -> tuple[int, int]:
    """How many tokens are proposed after the first `known` of `whole` (1, L), and how many of them the text goes on with."""
    proposed = generator.get_candidates(whole[:, :known])[0][0, known:]  # pyright: ignore[reportArgumentType]
    truth = whole[0, known : known + len(proposed)]
    return len(proposed), int((proposed[: len(truth)] == truth).long().cumprod(0).sum())
