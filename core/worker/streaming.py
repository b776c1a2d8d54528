"""From what is heard of a call to the steps of a run, without keeping the call waiting.

The call only hands over numbers; a thread turns them into text and writes them about ten times a second. What was handed over is
written when the call ends, however it ends.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from transformers import PreTrainedTokenizerBase

from core.record import Step
from core.worker.listening import Heard
from core.worker.pieces import Pieces

EVERY_S = 0.1


class Stream:
    """One lane's steps on their way to `write`, which a thread calls, while its `with` block lasts."""

    def __init__(self, write: Callable[[Sequence[Step]], None], lane: int, tokenizer: PreTrainedTokenizerBase) -> None:
        self._store = write
        self._lane = lane
        self._pieces = Pieces(tokenizer)
        self._heard: deque[Heard] = deque()
        self._held: list[Step] = []
        self._ending = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._serve, name="steps", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: BaseException | None, _where: TracebackType | None) -> None:
        self._ending.set()
        try:
            self._thread.join()
        finally:
            self._thread.join()  # a second cancellation while the last steps are written must not lose them
        if kind is None:
            self._raise()

    def tell(self, heard: Heard) -> None:
        """Take a round over. Raises what writing the rounds before it raised."""
        self._raise()
        self._heard.append(heard)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _serve(self) -> None:
        try:
            while not self._ending.wait(EVERY_S):
                self._write()
            self._write()
            self._write_rest()
        except Exception as error:  # the main thread raises it
            self._error = error

    def _write(self) -> None:
        """Everything so far, unless it ends amid a character: that text belongs to the token that finishes it, or to the last one."""
        while self._heard:
            self._held.append(self._step(self._heard.popleft()))
        if self._held and not self._pieces.rest():
            self._store(self._held)
            self._held = []

    def _write_rest(self) -> None:
        if self._held:
            *before, last = self._held
            pieces = (*last.pieces[:-1], last.pieces[-1] + self._pieces.rest())
            self._store([*before, last.model_copy(update={"pieces": pieces})])

    def _step(self, heard: Heard) -> Step:
        *accepted, own = heard.tokens
        rejected = heard.drafted[len(accepted) :]
        if rejected[:1] == [own]:  # right, but the answer ended with it: the library counts it as the target's own
            rejected = []
        texts = self._pieces.add(accepted)
        thrown_away = self._pieces.instead(rejected)
        return Step(
            lane=self._lane,
            at_s=heard.at_s,
            tokens=tuple(heard.tokens),
            pieces=(*texts, *self._pieces.add([own])),
            drafted=len(heard.drafted),
            accepted=len(accepted),
            rejected=thrown_away,
            draft_s=heard.draft_s,
            verify_s=heard.verify_s,
        )
