"""What the draft would write after a wrong token: it cannot be read from the text, so it is rolled out from there, greedily.

Many at a time: as branches of their texts where the model can be masked so (`core.worker.branches`), which is tried on a token whose
scores are known, else as rows with a copy of the text each. A tail is followed while the draft is sure enough, up to `LONGEST_TAIL` tokens.
Confidences are probabilities in fp32, after the processors that the library would apply.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import pad
from transformers import LogitsProcessorList

from core.trace import LONGEST_TAIL, Tails
from core.worker.batch import MOST_TOKENS
from core.worker.branches import Branches, Nodes, may_branch
from core.worker.models import Pair
from core.worker.processors import prefixes
from core.worker.reader import Reader
from core.worker.reading import HELD_CELLS, Texts

_ROWS = 16  # bounds the caches held at once: rows for each text of a batch, so that half a batch takes half of it
_SAME = 0.001
"""Confidences of one token, read in line and as a branch, differ by less in fp32 where the model heeds the mask."""


class _Followed(Protocol):
    """Continuations that are read step by step."""

    def read(self, tokens: torch.Tensor) -> torch.Tensor:
        """The scores behind the next token of each, (M, V)."""
        ...

    def keep(self, rows: torch.Tensor) -> None:
        """Go on with some."""
        ...


def tails(
    pair: Pair,
    processors: LogitsProcessorList,
    reader: Reader,
    texts: Texts,
    wrong: Sequence[NDArray[np.int32]],
    chosen: Sequence[tuple[NDArray[np.int32], NDArray[np.float32]]],
    least: float = 0.0,
) -> list[Tails]:
    """The tails after the `wrong` positions (M,) of each text, while the draft is `least` sure.

    reader: behind the texts. chosen: the draft's choice at each position of each answer, and how sure it was.
    """
    text_of = np.repeat(np.arange(len(wrong)), [len(each) for each in wrong])  # (M of all texts,)
    position, tokens = np.concatenate(wrong), np.concatenate([choice[at] for (choice, _), at in zip(chosen, wrong, strict=True)])
    read = np.array(texts.opening_tokens)[text_of] + position  # (M,) tokens of the text before each wrong choice
    confidence = np.full((len(position), LONGEST_TAIL), np.nan, np.float32)
    eos_at = np.full(len(position), -1, np.int16)
    open_rows = np.flatnonzero(~np.isin(tokens, pair.eos_ids))
    branching = bool(len(open_rows)) and may_branch(reader, texts.longest + LONGEST_TAIL) and _heeds_masks(processors, reader, texts, chosen)
    groups = (
        _by_text(open_rows, text_of, reader, texts) if branching else _by_length(open_rows, read, texts, alike=not pair.feeding.moves(pair.draft))
    )
    for rows in groups:
        of, lengths, token = (torch.from_numpy(each[rows]).long().to(texts.ids.device) for each in (text_of, read, tokens))
        known = prefixes(texts.ids[of], lengths)
        if branching:
            branches = Branches(reader, len(texts.ids), Nodes(of, lengths, torch.arange(len(of), device=of.device)))
            confidence[rows], eos_at[rows] = _roll_out(pair, processors, branches, known, token, least)
            branches.close()
        else:
            confidence[rows], eos_at[rows] = _roll_out(pair, processors, _Rows(reader, of, lengths), known, token, least)
    return [Tails(wrong[at], confidence[text_of == at], eos_at[text_of == at]) for at in range(len(wrong))]


def _by_text(rows: NDArray[np.intp], text_of: NDArray[np.intp], reader: Reader, texts: Texts) -> Iterator[NDArray[np.intp]]:
    """So many of each text at a time that their scores and what they write can be held."""
    vocabulary = reader.model.config.get_text_config(decoder=True).vocab_size
    most = max(1, min(HELD_CELLS // vocabulary, MOST_TOKENS // LONGEST_TAIL) // len(texts.ids))
    places = np.concatenate([np.arange(count) for count in np.unique(text_of[rows], return_counts=True)[1]])
    for first in range(0, int(places.max()) + 1, most):
        yield rows[(places >= first) & (places < first + most)]


def _by_length(rows: NDArray[np.intp], read: NDArray[np.integer], texts: Texts, alike: bool) -> Iterator[NDArray[np.intp]]:
    """So many at a time that their copies can be held; `alike`: only such together of whose texts equally much was read."""
    size = max(1, min(_ROWS * len(texts.ids), MOST_TOKENS // texts.longest))
    for group in [rows[read[rows] == length] for length in np.unique(read[rows])] if alike else [rows]:
        yield from (group[first : first + size] for first in range(0, len(group), size))


class _Rows:
    """Continuations with a copy of what each has read of its text."""

    def __init__(self, reader: Reader, of: torch.Tensor, lengths: torch.Tensor) -> None:
        self._reader = reader.rows(of, lengths)
        self._positions = lengths
        widest = int(lengths.max())
        self._mask = (torch.arange(widest, device=lengths.device)[None] >= widest - lengths[:, None]).long()  # (M, widest)

    def read(self, tokens: torch.Tensor) -> torch.Tensor:
        """See `_Followed`."""
        self._mask = pad(self._mask, (0, 1), value=1)
        scores = self._reader.read(tokens[:, None], mask=self._mask, positions=self._positions[:, None])[:, -1]
        self._positions = self._positions + 1
        return scores

    def keep(self, rows: torch.Tensor) -> None:
        """See `_Followed`."""
        self._reader.keep(rows)
        self._mask, self._positions = self._mask[rows], self._positions[rows]


def _roll_out(
    pair: Pair, processors: LogitsProcessorList, followed: _Followed, known: torch.Tensor, token: torch.Tensor, least: float
) -> tuple[NDArray[np.float32], NDArray[np.int16]]:
    """Greedy continuation after `known` (M, longest) and the draft's own `token` (M,): confidences (M, tail), and where it ended its text (M,).

    One is left out once the draft is less than `least` sure, or has ended its text: what follows is NaN, as for -1 in the second array.
    """
    eos = torch.tensor(pair.eos_ids, dtype=torch.long, device=token.device)
    confidence = np.full((len(token), LONGEST_TAIL), np.nan, np.float32)
    eos_at = np.full(len(token), -1, np.int16)
    rows = np.arange(len(token))
    for step in range(LONGEST_TAIL):
        known = torch.cat([known, token[:, None]], dim=1)
        token, sure = first_choice(processors(known, followed.read(token).float()))  # pyright: ignore[reportArgumentType]
        ended = torch.isin(token, eos)
        confidence[rows, step] = sure.cpu().numpy()
        eos_at[rows[ended.cpu().numpy()]] = step
        on = torch.nonzero(~ended & (sure >= least))[:, 0]
        if len(on) == 0:
            break
        if len(on) < len(rows):
            followed.keep(on)
            rows, token, known = rows[on.cpu().numpy()], token[on], known[on]
    return confidence, eos_at


def _heeds_masks(
    processors: LogitsProcessorList, reader: Reader, texts: Texts, chosen: Sequence[tuple[NDArray[np.int32], NDArray[np.float32]]]
) -> bool:
    """Whether the model says behind a token of each answer, read as a branch, what it said in line. False where no answer is long enough."""
    asked = [at for at, tokens in enumerate(texts.answer_tokens) if tokens > 1]
    if not asked:
        return False
    of = torch.tensor(asked, device=texts.ids.device)
    place = torch.tensor([texts.answer_tokens[at] // 2 for at in asked], device=of.device)  # of the token whose scores are compared
    lengths = torch.tensor([texts.opening_tokens[at] for at in asked], device=of.device) + place - 1
    branches = Branches(reader, len(texts.ids), Nodes(of, lengths, of))
    scores = branches.read(texts.ids[of, lengths]).float()
    branches.close()
    _, sure = first_choice(processors(prefixes(texts.ids[of], lengths + 1), scores))  # pyright: ignore[reportArgumentType]
    expected = [float(chosen[at][1][texts.answer_tokens[at] // 2]) for at in asked]
    least = max(_SAME, 8 * torch.finfo(reader.model.dtype).eps)
    return bool(np.allclose(sure.cpu().numpy(), expected, rtol=0, atol=least))


def first_choice(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, vocabulary) in fp32 -> the most likely token and its probability, (rows,) each."""
    probabilities = scores.softmax(-1)
    chosen = scores.argmax(-1)
    return chosen, probabilities.gather(-1, chosen[:, None])[:, 0]
