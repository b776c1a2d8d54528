"""What pressing the button will begin: how many runs, and about how long they take."""

from collections.abc import Sequence

from core.runs import RunSpec
from core.ui import look


def show(specs: Sequence[RunSpec]) -> None:
    """One quiet line beside the button."""
    if len(specs) > 1:
        look.note("One run per draft, one after the other; the target answers once.")
