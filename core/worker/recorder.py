"""A sink that passes everything on and keeps a copy, because the confirmation is chosen from what was measured so far."""

from collections.abc import Sequence
from datetime import UTC, datetime

from core.measured import Difference, Environment, Generation, PassTimes
from core.record import Step
from core.runs import Run, RunSpec, Stage
from core.sink import Sink
from core.trace import PromptTrace


class Recorder:
    """Stands before `sink`. A disturbance is passed on once, so that a busy machine is not slowed further by writing it down."""

    def __init__(self, spec: RunSpec, sink: Sink) -> None:
        self._spec = spec
        self._sink = sink
        self._environment: Environment | None = None
        self._passes: list[PassTimes] = []
        self._draft_prefill_s: tuple[float, ...] = ()
        self._generations: list[Generation] = []
        self._traces: dict[int, PromptTrace] = {}
        self._disturbed = False
        self.doing: Stage = "queued"

    def stage(self, stage: Stage, done: int, total: int) -> None:
        """Pass on, and remember what is being done."""
        self.doing = stage
        self._sink.stage(stage, done, total)

    def environment(self, environment: Environment) -> None:
        """Keep and pass on."""
        self._environment = environment
        self._sink.environment(environment)

    def passes(self, passes: PassTimes) -> None:
        """Keep and pass on."""
        self._passes.append(passes)
        self._sink.passes(passes)

    def draft_prefill(self, seconds: tuple[float, ...]) -> None:
        """Keep and pass on."""
        self._draft_prefill_s = seconds
        self._sink.draft_prefill(seconds)

    def difference(self, difference: Difference) -> None:
        """Pass on; nothing that follows depends on it."""
        self._sink.difference(difference)

    def generation(self, generation: Generation) -> None:
        """Keep and pass on."""
        self._generations.append(generation)
        self._sink.generation(generation)

    def trace(self, index: int, trace: PromptTrace) -> None:
        """Keep and pass on."""
        self._traces[index] = trace
        self._sink.trace(index, trace)

    def steps(self, steps: Sequence[Step]) -> None:
        """Pass on; nothing that follows depends on it."""
        self._sink.steps(steps)

    def disturbed(self) -> None:
        """Pass on the first one."""
        if not self._disturbed:
            self._sink.disturbed()
        self._disturbed = True

    def run(self) -> Run:
        """The run as measured so far, as `core.predict` reads it."""
        return Run(
            id="in progress",
            spec=self._spec,
            status="running",
            created=datetime.now(UTC),
            environment=self._environment,
            passes=tuple(self._passes),
            draft_prefill_s=self._draft_prefill_s,
            generations=tuple(self._generations),
            disturbed=self._disturbed,
            traces=tuple(self._traces[index] for index in sorted(self._traces)),
        )
