"""Cancelling a measurement from outside, also in the middle of a forward pass.

A signal interrupts the main thread between two Python instructions (and wakes it from a system
call), where it raises `Cancelled`. A single call into native code is not interrupted before it
returns; the bench kills a worker that stays in one.
"""

import contextlib
import signal
import threading
from collections.abc import Generator
from types import FrameType

SIGNAL = signal.SIGUSR1


class Cancelled(BaseException):
    """The run was cancelled. No `Exception`, so that no library takes it for an error of its own."""


class Cancellation:
    """Raises `Cancelled` in the main thread, only while the run that should stop is measured, and never inside a write."""

    def __init__(self) -> None:
        self._current: str | None = None
        self._unwanted: str | None = None
        self._shielded = False
        signal.signal(SIGNAL, self._interrupt)

    def request(self, run_id: str) -> None:
        """Stop this run; from any thread. Does nothing when it is not being measured."""
        self._unwanted = run_id
        signal.pthread_kill(threading.main_thread().ident or 0, SIGNAL)

    @contextlib.contextmanager
    def during(self, run_id: str) -> Generator[None]:
        """The block in which this run can be cancelled."""
        try:
            self._current = run_id
            yield
        finally:
            self._current = None

    @contextlib.contextmanager
    def shield(self) -> Generator[None]:
        """A block that is finished before a cancellation takes effect."""
        try:
            self._shielded = True
            yield
        finally:
            self._shielded = False
        self._raise_if_wanted()

    def _interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        if not self._shielded:
            self._raise_if_wanted()

    def _raise_if_wanted(self) -> None:
        if self._current is not None and self._current == self._unwanted:
            raise Cancelled
