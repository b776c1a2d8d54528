"""Calls that stood still amid their work, because the machine was stopped, swapped or taken away: they say nothing about speed.

A timed block is repeated while it is disturbed (`core.worker.timing.Quiet`), but on an accelerator nobody can tell, and a machine may
stay busy for longer than one would wait. What remains is told by its size: times that should be alike, each relative to what was
expected of it, are compared with their median, and those beyond a factor of it are left out, in both directions, because the call that
stood still may be the one that was compared with. A median is not moved by the few; with fewer than three nothing can be told.
Nothing is left out that differs less: that is noise, and belongs into the intervals. Unitless.
"""

import numpy as np
from numpy.typing import NDArray

FACTOR = 2.0
"""Of ratios to what was expected. Confirmed settings depart from their prediction by a few per cent, single sampled answers by up to a third."""
PLAIN_FACTOR = 3.0
"""Of plain steps, which also differ between short and long prompts."""
LEAST = 3


def keeps_moving(values: NDArray[np.float64], factor: float = FACTOR) -> NDArray[np.bool_]:
    """(n,) positive values -> (n,) whether each is within `factor` of their median; all of them where there are fewer than three."""
    if len(values) < LEAST:
        return np.ones(len(values), dtype=np.bool_)
    middle = np.median(values)
    return (values <= factor * middle) & (values >= middle / factor)
