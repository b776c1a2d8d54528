"""Where greedy answers with and without a draft part: rounding at a near tie, or a real difference. Sampled texts are never compared."""

from collections.abc import Sequence

import streamlit as st

from core import placement
from core.measured import NEAR_TIE, Difference, Generation
from core.policies import describe
from core.runs import Run
from core.ui import look


def show(run: Run, compared: int, differing: Sequence[Generation]) -> None:
    """A note where near ties explain it all, a warning where they do not; nothing where texts are equal.

    compared: assisted answers that were compared; differing: those that are not equal to plain. 16 bits round differently in a
    batch, a check and a single step, so that there differing texts without a known margin are only noted.
    """
    if not differing:
        return
    exact = placement.exact(run.spec)
    real = [each for each in run.differences if each.near_tie is False]
    tied = {(each.prompt, each.token) for each in run.differences if each.near_tie}
    unexplained = [g for g in differing if (g.prompt, g.first_difference) not in tied]
    said = f"**Assisted answers that differ from plain decoding: {len(differing)} of {compared}.**"
    if not unexplained:
        look.note(f":material/difference: {said} {_near_tie(run, len(tied))}")
    elif real:
        st.warning(f"{said} {_real(real[0])} Do not rely on equal texts before you know why.", icon=":material/difference:")
    elif exact:
        st.warning(
            f"{said} In float32 all should be equal. The first is at {_place(unexplained[0])}, with {look.plain(describe(unexplained[0].policy))}. "
            "Do not rely on equal texts before you know why.",
            icon=":material/difference:",
        )
    else:
        rounds = f"{look.plain(placement.format_words(run.spec))} rounds differently in a check and in a single step"
        look.note(f":material/difference: {said} {rounds}; sums are compared, not texts.")
    st.space("xxsmall")


def _near_tie(run: Run, places: int) -> str:
    first = next(each for each in run.differences if each.near_tie)
    every = "They part at a near tie" if places == 1 else f"They part at {places} near ties, the first"
    return (
        f"{every} at token {first.token + 1} of prompt {first.prompt + 1}: in float32 both choices lie {first.margin:.2g} apart, and "
        f"{run.spec.dtype} can turn anything below {NEAR_TIE[run.spec.dtype]:g}. Which of both is written is a matter of rounding."
    )


def _real(first: Difference) -> str:
    return (
        f"A real difference at token {first.token + 1} of prompt {first.prompt + 1}, with {look.plain(describe(first.policy))}: in float32 both "
        f"choices lie {first.margin:.2g} apart, and rounding in {first.dtype} explains less than {NEAR_TIE[first.dtype]:g}."
    )


def _place(first: Generation) -> str:
    return f"prompt {first.prompt + 1}" if first.first_difference is None else f"token {first.first_difference + 1} of prompt {first.prompt + 1}"
