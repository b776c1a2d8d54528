"""From timed passes to what a pass of any width costs at any length of the cache. Unitless where not said: plain steps.

A pass is set against the one-token pass right before it, so that a drifting machine cancels. Times that fall where a width or the cache grows
are noise; between two measured widths nothing is known where the two disagree, since kernels switch there. Used by `core.timing`.
"""

import numpy as np

from core.measured import PassTimes
from core.rounds import Floats

AGREE = 1.25
"""Two measured widths agree when their times differ by less than this factor."""


def ratios(passes: PassTimes, step_s: float) -> tuple[Floats, Floats]:
    """The target's v at the measured widths, and the draft's (d1, d2), in plain steps."""
    share = passes.target[1].median_s / step_s
    verify = np.array([1 + (passes.target[n].median_s / passes.target_one_s[n] - 1) * share if n > 1 else 1.0 for n in sorted(passes.target)])
    draft = np.array([passes.draft[width].median_s / passes.target_one_beside_draft_s[width] * share for width in (1, 2)])
    return verify, draft


def at_length(cached: float, passes: tuple[PassTimes, ...], values: list[Floats]) -> Floats:
    """Values at `cached` tokens, interpolated between the measured cache lengths and held beyond them."""
    order = sorted(range(len(passes)), key=lambda at: passes[at].cache_tokens)
    lengths = [passes[at].cache_tokens for at in order]
    return np.array([np.interp(cached, lengths, [values[at][column] for at in order]) for column in range(len(values[0]))])


def rising(values: Floats) -> Floats:
    """The closest values that never fall (isotonic regression): a falling stretch becomes its mean."""
    pools: list[tuple[float, int]] = []
    for value in values.tolist():
        total, count = value, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            before = pools.pop()
            total, count = total + before[0], count + before[1]
        pools.append((total, count))
    return np.repeat([total / count for total, count in pools], [count for _, count in pools])


def between_widths(widths: list[int], values: Floats) -> Floats:
    """(W+1,) values for every width up to the widest: linear where the measured neighbours agree, else the dearer of the two."""
    every = np.arange(widths[-1] + 1)
    filled = np.interp(every, widths, values)
    for left, right, low, high in zip(widths[:-1], widths[1:], values[:-1], values[1:], strict=True):
        if max(low, high) > AGREE * min(low, high):
            filled[left + 1 : right] = max(low, high)
    return filled
