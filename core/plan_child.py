"""A `core.plan` process as its server sees it: started when needed, killed when late."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, cast

from core.child import for_command
from core.settings import Settings

ROOT = Path(__file__).parents[1]
LARGEST_LOG_BYTES = 5_000_000


def log_file(settings: Settings) -> Path:
    """Where these processes write their warnings and tracebacks."""
    return settings.data / "plan.log"


class PlanChild:
    """One `python -m core.plan` process, started when it is needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    def do(self, function: str, arguments: dict[str, Any], limit_s: float, closed: threading.Event) -> dict[str, Any]:
        """The job's reply: {"data": ...} or {"error": sentence}. Raises OSError when no process can be started."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        over = threading.Event()
        watch = threading.Thread(target=_end_when_late, args=(process, limit_s, over, closed), daemon=True)
        watch.start()
        try:
            process.stdin.write(json.dumps({"function": function, "arguments": arguments}).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = b""
        late = over.is_set()
        over.set()
        watch.join()
        if line.endswith(b"\n") and not late:
            return cast("dict[str, Any]", json.loads(line))
        self.stop()
        if late:
            return {"error": f"There was no answer within {limit_s:g} seconds, so the job was stopped. Try again, or choose another model or file."}
        return {"error": f"The job's process died. The end of {log_file(self._settings)} may say why; try again, or choose another model or file."}

    def stop(self) -> None:
        """End the process, whatever it does."""
        if self._process is None:
            return
        _kill(self._process)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self._process.wait()
        self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.stop()
        log = log_file(self._settings)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab" if log.exists() and log.stat().st_size < LARGEST_LOG_BYTES else "wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "core.plan", for_command(self._settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                env=os.environ | {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"},
                start_new_session=True,
            )
        return self._process


def _end_when_late(process: subprocess.Popen[bytes], limit_s: float, over: threading.Event, closed: threading.Event) -> None:
    """Kill the process when its time is up or the server stops; `over` ends the watch, and is set when it was late."""
    until_s = time.monotonic() + limit_s
    while not over.wait(0.1):
        if closed.is_set() or time.monotonic() > until_s:
            over.set()
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """With whatever it has started: it leads a session of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
