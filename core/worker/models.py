"""Load a target and its draft, and keep the last pair warm so that a second run, or another draft, starts at once.

Both models get a plain generation config: greedy, with the target's own end-of-text tokens. A
model's sampling defaults (temperature, repetition penalty, suppressed tokens) would leak into
the draft's proposals in the library, so they are put aside for both.
The library compares only the sizes of the two vocabularies; here their tokens are compared too. A draft with another
vocabulary goes with its target side by side and in several ways alone, where the library translates between both through text.
A model is loaded from a folder in the Hugging Face layout, or from a GGUF file, whose weights are unpacked
(so their speed here is not that of engines which keep them packed). Hub models are first brought into
the Hub's cache by `core.worker.download`. Loading asks no network, and no code from models is run.
Encoder-decoders go with each other alone (`core.worker.kinds`), and keep what their own configuration says of their first tokens.
Not covered: measurements of pairs with different vocabularies, recurrent states.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

import torch
from transformers import AutoConfig, AutoTokenizer, GenerationConfig, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.cache_utils import DynamicLayer
from transformers.utils import logging

from core.bounded import GIB, OutOfBounds, bounded
from core.errors import ModelError
from core.runs import ModelRef, RunSpec, Stage
from core.vocab import Vocabulary, VocabVerdict, compare
from core.worker.download import Report
from core.worker.feeding import CAUSAL, Causal, Feeding, feeding_of
from core.worker.fit import check_room
from core.worker.kinds import check_kinds
from core.worker.loading import LOAD_FAILURES, Key, devices_of, first_line, keys, load_model
from core.worker.places import Place, changed, places
from core.worker.room import forget_compiled, release_memory

MOST_MEMORY_BYTES = 4 * GIB
LONGEST_S = 300.0
"""Of reading a tokenizer or a config: an older kind of tokenizer has to be converted first."""

logging.disable_progress_bar()
logging.set_verbosity_error()  # the library warns about its own nested calls at every draft


@dataclass(frozen=True)
class Pair:
    """A loaded pair in eval mode. `context` is the longest text in tokens that both can hold, or None.

    feeding: how both get a prompt; where encoders read it, it knows the longest texts, and `context` is None.
    device: where the target takes its token ids; the draft may lie elsewhere, and a target over several devices (`core.worker.loading`).
    draft_tokenizer: the draft's own, where its ids do not mean what the target's mean; else None.
    """

    target: PreTrainedModel
    draft: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    eos_ids: tuple[int, ...]
    context: int | None
    device: torch.device
    draft_tokenizer: PreTrainedTokenizerBase | None = None
    feeding: Feeding = CAUSAL

    @cached_property
    def devices(self) -> tuple[torch.device, ...]:
        """Every device that works for this pair: what is timed waits for all of them."""
        return devices_of(self.target, self.draft)


@dataclass(frozen=True)
class _Half:
    """One loaded model with its own tokenizer and end-of-text tokens, and how it is fed by its own configuration."""

    key: Key
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    eos_ids: tuple[int, ...]
    feeding: Feeding


def _not_told(_stage: Stage, _done: int, _total: int) -> None:
    """For callers that show no progress."""


class Garage:
    """Holds at most one pair. What the next pair does not need is let go before anything is loaded, so both never share the memory.

    A target stays while its drafts change. For that to free the draft, callers must not hold the pair any more.
    """

    def __init__(self) -> None:
        self._target: _Half | None = None
        self._draft: _Half | None = None
        self._pair: Pair | None = None
        self._asked_for: dict[tuple[Path, str], Place] = {}

    def begin(self) -> None:
        """A run begins: from now on `changed` tells of what it asks for."""
        self._asked_for.clear()

    def get(self, spec: RunSpec, report: Report = _not_told) -> Pair:
        """The pair of `spec` on its device and in its dtype; loaded as far as it is not held. `report` hears of a download.

        Raises ModelError with a sentence when a model cannot be downloaded, when its files are missing, damaged, or no causal
        language model, or when the two vocabularies differ in size or in what their ids stand for and the run cannot bridge that.
        """
        target, draft = keys(spec, *self._places(spec, report))
        report("load", 0, 2)
        if self._pair is None or not self._holds(target, draft) or not (self._pair.draft_tokenizer is None or _translates(spec)):
            self._let_go(target, draft)
            self._pair = self._load(spec, target, draft)
        return self._pair

    def alone(self, spec: RunSpec, report: Report = _not_told) -> Pair:
        """The target in both places of a pair, for ways to draft that need no second model; nothing is loaded twice. Raises as `get`."""
        asked = spec.model_copy(update={"draft": spec.target})
        key, _ = keys(asked, *self._places(asked, report))
        report("load", 0, 2)
        self._let_go(key, key)
        config = _config(spec.target, key.place, "target")
        check_kinds([spec.target] * 2, [config] * 2, native=True)
        if self._target is None:
            check_room([(key, config, "target")])
        self._target = self._target or _load_half(spec.target, key, "target", _load_tokenizer(spec.target, key.place))
        return _paired(self._target, self._target, native=True)

    @property
    def target(self) -> Place:
        """Where the held target's files are. There must be one."""
        assert self._target is not None
        return self._target.key.place

    def changed(self) -> Path | None:
        """The folder of a model whose files are no longer those that they were when the run first asked for it."""
        return next((place.folder for place in self._asked_for.values() if changed(place)), None)

    def _places(self, spec: RunSpec, report: Report) -> tuple[Place, Place]:
        found = places(spec, report)
        for place in found:
            self._asked_for.setdefault((place.folder, place.gguf_file), place)
        return found

    def empty(self) -> None:
        """Let go of the pair and give its memory back."""
        self._target = self._draft = self._pair = None
        forget_compiled()
        release_memory()

    def _holds(self, target: Key, draft: Key) -> bool:
        return self._target is not None and self._draft is not None and (self._target.key, self._draft.key) == (target, draft)

    def _let_go(self, target: Key, draft: Key) -> None:
        self._pair = None
        if self._target is not None and self._target.key != target:
            forget_compiled()
        self._target = self._target if self._target is not None and self._target.key == target else None
        self._draft = self._draft if self._draft is not None and self._draft.key == draft else None
        release_memory()

    def _load(self, spec: RunSpec, target: Key, draft: Key) -> Pair:
        tokenizer = self._target.tokenizer if self._target is not None else _load_tokenizer(spec.target, target.place)
        other = self._draft.tokenizer if self._draft is not None else _load_tokenizer(spec.draft, draft.place)
        configs = [_config(spec.target, target.place, "target"), _config(spec.draft, draft.place, "draft")]
        ours, theirs = (Vocabulary(of.get_vocab(), _vocab_size(config)) for of, config in zip((tokenizer, other), configs, strict=True))
        verdict = compare(ours, theirs)
        check_kinds([spec.target, spec.draft], configs, verdict.native)
        _check_tokens(spec, verdict)
        missing = [(self._target, target, configs[0], "target"), (self._draft, draft, configs[1], "draft")]
        check_room([(key, config, role) for half, key, config, role in missing if half is None])
        self._target = self._target or _load_half(spec.target, target, "target", tokenizer)
        self._draft = self._draft or _load_half(spec.draft, draft, "draft", other)
        return _paired(self._target, self._draft, verdict.native)


