"""A worker that measures for real and is killed for real, by itself, as soon as it has reported the stage that the run's seed names."""

import os
import random
import resource
import signal
import threading
from pathlib import Path

from core.runs import RunSpec, Stage
from core.settings import Settings
from core.sink import StoreSink
from tests.hasty import hurry

STAGES: list[Stage] = ["load", "plain", "draft", "timing", "calibrating", "confirming", "smoke", "writing", "ways", "shapes"]


class Deadly(StoreSink):
    """Reports, and ends the process after the first report of a stage."""

    last: Stage

    def stage(self, stage: Stage, done: int, total: int) -> None:
        super().stage(stage, done, total)
        if stage == self.last:
            os.kill(os.getpid(), signal.SIGKILL)


def measure(spec: RunSpec, sink: StoreSink, settings: Settings) -> None:
    from core.worker.measure import measure as really

    sink.__class__ = Deadly
    assert isinstance(sink, Deadly)
    sink.last = STAGES[spec.seed]
    hurry()
    really(spec, sink, settings)


def fetch(spec: RunSpec, sink: StoreSink, settings: Settings) -> None:
    """Only the download of a measurement."""
    from core.worker import download

    download.fetch((spec.target, spec.draft), sink.stage)


def short_of_memory(spec: RunSpec, sink: StoreSink, settings: Settings) -> None:
    """The real measurement with room for ten megabytes more than the process has: what does not fit is really refused by the system."""
    from core.worker.measure import measure as really

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    if spec.seed == 0:
        resource.setrlimit(resource.RLIMIT_AS, (used + 10_000_000, most))
    try:
        really(spec, sink, settings)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def refused_later(spec: RunSpec, sink: StoreSink, settings: Settings) -> None:
    """The real measurement, from a moment on that the seed draws without a megabyte more than it has by then; a seed below zero has all."""
    from core.worker.measure import measure as really

    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    timer = threading.Timer(random.Random(spec.seed).uniform(0.0, 8.0), refuse_memory, [most])
    try:
        if spec.seed >= 0:
            timer.start()
        really(spec, sink, settings)
    finally:
        timer.cancel()
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def refuse_memory(most: int) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used, most))
