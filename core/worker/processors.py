"""What target and draft really sample from: the lists of logits processors that the library builds.

In Transformers 5.24 the target's list is handed to the draft's own nested `generate`, which merges it with
its own and appends temperature, top-k and top-p again: they act twice on the draft, the repetition penalty
once. No list is put together here: all are asked from the library in the very way in which it builds them.
Two settings change the draft's list and with it the acceptance, never the distribution of the text, because
the library's rejection test divides by what the draft really drew from:

* `warpers_once`: the target's warpers go in as `logits_processor=` and are off in the config. Any service can do that.
* `draft_temperature`: the draft builds its list from its own temperature alone, everything once.

Scores and probabilities are fp32, as in the library. Not covered: beams, guidance, processors of other kinds.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, PreTrainedModel

from core.decoding import Decoding
from core.errors import ModelError
from core.worker.models import Pair

_BUILDER = "_get_logits_processor"


@dataclass(frozen=True)
class Lists:
    """The processors that the library applies to the target's and to the draft's scores."""

    target: LogitsProcessorList
    draft: LogitsProcessorList


class _Known(Exception):
    """Both lists have been built; nothing needs to be generated."""


def arguments(target: PreTrainedModel, decoding: Decoding) -> dict[str, Any]:
    """What a service passes to `generate` for this decoding. Everything is explicit, because the library's own top_k is 50."""
    if not decoding.sample:
        return {"do_sample": False, "repetition_penalty": decoding.repetition_penalty}
    warpers = {"temperature": decoding.temperature, "top_k": decoding.top_k, "top_p": decoding.top_p}
    how: dict[str, Any] = {"do_sample": True, "repetition_penalty": decoding.repetition_penalty}
    if not decoding.warpers_once:
        return how | warpers
    once = getattr(target, _BUILDER)(generation_config=GenerationConfig(do_sample=True, **warpers))
    return how | {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "logits_processor": once}


@contextmanager
def own_temperature(draft: PreTrainedModel, decoding: Decoding) -> Iterator[None]:
    """Let the draft sample at `decoding.draft_temperature` inside, if there is one; afterwards it is as before."""
    if not decoding.sample or decoding.draft_temperature is None:
        yield
        return
    warpers = {"temperature": decoding.draft_temperature, "top_k": decoding.top_k, "top_p": decoding.top_p}

    def build(before: Callable[..., LogitsProcessorList], *, generation_config: GenerationConfig, **rest: Any) -> LogitsProcessorList:
        if not generation_config.is_assistant:  # the same model may be the target as well
            return before(generation_config=generation_config, **rest)
        own = copy.copy(generation_config)
        for name, value in warpers.items():
            setattr(own, name, value)
        return before(generation_config=own, **{**rest, "logits_processor": None})

    with _built_by(draft, build):
        yield


def lists(pair: Pair, decoding: Decoding) -> Lists:
    """Both lists for this decoding, from a real assisted `generate` that is left as soon as they are built: no decoder is run."""
    built: list[LogitsProcessorList] = []

    def build(before: Callable[..., LogitsProcessorList], **given: Any) -> LogitsProcessorList:
        built.append(before(**given))
        if len(built) == 2:
            raise _Known
        return built[-1]

    prompt = torch.zeros((1, 1), dtype=torch.long, device=pair.device)
    how = arguments(pair.target, decoding)
    with ExitStack() as inside:
        inside.enter_context(own_temperature(pair.draft, decoding))
        for model in {pair.target, pair.draft}:
            inside.enter_context(_built_by(model, build))
        try:
            pair.target.generate(  # pyright: ignore[reportCallIssue]  # the library's classes do not fit its own protocol
                **pair.feeding.arguments([prompt], drafts=True), assistant_model=pair.draft, max_new_tokens=2, **how
            )
        except _Known:
            return Lists(*built)
    raise AssertionError("the library generated without asking the draft for its processors")


@contextmanager
def _built_by(model: PreTrainedModel, build: Callable[..., LogitsProcessorList]) -> Iterator[None]:
    """Let `build` make the model's lists inside; its first argument is what made them before."""
    held = vars(model).get(_BUILDER)
    setattr(model, _BUILDER, partial(build, getattr(model, _BUILDER)))
    try:
        yield
    finally:
        if held is None:
            delattr(model, _BUILDER)
        else:
            setattr(model, _BUILDER, held)


def prefixes(text: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """The first `lengths` (B,) tokens of `text` (1, L) as the rows of one batch, (B, longest).

    Shorter rows are filled up with the text's first token: for the processors covered here a prefix is the set of its tokens.
    """
    longest = int(lengths.max())
    inside = torch.arange(longest, device=text.device)[None] < lengths[:, None]
    return torch.where(inside, text[:, :longest], text[:, :1])


class Keeper(LogitsProcessor):
    """Keeps p of every token while it is written, and sees scores that are no numbers before anything is drawn from them.

    Give it last in `logits_processor=`, behind all warpers: what it sees is then what is drawn from. For batches too; a row
    that has ended goes on with padding, whose p is meaningless. One row of probabilities per text is held, never all.
    """

    def __init__(self, model: PreTrainedModel, sample: bool) -> None:
        self._model = model
        self._sample = sample
        self._last: torch.Tensor | None = None
        self._kept: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.LongTensor, scores: torch.Tensor) -> torch.Tensor:
        """(B, length) and (B, vocabulary) -> the scores as they are. Raises ModelError when they are not numbers."""
        probabilities = scores.softmax(-1)
        check_numbers(probabilities[:, 0], self._model, "target")
        if self._sample:
            self._keep(input_ids)
            self._last = probabilities
        return scores

    def _keep(self, text: torch.Tensor) -> None:
        if self._last is not None:
            self._kept.append(self._last.gather(1, text[:, -1:]))

    def p(self, text: torch.Tensor) -> NDArray[np.float32] | None:
        """(B, N) float32 for the finished `text` (B, length); None for greedy decoding."""
        if self._last is None:
            return None
        self._keep(text)
        self._last = None
        return torch.cat(self._kept, 1).cpu().numpy()


def check_numbers(probabilities: torch.Tensor, model: PreTrainedModel, role: str) -> None:
    """Raise ModelError naming the model when a row of its scores was NaN or infinite; one probability of each row tells."""
    if bool(probabilities.isnan().any()):
        dtype = str(model.dtype).removeprefix("torch.")
        raise ModelError(
            f"The {role} {name_of(model)} gives scores that are not numbers (NaN) in {dtype}, so nothing can be drawn from them. "
            f"{'Its weights are damaged: download it again.' if dtype == 'float32' else 'Measure in float32 or bfloat16, or choose another model.'}"
        )


def name_of(model: PreTrainedModel) -> str:
    """The name of the folder or Hub repository that the model was loaded from."""
    folder = Path(model.name_or_path or "")
    if folder.parent.name == "snapshots":
        return folder.parent.parent.name.removeprefix("models--").replace("--", "/")
    return folder.name or type(model).__name__