def _load_half(ref: ModelRef, key: Key, role: str, tokenizer: PreTrainedTokenizerBase) -> _Half:
    model = load_model(ref, key, role)
    feeding = feeding_of(model, ref.name)
    check_cache(model, role, feeding)
    return _Half(key, model, tokenizer, _eos_ids(model, tokenizer), feeding)


def _paired(target: _Half, draft: _Half, native: bool) -> Pair:
    feeding = target.feeding.beside(draft.feeding)
    for half in (target, draft):
        half.model.generation_config = greedy_config(target.eos_ids, feeding)
    other = None if native else draft.tokenizer
    return Pair(
        target.model,
        draft.model,
        target.tokenizer,
        target.eos_ids,
        feeding.context if isinstance(feeding, Causal) else None,
        target.model.device,
        draft_tokenizer=other,
        feeding=feeding,
    )


def _translates(spec: RunSpec) -> bool:
    """Whether the run may let the library translate between two vocabularies: only where nothing is predicted from it."""
    return spec.extent in ("side_by_side", "ways")


def greedy_config(eos_ids: tuple[int, ...], feeding: Feeding = CAUSAL) -> GenerationConfig:
    """Plain decoding that ends at `eos_ids`. The padding token is one of them, because any other is masked in the draft's context."""
    return GenerationConfig(eos_token_id=list(eos_ids) or None, pad_token_id=eos_ids[0] if eos_ids else None, **feeding.defaults())


