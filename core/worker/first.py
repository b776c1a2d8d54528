"""What the first draft of a group leaves for the further ones: everything that depends on the target alone, and the loop's own costs.

Runs of a group have one target and the same prompts and settings. The target's passes, the plain calls of the calibration beside
which they were timed, and what the answers say without a draft (their pieces, prompt lookup) are the same for each of them. The loop around
the passes is the library's own Python, so that h and e hardly depend on the draft either: taken from the
first draft in plain steps of then, they put a further one's predictions 4 to 5 % off (median) where its own put them 2 to 3 % off, with two
drafts of the embedded target; with drafts about as large as their target 2 to 3 % (fixed lengths). Correcting them by a single real call was
tried and made it no better, because one call is as noisy as that (benchmarks/README.md); a confirmation measures. Its passes are
timed anew, turn by turn beside a step of the target, so that a machine that has become slower since changes no ratio.
Only undisturbed timings are kept, and only of the group measured last. The same draft again is measured in full.
"""

from dataclasses import dataclass

from core.errors import NotMeasured
from core.intervals import in_quadrature
from core.measured import Carried, Generation, PassTimes, PlainKind
from core.policies import Plain
from core.runs import ModelRef, Run, RunSpec
from core.timing import LoopCosts
from core.trace import PromptTrace
from core.worker.models import Place

CARRIED_ERROR = 0.055
"""What taking over h and e adds to a prediction's error, as a standard deviation over the four drafts above; joins the calibration's error."""


@dataclass(frozen=True)
class Known:
    """What the first draft left. passes: by cache length; calls: plain ones of the calibration; traces: one per prompt."""

    draft: ModelRef
    plain: PlainKind
    target_peak_bytes: int | None
    passes: dict[int, PassTimes]
    calls: tuple[Generation, ...]
    carried: Carried
    traces: tuple[PromptTrace, ...]


class First:
    """The first draft of the group measured last."""

    def __init__(self) -> None:
        self._group: tuple[RunSpec, Place] | None = None
        self._known: Known | None = None

    def of(self, spec: RunSpec, target: Place) -> Known | None:
        """What is known for a further draft of this group; None for another group, for no group, and for the first draft itself."""
        same = bool(spec.group) and self._group == _group(spec, target)
        return self._known if same and self._known is not None and self._known.draft != spec.draft else None

    def keep(self, run: Run, target: Place) -> None:
        """Keep what a run with a calibration of its own has measured so far; nothing of a disturbed one."""
        where = run.environment
        if not run.spec.group or run.disturbed or where is None or where.carried is not None:
            return
        try:
            costs = LoopCosts.from_run(run)
        except NotMeasured:
            return
        carried = Carried(
            draft=run.spec.draft.name,
            round_overhead=costs.round_overhead,
            token_overhead=costs.token_overhead,
            calibration_error=in_quadrature(costs.calibration_error, CARRIED_ERROR),
        )
        calls = tuple(g for g in run.generations if g.purpose == "calibration" and isinstance(g.policy, Plain))
        passes = {each.cache_tokens: each for each in run.passes}
        self._group = _group(run.spec, target)
        self._known = Known(run.spec.draft, where.plain, where.target_peak_bytes, passes, calls, carried, run.traces)


def _group(spec: RunSpec, target: Place) -> tuple[RunSpec, Place]:
    """Everything of a run but its draft and the time for its confirmation."""
    return spec.model_copy(update={"draft": spec.target, "confirm_s": 0.0}), target
