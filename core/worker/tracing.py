"""The draft's opinion of an answer that the target wrote, from one pass over the text.

Greedy decoding: a draft token is accepted exactly where the draft's first choice is the answer's
token. Confidence is the softmax probability of the chosen token in fp32, as the library's
confidence criterion computes it. What the draft would write after a wrong token cannot be read
from the text, so it is rolled out from those positions. Sampling: see `core.worker.sampled`. Answers of similar length are read
together; where memory does not suffice, half as many.
All scores go through the processors that the library would apply, each position with its own prefix.
Not covered: processors other than those of `core.decoding` (the loader puts both models' own defaults aside).
"""

from collections.abc import Iterator, Sequence
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
from core.trace import LONGEST_TAIL, Ended, Lookup, PromptTrace, Sampled, Tails
from core.worker.batch import MOST_TOKENS, Written, in_batches, rows_at_most
from core.worker.lookup import lookups
from core.worker.models import Pair
from core.worker.processors import Lists, check_numbers, lists, prefixes
from core.worker.reading import Texts, scores_of
from core.worker.sampled import compare

_ROWS = 16  # bounds the caches held at once while rolling out: rows for each text of a batch, so that half a batch takes half of it
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
    """The trace of one prompt (1, P) with its plain answer (N,) under `budget` new tokens; the rest as for `traces`.

    p: (N,) what `run_policy(..., keep=True)` kept of a sampled answer; without it p is computed again.
    """
    return _together(pair, lists(pair, decoding), [_told(pair, prompt, answer, p, stop)], budget, decoding, least)[0]


@torch.no_grad()
def traces(
    pair: Pair,
    prompts: Sequence[torch.Tensor],
    written: Sequence[Written],
    budget: int,
    decoding: Decoding,
    *,
    stop: Sequence[str] = (),
    least: float = 0.0,
    known: Sequence[PromptTrace] = (),
) -> Iterator[tuple[int, PromptTrace]]:
    """The trace of each prompt (1, P) with its place, in batches of similar length, as they are read.

    stop: answers are cut behind the first of these strings. least: what the draft would write after a wrong token is followed while it is
    this sure; full tails take longer than the reading, and no lower threshold is offered. known: traces of the same answers by another
    draft, whose pieces and prompt lookup are taken. Raises ModelError when a model's scores are not numbers, DeviceError when not
    even one text fits.
    """
    used = lists(pair, decoding)
    told = [
        _told(pair, prompt, answer.tokens, answer.p, stop, known[at] if at < len(known) else None)
        for at, (prompt, answer) in enumerate(zip(prompts, written, strict=True))
    ]
    lengths = [prompt.shape[1] + len(each.answer) for prompt, each in zip(prompts, told, strict=True)]

    def together(chosen: Sequence[int]) -> list[PromptTrace]:
        return _together(pair, used, [told[at] for at in chosen], budget, decoding, least)

    for group in _alike(lengths):
        yield from in_batches(group, rows_at_most(max(lengths[at] for at in group)), together, lengths, pair.device)


def _alike(lengths: Sequence[int]) -> list[list[int]]:
    """The places in order, parted where a text would be padded to more than twice its length: partial results come in the prompts' order."""
    groups: list[list[int]] = []
    for at, length in enumerate(lengths):
        group = [lengths[other] for other in groups[-1]] if groups else []
        if group and max(*group, length) <= 2 * min(*group, length):
            groups[-1].append(at)
        else:
            groups.append([at])
    return groups


@dataclass(frozen=True, eq=False)
class _Told:
    """An answer as far as the target tells: cut at its stop string; lookup is None where it was not recorded with another draft."""

    prompt: torch.Tensor
    answer: NDArray[np.int32]
    pieces: tuple[str, ...]
    ended: Ended
    p: NDArray[np.float32] | None
    lookup: dict[int, Lookup] | None


def _told(
    pair: Pair, prompt: torch.Tensor, answer: NDArray[np.int32], p: NDArray[np.float32] | None, stop: Sequence[str], known: PromptTrace | None = None
) -> _Told:
    if known is not None:
        return _Told(prompt, known.answer, known.pieces, known.ended, None if p is None else p[: len(known.answer)], known.lookup)
    shown, ended = pieces(pair.tokenizer, answer), _ended(pair, answer)
    cut = tokens_until_stop(shown, stop)
    if cut is not None and (cut < len(answer) or ended == "length"):
        answer, shown, ended, p = answer[:cut], shown[:cut], "stop", None if p is None else p[:cut]
    return _Told(prompt, answer, shown, ended, p, None)


def _together(pair: Pair, used: Lists, told: Sequence[_Told], budget: int, decoding: Decoding, least: float) -> list[PromptTrace]:
    """The traces of texts that are read in one batch."""
    texts = Texts.of([each.prompt for each in told], [torch.from_numpy(each.answer) for each in told])
    read = _sampled(pair, used, texts, [each.p for each in told]) if decoding.sample else _greedy(pair, used, texts, least)
    return [_recorded(pair, used, each, one, budget) for each, one in zip(told, read, strict=True)]


def _recorded(pair: Pair, used: Lists, told: _Told, read: _Read, budget: int) -> PromptTrace:
    prompt_tokens = told.prompt.shape[1]
    text = torch.cat([told.prompt, torch.from_numpy(told.answer).long().to(told.prompt.device)[None]], dim=1)  # (1, P + N)
    return PromptTrace(
        prompt_tokens=prompt_tokens,
        answer=told.answer,
        pieces=told.pieces,
        ended=told.ended,
        budget=budget,
        accept=read.accept,
        confidence=read.confidence,
        draft_choice=read.choice,
        draft_eos=np.isin(read.choice, pair.eos_ids),
        tails=read.tails,
        lookup=told.lookup or lookups(pair, used.target, text, prompt_tokens, budget),
        sampled=read.sampled,
    )


