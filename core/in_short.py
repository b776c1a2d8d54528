"""The answer that is kept beside a finished run, whatever kind of run it is."""

from core import ways
from core.analysis import Analysis, analyse, summary
from core.record import Summary
from core.runs import Run


def in_short(run: Run) -> Summary | None:
    """Of a run with its traces; None for kinds of runs that have no answer, and where too little was measured for one."""
    if run.spec.extent == "ways":
        return ways.summary(run)
    found = analyse(run) if run.spec.extent == "full" else None
    return summary(found) if isinstance(found, Analysis) else None
