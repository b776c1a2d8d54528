"""The confirmation: the best settings really run on every prompt, each beside a plain run of the same prompt.

The order turns from prompt to prompt, so that no setting always runs first. The first turn goes through all prompts; further ones
follow until every interval on these prompts is tight (`core.finalists`), or the time is up. Times in seconds.
"""

import time
from collections.abc import Callable, Sequence
from math import ceil

from core.finalists import finalists, tight
from core.policies import Plain
from core.runs import Run, RunSpec
from core.worker.calls import Calls
from core.worker.inputs import spread
from core.worker.recorder import Recorder

MOST_TURNS = 6


def confirm(calls: Calls, spec: RunSpec, sink: Recorder, budgets: Sequence[int], clock: Callable[[], float] = time.monotonic) -> None:
    """Run and report. budgets: new tokens of each prompt.

    Where the time does not reach for all prompts, those that were run are spread over the labels.
    """
    if not spec.confirm_s:
        return
    run = sink.run()
    chosen, share = finalists(run)
    policies = [Plain(), *chosen]
    prompts = spread([prompt.label for prompt in spec.prompts], len(spec.prompts), spec.seed)
    turns = max(1, min(MOST_TURNS, int(spec.confirm_s / (plain_seconds(run, budgets) * (1 + share)))))
    total, began_s = turns * len(prompts), clock()
    for done in range(total):
        sink.stage("confirming", done, within(spec.confirm_s, done, total, clock() - began_s))
        turn, place = divmod(done, len(prompts))
        first = (place + turn + spec.seed) % len(policies)
        calls.block("confirmation", prompts[place], [*policies[first:], *policies[:first]], budgets[prompts[place]])
        if clock() - began_s >= spec.confirm_s or (done + 1 >= len(prompts) and tight(sink.run(), chosen)):
            break
    sink.stage("confirming", total, total)


def within(most_s: float, done: int, total: int, spent_s: float) -> int:
    """For how many of `total` comparisons the time reaches, at the pace of those that are done; so whoever waits sees it go on evenly."""
    return min(total, ceil(done * most_s / spent_s)) if done else total


def plain_seconds(run: Run, budgets: Sequence[int]) -> float:
    """About how long plain decoding of all prompts takes, from the calibration's plain calls."""
    calls = [g for g in run.generations if isinstance(g.policy, Plain) and g.tells_speed]
    return sum(g.total_s for g in calls) / sum(g.tokens for g in calls) * sum(budgets)
