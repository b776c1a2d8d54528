"""Logs of the processes: one line for each event, with the run's id where there is one, without secrets, and without prompts.

A traceback stays on its line, with `\\n` for its line breaks, so that a log can be read line by line and nobody can forge a second line by
the text of an error. `private` names the texts of the run under way: where an error repeats one, its place is marked.
Not covered: what libraries print by themselves.
"""

import contextlib
import logging
from collections.abc import Generator, Iterable

from core.redact import redacted

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
SHORTEST = 8
"""Of a text that is looked for; a shorter one stands in too many lines by chance."""
_private: set[str] = set()


class OneLine(logging.Formatter):
    """One line for each record."""

    def format(self, record: logging.LogRecord) -> str:
        """The record and its traceback."""
        return without_private(redacted(super().format(record))).replace("\r", "\\r").replace("\n", "\\n")


def set_up() -> None:
    """Write the log of this process to standard error: this program's events, and the warnings of libraries."""
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine(FORMAT))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("draftgauge").setLevel(logging.INFO)


@contextlib.contextmanager
def private(texts: Iterable[str]) -> Generator[None]:
    """Keep these texts, and each of their lines, out of the log and out of `without_private` while the context lasts."""
    lines = {part for text in texts for part in (text, repr(text)[1:-1], *text.splitlines()) if len(part.strip()) >= SHORTEST}
    _private.update(lines)
    try:
        yield
    finally:
        _private.difference_update(lines)


def without_private(text: str) -> str:
    """The text with a mark in place of every private one, the longest first, because one may contain another."""
    for part in sorted(_private, key=len, reverse=True):
        text = text.replace(part, "[text of the run]")
    return text
