"""What a run shows that was imported from an engine's record, or as two numbers: alpha, where it is from, and what is not known."""

import streamlit as st

from core.imports import WORDS
from core.record import Imported
from core.runs import Run
from core.ui import look
from core.ui.frame import page_path
from core.ui.what_if import NO_RUN, Costs, rounded

NOT_KNOWN = "not known"


def show(run: Run) -> None:
    """The page of such a run, without its buttons."""
    imported = headline(run)
    look.fact_row(
        [
            look.Fact("alpha, acceptance", _number(imported.alpha, ".3f"), meaning="Chance that a drafted token is accepted, after conversion."),
            look.Fact("c, drafted token", _number(imported.c, ".3f"), meaning="One draft step / one target step."),
            look.Fact("gamma", _number(imported.gamma, "d"), meaning="Most tokens that the draft proposed in a round."),
            look.Fact("accepted / drafted", _counts(imported), meaning="What the engine counted. It falls with gamma, so it is not alpha."),
            look.Fact("rounds", _number(imported.rounds, ",d"), meaning="Passes in which the target checked drafted tokens."),
        ]
    )
    missing = [name for name, value in (("alpha", imported.alpha), ("c", imported.c)) if value is None]
    lacks = f"{' and '.join(missing)}, single tokens, times" if missing else "single tokens, times"
    look.note(f"Not in this record: {lacks} and prompts. So nothing can be replayed, and no speedup is claimed: what-if values are all it can give.")


def headline(run: Run) -> Imported:
    """Alpha in a sentence, and how it was converted; returns what was imported."""
    imported = run.imported
    assert imported is not None
    known = "alpha is not known" if imported.alpha is None else f"alpha {imported.alpha:.2f}"
    where = f", {look.code(imported.reference)}" if imported.reference else ""
    words = f"From {look.plain(WORDS[imported.source])}{where}."
    look.headline(f"Imported: {known}", f"{words}\n\n:small[:gray[{look.plain(imported.definition)}]]")
    return imported


def what_if_button(run: Run) -> None:
    """The page's primary button: to the page gamma, which begins with these values."""
    if st.button("Try what-if values", type="primary", icon=":material/tune:"):
        st.switch_page(page_path("gamma"), query_params={"run": run.id})


def start(imported: Imported) -> Costs:
    """Where the what-if sliders begin: what is known, and the usual values for the rest."""
    alpha = NO_RUN.alpha if imported.alpha is None else imported.alpha
    return rounded(Costs(alpha, NO_RUN.c if imported.c is None else imported.c, NO_RUN.v, NO_RUN.h))


def guesses(imported: Imported) -> str:
    """Which of the sliders' values are no knowledge, in a sentence."""
    guessed = [f"{name} {value:g}" for name, value, known in _defaults(imported) if known is None]
    return f"Not in the record, and only a beginning: {', '.join(guessed)}. Move them to what you expect, or measure."


def _defaults(imported: Imported) -> list[tuple[str, float, float | None]]:
    return [("alpha", NO_RUN.alpha, imported.alpha), ("c", NO_RUN.c, imported.c), ("v", NO_RUN.v, None), ("h", NO_RUN.h, None)]


def _number(value: float | None, form: str) -> str:
    return NOT_KNOWN if value is None else f"{value:{form}}"


def _counts(imported: Imported) -> str:
    if imported.drafted is None or imported.accepted is None:
        return NOT_KNOWN
    return f"{imported.accepted / imported.drafted:.3f}" if imported.drafted else NOT_KNOWN
