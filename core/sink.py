"""`Sink`: where a measurement reports to. The measurement knows nothing of stores or pages.

`StoreSink` writes to the store, at most about once per second while generations are timed:
each write takes about a millisecond, and it happens between two timed calls, never inside one.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from core.errors import StoreBusy
from core.measured import Difference, Environment, Generation, PassTimes
from core.record import Step
from core.runs import Progress, Stage
from core.store import Store
from core.trace import PromptTrace

WRITE_EVERY_S = 1.0
LOCK_PATIENCE_S = 60.0
"""How long a measurement waits for a store that another program has locked, before what it has measured since is given up."""
TRY_AGAIN_S = 0.1

SHARE: dict[Stage, float] = {"load": 0.05, "plain": 0.10, "draft": 0.10, "timing": 0.10, "calibrating": 0.20, "confirming": 0.45}
"""About how much of the demo's measurement each stage takes; only the progress bar uses it. A download comes before the measurement."""


class Sink(Protocol):
    """What a measurement may report, in any order and as often as it likes."""

    def stage(self, stage: Stage, done: int, total: int) -> None:
        """`done` of `total` steps of this stage are finished."""
        ...

    def environment(self, environment: Environment) -> None:
        """Where and with what this run is measured."""
        ...

    def passes(self, passes: PassTimes) -> None:
        """Isolated passes at one cache length."""
        ...

    def draft_prefill(self, seconds: tuple[float, ...]) -> None:
        """Times of the draft's pass over each prompt."""
        ...

    def difference(self, difference: Difference) -> None:
        """Greedy answers with and without a draft that part."""
        ...

    def generation(self, generation: Generation) -> None:
        """One timed call of `generate`."""
        ...

    def trace(self, index: int, trace: PromptTrace) -> None:
        """The trace of prompt number `index`; a second one for the same prompt replaces the first."""
        ...

    def steps(self, steps: Sequence[Step]) -> None:
        """What a side-by-side run has written since; from any thread, since the run itself must not wait for it."""
        ...

    def disturbed(self) -> None:
        """Something else used the device while it was timed."""
        ...


class StoreSink:
    """Reports one run to the store.

    shield: entered around every write, so that a cancellation does not cut one in two.
    Raises StoreError from any method when the run was ended by somebody else or the disk is full.
    """

    def __init__(self, store: Store, run_id: str, shield: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        self._store = store
        self._run_id = run_id
        self._shield = shield
        self._stage: Stage = "queued"
        self._progress: Progress | None = None
        self._generations: list[Generation] = []
        self._written_at_s = 0.0
        self._download_began_s: float | None = None
        self._download_s = 0.0

    def stage(self, stage: Stage, done: int, total: int) -> None:
        """See `Sink`. A new stage is written at once."""
        changed = stage != self._stage
        self._clock_download(stage)
        self._stage = stage
        self._progress = Progress(stage=stage, done=done, total=total, fraction=fraction(stage, done, total), download_s=self._download_s)
        self._write(now=changed)

    def begin_anew(self) -> None:
        """Let the run begin only now, because it waited for the device until now."""
        self._keep(lambda: self._store.begin_anew(self._run_id))

    def environment(self, environment: Environment) -> None:
        """See `Sink`."""
        self._keep(lambda: self._store.environment(self._run_id, environment))

    def passes(self, passes: PassTimes) -> None:
        """See `Sink`."""
        self._keep(lambda: self._store.passes(self._run_id, passes))

    def draft_prefill(self, seconds: tuple[float, ...]) -> None:
        """See `Sink`."""
        self._keep(lambda: self._store.draft_prefill(self._run_id, seconds))

    def difference(self, difference: Difference) -> None:
        """See `Sink`."""
        self._keep(lambda: self._store.difference(self._run_id, difference))

    def generation(self, generation: Generation) -> None:
        """See `Sink`. A finished lane is written at once: somebody watches, and the next call comes only when another is finished."""
        self._generations.append(generation)
        self._write(now=generation.purpose == "side_by_side")

    def trace(self, index: int, trace: PromptTrace) -> None:
        """See `Sink`."""
        self._keep(lambda: self._store.trace(self._run_id, index, trace))

    def steps(self, steps: Sequence[Step]) -> None:
        """See `Sink`. Without the shield, which is the main thread's: a cancellation interrupts no other thread."""
        _patiently(lambda: self._store.steps(self._run_id, steps))

    def disturbed(self) -> None:
        """See `Sink`."""
        self._keep(lambda: self._store.disturbed(self._run_id))

    def flush(self) -> None:
        """Write what is still held back."""
        self._write(now=True)

    def _clock_download(self, stage: Stage) -> None:
        """Time spent downloading says nothing about the time that the measurement takes, so it is kept apart."""
        if self._stage == "download" and self._download_began_s is not None:
            self._download_s = time.monotonic() - self._download_began_s
        elif stage == "download":
            self._download_began_s = time.monotonic()

    def _write(self, now: bool) -> None:
        if not now and time.monotonic() - self._written_at_s < WRITE_EVERY_S:
            return
        self._keep(self._write_held_back)

    def _write_held_back(self) -> None:
        if self._generations:
            self._store.generations(self._run_id, self._generations)
            self._generations = []
        if self._progress is not None:
            self._store.progress(self._run_id, self._progress)
            self._progress = None
        self._written_at_s = time.monotonic()

    def _keep(self, write: Callable[[], None]) -> None:
        with self._shield():
            _patiently(write)


def _patiently(write: Callable[[], None]) -> None:
    """Write, and again while another program holds the store: no measurement is lost to a copy being made. Raises StoreError."""
    until_s = time.monotonic() + LOCK_PATIENCE_S
    while True:
        try:
            return write()
        except StoreBusy:
            if time.monotonic() > until_s:
                raise
            time.sleep(TRY_AGAIN_S)


def fraction(stage: Stage, done: int, total: int) -> float:
    """About how much of a whole measurement is behind `done` of `total` steps of a stage, 0..1; of any other run, of that."""
    part = done / total if total else 0.0
    if stage not in SHARE:
        return {"done": 1.0, "smoke": part, "writing": part, "ways": part, "shapes": part}.get(stage, 0.0)
    stages = list(SHARE)
    before = sum(SHARE[s] for s in stages[: stages.index(stage)])
    return min(1.0, before + SHARE[stage] * part)
