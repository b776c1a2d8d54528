"""What single passes say of a pair before anybody knows how often the draft is right: costs by batch and by length, and no speedup.

A run of the extent "shapes" times passes at several batch sizes B and cache lengths L (`core.worker.shapes`). From each combination follow
v(B x n), the target's pass over n tokens of each of B texts / its step of B texts at the same length, and d1 and d2, the draft's passes of B
texts / that step. All are ratios of isolated passes: no loop was run, so h and e are 0 unless a measurement of the pair gives them.
With these costs the speedup of one text at a time depends on alpha alone; which alpha would be needed is `core.theory` inverted.

When is checking dear? A round of 4 drafted tokens writes at most 5, so with a draft that is free and always right it gains
5 / v(5). Where that is below `CHEAP_GAIN`, checking is called dear: v(5) above 2.5. Nothing follows for a real draft where it is not.
Times in seconds. Not covered: speedups of batches, whose texts would accept differently many tokens in the same round.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core import theory
from core.errors import NotMeasured
from core.landscape import ALPHA_EDGES, GAMMAS, Floats, best_speedup
from core.measured import PassTimes
from core.runs import Run
from core.timing import LoopCosts, passes_alone

WANTED = 1.2
"""A speedup worth an engineer's while; the alpha that it needs is what the page answers."""
CHECKED = 5
"""Tokens of the pass whose price stands for checking: four drafted, and the target's own."""
CHEAP_GAIN = 2.0
DEAR = CHECKED / CHEAP_GAIN
WIDTHS = (1, 2, 3, 4, CHECKED, 6, 7, 9, 13, 21)
FEW_WIDTHS = (1, 2, CHECKED, 9)
"""Widths that are timed at the smallest batch, and at every other."""


@dataclass(frozen=True, eq=False)
class Cell:
    """One combination that was asked for. costs: as `core.timing.passes_alone`, None where nothing was timed; problem: why not."""

    batch: int
    cache_tokens: int
    times: PassTimes | None
    costs: LoopCosts | None
    problem: str = ""

    @property
    def verify(self) -> float | None:
        """v(B x 5)."""
        return None if self.costs is None else float(self.costs.verify[CHECKED])

    @property
    def c(self) -> float | None:
        """The draft's pass over one token of each text / the target's: d1, no loop included."""
        return None if self.costs is None else self.costs.draft_next

    @property
    def dear(self) -> bool:
        """Whether even a free draft that is always right would gain less than `CHEAP_GAIN` with four tokens a round."""
        return self.verify is not None and self.verify > DEAR


@dataclass(frozen=True, eq=False)
class Shapes:
    """All combinations of a run, by length and within it by batch."""

    run: Run
    cells: tuple[Cell, ...]

    @property
    def batches(self) -> tuple[int, ...]:
        """Batch sizes that were asked for, rising."""
        return tuple(sorted({cell.batch for cell in self.cells}))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Cache lengths that were asked for, rising."""
        return tuple(sorted({cell.cache_tokens for cell in self.cells}))

    @property
    def timed(self) -> tuple[Cell, ...]:
        """The combinations with timings."""
        return tuple(cell for cell in self.cells if cell.costs is not None)

    @property
    def base(self) -> Cell:
        """One text, or the smallest batch, at the shortest length that was timed: what the page's figures are of."""
        return min(self.timed, key=lambda cell: (cell.batch, cell.cache_tokens))

    @property
    def costs(self) -> LoopCosts:
        """The prices of the base, h and e 0."""
        assert self.base.costs is not None
        return self.base.costs

    def cell(self, batch: int, cache_tokens: int) -> Cell:
        """One of them."""
        return next(cell for cell in self.cells if (cell.batch, cell.cache_tokens) == (batch, cache_tokens))

    @property
    def dear(self) -> dict[int, list[int]]:
        """By length, the batches at which checking is dear; lengths where it never is are left out."""
        found: dict[int, list[int]] = {}
        for cell in self.timed:
            if cell.dear:
                found.setdefault(cell.cache_tokens, []).append(cell.batch)
        return found


@dataclass(frozen=True, eq=False)
class Column:
    """One column of the map: R rows of alpha with edges (R+1,), the best gamma (R,), 0 where nothing beats plain, and its speedup (R,)."""

    alpha_edges: Floats
    gamma: NDArray[np.integer[Any]]
    speedup: Floats


def results(run: Run) -> Shapes:
    """What came of a run of the extent "shapes". Raises NotMeasured where it ended before anything was timed."""
    found = {(passes.batch, passes.cache_tokens): passes for passes in run.passes}
    asked = [(batch, length) for length in sorted(run.spec.cache_lengths) for batch in sorted(run.spec.batches)]
    shapes = Shapes(run, tuple(_cell(batch, length, found.get((batch, length))) for batch, length in asked))
    if not shapes.timed:
        raise NotMeasured("This run ended before any pass was timed. Time the pair again.")
    return shapes


def with_loop(costs: LoopCosts, known: LoopCosts | None) -> LoopCosts:
    """The same passes with the loop of a measurement of the pair, where there is one: its h and e."""
    return costs if known is None else replace(costs, round_overhead=known.round_overhead, token_overhead=known.token_overhead)


def needed(costs: LoopCosts, wanted: float = WANTED) -> theory.NeededAlpha | None:
    """The smallest alpha at which one text at a time would be `wanted` times as fast, and its gamma; None where no draft could."""
    return theory.alpha_needed(wanted, costs.c, GAMMAS.tolist(), costs.verify_up_to(len(GAMMAS))[1:], costs.overhead)


def column(costs: LoopCosts) -> Column:
    """The map's column at this c: the best gamma and its speedup by alpha, with the timed v."""
    alpha = (ALPHA_EDGES[:-1] + ALPHA_EDGES[1:]) / 2
    gamma, speedup = best_speedup(alpha, np.array(costs.c), costs.verify_up_to(len(GAMMAS))[1:], costs.overhead)
    return Column(ALPHA_EDGES, np.where(speedup > 1, gamma, 0), speedup)


def says(shapes: Shapes) -> str:
    """Whether checking stays cheap, in a sentence with its rule."""
    rule = (
        f"It counts as cheap up to v({CHECKED}) = {DEAR:g}: above, even a free draft that is always right would gain less than {CHEAP_GAIN:g}x "
        "with four tokens a round."
    )
    places = [f"at batch {_listed(batches)} after {length:,} tokens" for length, batches in shapes.dear.items()]
    return f"Checking is no longer cheap {', '.join(places)}. {rule}" if places else f"Checking stays cheap wherever it was timed. {rule}"


def _listed(batches: list[int]) -> str:
    *most, last = map(str, batches)
    return f"{', '.join(most)} and {last}" if most else last


def _cell(batch: int, length: int, times: PassTimes | None) -> Cell:
    if times is None:
        return Cell(batch, length, None, None, "The run ended before it.")
    timed = bool(times.target) and bool(times.draft)
    return Cell(batch, length, times if timed else None, passes_alone(times) if timed else None, times.problem)
