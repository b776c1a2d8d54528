"""Where a service would end an answer because of a stop string.

A stop string may begin inside a token and span several; the answer is cut at the end of the token in which
one is complete, as servers cut it. Transformers 5.24 cannot stop there with a draft (`stop_strings` raises),
so real runs write on, and only what is replayed is cut.
"""

from collections.abc import Sequence

from core.errors import InvalidInput


def tokens_until_stop(pieces: Sequence[str], stop: Sequence[str]) -> int | None:
    """How many of an answer's tokens are kept, given its text by token; None when no stop string is written.

    Raises InvalidInput for an empty stop string.
    """
    if "" in stop:
        raise InvalidInput("One of the stop strings is empty and would end every answer at once. Remove it.")
    text = ""
    for count, piece in enumerate(pieces, 1):
        before, text = len(text), text + piece
        if any(text.find(each, max(0, before - len(each) + 1)) >= 0 for each in stop):
            return count
    return None
