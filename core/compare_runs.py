"""What runs beside each other say: their numbers, their labels, and the paired test of their best settings.

The numbers are those of `core.analysis`. The paired test compares speedups, each over plain decoding of its own run, prompt by prompt, so
that what a prompt does to both cancels (`core.intervals.paired_ratio`). Where a side is predicted, its model's own error is added in
quadrature. Speedups are ratios to plain decoding, decode only; costs are in plain target steps.
"""

from collections import Counter
from dataclasses import dataclass
from math import log
from typing import Literal

import numpy as np
import pandas as pd  # pyright: ignore[reportMissingTypeStubs]

from core import columns as col
from core.analysis import Analysis, Unfinished
from core.comparison import LETTERS, fingerprint
from core.errors import InvalidInput, NotMeasured
from core.group import amounts
from core.intervals import LEAST_PROMPTS, Interval, in_quadrature, interval, paired_ratio
from core.policies import Policy, describe
from core.predict import by_label
from core.recommend import FLAT
from core.runs import Run

Unit = Literal["ratio", "share", "cost", "ms", "tokens", "error"]
WIDTHS = (2, 5, 9)
"""Tokens of the target passes whose price is listed: among those that every run times."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One run of a comparison: its place, which gives letter and colour, and what is known of it; seen is None while it runs."""

    place: int
    run: Run
    seen: Analysis | Unfinished | None

    @property
    def letter(self) -> str:
        """What it is called in tables and charts."""
        return LETTERS[self.place]

    @property
    def analysis(self) -> Analysis | None:
        """The analysis of a run that has one."""
        return self.seen if isinstance(self.seen, Analysis) else None

    @property
    def alpha(self) -> float | None:
        """Acceptance, as far as it is known."""
        if isinstance(self.seen, Analysis):
            return self.seen.alpha.value
        if isinstance(self.seen, Unfinished) and self.seen.alpha:
            return self.seen.alpha.value
        return self.run.imported.alpha if self.run.imported else None


@dataclass(frozen=True)
class Quantity:
    """One number of a run; None where it does not exist. unit: how it is written and how two of them are compared."""

    name: str
    value: float | None
    unit: Unit
    bounds: Interval | None = None


def quantities(seen: Analysis) -> list[Quantity]:
    """The numbers of a run, always the same names in the same order."""
    advice, costs = seen.advice, seen.costs
    row = seen.row(advice.policy)
    return [
        Quantity("Speedup of its best setting, these prompts", advice.speedup, "ratio", advice.on_these_prompts),
        Quantity("The same for traffic like these", advice.speedup if advice.for_traffic else None, "ratio", advice.for_traffic),
        Quantity("End to end, predicted", row[col.END_TO_END], "ratio"),
        Quantity("Tokens per round, predicted", row[col.TOKENS_PER_ROUND], "tokens"),
        Quantity("alpha, acceptance", seen.alpha.value, "share", seen.alpha.for_traffic),
        Quantity("c, a drafted token in the loop", costs.c, "cost"),
        *(Quantity(f"v({width}), target pass over {width} tokens", float(costs.verify_up_to(width - 1)[-1]), "cost") for width in WIDTHS),
        Quantity("h, rest of a round", costs.round_overhead, "cost"),
        Quantity("e, rest of a drafted token", costs.token_overhead, "cost"),
        Quantity("Calibration error, one standard deviation", costs.calibration_error, "error"),
        Quantity("Plain step", costs.plain_step_s * 1000, "ms"),
    ]


@dataclass(frozen=True)
class Paired:
    """How a run's best setting compares with the baseline's: its speedup / the baseline's on the shared prompts.

    between: 95 % interval, None below 8 shared prompts. says: what that means, for a table. shared 0 where nothing could be tested.
    """

    ratio: float | None
    between: Interval | None
    shared: int
    says: str


def paired(one: Analysis, baseline: Analysis) -> Paired:
    """The paired test over the prompts that both runs have."""
    first, second = _amounts(one), _amounts(baseline)
    shared = [key for key in second if key in first]
    if not shared:
        withheld = any(prompt.withheld for side in (one, baseline) for prompt in side.run.spec.prompts)
        return Paired(None, None, 0, f"cannot be tested: {'texts are withheld, so no prompt is known to be' if withheld else 'no prompt is'} in both")
    above = np.array([[side[key][0] for key in shared] for side in (first, second)])
    below = np.array([[side[key][1] for key in shared] for side in (first, second)])
    ratio, prompts_alone = paired_ratio(above, below)
    if prompts_alone is None:
        return Paired(ratio, None, len(shared), f"not tested: fewer than {LEAST_PROMPTS} prompts in common")
    models = [side.row(side.advice.policy)[col.MODEL_HALF] for side in (one, baseline) if not side.advice.confirmed]
    half = in_quadrature(log(prompts_alone.high / prompts_alone.low) / 2, *models) or 0.0
    between = interval(log(ratio), half)
    return Paired(ratio, between, len(shared), _verdict(between, half))


def _amounts(seen: Analysis) -> dict[tuple[str, int], tuple[float, float]]:
    """Plain and assisted amounts of the best setting by prompt, and by the how many-th of its like it is."""
    policy, met, keys = seen.advice.policy, Counter[str](), list[tuple[str, int]]()
    for prompt in seen.run.spec.prompts:
        known = fingerprint(prompt)
        keys.append((known, met[known]))
        met[known] += 1
    return {keys[at]: pair for at, pair in amounts(seen.run, seen.row(policy), confirmed=seen.advice.confirmed).items()}


def _verdict(between: Interval, half: float) -> str:
    if between.high < 1:
        return "gains less"
    if between.low > 1:
        return "gains more"
    return "gains as much" if half < 2 * log(FLAT) else "not told apart; more prompts would help"


def setting(seen: Analysis) -> str:
    """The best setting of a run and how it is known."""
    return f"{describe(seen.advice.policy)}, {'confirmed' if seen.advice.confirmed else 'predicted'}"


def labels(seen: Analysis) -> pd.DataFrame:
    """By label: prompts, alpha and predicted speedup of the best setting (`core.predict.by_label`); empty where nothing can be said."""
    policy: Policy = seen.advice.policy
    try:
        return by_label(seen.run, policy)
    except (NotMeasured, InvalidInput):
        return pd.DataFrame(columns=["label", "prompts", "alpha", "speedup"])
