"""What a measurement recorded, per prompt and answer position.

The target wrote `answer` by itself; the draft was then run once over the same text (teacher
forcing). From the two follow the rounds of every policy (`core.replay`), so nothing here
depends on a gamma. All arrays of one prompt share the length N, the answer's length.
Numbers are stored as they were measured; nothing is derived here.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Ended = Literal["eos", "length", "stop"]

LONGEST_TAIL = 20
GRAM = 8
"""Tokens of an n-gram whose repetition counts as one."""


@dataclass(frozen=True)
class Tails:
    """What the draft would go on to write after each of its wrong tokens (greedy decoding).

    position: (M,) int32, the answer positions where the draft's choice was wrong.
    confidence: (M, T) float32, the draft's probability of the tokens it would write next: column 0
        belongs to the token after the wrong one. NaN after the draft's own end of text.
    eos_at: (M,) int16, column in which the draft itself would end the text; -1 where it does not.
    """

    position: NDArray[np.int32]
    confidence: NDArray[np.float32]
    eos_at: NDArray[np.int16]


@dataclass(frozen=True)
class Lookup:
    """What prompt lookup with one n-gram size would propose at each answer position.

    candidates: (N,) int16, tokens proposed (at most 20, already cut before an end of text).
    matched: (N,) int16, how many of them equal the answer, counted from the first.
    """

    candidates: NDArray[np.int16]
    matched: NDArray[np.int16]


@dataclass(frozen=True)
class Sampled:
    """What is known besides under sampling. p is what the target, q what the draft really samples from, processors included.

    p: (N,) float32, p of the answer's token, kept while it was written. overlap: (N,) float32, sum of min(p, q) over the
        vocabulary: the chance that whatever the draft proposes there is accepted.
    stop_rejected: threshold -> (N,) float32, the chance that drafting stops at a token that is going to be rejected, because it is
        below the threshold or an end of text (at threshold 0 only the latter).
    greedy_hit: (N,) bool, True where the answer's token is the draft's first choice, for engines that draft greedily.
    clamped: positions where a recomputed p was 0 although the token was written; without a kept p it is then the least above 0.
    """

    p: NDArray[np.float32]
    overlap: NDArray[np.float32]
    stop_rejected: dict[float, NDArray[np.float32]]
    greedy_hit: NDArray[np.bool_]
    clamped: int = 0


@dataclass(frozen=True)
class PromptTrace:
    """One prompt: the target's answer and the draft's opinion of every token in it.

    prompt_tokens: length of the prompt in tokens.
    answer: (N,) int32 token ids, the end-of-text token included when the answer ended with it.
    pieces: the answer's text, one string per token.
    ended: "eos" when the target ended the text itself, "length" when the budget was used up, "stop" when a stop
        string was written and the answer was cut behind it.
    budget: max_new_tokens of the generation.
    accept: (N,) float32, probability that the draft's token is accepted at this position
        (greedy: 1 where the draft's first choice is the answer's token, else 0).
    confidence: (N,) float32, the draft's probability of the token it chose at this position (sampling: of the answer's token).
    draft_choice: (N,) int32, the token the draft chose (sampling: its first choice, which is not what it draws).
    draft_eos: (N,) bool, True where the token it chose is an end-of-text token.
    tails: rollouts after wrong tokens, or None when they were not recorded.
    lookup: n-gram size -> candidates at each position; empty when not recorded.
    sampled: None for greedy decoding.
    """

    prompt_tokens: int
    answer: NDArray[np.int32]
    pieces: tuple[str, ...]
    ended: Ended
    budget: int
    accept: NDArray[np.float32]
    confidence: NDArray[np.float32]
    draft_choice: NDArray[np.int32]
    draft_eos: NDArray[np.bool_]
    tails: Tails | None = None
    lookup: dict[int, Lookup] | None = None
    sampled: Sampled | None = None


def repeated_share(tokens: NDArray[np.int32], n: int = GRAM) -> float:
    """Share of the n-grams of `tokens` (N,) that occurred before in it; 0 when it is shorter than n. High in answers that loop."""
    grams = [tuple(tokens[at : at + n].tolist()) for at in range(len(tokens) - n + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0
