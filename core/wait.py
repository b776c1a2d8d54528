"""How long runs take and wait: about as long as each kind takes by itself, and what is left of those before it.

Estimates (`core.estimate_time`, `core.ways_ask`, `core.shapes_ask`), the same beside the button that begins a run and while it waits; runs of
which nothing is known make the sum a least one. Times in seconds.
"""

from collections.abc import Iterable, Mapping, Sequence

from core import shapes_ask, ways_ask
from core.estimate_time import Speed, estimate_time
from core.runs import Progress, RunSpec, Stage
from core.smoke import TOKENS

EARLY = 0.1
"""Before this share of a run its own pace says little."""
SLOWEST = 2.0
"""A run that is slower than expected is taken to stay so, the more of it is behind it, up to this factor: from sizes it may be half the truth."""


def run_stages(spec: RunSpec, prompt_tokens: Sequence[int], speed: Speed) -> dict[Stage, float]:
    """About how long each stage of a run takes by itself, in their order. prompt_tokens: of each prompt."""
    expected = estimate_time(spec, prompt_tokens, speed).stages
    match spec.extent:
        case "full":
            return expected
        case "smoke":
            return {"load": expected["load"], "smoke": 2 * TOKENS * speed.target_s}
        case "side_by_side":
            return {"load": expected["load"], "writing": len(spec.lanes) * spec.max_new_tokens * speed.target_s}
        case "ways":
            return {"ways": ways_ask.seconds(spec, prompt_tokens, speed)}
        case "shapes":
            return {"shapes": shapes_ask.seconds(spec, speed)}


def run_seconds(spec: RunSpec, prompt_tokens: Sequence[int], speed: Speed) -> float:
    """About how long a run takes by itself. prompt_tokens: of each prompt."""
    return sum(run_stages(spec, prompt_tokens, speed).values())


def remaining_seconds(progress: Progress, elapsed_s: float, stages: Mapping[Stage, float] | None) -> float | None:
    """What is left of a run that is measured. elapsed_s: since it began, without what it downloaded; stages: as expected of it, if they are.

    What is behind it is what has passed, but no less than the steps that are done were expected to take, and no more than these and the next
    one: so a stage that is left out, or drags on, is not taken for the pace of the others. Without an expectation by its own pace alone.
    """
    if stages is None:
        return elapsed_s * (1 - progress.fraction) / progress.fraction if progress.fraction >= EARLY else None
    whole_s = sum(stages.values())
    if progress.stage not in stages:
        return whole_s
    names, step = list(stages), 1 / max(1, progress.total)
    before_s = sum(stages[name] for name in names[: names.index(progress.stage)])
    least_s, most_s = (before_s + stages[progress.stage] * min(1.0, part) for part in (progress.done * step, (progress.done + 1) * step))
    behind_s = min(max(elapsed_s, least_s), most_s)
    slower = min(SLOWEST, max(1.0, elapsed_s / behind_s)) - 1 if behind_s else 0.0
    return (whole_s - behind_s) * (1 + slower * behind_s / whole_s)


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
