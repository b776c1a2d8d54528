"""Where drafting pays: the best gamma and its speedup for every acceptance and cost.

The map's cells are even in alpha and logarithmic in c. `verify` and `overhead` are ratios to one
plain target step, as in `core.theory`; with verify 1 and overhead 0 this is Theorem 3.8 of Leviathan
et al. 2022. Published points to compare with are in `core.published`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core import theory

Floats = NDArray[np.floating[Any]]

GAMMAS = np.arange(1, 21)
C_EDGES: Floats = np.logspace(-2, 0, 13)
ALPHA_EDGES: Floats = np.linspace(0.275, 0.975, 15)
LOW_ALPHA_EDGES: Floats = np.linspace(0.025, 0.975, 20)


@dataclass(frozen=True)
class Landscape:
    """R rows of alpha by C columns of c: edges (R+1,), (C+1,); gamma (R, C), 0 where nothing beats plain; speedup (R, C).

    `break_even_c` and `break_even_alpha` (B,): for each c the smallest alpha at which some gamma reaches 1x.
    """

    alpha_edges: Floats
    c_edges: Floats
    gamma: NDArray[np.integer[Any]]
    speedup: Floats
    break_even_c: Floats
    break_even_alpha: Floats

    @property
    def alpha(self) -> Floats:
        """(R,) middle of each row."""
        return (self.alpha_edges[:-1] + self.alpha_edges[1:]) / 2

    @property
    def c(self) -> Floats:
        """(C,) geometric middle of each column."""
        return np.sqrt(self.c_edges[:-1] * self.c_edges[1:])


def best_speedup(alpha: Floats, c: Floats, verify: ArrayLike, overhead: float) -> tuple[NDArray[np.integer[Any]], Floats]:
    """Best gamma of 1..20 and its speedup, also where it is below 1x; `alpha` and `c` broadcast."""
    every = theory.speedup(alpha[..., None], GAMMAS, c[..., None], verify, overhead)
    return GAMMAS[every.argmax(axis=-1)], every.max(axis=-1)


def landscape(verify: ArrayLike = 1.0, overhead: float = 0.0, *, lowest_alpha: float = 0.3) -> Landscape:
    """The map for one machine's costs. `verify` is a scalar or one value per gamma 1..20; rows reach down to `lowest_alpha`."""
    per_gamma = np.broadcast_to(np.asarray(verify, dtype=float), GAMMAS.shape)
    edges = ALPHA_EDGES if lowest_alpha >= ALPHA_EDGES[0] else LOW_ALPHA_EDGES
    alpha, c = (edges[:-1] + edges[1:]) / 2, np.sqrt(C_EDGES[:-1] * C_EDGES[1:])
    gamma, speedup = best_speedup(alpha[:, None], c[None, :], per_gamma, overhead)
    line_c, fine = np.logspace(-2, 0, 60), np.linspace(edges[0], edges[-1], 281)
    reached = best_speedup(fine[:, None], line_c[None, :], per_gamma, overhead)[1] >= 1
    crosses = reached.any(axis=0) & ~reached[0]
    return Landscape(edges, C_EDGES, np.where(speedup > 1, gamma, 0), speedup, line_c[crosses], fine[reached.argmax(axis=0)[crosses]])
