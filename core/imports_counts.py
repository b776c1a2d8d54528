"""What an engine's own record says, and alpha from it, whatever the engine.

All of them count under one policy, so that they can give accepted / examined drafts at most: a draft is examined when all before it in its
round were accepted. Draftgauge's own alpha is the mean over all answer positions (`core.acceptance`), which differs from it a little
(0.66 against 0.70 at gamma 1 in one trial). Counts in tokens and rounds.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from core.errors import InvalidInput
from core.record import Imported
from core.theory import alpha_from_counts

MOST = 2**53
LONGEST_ROUND = 1_000
EXAMINED = "Alpha is accepted / examined drafts; the mean over all answer positions, which Draftgauge measures itself, differs from it a little."
DEEPEST = 50
LONGEST_LINE = 4_000
NUMBER = r"(?:[0-9]{1,20}(?:\.[0-9]{1,20})?|\.[0-9]{1,20})(?:[eE][-+]?[0-9]{1,3})?"
"""Without a choice of where its digits go, so that no text makes it slow."""


@dataclass(frozen=True)
class Found:
    """A record as read, and the names of the models where it says them."""

    imported: Imported
    target: str = ""
    draft: str = ""


@dataclass(frozen=True)
class Counts:
    """Sums over requests. rejections: rounds that ended in a rejection, None where unknown; exact: False where some of them may only have been
    cut short, so that alpha is at least what follows. lengths: draft lengths that the engine was set to.
    """

    accepted: int
    drafted: int
    rounds: int | None = None
    rejections: int | None = None
    exact: bool = True
    lengths: frozenset[int] = frozenset()

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.accepted + other.accepted,
            self.drafted + other.drafted,
            None if self.rounds is None or other.rounds is None else self.rounds + other.rounds,
            None if self.rejections is None or other.rejections is None else self.rejections + other.rejections,
            self.exact and other.exact,
            self.lengths | other.lengths,
        )

    @property
    def gamma(self) -> int | None:
        """The draft length, where there is one for all."""
        return one_length(self.lengths)

    @property
    def ratio(self) -> float:
        """Accepted / drafted."""
        return self.accepted / self.drafted

    @property
    def alpha(self) -> float | None:
        """Accepted / examined; None where that is not known."""
        if self.rejections is None or self.accepted + self.rejections == 0:
            return None
        return float(alpha_from_counts(self.accepted, self.rejections))


def one_length(lengths: Collection[int]) -> int | None:
    """The only one of the lengths, if a round can have it."""
    length = next(iter(lengths), 0) if len(lengths) == 1 else 0
    return length if 1 <= length <= LONGEST_ROUND else None


def bounded_lines(text: str) -> Iterator[str]:
    """The lines of a log, without those that are longer than any engine writes."""
    return (line for line in text.split("\n") if len(line) <= LONGEST_LINE)


def checked(counts: Counts, where: str) -> Counts:
    """The counts. Raises InvalidInput when they cannot be, or nothing was drafted."""
    if counts.drafted == 0:
        raise InvalidInput(f"{where}: nothing was drafted, so nothing is known of the pair. Record some traffic with drafting on.")
    if not 0 <= counts.accepted <= counts.drafted <= MOST:
        raise InvalidInput(f"{where}: {counts.accepted:,} accepted of {counts.drafted:,} drafted tokens cannot be. Record it again.")
    if counts.rounds is not None and not 0 < counts.rounds <= MOST:
        raise InvalidInput(f"{where}: {counts.rounds:,} rounds cannot be. Record it again.")
    return counts


def count(value: object, where: str) -> int:
    """A count. Raises InvalidInput for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        raise InvalidInput(f"{where} is {str(value)[:40]!r}, and no count of tokens. Record it again.")
    return value


def counts_of(value: object, where: str) -> list[int]:
    """A list of counts. Raises InvalidInput for anything else."""
    if not isinstance(value, list):
        raise InvalidInput(f"{where} is {str(value)[:40]!r}, and no list of counts. Record it again.")
    return [count(each, f"{where}[{place}]") for place, each in enumerate(cast("list[object]", value))]


def objects(value: object, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Every JSON object in a value, itself included, outermost first; none below a depth that no engine writes."""
    inside: list[object] = []
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        yield found
        inside = list(found.values())
    elif isinstance(value, list):
        inside = cast("list[object]", value)
    if depth < DEEPEST:
        for each in inside:
            yield from objects(each, depth + 1)
