"""The draft's opinion of an answer that the target wrote, from one pass over the text.

Greedy decoding: a draft token is accepted exactly where the draft's first choice is the answer's
token. Confidence is the softmax probability of the chosen token in fp32, as the library's
confidence criterion computes it. What the draft would write after a wrong token is
followed in `core.worker.tails`. Sampling: see `core.worker.sampled`. Answers of similar length are read
together; where memory does not suffice, half as many.
All scores go through the processors that the library would apply, each position with its own prefix.
Not covered: processors other than those of `core.decoding` (the loader puts both models' own defaults aside).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LogitsProcessorList, PreTrainedModel, PreTrainedTokenizerBase

from core.decoding import Decoding
from core.stop import tokens_until_stop
from core.trace import Ended, Lookup, PromptTrace, Sampled, Tails
from core.worker.batch import Written, in_batches, rows_at_most
from core.worker.lookup import lookups
from core.worker.models import Pair
from core.worker.processors import Lists, check_numbers, lists
from core.worker.reader import Reader
from core.worker.reading import Texts, scores_of
from core.worker.sampled import compare
from core.worker.tails import first_choice, tails

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
    texts = Texts.of([each.prompt for each in told], [torch.from_numpy(each.answer) for each in told], pair.feeding)
    read = _sampled(pair, used, texts, [each.p for each in told]) if decoding.sample else _greedy(pair, used, texts, least)
    return [_recorded(pair, used, each, one, budget) for each, one in zip(told, read, strict=True)]


def _recorded(pair: Pair, used: Lists, told: _Told, read: _Read, budget: int) -> PromptTrace:
    opening = pair.feeding.opening(told.prompt)
    text = torch.cat([opening, torch.from_numpy(told.answer).long().to(opening.device)[None]], dim=1)
    return PromptTrace(
        prompt_tokens=told.prompt.shape[1],
        answer=told.answer,
        pieces=told.pieces,
        ended=told.ended,
        budget=budget,
        accept=read.accept,
        confidence=read.confidence,
        draft_choice=read.choice,
        draft_eos=np.isin(read.choice, pair.eos_ids),
        tails=read.tails,
        lookup=told.lookup or lookups(pair, used.target, text, opening.shape[1], budget),
        sampled=read.sampled,
    )


def _ended(pair: Pair, answer: NDArray[np.int32]) -> Ended:
    return "eos" if answer[-1] in pair.eos_ids else "length"


def _sampled(pair: Pair, used: Lists, texts: Texts, p: Sequence[NDArray[np.float32] | None]) -> list[_Read]:
    return [_Read(found.accept, found.confidence, found.choice, sampled=found.sampled) for found in compare(pair, used, texts, p)]


def _greedy(pair: Pair, used: Lists, texts: Texts, least: float) -> list[_Read]:
    texts = texts.on(pair.draft.device)
    chosen, reader = _choices(texts.begin(pair.draft), texts, used.draft)
    accept = [choice == texts.answer(at).cpu().numpy() for at, (choice, _) in enumerate(chosen)]
    wrong = [np.flatnonzero(~right & (sure >= least)).astype(np.int32) for right, (_, sure) in zip(accept, chosen, strict=True)]
    after = tails(pair, used.draft, reader, texts, wrong, chosen, least)
    return [
        _Read(right.astype(np.float32), confidence, choice, tail) for right, (choice, confidence), tail in zip(accept, chosen, after, strict=True)
    ]


def teacher_forced(
    draft: PreTrainedModel, text: torch.Tensor, prompt_tokens: int, processors: LogitsProcessorList = _NONE
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """What the draft would choose at each answer position of `text` (1, P + N), and how sure it is: (N,), (N,). Raises ModelError for NaN."""
    texts = Texts(text.to(draft.device), (prompt_tokens,), (text.shape[1] - prompt_tokens,))
    return _choices(texts.begin(draft), texts, processors)[0][0]


def _choices(reader: Reader, texts: Texts, processors: LogitsProcessorList) -> tuple[list[tuple[NDArray[np.int32], NDArray[np.float32]]], Reader]:
    """The same for several texts, and the reader behind the L - 1 tokens that it read of each."""
    found: list[list[tuple[torch.Tensor, torch.Tensor]]] = [[] for _ in texts.answer_tokens]
    for at, scores in scores_of(reader, processors, texts):
        found[at].append(first_choice(scores))
    chosen: list[tuple[NDArray[np.int32], NDArray[np.float32]]] = []
    for parts in found:
        choice, confidence = (torch.cat(column) for column in zip(*parts, strict=True))
        check_numbers(confidence, reader.model, "draft")
        chosen.append((choice.cpu().numpy().astype(np.int32), confidence.cpu().numpy()))
    return chosen, reader


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
