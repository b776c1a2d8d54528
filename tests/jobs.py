"""Jobs for the tests of the bench, run by a real worker in the place of a measurement.

Each reports a stage and a generation first, so that a test can wait for it and then look for
the partial results.
"""

import ctypes
import hashlib
import mmap
import os
import signal
import time

from core import database
from core.errors import ModelError
from core.measured import DeviceInfo, Generation
from core.policies import Plain
from core.runs import RunSpec
from core.settings import Settings
from core.sink import Sink
from core.store import Store
from tests.supplies import random_trace

RESULT = Generation(purpose="answer", block=0, prompt=0, policy=Plain(), tokens=8, total_s=0.5, first_token_s=0.1)


def devices() -> list[DeviceInfo]:
    return [DeviceInfo(id="cpu", name="A CPU"), DeviceInfo(id="cuda:7", name="A GPU", memory_bytes=2**36)]


def impatient() -> list[DeviceInfo]:
    """Of a worker that waits for a lock for half a second only, before it is told that the store is locked."""
    database.WAIT_FOR_LOCK_S = 0.5
    return devices()


def no_devices() -> list[DeviceInfo]:
    raise RuntimeError("the driver is missing")


def dies_before_claiming() -> list[DeviceInfo]:
    """A worker that is killed as soon as it is given a run."""
    Store.claim = lambda self, run_id, host, pid: os._exit(1)
    return devices()


def dies_after_claiming() -> list[DeviceInfo]:
    """A worker that is killed after it has claimed a run, before it can say so."""
    claim = Store.claim
    Store.claim = lambda self, run_id, host, pid: os._exit(int(claim(self, run_id, host, pid)))
    return devices()


def begin(sink: Sink) -> None:
    sink.generation(RESULT)
    sink.stage("plain", 1, 2)


def by_seed(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    """The seed chooses the job, so that one worker can be given several."""
    begin(sink)
    JOBS[spec.seed](spec, sink, settings)


def quick(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    sink.stage("done", 1, 1)


def sleep(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    time.sleep(600)


def forward(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    """One forward pass that takes minutes: many layers, each a real matrix product."""
    import torch

    torch.set_num_threads(1)
    layer = torch.nn.Linear(512, 512)
    sink.stage("draft", 0, 1)
    with torch.inference_mode():
        torch.nn.Sequential(*[layer] * 100_000)(torch.ones(256, 512))


def hang(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    """Minutes in one native call that looks at no signal."""
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 2**31 - 1)


def stubborn(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    """Loses the first cancellation in a destructor, where Python drops every exception."""

    class Slow:
        def __del__(self) -> None:
            time.sleep(600)

    Slow()
    time.sleep(600)


def broken(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    raise ZeroDivisionError("the reason")


def refused(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    raise ModelError("The model is made of wood. Choose another one.")


def die(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    os.kill(os.getpid(), 9)


def flood(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    """Reports until the disk is full."""
    for index in range(1000):
        sink.trace(index, random_trace(index, tokens=2000))


def shout(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    """What libraries print must not disturb the server."""
    print("not a message", flush=True)
    os.system("echo neither am I")


def stuck(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    """Minutes in native code that keeps Python's interpreter to itself, so that no thread of this process gets to run."""
    ctypes.PyDLL(None).sleep(600)


def frozen(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    """Stopped as a whole, as by a debugger."""
    os.kill(os.getpid(), signal.SIGSTOP)


def bus(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    """A file that is cut off while it is read through memory, as weights are."""
    file = settings.data / "weights"
    file.write_bytes(bytes(4 * mmap.PAGESIZE))
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as mapped:
        file.write_bytes(b"")
        mapped[2 * mmap.PAGESIZE]


def crash(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    """A bad pointer in native code."""
    ctypes.string_at(8)


def unspeakable(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    """A sentence with the name of a file that is not UTF-8."""
    raise ModelError(f"The file {os.fsdecode(bytes([255]))} is damaged.")


def slow_to_start() -> list[DeviceInfo]:
    """A driver that hangs when it is asked for its devices."""
    time.sleep(600)
    return devices()


def many(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    """Twenty reports, a tenth of a second apart, each written at once."""
    for index in range(20):
        sink.trace(index, random_trace(index))
        sink.stage("plain" if index % 2 else "draft", index, 20)
        time.sleep(0.1)


def gives_up(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    """What OpenBLAS does when it can get no more memory."""
    os.write(2, b"OpenBLAS error: Memory allocation still failed after 10 retries, giving up.\n")
    os._exit(1)


def jump(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    """The clock of the worker is set by a day amid the run, on for 2 new tokens and else back, and stays so."""
    real, by_s = time.time, 86_400 if spec.max_new_tokens == 2 else -86_400
    time.time = lambda: real() + by_s
    sink.trace(0, random_trace(0))
    sink.stage("draft", 1, 1)


JOBS = [quick, sleep, forward, hang, stubborn, broken, refused, die, flood, shout, stuck, frozen, bus, crash, unspeakable, many, jump, gives_up]
NUMBERS = range(len(JOBS))
QUICK, SLEEP, FORWARD, HANG, STUBBORN, BROKEN, REFUSED, DIE, FLOOD, SHOUT, STUCK, FROZEN, BUS, CRASH, UNSPEAKABLE, MANY, JUMP, GIVES_UP = NUMBERS
