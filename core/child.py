"""A worker process as its server sees it: how it is started, spoken to, and ended."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.settings import Settings

LARGEST_LOG_BYTES = 5_000_000
ROOT = Path(__file__).parents[1]
HUB_OFFLINE_ASKED = "DRAFTGAUGE_HUB_OFFLINE_ASKED"
"""In a worker's environment: what HF_HUB_OFFLINE was before it was set there."""


@dataclass(frozen=True)
class Entry:
    """The functions that a worker calls, as "module:function"."""

    measure: str = "core.worker.measure:measure"
    devices: str = "core.worker.environment:devices"


def log_file(settings: Settings, device: str) -> Path:
    """Where a device's worker writes its warnings and tracebacks."""
    return settings.data / f"worker-{device.replace(':', '-')}.log"


def _quiet_and_offline() -> dict[str, str]:
    """Loading never asks the network. Only the worker's downloads do, in a process of their own, unless the user wants them not to."""
    return {"HF_HUB_OFFLINE": "1", HUB_OFFLINE_ASKED: os.environ.get("HF_HUB_OFFLINE", ""), "TOKENIZERS_PARALLELISM": "false"}


def for_command(settings: Settings) -> str:
    """The settings as JSON for a command line, which whoever has an account on this machine can read: without people's addresses."""
    return settings.model_dump_json(exclude={"users"})


class Child:
    """A worker process: JSON lines in and out, everything else it prints into its log.

    It ends when its standard input does, so also when this process is killed, and with the thread that started it (`core.parent`). It
    runs in a session of its own, so that Ctrl-C in the server's terminal does not reach it first.
    """

    def __init__(
        self, settings: Settings, device: str, entry: Entry, said: Callable[["Child", dict[str, Any]], None], ended: Callable[["Child"], None]
    ) -> None:
        """`said` and `ended` are called from a thread. Raises OSError when the process or its log cannot be started."""
        self.ready = False
        self.started_s = time.monotonic()
        self._said, self._ended = said, ended
        command = [sys.executable, "-m", "core.worker", "--device", device, "--settings", for_command(settings)]
        command += ["--measure", entry.measure, "--devices", entry.devices]
        log = log_file(settings, device)
        fresh = not log.exists() or log.stat().st_size > LARGEST_LOG_BYTES
        with log.open("wb" if fresh else "ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                cwd=ROOT,
                env=os.environ | _quiet_and_offline(),
                start_new_session=True,
            )
        threading.Thread(target=self._listen, name=f"draftgauge-worker-{device}", daemon=True).start()

    def send(self, **command: str) -> None:
        """Write one command. A process that has just died cannot take it; `ended` is then called."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):  # ValueError: its input is closed already
            self._process.stdin.write(json.dumps(command).encode() + b"\n")

    @property
    def code(self) -> int | None:
        """How the process ended, as `core.endings` takes it; None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """End the process now, whatever it does."""
        self._process.kill()

    def stop(self, patience_s: float) -> None:
        """End the process by closing its input, or else by force."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        try:
            with self._process.stdout as lines:
                for line in lines:
                    self._said(self, json.loads(line))
        finally:
            self._process.stdin.close()  # should it still run, it ends now
            self._process.wait()
            self._ended(self)
