"""Work on what others wrote, by libraries that know no limits: bounded in time and memory, and ended by a sentence.

A chat template is a program, a tokenizer's file may ask its library for anything, and a config for sizes that no model has. Inside
`bounded` a timer interrupts the main thread between two Python instructions, and the system refuses more memory than was agreed
(RLIMIT_DATA, Linux only), so that Python raises MemoryError; a library in C++ or Rust ends the process then instead of the machine.
Units: bytes, seconds. Source: setrlimit(2), setitimer(2), proc_pid_oom_score_adj(5). Not covered: one call into native code that takes long
without taking memory (its process is killed by who started it); time in other threads than the main one.
"""

import contextlib
import re
import signal
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import NoReturn

from core.errors import DraftgaugeError

if sys.platform != "win32":
    import resource

GIB = 2**30
FIRST_TO_GO = 500
"""Of at most 1,000: the system ends this process before others when memory runs out."""
AGAIN_S = 1.0
"""Between interruptions, since Python drops one that comes amid a finalizer or a callback of the garbage collection."""


class OutOfBounds(DraftgaugeError):
    """What the work did: the second half of a sentence, such as "took longer than 5 seconds"."""


class _Late(BaseException):
    """The time is up. No `Exception`, so that no library takes it for an error of its own."""


@contextlib.contextmanager
def bounded(memory_bytes: int, time_s: float) -> Generator[None]:
    """A block that may take this much more memory than the process has now, and this long. Raises OutOfBounds. Not to be nested."""
    try:
        with _in_memory(memory_bytes), _in_time(time_s):
            yield
    except _Late as error:
        raise OutOfBounds(f"took longer than {time_s:g} seconds") from error
    except MemoryError as error:
        raise OutOfBounds(f"asked for more than {memory_bytes / GIB:.1f} GiB of memory") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # how PyO3 passes on that a library in Rust gave up; it is no Exception
            raise
        raise OutOfBounds(f"made its library give up ({str(error)[:160]})") from error


def first_to_go() -> None:
    """When the machine runs out of memory, let the system end this process, and not the server or a neighbour."""
    with contextlib.suppress(OSError):  # other systems have no such file, and some containers forbid it
        Path("/proc/self/oom_score_adj").write_text(str(FIRST_TO_GO))


@contextlib.contextmanager
def _in_time(time_s: float) -> Generator[None]:
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, _interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, time_s, AGAIN_S)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)  # None: set by other code than Python's


def _interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise _Late


@contextlib.contextmanager
def _in_memory(memory_bytes: int) -> Generator[None]:
    if sys.platform != "linux":
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    known = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([_data_bytes() + memory_bytes, *known]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int:
    """What counts towards that limit now; proc_pid_status(5)."""
    found = re.search(r"^VmData:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0
