"""A run that times passes alone, at several batch sizes and cache lengths, of a loaded pair or of one built from its configurations.

Each length is read once by either model, as one text; that cache then serves every batch, repeated, because what a pass costs does not
depend on what is cached. Next tokens are random and differ from text to text. The smallest batch has every width timed, and both prefills;
the others have a few (`core.shapes.FEW_WIDTHS`). Target and draft take turns, so that a drifting machine cancels in their ratio.
A combination that does not fit into memory is recorded as such, larger ones are not tried, and the rest goes on. On a CPU, where the system
would end the worker instead of refusing, the cache's size is reckoned before. Times in seconds. Not covered: padding between texts of
different length, and the processors of sampled decoding.
"""

from typing import Any

import torch
from transformers import LogitsProcessorList

from core import encoders
from core.errors import DeviceError, InvalidInput, ModelError
from core.measured import PassTimes
from core.numbers import file_size
from core.runs import RunSpec
from core.shapes import FEW_WIDTHS, WIDTHS
from core.sink import Sink
from core.worker import architectures
from core.worker.environment import device_named, environment
from core.worker.memory import peaks
from core.worker.models import Garage, Pair
from core.worker.room import out_of_memory, release_memory
from core.worker.timing import WIDEST, Quiet, Stepper, prefill_seconds, steps_times

USABLE = 0.9
"""Of the memory that is free."""


def shapes(spec: RunSpec, sink: Sink, garage: Garage) -> None:
    """Time every combination and report to `sink`. Raises as `measure`, and DeviceError where not even the first combination fits."""
    if spec.random_weights:
        garage.empty()
        pair, unlike = architectures.build(spec, sink.stage)
    else:
        pair, unlike = garage.get(spec, sink.stage), ()
        sink.stage("load", 2, 2)
    if pair.feeding.encodes:
        raise ModelError(encoders.timed(spec.target.name, pair.target.config.model_type))
    if pair.context is not None and min(spec.cache_lengths) + WIDEST > pair.context:
        raise InvalidInput(
            f"This pair can hold {pair.context:,} tokens, too few for {min(spec.cache_lengths):,} in the cache and {WIDEST} more. Ask for less."
        )
    notes = (*unlike, *architectures.notes(pair, max(spec.cache_lengths), built=spec.random_weights))
    begun = environment(spec, pair).model_copy(update={"notes": notes})
    sink.environment(begun)
    _Timing(spec, sink, pair).run()
    sink.environment(begun.model_copy(update=peaks(pair.devices)))


class _Timing:
    """One run's state: the models, the text, the steppers of the length that is timed now, and what did not fit."""

    def __init__(self, spec: RunSpec, sink: Sink, pair: Pair) -> None:
        self._spec, self._sink, self._pair = spec, sink, pair
        self._quiet = Quiet(pair.device, sink.disturbed)
        self._text = random_text(pair, max(spec.batches), max(spec.cache_lengths) + WIDEST, spec.seed)
        self._steppers: tuple[Stepper, Stepper] | None = None
        self._too_large: list[tuple[int, int]] = []
        self._timed = 0

    def run(self) -> None:
        """Every combination, the shortest length first and within it the smallest batch."""
        combinations = [(batch, length) for length in sorted(self._spec.cache_lengths) for batch in sorted(self._spec.batches)]
        for done, (batch, length) in enumerate(combinations):
            self._sink.stage("shapes", done, len(combinations))
            self._sink.passes(self._passes(batch, length))
        self._sink.stage("shapes", len(combinations), len(combinations))

    def _passes(self, batch: int, length: int) -> PassTimes:
        context = self._pair.context
        if context is not None and length + WIDEST > context:
            return _left_out(batch, length, f"Longer than the {context:,} tokens that this pair can hold.")
        if any(b <= batch and tokens <= length for b, tokens in self._too_large):
            return _left_out(batch, length, "Not tried: a smaller combination did not fit into memory.")
        found, problem = None, self._lacks(batch, length)
        if not problem:
            found = self._attempt(batch, length)
            problem = f"The memory of {self._spec.device} did not suffice."
        if found is not None:
            self._timed += 1
            return found
        self._steppers = None  # outside the except block, whose traceback would keep the caches alive
        release_memory()
        if not self._timed:
            raise DeviceError(f"{problem} Not even batch {batch} after {length:,} tokens fits beside both models. Use a smaller number format.")
        self._too_large.append((batch, length))
        return _left_out(batch, length, problem)

    def _attempt(self, batch: int, length: int) -> PassTimes | None:
        """The timings, or None when memory did not suffice."""
        try:
            return self._times(batch, length)
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
        return None

    @torch.no_grad()
    def _times(self, batch: int, length: int) -> PassTimes:
        target, draft = self._at(length)
        first = batch == min(self._spec.batches)
        prefills: dict[str, float] = {}
        if first:
            text = self._text[:1, :length]
            prefills = {f"{role}_prefill_s": prefill_seconds(one.model, text, self._quiet) for role, one in (("target", target), ("draft", draft))}
        for one in (target, draft):
            one.widen(batch)
        return steps_times(target, draft, self._quiet, WIDTHS if first else FEW_WIDTHS).model_copy(update=prefills)

    def _at(self, length: int) -> tuple[Stepper, Stepper]:
        """Both models with so many tokens in their caches; those of the length before are let go first."""
        if self._steppers is None or self._steppers[0].cache_tokens != length:
            self._steppers = None
            release_memory()
            none = LogitsProcessorList()
            target = Stepper(self._pair.target, self._text, length, none, every=True)
            self._steppers = target, Stepper(self._pair.draft, self._text, length, none, every=False)
        return self._steppers

    def _lacks(self, batch: int, length: int) -> str:
        """What a CPU's memory lacks for this combination, a sentence; "" where it suffices, or where the device says so itself."""
        if self._spec.device != "cpu" or self._steppers is None:
            return ""
        free = device_named("cpu").free_bytes
        now = self._steppers[0].batch * self._steppers[0].cache_tokens
        per_token = sum(one.cache_bytes for one in self._steppers) / now
        logits = WIDEST * sum(_vocabulary(one.model) * one.model.dtype.itemsize for one in self._steppers)
        needed = round(per_token * (batch * length - now) + batch * logits)
        if free is None or needed <= USABLE * free:
            return ""
        return f"It needs about {file_size(needed)} more memory, and {file_size(free)} are free."


def random_text(pair: Pair, texts: int, tokens: int, seed: int) -> torch.Tensor:
    """(texts, tokens) ids that both models know, on the target's device."""
    known = min(_vocabulary(pair.target), _vocabulary(pair.draft))
    drawn = torch.randint(0, known, (texts, tokens), generator=torch.Generator().manual_seed(seed))
    return drawn.to(pair.target.device)


def _vocabulary(model: Any) -> int:
    """Rows of the embedding."""
    embedding = model.get_input_embeddings()
    return int(embedding.weight.shape[0])


def _left_out(batch: int, length: int, why: str) -> PassTimes:
    return PassTimes(cache_tokens=length, target={}, draft={}, target_one_s={}, target_one_beside_draft_s={}, batch=batch, problem=why)
