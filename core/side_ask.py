"""What a side-by-side run is asked to do: whether its prompt and its pair can be used, and the run itself.

Sizes in characters. Whether two vocabularies can be translated follows the worker's rule, which is Transformers' own: only where their
sizes differ. Not covered: whether a prompt fits the models' context, which the worker says once it has counted tokens.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from core.policies import Plain
from core.runs import Lane, Message, Prompt, RunSpec
from core.vocab import VocabVerdict

MOST_CHARACTERS = 50_000
"""Longer than any context that can be watched with patience, and short enough to be drawn in a browser."""


@dataclass(frozen=True)
class Fit:
    """How a draft can work for a target. native: as it is; translated: through text, by universal assisted decoding; refused: not at all."""

    kind: Literal["native", "translated", "refused"]
    sentence: str


def fit(verdict: VocabVerdict, *, sample: bool = False, weighted: bool = False) -> Fit:
    """What the vocabularies allow with this decoding. weighted: with an ensemble weight. The reasons are in `core.worker.translated`."""
    if verdict.cut or verdict.hopeless:
        return Fit("refused", verdict.cut or verdict.hopeless)
    if verdict.native:
        return Fit("native", verdict.sentence)
    if verdict.target_size != verdict.draft_size:
        if sample:
            confused = (
                "Transformers 5.24 confuses the draft's probabilities when it samples with other tokens. Decode greedily, or choose another draft."
            )
            return Fit("refused", f"{verdict.sentence} {confused}")
        if weighted:
            return Fit("refused", f"{verdict.sentence} Transformers would ignore the ensemble weight with other tokens. Leave it at 0.")
        how = "Universal assisted decoding: every draft is re-encoded through text, which costs time, and nothing is predicted for it."
        return Fit("translated", f"{verdict.sentence} {how}")
    why = "Transformers translates only between vocabularies of different sizes. Choose another draft, or prompt lookup."
    return Fit("refused", f"{verdict.sentence} {why}")


def problem(text: str) -> str:
    """Why a prompt cannot be used, a sentence; "" when it can."""
    if not text.strip():
        return "The prompt is empty. Write something for the models to answer."
    if len(text) > MOST_CHARACTERS:
        return f"The prompt has {len(text):,} characters; at most {MOST_CHARACTERS:,} can be watched side by side. Shorten it."
    return ""


def prompt_of(text: str, history: Sequence[Message], *, chat_template: bool) -> Prompt:
    """The user's turn behind the conversation so far; without a chat template the bare text."""
    if not chat_template or not history:
        return Prompt(text=text)
    return Prompt(text=text, messages=(*history, Message(role="user", content=text)))


def continued(prompt: Prompt, answer: str) -> tuple[Message, ...]:
    """The conversation with an answer added, for the next turn."""
    before = prompt.messages or (Message(role="user", content=prompt.text),)
    return (*before, Message(role="assistant", content=answer))


def side_by_side(spec: RunSpec, lanes: Sequence[Lane], reference: str = "") -> RunSpec:
    """The run of these columns beside plain decoding, in an order drawn at random. Stop strings are left out: the library cannot stop there."""
    columns = (Lane(policy=Plain()), *lanes)
    order = random.SystemRandom().sample(range(len(columns)), len(columns))
    changed = {"extent": "side_by_side", "lanes": columns, "order": tuple(order), "reference": reference, "stop": (), "group": "", "confirm_s": 0.0}
    return spec.model_copy(update=changed)