def _ended(pair: Pair, answer: NDArray[np.int32]) -> Ended:
    return "eos" if answer[-1] in pair.eos_ids else "length"


def _sampled(pair: Pair, used: Lists, texts: Texts, p: Sequence[NDArray[np.float32] | None]) -> list[_Read]:
    return [_Read(found.accept, found.confidence, found.choice, sampled=found.sampled) for found in compare(pair, used, texts, p)]


def _greedy(pair: Pair, used: Lists, texts: Texts, least: float) -> list[_Read]:
    texts = texts.on(pair.draft.device)
    chosen, cache = _choices(pair.draft, texts, used.draft)
    accept = [choice == texts.answer(at).cpu().numpy() for at, (choice, _) in enumerate(chosen)]
    wrong = [np.flatnonzero(~right & (sure >= least)).astype(np.int32) for right, (_, sure) in zip(accept, chosen, strict=True)]
    after = tails(pair, used.draft, cache, texts, wrong, [choice for choice, _ in chosen], least)
    return [
        _Read(right.astype(np.float32), confidence, choice, tail) for right, (choice, confidence), tail in zip(accept, chosen, after, strict=True)
    ]


def teacher_forced(
    draft: PreTrainedModel, text: torch.Tensor, prompt_tokens: int, processors: LogitsProcessorList = _NONE
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """What the draft would choose at each answer position of `text` (1, P + N), and how sure it is: (N,), (N,). Raises ModelError for NaN."""
    return _choices(draft, Texts(text.to(draft.device), (prompt_tokens,), (text.shape[1] - prompt_tokens,)), processors)[0][0]


def _choices(
    draft: PreTrainedModel, texts: Texts, processors: LogitsProcessorList
) -> tuple[list[tuple[NDArray[np.int32], NDArray[np.float32]]], DynamicCache]:
    """The same for several texts, and the cache over the L - 1 tokens that were read of each."""
    cache = DynamicCache()
    found: list[list[tuple[torch.Tensor, torch.Tensor]]] = [[] for _ in texts.prompt_tokens]
    for at, scores in scores_of(draft, processors, texts, cache):
        found[at].append(_first_choice(scores))
    chosen: list[tuple[NDArray[np.int32], NDArray[np.float32]]] = []
    for parts in found:
        choice, confidence = (torch.cat(column) for column in zip(*parts, strict=True))
        check_numbers(confidence, draft, "draft")
        chosen.append((choice.cpu().numpy().astype(np.int32), confidence.cpu().numpy()))
    return chosen, cache


def tails(
    pair: Pair,
    processors: LogitsProcessorList,
    cache: DynamicCache,
    texts: Texts,
    wrong: Sequence[NDArray[np.int32]],
    choices: Sequence[NDArray[np.int32]],
    least: float = 0.0,
) -> list[Tails]:
    """Roll the draft out after its `wrong` choices (M positions of each text), many at a time, while it is `least` sure."""
    text_of = np.repeat(np.arange(len(wrong)), [len(each) for each in wrong])  # (M of all texts,)
    position, chosen = np.concatenate(wrong), np.concatenate([choice[at] for choice, at in zip(choices, wrong, strict=True)])
    confidence = np.full((len(position), LONGEST_TAIL), np.nan, np.float32)
    eos_at = np.full(len(position), -1, np.int16)
    open_rows = np.flatnonzero(~np.isin(chosen, pair.eos_ids))
    size = max(1, min(_ROWS * len(wrong), MOST_TOKENS // texts.ids.shape[1]))
    for first in range(0, len(open_rows), size):
        rows = open_rows[first : first + size]
        lengths = torch.from_numpy(np.array(texts.prompt_tokens)[text_of[rows]] + position[rows]).long().to(texts.ids.device)
        token = torch.from_numpy(chosen[rows]).long().to(texts.ids.device)
        of = torch.from_numpy(text_of[rows]).to(texts.ids.device)
        past, known = _left_padded(cache, of, lengths), prefixes(texts.ids[of], lengths)
        confidence[rows], eos_at[rows] = _roll_out(pair, processors, past, known, lengths, token, least)
    return [Tails(wrong[at], confidence[text_of == at], eos_at[text_of == at]) for at in range(len(wrong))]


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
    mask = (torch.arange(widest, device=token.device)[None] >= widest - lengths[:, None]).long()  # (B, widest)
    eos = torch.tensor(pair.eos_ids, dtype=torch.long, device=token.device)
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


def _left_padded(cache: DynamicCache, text_of: torch.Tensor, lengths: torch.Tensor) -> DynamicCache:
    """A batched cache: row b holds the first `lengths[b]` positions of text `text_of[b]`, moved to the right edge."""
    widest, rows = int(lengths.max()), list(zip(text_of.tolist(), lengths.tolist(), strict=True))
    batched = DynamicCache()
    for index, layer in enumerate(cast("list[DynamicLayer]", cache.layers)):
        assert layer.keys is not None
        assert layer.values is not None
        keys, values = (
            torch.cat([pad(states[at : at + 1, :, :length], (0, 0, widest - length, 0)) for at, length in rows])
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
