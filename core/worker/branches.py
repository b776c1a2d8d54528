"""Many continuations of a text in one pass: what a draft would write after each of its wrong tokens, without a copy of the text for each.

Every branch sees the text up to its own place and what it has written itself, by a mask of its own, so that one cache serves all
branches of a text. Copies of long texts take longer to make than the passes themselves. Not every model can be masked so: `may_branch`
says which may be asked, and `core.worker.tails` compares what it says of a known text. Units: tokens. Not covered: encoder-decoders.
"""

import inspect
from dataclasses import dataclass

import torch

from core.worker.reader import Reader

_ANY_MASK = frozenset({"sdpa", "eager"})
"""Implementations of attention that take any mask."""


def may_branch(reader: Reader, longest: int) -> bool:
    """Whether the model takes positions and a mask of any shape, and has no window of attention shorter than `longest` tokens."""
    config = reader.model.config.get_text_config(decoder=True)
    window = getattr(config, "sliding_window", None) or getattr(config, "attention_chunk_size", None) or longest
    told = "position_ids" in inspect.signature(reader.model.forward).parameters and not getattr(config, "alibi", False)
    return type(reader) is Reader and told and window >= longest and reader.model.config._attn_implementation in _ANY_MASK


@dataclass(frozen=True, eq=False)
class Nodes:
    """M branches, those of one text beside each other: (M,) each. text: its row; length: tokens of it that are seen; name: a number of its own."""

    text: torch.Tensor
    length: torch.Tensor
    name: torch.Tensor

    def keep(self, rows: torch.Tensor) -> "Nodes":
        """Some of them."""
        return Nodes(self.text[rows], self.length[rows], self.name[rows])


class Branches:
    """What `nodes` write behind the B texts that `reader` has read, step by step."""

    def __init__(self, reader: Reader, texts: int, nodes: Nodes) -> None:
        self._reader = reader
        self._nodes = nodes
        self._known = reader.cache.get_seq_length()
        self._owner = torch.empty((texts, 0), dtype=torch.long, device=nodes.text.device)  # (B, written) whose token each one is
        self._steps = 0

    def read(self, tokens: torch.Tensor) -> torch.Tensor:
        """Each branch reads its next one of `tokens` (M,): the scores behind it, (M, V)."""
        text, at = self._nodes.text, _places(self._nodes.text)
        ids, positions, lengths = (torch.zeros((len(self._owner), int(at.max()) + 1), dtype=torch.long, device=at.device) for _ in range(3))
        names = torch.full_like(ids, -1)
        ids[text, at], positions[text, at] = tokens, self._nodes.length + self._steps
        lengths[text, at], names[text, at] = self._nodes.length, self._nodes.name
        self._owner, self._steps = torch.cat([self._owner, names], dim=1), self._steps + 1
        return self._reader.read(ids, mask=self._mask(lengths, names), positions=positions)[text, at]

    def keep(self, rows: torch.Tensor) -> None:
        """Go on with some branches."""
        self._nodes = self._nodes.keep(rows)

    def close(self) -> None:
        """Let the reader forget what was written."""
        self._reader.undo(self._owner.shape[1])

    def _mask(self, lengths: torch.Tensor, names: torch.Tensor) -> torch.Tensor:
        """(B, 1, W, known + written): 0 where a branch may look, else the lowest number. A place without a branch sees the first token."""
        places = torch.arange(self._known, device=lengths.device)
        text = places < lengths.clamp(min=1)[:, :, None]  # (B, W, known)
        own = (self._owner[:, None] == names[:, :, None]) & (names >= 0)[:, :, None]  # (B, W, written)
        seen, dtype = torch.cat([text, own], dim=2)[:, None], self._reader.model.dtype
        return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, torch.finfo(dtype).min)


def _places(text: torch.Tensor) -> torch.Tensor:
    """The number of each branch among those of its text, from 0."""
    order = torch.arange(len(text), device=text.device)
    begins = torch.ones_like(text, dtype=torch.bool)
    begins[1:] = text[1:] != text[:-1]
    return order - torch.cummax(torch.where(begins, order, 0), dim=0).values
