"""The questions people ask before they switch drafting on, each with a short answer and the page that measures it.

Source of the figures: Leviathan et al. 2022, tables 1-4; Transformers 5.24's generation code.
"""

from typing import NamedTuple

import streamlit as st

from core.ui import look
from core.ui.frame import page_path


class Asked(NamedTuple):
    """A question, its answer, and the page that answers it for the reader's own pair."""

    question: str
    answer: str
    page: str
    label: str


QUESTIONS = (
    Asked(
        "How much smaller must the draft be?",
        "Start with the smallest model of the target's family, a tenth of its size or less. Size alone misleads: a deep, narrow draft can cost "
        "a third of a target step, because a step takes time per layer. What counts is c, the cost of a draft step, and it is measured.",
        "pair",
        "Compare drafts",
    ),
    Asked(
        "Is a larger draft with a higher acceptance faster?",
        "Usually not: its steps cost more than the extra accepted tokens save. Measure both in one go; the ranking is by speedup.",
        "measure",
        "Measure several drafts",
    ),
    Asked(
        "What should num_assistant_tokens be?",
        "It depends on alpha, c and the cost of checking, and too long is worse than too short. On the call to generate() it is ignored: "
        "it belongs into the draft's generation_config. The page shows every length, and the lines to copy.",
        "gamma",
        "Choose gamma",
    ),
    Asked(
        "Does the output change?",
        "Greedy: no, except where two tokens nearly tie and rounding decides. Sampling: the distribution stays, the text of one call does not. "
        "assistant_ensemble_weight does change the distribution; it is marked as lossy.",
        "side_by_side",
        "Watch both answers",
    ),
    Asked(
        "My draft has another tokenizer. Can it be used?",
        "With universal assisted decoding, at a higher cost per round; not in every engine. Vocabularies of equal size prove nothing, "
        "so the maps themselves are compared.",
        "pair",
        "Compare the vocabularies",
    ),
    Asked(
        "What does the draft cost in memory?",
        "Its weights, and a cache of its own beside the target's, so that fewer requests fit at the same time. Both are computed layer by layer.",
        "memory_cost",
        "See what fits",
    ),
    Asked(
        "What is it worth a month?",
        "With few requests at a time, GPU time falls to 1/speedup. With many, the gain shrinks and can turn; the page shows from where on.",
        "memory_cost",
        "See the cost",
    ),
    Asked(
        "Is no draft at all a sensible answer?",
        "Yes, and often. Prompt lookup needs no draft and wins where answers copy the input. Both stand in every ranking, "
        "and the answer can be to leave it off.",
        "measure",
        "Measure",
    ),
)


def show() -> None:
    """Every question folded, so that the list itself can be read at a glance."""
    for asked in QUESTIONS:
        with st.expander(asked.question):
            st.markdown(look.plain(asked.answer))
            st.page_link(page_path(asked.page), label=asked.label, icon=":material/arrow_forward:")
