"""The draft's opinion of an answer that the target wrote, from one pass over the text.

Greedy decoding: a draft token is accepted exactly where the draft's first choice is the answer's
token. Confidence is the softmax probability of the chosen token in fp32, as the library's
confidence criterion computes it. What the draft would write after a wrong token cannot be read
from the text, so it is rolled out from those positions. Sampling: see `core.worker.sampled`.
All scores go through the processors that the library would apply, each position with its own prefix.
Not covered: processors other than those of `core.decoding` (the loader puts both models' own defaults aside).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import pad
from transformers import DynamicCache, LogitsProcessorList, PreTrainedModel, PreTrainedTokenizerBase
from transformers.cache_utils import DynamicLayer

from core.decoding import Decoding
from core.stop import tokens_until_stop
from core.trace import LONGEST_TAIL, Ended, PromptTrace, Sampled, Tails
from core.worker.lookup import lookups
from core.worker.models import Pair
from core.worker.processors import Lists, check_numbers, lists, prefixes
from core.worker.reading import scores_of
from core.worker.sampled import compare

_ROWS = 64  # bounds the caches held at once while rolling out
_GREEDY = Decoding()
_NONE = LogitsProcessorList()


@dataclass(frozen=True)
class _Read:
    """What the draft's pass over an answer gives; the fields are those of `PromptTrace`."""

    accept: NDArray[np.float32]
    confidence: NDArray[np.float32]
    choice: NDArray[np.int32]
    tails: Tails | None = None
    sampled: Sampled | None = None


@torch.no_grad()
def trace(
    pair: Pair,
    prompt: torch.Tensor,
    answer: NDArray[np.int32],
    budget: int,
    decoding: Decoding = _GREEDY,
    *,
    p: NDArray[np.float32] | None = None,
    stop: Sequence[str] = (),
    least: float = 0.0,
) -> PromptTrace:
    """The trace of one prompt (1, P) with its plain answer (N,) under `budget` new tokens.

    p: (N,) what `run_policy(..., keep=True)` kept of a sampled answer; without it p is computed again. stop: the answer is cut
    behind the first of these strings. least: what the draft would write after a wrong token is followed while it is this sure; a heavy
    draft's full tails take longer than its reading, and no lower threshold is offered. Raises ModelError when a model's scores are not numbers.
    """
    shown, ended = pieces(pair.tokenizer, answer), _ended(pair, answer)
    cut = tokens_until_stop(shown, stop)
    if cut is not None and (cut < len(answer) or ended == "length"):
        answer, shown, ended, p = answer[:cut], shown[:cut], "stop", None if p is None else p[:cut]
    text = torch.cat([prompt, torch.from_numpy(answer).long().to(prompt.device)[None]], dim=1)  # (1, P + N)
    used = lists(pair, decoding)
    read = _sampled(pair, used, text, prompt.shape[1], p) if decoding.sample else _greedy(pair, used, text, prompt.shape[1], least)
    return PromptTrace(
        prompt_tokens=prompt.shape[1],
        answer=answer,
        pieces=shown,
        ended=ended,
        budget=budget,
        accept=read.accept,
        confidence=read.confidence,
        draft_choice=read.choice,
        draft_eos=np.isin(read.choice, pair.eos_ids),
        tails=read.tails,
        lookup=lookups(pair, used.target, text, prompt.shape[1], budget),
        sampled=read.sampled,
    )


def _ended(pair: Pair, answer: NDArray[np.int32]) -> Ended:
    return "eos" if answer[-1] in pair.eos_ids else "length"


def _sampled(pair: Pair, used: Lists, text: torch.Tensor, prompt_tokens: int, p: NDArray[np.float32] | None) -> _Read:
    found = compare(pair, used, text, prompt_tokens, p)
    return _Read(found.accept, found.confidence, found.choice, sampled=found.sampled)


def _greedy(pair: Pair, used: Lists, text: torch.Tensor, prompt_tokens: int, least: float) -> _Read:
    choice, confidence, cache = teacher_forced(pair.draft, text, prompt_tokens, used.draft)
    accept = choice == text[0, prompt_tokens:].cpu().numpy()
    wrong = np.flatnonzero(~accept & (confidence >= least)).astype(np.int32)
    return _Read(accept.astype(np.float32), confidence, choice, tails(pair, used.draft, cache, text, prompt_tokens, wrong, choice, least))


