"""The worker's frame: commands in, one run after the other, and how each of them ended out.

Standard input carries {"run": id} and {"cancel": id}, one JSON object per line; standard output
{"ready": true}, {"claimed": id} (once more where it then waited for the device) and
{"finished": id, "status": ..., "error": ...}. When standard input ends, the server is gone, and so is
this process, at once and whatever it does (`core.parent`).
"""

import contextlib
import importlib
import json
import logging
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout
from platformdirs import user_runtime_path

from core import encoders, pair
from core.bounded import first_to_go
from core.child import log_file
from core.errors import DeviceError, DraftgaugeError, StoreError
from core.log import private, without_private
from core.parent import end_with_parent
from core.placement import devices_of
from core.record import Summary
from core.redact import redacted
from core.runs import Run, RunSpec, Status
from core.settings import Settings
from core.sink import Sink, StoreSink
from core.store import Store, open_store
from core.worker.cancellation import Cancellation, Cancelled

T = TypeVar("T")

RETRY_EVERY_S = 1.0

log = logging.getLogger("draftgauge.worker")


class Process:
    """A worker process. To be made in its main thread, once."""

    def __init__(self, settings: Settings, device: str) -> None:
        """Starts to listen, and sends everything that libraries print to the log instead of the server."""
        end_with_parent()
        first_to_go()
        self._settings, self._device = settings, device
        self._waiting: queue.Queue[str] = queue.Queue()
        self._cancellation = Cancellation()
        self._voice = os.dup(1)
        os.dup2(2, 1)
        threading.Thread(target=self._listen, name="commands", daemon=True).start()

    def serve(self, measure_name: str, devices_name: str) -> None:
        """Record the devices, then measure what is asked for, until the server goes away."""
        measure, found = _function(measure_name), _function(devices_name)()
        self._say(ready=True)
        store = _patiently(lambda: open_store(self._settings))
        _patiently(lambda: store.set_devices(found))
        while True:
            run_id = self._waiting.get()
            status, error = self._run(store, run_id, measure)
            log.info("run %s %s", run_id, status)
            self._say(finished=run_id, status=status, error=_storable(redacted(error)))

    def _listen(self) -> None:
        try:
            # Unbuffered: a buffered reader's lock would abort the interpreter when it ends by itself.
            with open(0, "rb", buffering=0, closefd=False) as commands:
                self._obey(commands)
        finally:
            os._exit(0)

    def _obey(self, commands: Iterable[bytes]) -> None:
        for line in commands:
            command = json.loads(line)
            if "run" in command:
                self._waiting.put(command["run"])
            else:
                self._cancellation.request(command["cancel"])

    def _say(self, **message: Any) -> None:
        os.write(self._voice, json.dumps(message).encode() + b"\n")

    def _run(self, store: Store, run_id: str, measure: Callable[..., None]) -> tuple[Status, str]:
        """Measure one run and keep what it reported, however it ended."""
        if not _patiently(lambda: store.claim(run_id, socket.gethostname(), os.getpid())):
            return "cancelled", ""
        self._say(claimed=run_id)
        try:
            log.info("run %s begun", run_id)
            sink = StoreSink(store, run_id, self._cancellation.shield)
            outcome = self._measure(store, run_id, sink, measure)
            sink.flush()
            if outcome[0] == "done":
                self._summarise(store, run_id)
        except DraftgaugeError as error:
            return "failed", str(error)
        return outcome

    def _measure(self, store: Store, run_id: str, sink: StoreSink, measure: Callable[..., None]) -> tuple[Status, str]:
        spec = store.get(run_id).spec
        with private(prompt.text for prompt in spec.prompts):
            try:
                with self._cancellation.during(run_id), _to_itself(devices_of(spec, store.devices()), sink) as waited:
                    if waited:
                        sink.begin_anew()
                        self._say(claimed=run_id)
                    _check_models(spec, self._settings)
                    measure(spec, sink, self._settings)
            except Cancelled:
                return "cancelled", ""
            except DraftgaugeError as error:
                return "failed", str(error)
            except Exception as error:
                log.exception("run %s failed", run_id)
                says = without_private(f"{type(error).__name__}: {error}").splitlines()[0][:200]
                return "failed", f"The measurement stopped unexpectedly ({says}). The end of {log_file(self._settings, self._device)} says more."
            return "done", ""

    def _summarise(self, store: Store, run_id: str) -> None:
        """Keep the answer beside the run, for lists of runs. A run without one is whole all the same, and is answered when it is opened."""
        try:
            found = _in_short(store.get(run_id, traces=True))
        except Exception:
            log.exception("run %s could not be summarised", run_id)
        else:
            if found is not None:
                store.summarise(run_id, found)


def _in_short(run: Run) -> Summary | None:
    """Its answer. That needs pandas and Plotly, which take a worker a second and memory: not where there is nothing to answer from."""
    if not run.traces and run.spec.extent != "ways":
        return None
    from core.in_short import in_short

    return in_short(run)


@contextlib.contextmanager
def _to_itself(devices: Sequence[str], sink: Sink) -> Generator[bool]:
    """Keep every other Draftgauge of this user off these devices, one after the other: both would time each other. Gives whether it had to wait."""
    waited = False
    with contextlib.ExitStack() as held:
        for device in devices:
            try:
                folder = user_runtime_path("draftgauge", appauthor=False, ensure_exists=True)
                lock = FileLock(Path(folder) / f"{device.replace(':', '-')}.lock")
                waited |= _take(lock, sink)
            except OSError as error:
                raise DeviceError(f"The lock of device {device} cannot be taken ({error}). Set XDG_RUNTIME_DIR to a folder of yours.") from error
            held.callback(lock.release)
        yield waited


def _take(lock: FileLock, sink: Sink) -> bool:
    """Take the lock; True where that took a while, which whoever watches is told (`core.runs.Progress`)."""
    try:
        lock.acquire(timeout=0)
    except Timeout:
        sink.stage("queued", 0, 1)
        lock.acquire()
        return True
    return False


def _check_models(spec: RunSpec, settings: Settings) -> None:
    """Once more what the bench has checked: a run may have waited for hours, and its files may be others now."""
    for ref in (spec.target, spec.draft, *(lane.draft for lane in spec.lanes if lane.draft is not None)):
        pair.check(ref, settings, weights=not spec.random_weights)
    encoders.check(spec)


def _patiently(ask: Callable[[], T]) -> T:
    """Ask the store again until it answers: a lock or a full disk passes, and no run is lost to it before it has begun.

    What is wrong meanwhile the server says, which uses the same store.
    """
    while True:
        try:
            return ask()
        except StoreError as error:
            log.warning("waiting for the store: %s", error)
            time.sleep(RETRY_EVERY_S)


def _storable(text: str) -> str:
    """Without what is no Unicode, such as a file's name in another encoding: no store can keep that."""
    return text.encode(errors="replace").decode()


def _function(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)
