"""What a call of `generate` does round by round, heard from outside: a streamer for what each round wrote, and hooks for the rest.

The target's pass over a round holds what was drafted, whoever drafted it, in the target's own ids. Times in seconds. On a CPU a pass
has ended when its call returns, so its time is read on the way; on an accelerator that would need waiting after every pass, so
a call of its own, which waits, says how the time is shared (unproven: never run on one). Source: Transformers 5.24, `_assisted_decoding`.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel

from core.worker.generate import RoundClock, synchronise
from core.worker.loading import devices_of
from core.worker.models import Pair

Spent = Callable[[float], tuple[float, float]]
"""Seconds in the draft's and in the target's passes of a round that took so many seconds."""


class Heard(NamedTuple):
    """One round: when its tokens were out, since the call began; the tokens; what was drafted; seconds in both models' passes."""

    at_s: float
    tokens: list[int]
    drafted: list[int]
    draft_s: float
    verify_s: float


class Ear(RoundClock):
    """Tells of every round as it is written."""

    def __init__(self, pair: Pair, prompt: torch.Tensor, spent: Spent, tell: Callable[[Heard], None]) -> None:
        super().__init__()
        self._ids = pair.feeding.ids
        self._skip = pair.feeding.opening(prompt).shape[1]
        self._spent = spent
        self._tell = tell
        self._last_s = 0.0
        self._checked: torch.Tensor | None = None

    def put(self, value: torch.Tensor) -> None:
        """See `RoundClock`."""
        known = len(self.rounds)
        super().put(value)
        if len(self.rounds) == known:
            return
        at_s = time.perf_counter() - self.began
        draft_s, verify_s = self._spent(at_s - self._last_s)
        self._last_s = at_s
        self._tell(Heard(at_s, value.flatten().tolist(), self._drafted(), draft_s, verify_s))

    @contextmanager
    def at(self, target: PreTrainedModel, listening: bool) -> Iterator[None]:
        """Listen inside to what the target is asked to check, unless nothing is drafted."""
        if not listening:
            yield
            return

        def note(_model: torch.nn.Module, _args: tuple[Any, ...], given: dict[str, Any]) -> None:
            self._checked = given[self._ids]

        hook = target.register_forward_pre_hook(note, with_kwargs=True)
        try:
            yield
        finally:
            hook.remove()

    def _drafted(self) -> list[int]:
        """The first pass begins with all that the decoder's text begins with, the others with the one token that is not in the cache yet."""
        if self._checked is None:
            return []
        drafted, self._skip = self._checked[0, self._skip :].tolist(), 1
        return drafted


class Watch:
    """Adds up the seconds of a model's passes, on the devices that it lies on."""

    def __init__(self, devices: Sequence[torch.device]) -> None:
        self._devices = devices
        self._began_s = 0.0
        self.spent_s = 0.0

    @contextmanager
    def over(self, model: PreTrainedModel) -> Iterator[None]:
        """Watch the model inside."""
        hooks = [model.register_forward_pre_hook(self._begin), model.register_forward_hook(self._end)]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def take(self) -> float:
        """The seconds since this was asked last."""
        spent_s, self.spent_s = self.spent_s, 0.0
        return spent_s

    def _begin(self, *_: Any) -> None:
        synchronise(*self._devices)
        self._began_s = time.perf_counter()

    def _end(self, *_: Any) -> None:
        synchronise(*self._devices)
        self.spent_s += time.perf_counter() - self._began_s


@contextmanager
def watched(pair: Pair) -> Iterator[Spent]:
    """Time the passes of both models inside."""
    draft, target = Watch(devices_of(pair.draft)), Watch(devices_of(pair.target))
    with draft.over(pair.draft), target.over(pair.target):
        yield lambda _took_s: (draft.take(), target.take())


def shared(draft: float, target: float) -> Spent:
    """The same shares of every round's time; only their sums mean something."""
    return lambda took_s: (draft * took_s, target * took_s)
