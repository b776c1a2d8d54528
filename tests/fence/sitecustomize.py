"""On the path of every process that a test's server starts: who calls another machine is refused, and written down.

Python imports a module of this name by itself. The log's name comes in the environment; without it nothing is done. Only this machine may
be called, and the Hub, which is refused without a word: pages ask it about models that a test names. Not covered: calls of native code.

Where a server only shows pages, its worker is started as one that reads no torch and would measure nothing.
"""

import os
import socket
import sys
from pathlib import Path
from typing import Any

LOG = os.environ.get("DRAFTGAUGE_TEST_FENCE", "")
HUB = "huggingface.co"
_connect, _look_up = socket.socket.connect, socket.getaddrinfo


def _refuse(where: str) -> None:
    if where != HUB:
        with Path(LOG).open("a", encoding="utf-8") as log:
            log.write(f"{where}\n")
    raise socket.gaierror(socket.EAI_AGAIN, "Name or service not known")


def _is_here(host: object) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    return name is None or str(name) in ("", "localhost", "::1", "0.0.0.0", "::") or str(name).startswith("127.")


def _guarded_connect(self: socket.socket, address: Any) -> None:
    if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_here(address[0]):
        _refuse(str(address[0]))
    _connect(self, address)


def _guarded_look_up(host: Any, *rest: Any, **more: Any) -> Any:
    if not _is_here(host) and host != socket.gethostname():
        _refuse(str(host))
    return _look_up(host, *rest, **more)


def _measure_nothing() -> None:
    """Become such a worker: the same process, with other functions in its command."""
    others = {"core.worker.measure:measure": "tests.jobs:by_seed", "core.worker.environment:devices": "tests.hasty:devices"}
    if "core.worker" in sys.orig_argv and others.keys() & set(sys.orig_argv):
        os.execv(sys.executable, [others.get(word, word) for word in sys.orig_argv])


if os.environ.get("DRAFTGAUGE_TEST_ONLY_SHOWS"):
    _measure_nothing()
if LOG:
    socket.socket.connect = _guarded_connect  # pyright: ignore[reportAttributeAccessIssue]
    socket.getaddrinfo = _guarded_look_up
