"""Logs of the processes: one line for each event, with the run's id where there is one, without secrets, and without prompts.

A traceback stays on its line, with `\\n` for its line breaks, so that a log can be read line by line and nobody can forge a second line by
the text of an error. `private` names the texts of the run under way: where an error repeats one, its place is marked. The web process and jobs,
which do not know whose texts an unexpected error may repeat, write only its kind and where it happened. Libraries that brought a log of their
own write into this one, and what they print passes through it line by line. Not covered: what native code prints, and loggers that libraries
set up later.
"""

import contextlib
import io
import logging
import sys
import threading
import traceback
from collections.abc import Generator, Iterable
from typing import Any, TextIO

from core.redact import redacted

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
SHORTEST = 8
"""Of a text that is looked for; a shorter one stands in too many lines by chance."""
LONGEST_LINE = 100_000
"""Of what is printed without an end of the line, in characters; then it is written, but for its end, in which a secret may have begun."""
CARRIED = 10_000
_private: set[str] = set()


class Printed(io.TextIOBase):
    """Standard error for whoever prints there instead of logging: each line without secrets and private texts, once it is whole."""

    def __init__(self, to: TextIO) -> None:
        self._to, self._begun = to, ""
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        """Take a piece of text."""
        with self._lock:
            *whole, self._begun = (self._begun + text).split("\n")
            if len(self._begun) > LONGEST_LINE:
                known = without_private(redacted(self._begun))
                whole, self._begun = [*whole, known[:-CARRIED]], known[-CARRIED:]
            if whole:
                self._to.write("".join(f"{without_private(redacted(line))}\n" for line in whole))
                self._to.flush()
        return len(text)

    def close(self) -> None:
        """Write what has no end of its line."""
        if self._begun:
            self.write("\n")
        super().close()

    def fileno(self) -> int:
        """The stream's own, for native code."""
        return self._to.fileno()

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]  # the base class has none
        """The stream's own."""
        return self._to.encoding


class OneLine(logging.Formatter):
    """One line for each record."""

    def format(self, record: logging.LogRecord) -> str:
        """The record and its traceback."""
        return without_private(redacted(super().format(record))).replace("\r", "\\r").replace("\n", "\\n")


def set_up(*, words: bool = True) -> None:
    """Write the log of this process to standard error: this program's events, and what libraries log or warn of.

    words: whether an error's own words may be written, and not only its kind and its places.
    """
    plain = sys.stderr
    handler = logging.StreamHandler(plain)
    handler.setFormatter(OneLine(FORMAT))
    sys.stderr = Printed(plain)
    logging.setLogRecordFactory(logging.LogRecord if words else _without_words)
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.captureWarnings(True)
    for logger in list(logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            logger.handlers.clear()
            logger.propagate = True
    logging.getLogger("draftgauge").setLevel(logging.INFO)
    threading.excepthook = _thread_failed


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


def _without_words(*arguments: Any, **more: Any) -> logging.LogRecord:
    """A record in which the text of its error is made already, so that no formatter makes another one."""
    record = logging.LogRecord(*arguments, **more)
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:
        record.exc_text = _places(error)
    return record


def _places(error: BaseException) -> str:
    """What led to the error, and the error: the kind of each, and the places it went through."""
    chain: list[BaseException] = []
    led: BaseException | None = error
    while led is not None and led not in chain:
        chain.append(led)
        led = led.__cause__ or led.__context__
    return "; then ".join(f"{type(one).__name__} ({_way(one)})" for one in reversed(chain))


def _way(error: BaseException) -> str:
    return ", ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__))


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    name = failed.thread.name if failed.thread else "that has gone"
    error = failed.exc_value or failed.exc_type()
    logging.getLogger("draftgauge").error("the thread %s failed", name, exc_info=error)
