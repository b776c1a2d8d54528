"""A worker that measures for real and is killed for real, by itself, as soon as it has reported the stage that the run's seed names."""

import os
import signal

from core.runs import RunSpec, Stage
from core.settings import Settings
from core.sink import StoreSink

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
    really(spec, sink, settings)


def fetch(spec: RunSpec, sink: StoreSink, settings: Settings) -> None:
    """Only the download of a measurement."""
    from core.worker import download

    download.fetch((spec.target, spec.draft), sink.stage)
