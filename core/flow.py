"""The method note's four questions with this pair's answers, and the step they lead to, as plain data for drawing.

Asked in order: is there a small model of the same family; are the vocabularies the same; is alpha above c, measured; does it fit in
memory. The first "no" decides the step; the first question that is not answered yet is the next thing to do. Source: the method
that this program implements, after Leviathan et al. 2022 (Corollary 3.9: at one drafted token alpha must exceed c).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from core.suggest import Known, find
from core.vocab import VocabVerdict

Answer = Literal["yes", "no", "not known yet"]
Key = Literal["family", "vocabulary", "pays", "fits"]


class Question(NamedTuple):
    """One question with this pair's answer, the sentence that says why, and the step that a "no" leads to."""

    key: Key
    text: str
    answer: Answer
    sentence: str
    otherwise: str


class Measured(NamedTuple):
    """What a finished run of this pair found: alpha, c, and the measured speedup of its best setting with that setting's name ("" for none)."""

    alpha: float
    c: float
    speedup: float | None = None
    setting: str = ""


@dataclass(frozen=True)
class Flow:
    """The questions in order, and the step they lead to now. decided: the key of the question that decided it; None: all were answered yes."""

    questions: tuple[Question, ...]
    decided: Key | None
    step: str


_STEPS: Mapping[Key, str] = {
    "family": "Try prompt lookup, or distil a draft from the target's answers.",
    "vocabulary": "Use universal assisted decoding with both tokenizers, or choose a draft with the target's tokenizer.",
    "pays": "Leave it off, or try a smaller or shallower draft.",
    "fits": "Use a smaller or quantised draft, a shorter context, or a larger GPU.",
}
_NEXT: Mapping[Key, str] = {
    "family": "Search the Hub for a smaller model with the target's tokenizer.",
    "vocabulary": "Wait for both tokenizers to be read.",
    "pays": "Measure the pair on your own prompts.",
    "fits": "See what both models take on the page memory and cost.",
}
RUN = "Run the best fixed setting and the library's default side by side on your prompts, and keep the faster."


def flow(
    target: str,
    draft: str,
    suggestions: Sequence[object] = (),
    verdict: VocabVerdict | None = None,
    measured: Measured | None = None,
    fits: tuple[Literal["fits", "tight", "does not fit"], str] | None = None,
    gpu: str = "",
) -> Flow:
    """The four answers for the pair of addresses.

    suggestions: smaller models of the target's family (`core.suggest`); measured: None before a run is done; fits: the verdict and
    reason of `core.memory.fit`, None before a GPU is chosen or both sizes are known; gpu: its name, "" before one is chosen.
    """
    questions = (_family(target, draft, suggestions, verdict), _vocabulary(verdict), _pays(measured), _fits(fits, gpu))
    for question in questions:
        if question.answer == "no":
            return Flow(questions, question.key, question.otherwise)
    for question in questions:
        if question.answer == "not known yet":
            return Flow(questions, question.key, _NEXT[question.key])
    return Flow(questions, None, RUN)


def _question(key: Key, text: str, answer: Answer, sentence: str) -> Question:
    return Question(key, text, answer, sentence, _STEPS[key])


def _family(target: str, draft: str, suggestions: Sequence[object], verdict: VocabVerdict | None) -> Question:
    text = "Is there a small model of the same family?"
    large, small = find(target), find(draft)
    if large and small and large.group == small.group:
        smaller = small.active_parameters < large.active_parameters
        return _question("family", text, "yes" if smaller else "no", _sizes(large, small))
    if suggestions:
        return _question(
            "family", text, "yes", f"{len(suggestions)} smaller {'model is' if len(suggestions) == 1 else 'models are'} known; see the suggestions."
        )
    if verdict is not None and verdict.native:
        return _question("family", text, "yes", "The draft has the target's tokens.")
    if large:
        return _question("family", text, "no", f"No smaller model of {large.family} is in the table of families.")
    return _question("family", text, "not known yet", "The target is not in the table of families.")


def _sizes(large: Known, small: Known) -> str:
    ratio = large.active_parameters / small.active_parameters
    if ratio <= 1:
        return f"Both are {large.family}, but the draft is not the smaller one."
    return f"Both are {large.family}; the draft has 1/{ratio:.0f} of the active parameters."


def _vocabulary(verdict: VocabVerdict | None) -> Question:
    text = "Do both have the same vocabulary?"
    if verdict is None:
        return _question("vocabulary", text, "not known yet", "The tokenizers have not been compared yet.")
    return _question("vocabulary", text, "yes" if verdict.native else "no", verdict.sentence)


def _pays(measured: Measured | None) -> Question:
    text = "Is alpha above c, measured?"
    if measured is None:
        return _question("pays", text, "not known yet", "Only a measurement on your prompts can say.")
    numbers = f"alpha {measured.alpha:.2f}, c {measured.c:.2f}"
    if measured.speedup is not None and measured.setting:
        really = f"; {measured.setting} ran at {measured.speedup:.2f}x"
        return _question("pays", text, "yes" if measured.alpha > measured.c and measured.speedup > 1 else "no", f"{numbers}{really}.")
    return _question("pays", text, "yes" if measured.alpha > measured.c else "no", f"{numbers}.")


def _fits(fits: tuple[Literal["fits", "tight", "does not fit"], str] | None, gpu: str) -> Question:
    text = "Do both fit in memory?"
    if fits is None:
        return _question(
            "fits", text, "not known yet", f"Not both sizes are known, so {gpu} cannot be judged." if gpu else "No GPU has been chosen yet."
        )
    return _question("fits", text, "no" if fits[0] == "does not fit" else "yes", fits[1])