def teacher_forced(
    draft: PreTrainedModel, text: torch.Tensor, prompt_tokens: int, processors: LogitsProcessorList = _NONE
) -> tuple[NDArray[np.int32], NDArray[np.float32], DynamicCache]:
    """What the draft would choose at each answer position of `text` (1, P + N), and how sure it is.

    Returns choice (N,), confidence (N,) and the cache over the P + N - 1 tokens it read. Raises ModelError for NaN.
    """
    cache = DynamicCache()
    found = [_first_choice(scores) for scores in scores_of(draft, processors, text, prompt_tokens, cache)]
    choice, confidence = (torch.cat(column) for column in zip(*found, strict=True))
    check_numbers(confidence, draft, "draft")
    return choice.cpu().numpy().astype(np.int32), confidence.cpu().numpy(), cache


def tails(
    pair: Pair,
    processors: LogitsProcessorList,
    cache: DynamicCache,
    text: torch.Tensor,
    prompt_tokens: int,
    wrong: NDArray[np.int32],
    choice: NDArray[np.int32],
    least: float = 0.0,
) -> Tails:
    """Roll the draft out after its `wrong` choices (M positions) in `text` (1, P + N), `_ROWS` of them at a time, while it is `least` sure."""
    confidence = np.full((len(wrong), LONGEST_TAIL), np.nan, np.float32)
    eos_at = np.full(len(wrong), -1, np.int16)
    open_rows = np.flatnonzero(~np.isin(choice[wrong], pair.eos_ids))
    for first in range(0, len(open_rows), _ROWS):
        rows = open_rows[first : first + _ROWS]
        lengths = torch.from_numpy(prompt_tokens + wrong[rows]).long().to(pair.device)
        token = torch.from_numpy(choice[wrong[rows]]).long().to(pair.device)
        past, known = _left_padded(cache, lengths), prefixes(text, lengths)
        confidence[rows], eos_at[rows] = _roll_out(pair, processors, past, known, lengths, token, least)
    return Tails(wrong, confidence, eos_at)


def _roll_out(
    pair: Pair,
    processors: LogitsProcessorList,
    past: DynamicCache,
    known: torch.Tensor,
    lengths: torch.Tensor,
    token: torch.Tensor,
    least: float,
) -> tuple[NDArray[np.float32], NDArray[np.int16]]:
    """Greedy continuation after `lengths` (B,) tokens of the text, `known` (B, longest), and the draft's own `token` (B,).

    A row is left out once the draft is less than `least` sure, or has ended its text: what follows is NaN, as for -1 in the second array.
    """
    widest = known.shape[1]
    mask = (torch.arange(widest, device=pair.device)[None] >= widest - lengths[:, None]).long()  # (B, widest)
    eos = torch.tensor(pair.eos_ids, dtype=torch.long, device=pair.device)
    confidence = np.full((len(token), LONGEST_TAIL), np.nan, np.float32)
    eos_at = np.full(len(token), -1, np.int16)
    rows = np.arange(len(token))
    for step in range(LONGEST_TAIL):
        mask = pad(mask, (0, 1), value=1)
        known = torch.cat([known, token[:, None]], dim=1)
        output = pair.draft(input_ids=token[:, None], attention_mask=mask, position_ids=lengths[:, None] + step, cache=past, use_cache=True)
        assert output.logits is not None
        token, sure = _first_choice(processors(known, output.logits[:, -1].float()))  # pyright: ignore[reportArgumentType]
        ended = torch.isin(token, eos)
        confidence[rows, step] = sure.cpu().numpy()
        eos_at[rows[ended.cpu().numpy()]] = step
        on = torch.nonzero(~ended & (sure >= least))[:, 0]
        if len(on) == 0:
            break
        if len(on) < len(rows):
            past.batch_select_indices(on)
            rows, token, known, mask, lengths = rows[on.cpu().numpy()], token[on], known[on], mask[on], lengths[on]
    return confidence, eos_at


def _left_padded(cache: DynamicCache, lengths: torch.Tensor) -> DynamicCache:
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


def _first_choice(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, vocabulary) in fp32 -> the most likely token and its probability, (rows,) each."""
    probabilities = scores.softmax(-1)
    chosen = scores.argmax(-1)
    return chosen, probabilities.gather(-1, chosen[:, None])[:, 0]


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
