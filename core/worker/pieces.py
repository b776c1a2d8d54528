"""The texts of tokens as they come, one per token; joined they are exactly the tokenizer's own text of all of them.

A character that is split over several tokens stands with its last one, and the others are empty. Special tokens are shown as the
tokenizer writes them. Each token is decoded together with some before it, because what it reads like depends on them: decoders look
back by a space or an unfinished character, never by as many tokens as are kept here. Unit: tokens.
"""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

_UNFINISHED = "\ufffd"
_LOOK_BACK = 32


class Pieces:
    """Reads one answer. `before` are the last tokens that were read already and `shown` their text."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, before: Sequence[int] = (), shown: str = "") -> None:
        self._tokenizer = tokenizer
        self._ids = list(before)
        self._shown = shown

    def add(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The texts of the next tokens, one each."""
        return tuple(self._next(token) for token in ids)

    def rest(self) -> str:
        """The text of a character that is not finished yet, "" when there is none; it belongs to the last token when no more come."""
        return self._text()[len(self._shown) :]

    def instead(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The texts that `ids` would have here; nothing is read on. An unfinished character stands with the last of them."""
        other = Pieces(self._tokenizer, self._ids, self._shown)
        texts = other.add(ids)
        return (*texts[:-1], texts[-1] + other.rest()) if texts else ()

    def _next(self, token: int) -> str:
        self._ids.append(token)
        text = self._text()
        if text.endswith(_UNFINISHED):
            return ""
        piece, self._shown = text[len(self._shown) :], text
        if len(self._ids) > 2 * _LOOK_BACK:
            self._ids = self._ids[-_LOOK_BACK:]
            self._shown = self._text()
        return piece

    def _text(self) -> str:
        return str(self._tokenizer.decode(self._ids, clean_up_tokenization_spaces=False)) if self._ids else ""
