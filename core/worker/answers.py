"""The target's answers kept in the worker's memory, so that a further draft, or more prompts, pays only for what is new.

An answer depends on the target's files, what the model reads (token ids, so the chat template is in them), the decoding as far as
the target sees it, precision, device, placement, length and seed; and on no draft and no stop string (which cuts later). Bounded by
tokens, the oldest go first; gone with the process.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from core.runs import RunSpec
from core.worker.batch import Written, write
from core.worker.models import Pair, Place

KEPT_TOKENS = 2_000_000
Key = tuple[object, ...]


class Answers:
    """Answers by what they depend on."""

    def __init__(self, most_tokens: int = KEPT_TOKENS) -> None:
        self._kept: OrderedDict[Key, Written] = OrderedDict()
        self._most_tokens = most_tokens
        self._tokens = 0

    def of(self, spec: RunSpec, pair: Pair, target: Place, prompts: Sequence[torch.Tensor]) -> Iterator[tuple[int, Written]]:
        """The answer to each of `prompts` (1, P) with its place: first those kept, marked as reused, then new ones as they are written."""
        keys = [_key(spec, target, prompt) for prompt in prompts]
        known = [self._kept.get(key) for key in keys]
        yield from ((at, replace(written, reused=True)) for at, written in enumerate(known) if written is not None)
        missing = [at for at, written in enumerate(known) if written is None]
        chosen = [prompts[at] for at in missing]
        for place, written in write(pair, chosen, spec.max_new_tokens, spec.decoding.for_target(), spec.seed):
            self._keep(keys[missing[place]], written)
            yield missing[place], written

    def _keep(self, key: Key, written: Written) -> None:
        before = self._kept.pop(key, None)
        self._tokens += len(written.tokens) - (len(before.tokens) if before else 0)
        self._kept[key] = written
        while self._tokens > self._most_tokens:
            self._tokens -= len(self._kept.popitem(last=False)[1].tokens)


def _key(spec: RunSpec, target: Place, prompt: torch.Tensor) -> Key:
    ids, how = tuple(prompt[0].tolist()), spec.placement.model_copy(update={"draft_device": ""})
    return target, spec.dtype, spec.device, how, spec.max_new_tokens, spec.decoding.for_target(), spec.seed, ids