def _eos_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    found = model.generation_config.eos_token_id if model.generation_config else None
    if found is None:
        found = tokenizer.eos_token_id
    if found is None:
        return ()
    return tuple(cast("list[int]", found)) if isinstance(found, list | tuple) else (int(found),)


@torch.no_grad()
def check_cache(model: PreTrainedModel, role: str, feeding: Feeding = CAUSAL) -> None:
    """Assisted decoding takes rejected tokens back out of the cache; a running state cannot do that."""
    prompt = torch.zeros((1, 1), dtype=torch.long, device=model.device)
    reader = feeding.begin(model, [prompt])
    try:
        reader.read(feeding.opening(prompt)[:, :1])
    except IndexError as error:  # the library makes as many layers of cache as the encoder has
        raise ModelError(
            f"The decoder of the {role} has more layers than its encoder ({model.config.model_type}), and Transformers 5.24 makes a cache for as "
            "many as the encoder has. Choose another model."
        ) from error
    if reader.cache.get_seq_length() != 1 or not all(isinstance(layer, DynamicLayer) for layer in reader.layers):
        raise ModelError(f"The {role} keeps a running state ({model.config.model_type}), so rejected tokens cannot be undone. Choose another model.")


def _load_tokenizer(ref: ModelRef, place: Place) -> PreTrainedTokenizerBase:
    try:
        with bounded(MOST_MEMORY_BYTES, LONGEST_S):
            return cast("PreTrainedTokenizerBase", AutoTokenizer.from_pretrained(place.folder, **place.loader))
    except (OutOfBounds, *LOAD_FAILURES) as error:
        raise ModelError(f"The tokenizer of {ref.name} in {place.folder} could not be loaded: {first_line(error)} Check its files.") from error


def _vocab_size(config: PretrainedConfig) -> int:
    """The rows of the model's embedding, by its config: known before any weights are loaded."""
    return int(config.get_text_config(decoder=True).vocab_size)


def _config(ref: ModelRef, place: Place, role: str) -> PretrainedConfig:
    try:
        with bounded(MOST_MEMORY_BYTES, LONGEST_S):
            return AutoConfig.from_pretrained(place.folder, **place.loader)
    except (OutOfBounds, *LOAD_FAILURES) as error:
        raise ModelError(
            f"The config of the {role} {ref.name} in {place.folder} could not be loaded: {first_line(error)} Check its files."
        ) from error


def _check_tokens(spec: RunSpec, verdict: VocabVerdict) -> None:
    """Raise ModelError when the pair cannot run: ids that stand for other tokens or sizes that differ, and nothing translates."""
    if verdict.native:
        return
    pair = f"The target {spec.target.name} and the draft {spec.draft.name}"
    if _translates(spec):
        if verdict.target_size != verdict.draft_size:
            return
        raise ModelError(
            f"{pair} number their tokens differently in vocabularies of equal size ({verdict.target_size:,}), and Transformers translates only "
            "between vocabularies of different sizes. Choose another draft, or prompt lookup."
        )
    if verdict.kind in ("different", "same_size_different_map"):
        alone = f"{verdict.only_target_ids + verdict.only_draft_ids:,} ids are used on one side alone"
        found = f"{verdict.different_ids:,} of {verdict.common_ids:,} ids stand for other tokens" if verdict.different_ids else alone
        raise ModelError(
            f"{pair} number their tokens differently: {found}, for example {verdict.example}. "
            "Choose a draft that was made with the target's tokenizer."
        )
    raise ModelError(
        f"{pair} fit in their tokens, but the target has a vocabulary of {verdict.target_size:,} tokens and the draft one of "
        f"{verdict.draft_size:,}, and Transformers drafts natively only when both are equal. Choose a draft of the target's size."
    )
