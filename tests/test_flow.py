"""The four questions: each answer, and the step that the first no or the first gap leads to."""

import pytest

from core.flow import RUN, Measured, flow
from core.vocab import Vocabulary, compare

WORDS = {f"word{i}": i for i in range(100)}
SAME = compare(Vocabulary(WORDS, 100), Vocabulary(WORDS, 100))
PADDED = compare(Vocabulary(WORDS, 128), Vocabulary(WORDS, 100))
PAIR = ("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B")
GOOD = Measured(0.7, 0.1, 1.4, "fixed gamma 4")
FITS = ("fits", "12.0 GiB are free.")


def answers(made):
    return [question.answer for question in made.questions]


def test_nothing_known_yet():
    made = flow("somebody/model", "somebody/other")
    assert answers(made) == ["not known yet"] * 4
    assert made.decided == "family"
    assert [question.key for question in made.questions] == ["family", "vocabulary", "pays", "fits"]


def test_every_yes_leads_to_the_confirmation():
    made = flow(*PAIR, verdict=SAME, measured=GOOD, fits=FITS)
    assert answers(made) == ["yes"] * 4
    assert (made.decided, made.step) == (None, RUN)
    assert made.questions[0].sentence == "Both are Qwen3; the draft has 1/14 of the active parameters."
    assert made.questions[2].sentence == "alpha 0.70, c 0.10; fixed gamma 4 ran at 1.40x."


@pytest.mark.parametrize(
    ("changed", "decided", "word"),
    [
        ({"verdict": PADDED}, "vocabulary", "both tokenizers"),
        ({"measured": Measured(0.4, 0.6)}, "pays", "Leave it off"),
        ({"measured": Measured(0.7, 0.6, 0.95, "fixed gamma 1")}, "pays", "Leave it off"),
        ({"fits": ("does not fit", "2 GiB are missing.")}, "fits", "larger GPU"),
        ({"measured": None}, "pays", "Measure the pair"),
        ({"fits": None}, "fits", "memory and cost"),
        ({"verdict": None}, "vocabulary", "tokenizers"),
    ],
)
def test_the_first_no_or_gap_decides(changed, decided, word):
    made = flow(*PAIR, **({"verdict": SAME, "measured": GOOD, "fits": FITS} | changed))
    assert made.decided == decided
    assert word in made.step


def test_a_no_weighs_more_than_an_earlier_gap():
    made = flow("somebody/model", "somebody/other", verdict=PADDED)
    assert (answers(made)[:2], made.decided) == (["not known yet", "no"], "vocabulary")


def test_what_is_missing_for_the_memory_is_named():
    assert flow(*PAIR).questions[3].sentence == "No GPU has been chosen yet."
    assert flow(*PAIR, gpu="H100 SXM").questions[3].sentence == "Not both sizes are known, so H100 SXM cannot be judged."


def test_a_pair_outside_the_table_with_the_same_tokens_is_of_one_family():
    made = flow("somebody/model", "somebody/other", verdict=SAME)
    assert (answers(made)[:2], made.decided) == (["yes", "yes"], "pays")


def test_family():
    assert answers(flow("Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B"))[0] == "no"
    assert answers(flow("somebody/model", "somebody/other", suggestions=[1]))[0] == "yes"
    assert answers(flow("HuggingFaceTB/SmolLM2-135M", "Qwen/Qwen3-0.6B"))[0] == "no"
    assert answers(flow(*PAIR, fits=("tight", "little is free")))[3] == "yes"
