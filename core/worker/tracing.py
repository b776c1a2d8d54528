"""The draft's opinion of an answer that the target wrote, from one pass over the text.

Greedy decoding: a draft token is accepted exactly where the draft's first choice is the answer's
token. Confidence is the softmax probability of the chosen token in fp32, as the library's
confidence criterion computes it. What the draft would write after a wrong token cannot be read
from the text, so it is rolled out from those positions.
Not covered: sampling, processors (the loader puts both models' own decoding defaults aside).
"""

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import pad
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase
from transformers.cache_utils import DynamicLayer
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

from core.trace import LONGEST_TAIL, Ended, Lookup, PromptTrace, Tails
from core.worker.models import Pair

NGRAM_SIZES = (1, 2, 3)
_CHUNK_TOKENS = 256  # bounds the logits held at once
_ROWS = 16  # bounds the caches held at once while rolling out


@torch.no_grad()
def trace(pair: Pair, prompt: torch.Tensor, answer: NDArray[np.int32], budget: int) -> PromptTrace:
    """The trace of one prompt (1, P) with its plain answer (N,) under `budget` new tokens."""
    text = torch.cat([prompt, torch.from_numpy(answer).long().to(prompt.device)[None]], dim=1)  # (1, P + N)
    choice, confidence, cache = teacher_forced(pair.draft, text, prompt.shape[1])
    accept = choice == answer
    draft_eos = np.isin(choice, pair.eos_ids)
    ended: Ended = "eos" if answer[-1] in pair.eos_ids else "length"
    return PromptTrace(
        prompt_tokens=prompt.shape[1],
        answer=answer,
        pieces=pieces(pair.tokenizer, answer),
        ended=ended,
        budget=budget,
        accept=accept.astype(np.float32),
        confidence=confidence,
        draft_choice=choice,
        draft_eos=draft_eos,
        tails=tails(pair, cache, prompt.shape[1], np.flatnonzero(~accept).astype(np.int32), choice),
        lookup={size: lookup(pair, text, prompt.shape[1], budget, size) for size in NGRAM_SIZES},
    )


def teacher_forced(draft: PreTrainedModel, text: torch.Tensor, prompt_tokens: int) -> tuple[NDArray[np.int32], NDArray[np.float32], DynamicCache]:
    """What the draft would choose at each answer position of `text` (1, P + N), and how sure it is.

    Returns choice (N,), confidence (N,) and the cache over the P + N - 1 tokens it read.
    """
    cache = DynamicCache()
    choices: list[torch.Tensor] = []
    confidences: list[torch.Tensor] = []
    starts = [0, *range(prompt_tokens - 1 + _CHUNK_TOKENS, text.shape[1] - 1, _CHUNK_TOKENS)]
    for start, end in zip(starts, [*starts[1:], text.shape[1] - 1], strict=True):
        wanted = end - max(start, prompt_tokens - 1)
        logits = draft(
            input_ids=text[:, start:end], attention_mask=torch.ones_like(text[:, :end]), cache=cache, use_cache=True, logits_to_keep=wanted
        ).logits
        chosen, sure = _first_choice(logits[0, -wanted:])
        choices.append(chosen)
        confidences.append(sure)
    return torch.cat(choices).cpu().numpy().astype(np.int32), torch.cat(confidences).cpu().numpy(), cache


def tails(pair: Pair, cache: DynamicCache, prompt_tokens: int, wrong: NDArray[np.int32], choice: NDArray[np.int32]) -> Tails:
    """Roll the draft out after its `wrong` choices (M positions), `_ROWS` of them at a time."""
    confidence = np.full((len(wrong), LONGEST_TAIL), np.nan, np.float32)
    eos_at = np.full(len(wrong), -1, np.int16)
    open_rows = np.flatnonzero(~np.isin(choice[wrong], pair.eos_ids))
    for first in range(0, len(open_rows), _ROWS):
        rows = open_rows[first : first + _ROWS]
        confidence[rows], eos_at[rows] = _roll_out(pair, cache, prompt_tokens + wrong[rows], choice[wrong[rows]])
    return Tails(wrong, confidence, eos_at)


