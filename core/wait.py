"""How long runs take and wait: about as long as each kind takes by itself, and what is left of those before it.

Estimates (`core.estimate_time`, `core.ways_ask`, `core.shapes_ask`), the same beside the button that begins a run and while it waits; runs of
which nothing is known make the sum a least one. Times in seconds.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from core import shapes_ask, ways_ask
from core.estimate_time import Speed, estimate_time
from core.runs import Run, RunSpec
from core.smoke import TOKENS

EARLY = 0.1
"""Before this share of a run its own pace says little."""


def run_seconds(spec: RunSpec, prompt_tokens: Sequence[int], speed: Speed) -> float:
    """About how long a run takes by itself. prompt_tokens: of each prompt."""
    load_s = estimate_time(spec, prompt_tokens, speed).stages["load"]
    match spec.extent:
        case "full":
            return estimate_time(spec, prompt_tokens, speed).total_s
        case "smoke":
            return load_s + 2 * TOKENS * speed.target_s
        case "side_by_side":
            return load_s + len(spec.lanes) * spec.max_new_tokens * speed.target_s
        case "ways":
            return ways_ask.seconds(spec, prompt_tokens, speed)
        case "shapes":
            return shapes_ask.seconds(spec, speed)


def remaining_seconds(run: Run, whole_s: float | None, now: datetime) -> float | None:
    """What is left of a run that is measured: by its own pace, before that says something by what was expected of it."""
    if run.started is None:
        return whole_s
    elapsed_s = max(0.0, (now - run.started).total_seconds() - run.progress.download_s)
    if run.progress.fraction >= EARLY:
        return elapsed_s * (1 - run.progress.fraction) / run.progress.fraction
    return None if whole_s is None else max(0.0, whole_s - elapsed_s)


def words(place: int, seconds: Iterable[float | None]) -> str:
    """A place in the queue and the wait, from what each run before it still takes: "2nd in the queue, about 4 minutes"."""
    parts = list(seconds)
    known_s = sum(part for part in parts if part is not None)
    where = "next in the queue" if place == 1 else f"{ordinal(place)} in the queue"
    if known_s < 1:
        return where
    return f"{where}, {'about' if None not in parts else 'more than'} {about(known_s)}"


def about(seconds: float) -> str:
    """A wait as roughly as it is known: 40 seconds, 4 minutes, 1.5 hours."""
    if seconds < 55:
        return f"{max(10, round(seconds, -1)):.0f} seconds"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} minute{'' if minutes == 1 else 's'}"
    return f"{seconds / 3600:.1f} hours"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    teens = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
