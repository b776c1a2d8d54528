"""The best fixed gamma by the classical formula, until `core.predict` chooses it."""

import numpy as np

from core.policies import Drafting, FixedGamma
from core.runs import Run
from core.theory import best_gamma


def best_fixed(run: Run) -> Drafting:
    """Mean acceptance and the isolated draft step decide."""
    alpha = float(np.concatenate([trace.accept for trace in run.traces]).mean())
    passes = run.passes[0]
    cost = passes.draft[1].median_s / passes.target_one_beside_draft_s[1]
    return FixedGamma(max(1, int(best_gamma(alpha, cost).gamma)))
