"""One device's place on the bench: its worker process, and the thread that looks after it.

The thread owns all of a station's state and takes everything that happens as an event: a
message of the worker, the worker's end, a wish of the bench. So nothing is polled while a run
is timed, and a worker that dies is noticed at once.
"""

import contextlib
import logging
import queue
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from core import endings
from core.child import Child, Entry, log_file
from core.errors import StoreError
from core.runs import Status
from core.settings import Settings
from core.store import Store

CANCEL_PATIENCE_S = 3.0
"""A worker that has not stopped by then hangs in native code and is killed."""

MOST_DEATHS = 2
"""A run whose worker died so often before it began is not tried again."""

START_PATIENCE_S = 300.0
"""A worker that is not ready by then hangs, as in a driver that is asked for its devices, and is killed. A slow disk gives torch in a minute."""

STOP_PATIENCE_S = 2.0
REMIND_EVERY_S = 0.5
HEARTBEAT_EVERY_S = 5.0
RETRY_EVERY_S = 1.0

log = logging.getLogger("draftgauge.station")


@dataclass(frozen=True)
class Said:
    """A worker said something."""

    child: Child
    message: dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """A worker's process has ended."""

    child: Child


@dataclass(frozen=True)
class Look:
    """There may be a new run in the queue."""


@dataclass(frozen=True)
class Cancel:
    """Somebody wants this run to stop."""

    run_id: str


@dataclass(frozen=True)
class Tick:
    """Nothing happened for as long as the station wanted to wait."""


@dataclass(frozen=True)
class Close:
    """The server stops."""


Event = Said | Ended | Look | Cancel | Tick | Close


@dataclass
class Job:
    """The run that was handed to the worker. `verdict` is how it ended, until the store has taken it.

    claimed_at_s: when its worker said, last, that it had begun; lost: why it died without saying so, "" while it lives: only the store knows
    whether it had. took_s: how long it ran, once that is known. Moments by the clock that nobody sets (`time.monotonic`).
    """

    run_id: str
    claimed_at_s: float | None = None
    lost: str = ""
    cancelled_at_s: float | None = None
    verdict: tuple[Status, str] | None = None
    took_s: float | None = None

    @property
    def claimed(self) -> bool:
        """Whether its worker has said that it had begun."""
        return self.claimed_at_s is not None

    @property
    def spent_s(self) -> float | None:
        """How long it has been measured; None before it begins."""
        return None if self.claimed_at_s is None else time.monotonic() - self.claimed_at_s


