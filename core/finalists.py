"""Which settings are worth a real run, from what a run has measured so far; and when their real runs suffice.

The recommended setting (`core.recommend`, of all fixed lengths and of limits with confidence thresholds), the best of the other kind
as runner-up, the library's own default, because it is what one gets without a choice, and prompt lookup where it is predicted within `NEAR`
of the best. So the best fixed length is always among them. Speedups are ratios to plain decoding.
"""

from collections.abc import Callable, Sequence
from math import log
from typing import cast

import pandas as pd

from core import columns as col
from core.errors import NotMeasured
from core.policies import Confidence, Drafting, FixedGamma, Heuristic, Policy, PromptLookup, TransformersDefault
from core.predict import GAMMAS, default_policies, predict
from core.recommend import decide
from core.runs import Run

LIMITS, THRESHOLDS = (3, 5, 8, 12, 20), (0.2, 0.4, 0.6, 0.8)
NEAR = 0.9
TIGHT = log(1.03)
"""Half-width of a log speedup's interval on these prompts that is tight enough."""


def finalists(run: Run) -> tuple[list[Policy], float]:
    """The settings to run beside plain, the recommended first; and how long all of them take together, in plain answers.

    The library's own default where nothing can be predicted, as with answers of one token. A threshold that adapts itself (with
    scikit-learn) is not one that was predicted, so that then only the library's default is run with one.
    """
    try:
        table = predict(unconfirmed(run), _field(run))
    except NotMeasured:
        return [TransformersDefault()], 1.0
    speedups = dict(zip(table[col.POLICY], table[col.SPEEDUP], strict=True))
    best = decide(_where(table, lambda policy: isinstance(policy, Drafting))).policy
    other = decide(_where(table, lambda policy: isinstance(policy, Drafting) and _adapts(policy) != _adapts(best))).policy
    chosen = list(dict.fromkeys([best, other, TransformersDefault()]))
    lookups = [policy for policy in speedups if isinstance(policy, PromptLookup)]
    nearest = max(lookups, key=lambda policy: speedups[policy], default=None)
    if nearest is not None and speedups[nearest] >= NEAR * speedups[best]:
        chosen.append(nearest)
    return chosen, sum(1 / speedups[policy] for policy in chosen)


def tight(run: Run, policies: Sequence[Policy]) -> bool:
    """Whether the interval of each setting on these prompts is narrow enough, or will never be, because answers have one token."""
    try:
        rows = predict(run, policies).to_dict("records")
    except NotMeasured:
        return True
    return all(row[col.MEASURED_LOW] is not None and log(row[col.MEASURED_HIGH] / row[col.MEASURED_LOW]) / 2 <= TIGHT for row in rows)


def unconfirmed(run: Run) -> Run:
    """The run before its confirmation."""
    return run.model_copy(update={"generations": tuple(g for g in run.generations if g.purpose != "confirmation")})


def _field(run: Run) -> list[Policy]:
    adaptive = run.environment is not None and run.environment.scikit_learn
    swept = [] if adaptive else [Confidence(threshold, limit) for limit in LIMITS for threshold in THRESHOLDS]
    lookups = [policy for policy in default_policies(run) if isinstance(policy, PromptLookup)]
    return list(dict.fromkeys([*map(FixedGamma, GAMMAS), TransformersDefault(), Heuristic(persistent=False), *swept, *lookups]))


def _where(table: pd.DataFrame, wanted: Callable[[Policy], bool]) -> pd.DataFrame:
    return cast("pd.DataFrame", table.loc[[wanted(policy) for policy in table[col.POLICY]]])


def _adapts(policy: Policy) -> bool:
    """Whether the draft length follows the text."""
    return isinstance(policy, Drafting) and (policy.threshold > 0 or policy.schedule != "constant")
