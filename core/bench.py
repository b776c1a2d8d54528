"""The bench: a bounded queue of measurements, and one worker process for each device.

A server makes one bench and keeps it. Whose run is next is in `core.turns`. The queue itself is in the store, so that waiting runs
survive a restart; runs that were being measured when a server died are marked as interrupted
by the next one.
"""

import contextlib
import threading

from filelock import FileLock, Timeout

from core import encoders, lanes, pair, prompts, shapes_ask
from core.child import Entry
from core.errors import InvalidInput, QueueFull, StoreError
from core.placement import Asked, problems
from core.runs import RunSpec
from core.settings import Settings
from core.station import Station
from core.store import Store

MOST_NEW_TOKENS = 4096
CLICKED_TWICE_S = 10.0
"""The same run, asked for again within this time by the same person while it waits or runs, was meant once: the second click may be late."""
READ_ONLY = "This installation only shows runs (DRAFTGAUGE_READ_ONLY). Measure on one of your own, and import the run there."


class Bench:
    """Takes runs, hands them to the workers one by one, and can cancel them. Safe to use from several threads."""

    def __init__(self, settings: Settings, store: Store, *, prewarm: tuple[str, ...] = ("cpu",), entry: Entry | None = None) -> None:
        """Start the workers of the devices in `prewarm`, and of those that runs wait for; none where the setting `read_only` is on.

        Raises StoreError when another server uses the data folder, or when it cannot be written.
        """
        self._settings = settings
        self._store = store
        self._entry = entry or Entry()
        self._submitting = threading.Lock()
        self._stations: dict[str, Station] = {}
        self._lock = FileLock(settings.data / "server.lock", timeout=0, thread_local=False)
        if settings.read_only:
            return
        _take(self._lock, settings)
        try:
            store.interrupt_running()
            for device in dict.fromkeys((*prewarm, *store.waiting_devices())):
                self._station(device)
        except StoreError:
            self.close()
            raise

    def submit(self, spec: RunSpec, person: str = "") -> str:
        """Queue a run and return its id. person: an id of who asks; where they have just asked for the same, that run's id: they clicked twice.

        Raises InvalidInput, ModelError or QueueFull when it cannot be run.
        """
        self._may_change()
        self._check(spec)
        with self._submitting:
            known = self._store.asked_lately(spec, person, CLICKED_TWICE_S) if person else None
            if known:
                return known
            self._check_room(person)
            run_id = self._store.add(spec, person)
            self._station(spec.device).look()
        return run_id

    def cancel(self, run_id: str) -> None:
        """Cancel a waiting run at once, or a running one as soon as its worker can stop; what it measured is kept."""
        self._may_change()
        self._store.cancel_queued(run_id)
        for station in tuple(self._stations.values()):  # a waiting run too may be with a worker already, and that may hang
            station.cancel(run_id)

    def position(self, run_id: str) -> int | None:
        """0 while the run is measured, 1 when it is next on its device, and so on; None when it has ended."""
        status = self._store.status(run_id)
        if status == "running":
            return 0
        if status != "queued":
            return None
        waiting = self._store.queued(self._device_of(run_id))
        return waiting.index(run_id) + 1 if run_id in waiting else 0

    def before(self, run_id: str) -> list[str]:
        """The runs that a waiting run waits for: what is measured on its device, then what comes before it. Empty when it does not wait."""
        if self._store.status(run_id) != "queued":
            return []
        device = self._device_of(run_id)
        waiting = self._store.queued(device)
        return [*self._store.running(device), *waiting[: waiting.index(run_id) if run_id in waiting else 0]]

    def spent_s(self, run_id: str) -> float | None:
        """How long a run has been measured here, by a clock that nobody sets; None where it is not, or not by this server."""
        found = (station.spent_s(run_id) for station in tuple(self._stations.values()))
        return next((spent_s for spent_s in found if spent_s is not None), None)

    def trouble(self) -> str:
        """Why runs cannot go on for now, such as a full disk; "" when they can."""
        return next((station.trouble for station in tuple(self._stations.values()) if station.trouble), "")

    def close(self) -> None:
        """Stop the workers. The running runs become interrupted, the waiting ones wait for the next server."""
        if not self._lock.is_locked:
            return
        for station in tuple(self._stations.values()):
            station.close()
        with contextlib.suppress(StoreError):  # the next server does it
            self._store.interrupt_running()
        self._lock.release()

    def _station(self, device: str) -> Station:
        if device not in self._stations:
            self._stations[device] = Station(self._settings, self._store, device, self._entry)
        return self._stations[device]

    def _device_of(self, run_id: str) -> str:
        return self._store.get(run_id, results=False).spec.device

    def _check_room(self, person: str) -> None:
        """Nobody may fill the queue alone. Who is not known counts as one person."""
        waiting = self._store.waiting_of()
        if waiting[person] >= self._settings.queue_each:
            raise QueueFull(
                f"{waiting[person]} of your runs are waiting already, the most for one person. Try again when one has begun, or cancel one."
            )
        if waiting.total() >= self._settings.queue_length:
            own = ", or cancel one of yours" if waiting[person] else ""
            raise QueueFull(f"{waiting.total()} runs are waiting already, the most for everybody together. Try again when one has begun{own}.")

    def _may_change(self) -> None:
        if self._settings.read_only:
            raise InvalidInput(READ_ONLY)

    def _check(self, spec: RunSpec) -> None:
        if spec.extent == "shapes":
            shapes_ask.check(spec)
        else:
            prompts.check(spec.prompts)
        if not 1 <= spec.max_new_tokens <= MOST_NEW_TOKENS:
            raise InvalidInput(f"{spec.max_new_tokens} new tokens cannot be measured. Choose between 1 and {MOST_NEW_TOKENS:,}.")
        known = ["cpu", *(device.id for device in self._store.devices() if device.id != "cpu")]
        if spec.device not in known:
            raise InvalidInput(f'There is no device "{spec.device}" here. Choose one of: {", ".join(known)}.')
        for sentence in problems(spec.placement, Asked.of(spec, self._store.devices())):
            raise InvalidInput(sentence)
        if spec.extent == "side_by_side":
            lanes.check(spec)
        if spec.extent == "ways":
            lanes.check_ways(spec)
        for ref in (spec.target, spec.draft, *(lane.draft for lane in spec.lanes if lane.draft is not None)):
            pair.check(ref, self._settings, weights=not spec.random_weights)
        encoders.check(spec)


def _take(lock: FileLock, settings: Settings) -> None:
    """Only one server may use a data folder: two would hand out the same runs."""
    try:
        settings.data.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise StoreError(f"Another Draftgauge uses the data folder {settings.data}. Stop it, or set DRAFTGAUGE_DATA to another folder.") from error
    except OSError as error:
        raise StoreError(f"The data folder {settings.data} cannot be written ({error.strerror}). Free some space or set DRAFTGAUGE_DATA.") from error