class Station:
    """Hands the waiting runs of one device to its worker, one at a time, and records how each of them ended."""

    def __init__(self, settings: Settings, store: Store, device: str, entry: Entry) -> None:
        """Starts the worker, so that it is warm when the first run comes."""
        self._settings, self._store, self._device, self._entry = settings, store, device, entry
        self._events: queue.Queue[Event] = queue.Queue()
        self._child: Child | None = None
        self._job: Job | None = None
        self._deaths: Counter[str] = Counter()
        self.trouble = ""
        """Why nothing can be written to the store for now, in a sentence; "" when it can."""
        self._thread = threading.Thread(target=self._serve, name=f"draftgauge-station-{device}", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Say that there may be a run to measure."""
        self._events.put(Look())

    def cancel(self, run_id: str) -> None:
        """Stop this run if it is the one that the worker has, or was given."""
        self._events.put(Cancel(run_id))

    def spent_s(self, run_id: str) -> float | None:
        """How long this run has been measured here, by a clock that nobody sets; None where it is not."""
        job = self._job
        return job.spent_s if job is not None and job.run_id == run_id else None

    def close(self) -> None:
        """Stop the worker and wait until it has gone."""
        self._events.put(Close())
        self._thread.join()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # tried again, and then reported, when a run needs the worker
            self._start_child()
        event: Event = Look()
        while not isinstance(event, Close):
            self._take(event)
            self._write()
            event = self._next_event()
        if self._child is not None:
            self._child.stop(STOP_PATIENCE_S)
        if self._job is not None:
            log.info("run %s on %s ended: the server stops", self._job.run_id, self._device)

    def _next_event(self) -> Event:
        try:
            return self._events.get(timeout=self._patience_s())
        except queue.Empty:
            return Tick()

    def _patience_s(self) -> float | None:
        if self.trouble:
            return RETRY_EVERY_S
        if self._job is None:
            return None
        if self._job.cancelled_at_s is not None:
            return REMIND_EVERY_S
        return HEARTBEAT_EVERY_S if self._job.claimed or (self._child is not None and not self._child.ready) else None

    def _take(self, event: Event) -> None:
        """Everything that needs no store."""
        match event:
            case Said(child, message) if child is self._child:
                self._hear(child, message)
            case Ended(child) if child is self._child:
                self._child = None
                self._worker_died(child)
            case Cancel(run_id) if self._job is not None and self._job.run_id == run_id:
                self._job.cancelled_at_s = self._job.cancelled_at_s or time.monotonic()
                self._press_cancel(self._job)
            case Tick() if self._job is not None:
                self._press_cancel(self._job)
                self._end_late_start()
            case _:
                pass

    def _hear(self, child: Child, message: dict[str, Any]) -> None:
        if "ready" in message:
            child.ready = True
            if self._job is not None and self._job.cancelled_at_s is not None:
                self._job.cancelled_at_s = time.monotonic()  # only now it can hear of it
        elif self._job is not None and message.get("claimed") == self._job.run_id:
            self._job.claimed_at_s = time.monotonic()
        elif self._job is not None and message.get("finished") == self._job.run_id:
            self._job.verdict = message["status"], message["error"]

    def _press_cancel(self, job: Job) -> None:
        """Tell the worker again and again, since an exception can get lost in a callback; in the end kill it, also where it never took the run."""
        if job.cancelled_at_s is None or job.verdict is not None or self._child is None or not self._child.ready:
            return
        if time.monotonic() - job.cancelled_at_s > CANCEL_PATIENCE_S:
            self._child.kill()
        else:
            self._child.send(cancel=job.run_id)

    def _end_late_start(self) -> None:
        """A worker that hangs before it is ready would keep every run waiting."""
        if self._child is not None and not self._child.ready and time.monotonic() - self._child.started_s > START_PATIENCE_S:
            self._child.kill()

    def _worker_died(self, child: Child) -> None:
        if self._job is None or self._job.verdict is not None:
            return
        file = log_file(self._settings, self._device)
        if self._job.cancelled_at_s is not None:
            self._job.verdict = "cancelled", "The worker did not stop by itself and was ended; what was measured is kept."
        elif not child.ready:
            late = time.monotonic() - child.started_s > START_PATIENCE_S
            self._job.verdict = "failed", endings.late_words(START_PATIENCE_S, file) if late else endings.start_words(child.code, file)
        elif not self._job.claimed:
            self._job.lost = endings.words(child.code, file)
            self._deaths[self._job.run_id] += 1
        else:
            self._job.verdict = "interrupted", endings.words(child.code, file)

    def _write(self) -> None:
        """Everything that needs the store. What fails is tried again: a full disk or a lock passes."""
        try:
            self._settle()
            self._hand_out()
            self.trouble = ""
        except StoreError as error:
            self.trouble = str(error)
        except Exception as error:  # this thread is all that looks after the device: whatever happens, it has to go on
            log.exception("the station of %s could not go on", self._device)
            self.trouble = f"Runs on {self._device} cannot go on ({type(error).__name__}). It is tried again; the server's log says more."

    def _settle(self) -> None:
        job = self._job
        if job is None:
            return
        if job.lost and job.verdict is None:
            job.verdict = self._after_death(job)
        if job.verdict is not None:
            job.took_s = job.spent_s if job.took_s is None else job.took_s  # kept where the store cannot take it yet
            self._store.finish(job.run_id, *job.verdict, took_s=job.took_s)
            log.info("run %s on %s ended: %s", job.run_id, self._device, job.verdict[0])
            del self._deaths[job.run_id]
        elif job.claimed:
            self._store.heartbeat(job.run_id)
        if job.verdict is not None or job.lost:
            self._job = None

    def _after_death(self, job: Job) -> tuple[Status, str] | None:
        """How a run ended whose worker died before a word about it; None when it can be tried again."""
        if self._store.status(job.run_id) == "running":
            return "interrupted", job.lost
        if self._deaths[job.run_id] < MOST_DEATHS:
            return None
        file = log_file(self._settings, self._device)
        return "failed", f"The worker died {MOST_DEATHS} times before it could begin. The end of {file} may say why."

    def _hand_out(self) -> None:
        waiting = self._store.queued(self._device) if self._job is None else []
        if not waiting:
            return
        self._job = Job(waiting[0])
        log.info("run %s on %s begins", waiting[0], self._device)
        try:
            child = self._child or self._start_child()
            child.send(run=self._job.run_id)
        except OSError as error:
            self._job.verdict = "failed", f"The worker could not be started ({error}). Free some memory or disk space and try again."
            self.look()

    def _start_child(self) -> Child:
        self._child = Child(
            self._settings,
            self._device,
            self._entry,
            said=lambda child, message: self._events.put(Said(child, message)),
            ended=lambda child: self._events.put(Ended(child)),
        )
        return self._child