def _roll_out(pair: Pair, cache: DynamicCache, lengths: NDArray[np.int32], first: NDArray[np.int32]) -> tuple[NDArray[np.float32], NDArray[np.int16]]:
    """Greedy continuation after `lengths` (B,) tokens of the text and the draft's own token `first` (B,)."""
    past = _left_padded(cache, lengths)
    widest = int(lengths.max())
    lengths_t = torch.from_numpy(lengths).long().to(pair.device)
    mask = (torch.arange(widest, device=pair.device)[None] >= widest - lengths_t[:, None]).long()  # (B, widest)
    token = torch.from_numpy(first).long().to(pair.device)
    eos = torch.tensor(pair.eos_ids, dtype=torch.long, device=pair.device)
    columns: list[torch.Tensor] = []
    ended: list[torch.Tensor] = []
    for step in range(LONGEST_TAIL):
        mask = pad(mask, (0, 1), value=1)
        output = pair.draft(input_ids=token[:, None], attention_mask=mask, position_ids=lengths_t[:, None] + step, cache=past, use_cache=True)
        assert output.logits is not None
        token, sure = _first_choice(output.logits[:, -1])
        columns.append(sure)
        ended.append(torch.isin(token, eos))
    return _until_eos(torch.stack(columns, 1).cpu().numpy(), torch.stack(ended, 1).cpu().numpy())


def _until_eos(confidence: NDArray[np.float32], is_eos: NDArray[np.bool_]) -> tuple[NDArray[np.float32], NDArray[np.int16]]:
    """Blank what follows each row's first end of text; (B, T) both. Returns the confidences and that column, -1 without one."""
    eos_at = np.where(is_eos.any(axis=1), is_eos.argmax(axis=1), -1).astype(np.int16)
    after = (eos_at[:, None] >= 0) & (np.arange(confidence.shape[1]) > eos_at[:, None])
    return np.where(after, np.float32(np.nan), confidence), eos_at


def _left_padded(cache: DynamicCache, lengths: NDArray[np.int32]) -> DynamicCache:
    """A batched cache: row b holds the first `lengths[b]` positions, moved to the right edge."""
    widest = int(lengths.max())
    batched = DynamicCache()
    for index, layer in enumerate(cast("list[DynamicLayer]", cache.layers)):
        assert layer.keys is not None
        assert layer.values is not None
        keys, values = (
            torch.cat([pad(states[:, :, :length], (0, 0, widest - length, 0)) for length in lengths.tolist()])
            for states in (layer.keys, layer.values)
        )
        batched.update(keys, values, index)
    return batched


def _first_choice(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, vocabulary) -> the most likely token and its probability, (rows,) each."""
    probabilities = logits.float().softmax(-1)
    chosen = logits.float().argmax(-1)
    return chosen, probabilities.gather(-1, chosen[:, None])[:, 0]


def lookup(pair: Pair, text: torch.Tensor, prompt_tokens: int, budget: int, ngram: int) -> Lookup:
    """What the library's own prompt lookup proposes at each answer position of `text` (1, P + N), at most 20 tokens."""
    generator = PromptLookupCandidateGenerator(
        eos_token_id=torch.tensor(pair.eos_ids, dtype=torch.long) if pair.eos_ids else None,
        num_output_tokens=LONGEST_TAIL,
        max_matching_ngram_size=ngram,
        max_length=prompt_tokens + budget,
    )
    whole = text.cpu()
    answer_tokens = whole.shape[1] - prompt_tokens
    candidates, matched = np.zeros((2, answer_tokens), np.int16)
    for position in range(answer_tokens):
        known = prompt_tokens + position
        proposed = generator.get_candidates(whole[:, :known])[0][0, known:]  # pyright: ignore[reportArgumentType]
        truth = whole[0, known : known + len(proposed)]
        candidates[position] = len(proposed)
        matched[position] = int((proposed[: len(truth)] == truth).long().cumprod(0).sum())
    return Lookup(candidates, matched)


def pieces(tokenizer: PreTrainedTokenizerBase, answer: NDArray[np.int32]) -> tuple[str, ...]:
    """The answer's text by token; joined they are the decoded answer. A character of several tokens belongs to its last one."""
    ids = answer.tolist()
    found: list[str] = []
    shown = ""
    for count in range(1, len(ids) + 1):
        text = str(tokenizer.decode(ids[:count], clean_up_tokenization_spaces=False))
        unfinished = text.endswith("\ufffd") and count < len(ids)
        found.append("" if unfinished else text[len(shown) :])
        shown = shown if unfinished else text
    return tuple(found)
