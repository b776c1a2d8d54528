"""A run without its texts, so that it can be shown to others and still be checked.

Gone: prompts, answers, drafted and thrown-away tokens (their texts and their ids, because ids are text), and the note, which may
quote them. Kept: every number that a prediction needs, token counts, names of models and machines with their folders, and labels, tags
and stop strings: these are settings and kinds of traffic, people choose them, and without them the numbers cannot be read. Pages say
so beside the switch. All predictions of such a run equal those of the whole run.

It hides texts from readers, not from somebody who has both models and guesses a prompt with its answer: the numbers confirm a right guess.

A prompt is replaced by a keyed hash of what it says (HMAC-SHA-256, 64 bits shown). A plain hash of a short prompt could be guessed by
trying likely ones; without the installation's key it cannot, and still the same prompt has the same hash in all runs that one
installation shares, so that they can be matched. Runs of different installations cannot be matched.

Ids are replaced so that what is counted from them stays right: an answer's ids show only which stretches of eight tokens occur again
(the share of repeated 8-grams), the draft's choice only whether it was the answer's token, and the ids of a side-by-side run only
where its columns wrote the same token.
"""

import contextlib
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from core.errors import StoreError
from core.record import Step
from core.runs import Prompt, Run
from core.trace import GRAM, PromptTrace

HIDDEN = "\u25af"
"""Stands for a token's text."""
UNKNOWN_ID = -1
"""The draft's choice where it was not the answer's token."""
KEY_FILE = "private.key"
KEY_BYTES = 32
_PROCESS_KEY = secrets.token_bytes(KEY_BYTES)


def without_texts(run: Run, key: bytes = _PROCESS_KEY) -> Run:
    """The run as others may see it. key: of `installation_key`; by default one that is good until this process ends."""
    prompts = tuple(_hidden(prompt, key) for prompt in run.spec.prompts)
    changes = {
        "spec": run.spec.model_copy(update={"prompts": prompts}),
        "steps": _hidden_steps(run.steps),
        "traces": tuple(_hidden_trace(trace) for trace in run.traces),
        "note": "",
    }
    return run.model_copy(update=changes)


def has_texts(run: Run) -> bool:
    """Whether any prompt of the run can be read."""
    return any(not prompt.withheld for prompt in run.spec.prompts)


def installation_key(folder: Path) -> bytes:
    """The secret of this data folder, made when it is first asked for. Raises StoreError where the folder cannot be used."""
    place = folder / KEY_FILE
    try:
        if not place.exists():
            _make_key(folder, place)
        return place.read_bytes()
    except OSError as error:
        raise StoreError(f"The key in {place} cannot be read or written ({error.strerror}). Free some space or make it readable.") from error


def _make_key(folder: Path, place: Path) -> None:
    """Whole from the start, and only one where several ask at once."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{KEY_FILE}.{secrets.token_hex(4)}"
    try:
        part.touch(mode=0o600)
        part.write_bytes(secrets.token_bytes(KEY_BYTES))
        with contextlib.suppress(FileExistsError):
            place.hardlink_to(part)
    finally:
        part.unlink(missing_ok=True)


def _hidden(prompt: Prompt, key: bytes) -> Prompt:
    if prompt.withheld:
        return prompt
    said = prompt.model_dump_json(include={"text", "messages"}).encode()
    digest = hmac.new(key, said, hashlib.sha256).hexdigest()[:16]
    return Prompt(text=f"[text withheld: {digest}]", label=prompt.label, withheld=True)


def _hidden_trace(trace: PromptTrace) -> PromptTrace:
    answer = repeats(trace.answer)
    chosen = np.where(trace.draft_choice == trace.answer, answer, UNKNOWN_ID).astype(np.int32)
    return replace(trace, answer=answer, pieces=(HIDDEN,) * len(answer), draft_choice=chosen)


def repeats(tokens: NDArray[np.int32], n: int = GRAM) -> NDArray[np.int32]:
    """(N,) ids under which exactly the same n-grams of `tokens` (N,) repeat, and nothing else does.

    Every position gets an id of its own, joined with an earlier one only where both lie at the same place of equal n-grams.
    """
    first: dict[tuple[int, ...], int] = {}
    parent = list(range(len(tokens)))

    def root(at: int) -> int:
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = parent[at]
        return at

    ids = tokens.tolist()
    for at in range(len(ids) - n + 1):
        before = first.setdefault(tuple(ids[at : at + n]), at)
        for place in range(n if before < at else 0):
            one, other = sorted((root(before + place), root(at + place)))
            parent[other] = one
    return np.array([root(at) for at in range(len(ids))], dtype=np.int32)


def _hidden_steps(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Token number `at` of a column becomes at x columns + place among the different tokens that the columns have there."""
    columns = 1 + max((step.lane for step in steps), default=0)
    seen: dict[int, list[int]] = {}
    written: dict[int, int] = {}
    hidden: list[Step] = []
    for step in sorted(steps, key=lambda step: step.lane):
        start = written.get(step.lane, 0)
        written[step.lane] = start + len(step.tokens)
        ids = tuple(at * columns + _place(seen.setdefault(at, []), token) for at, token in enumerate(step.tokens, start))
        texts = {"pieces": (HIDDEN,) * len(step.pieces), "rejected": (HIDDEN,) * len(step.rejected)}
        hidden.append(step.model_copy(update={"tokens": ids, **texts}))
    by_lane = {lane: iter([step for step in hidden if step.lane == lane]) for lane in written}
    return tuple(next(by_lane[step.lane]) for step in steps)


def _place(known: list[int], token: int) -> int:
    if token not in known:
        known.append(token)
    return known.index(token)
