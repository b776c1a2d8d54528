"""Load a target and its draft, and keep the last pair warm so that a second run starts at once.

Both models get a plain generation config: greedy, with the target's own end-of-text tokens. A
model's sampling defaults (temperature, repetition penalty, suppressed tokens) would leak into
the draft's proposals in the library, so they are put aside for both.
The library compares only the sizes of the two vocabularies; here their tokens are compared too.
A model is loaded from a folder in the Hugging Face layout, or from a GGUF file, whose weights are unpacked
(so their speed here is not that of engines which keep them packed). Hub models are first brought into
the Hub's cache by `core.worker.download`. Loading asks no network, and no code from models is run.
Not covered: pairs with different vocabularies, encoder-decoder models, recurrent states.
"""

import gc
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, DynamicCache, GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.cache_utils import DynamicLayer
from transformers.utils import logging

from core.errors import ModelError
from core.runs import Dtype, ModelRef, RunSpec, Stage
from core.vocab import Vocabulary, VocabVerdict, compare
from core.worker import download
from core.worker.download import Report

logging.disable_progress_bar()
logging.set_verbosity_error()  # the library warns about its own nested calls at every draft

DTYPES: dict[Dtype, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_FOR_GGUF = ("gguf", "accelerate")
_LOAD_FAILURES = (OSError, ValueError, RuntimeError, KeyError, TypeError, AttributeError, SafetensorError)


@dataclass(frozen=True)
class Pair:
    """A loaded pair on one device, in eval mode. `context` is the longest text in tokens that both can hold, or None."""

    target: PreTrainedModel
    draft: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    eos_ids: tuple[int, ...]
    context: int | None
    device: torch.device


@dataclass(frozen=True)
class Place:
    """Where a model's files are on this machine: a folder, and in it the GGUF file, "" for safetensors. `changed_ns`: when they last changed."""

    folder: Path
    gguf_file: str = ""
    changed_ns: int = 0

    @property
    def loader(self) -> dict[str, Any]:
        """How Transformers is told to read it: these files only, and no code among them."""
        how: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        return {**how, "gguf_file": self.gguf_file} if self.gguf_file else how


def _not_told(_stage: Stage, _done: int, _total: int) -> None:
    """For callers that show no progress."""


class Garage:
    """Holds at most one pair. The old one is let go before the next is loaded, so both never share the memory."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] | None = None
        self._pair: Pair | None = None
        self._places: tuple[Place, Place] | None = None

    def get(self, spec: RunSpec, report: Report = _not_told) -> Pair:
        """The pair of `spec` on its device and in its dtype; loaded unless it is the one held. `report` hears of a download.

        Raises ModelError with a sentence when a model cannot be downloaded, when its files are missing, damaged, or no causal
        language model, or when the two vocabularies differ in size or in what their ids stand for.
        """
        target, draft = places(spec, report)
        key = (target, draft, spec.device, spec.dtype)
        report("load", 0, 2)
        if self._pair is None or key != self._key:
            self.empty()
            self._pair, self._key, self._places = _load(spec, target, draft), key, (target, draft)
        return self._pair

    @property
    def target(self) -> Place:
        """Where the held target's files are. There must be one."""
        assert self._places is not None
        return self._places[0]

    def changed(self) -> Path | None:
        """The folder of a held model whose files are no longer as they were loaded."""
        return next((place.folder for place in self._places or () if _newest(place) != place.changed_ns), None)

    def empty(self) -> None:
        """Let go of the pair and give its memory back."""
        self._pair = self._key = self._places = None
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _load(spec: RunSpec, target_place: Place, draft_place: Place) -> Pair:
    device = torch.device(spec.device)
    tokenizer = _load_tokenizer(spec.target, target_place)
    ours = Vocabulary(tokenizer.get_vocab(), _vocab_size(spec.target, target_place, "target"))
    theirs = Vocabulary(_load_tokenizer(spec.draft, draft_place).get_vocab(), _vocab_size(spec.draft, draft_place, "draft"))
    _check_tokens(spec, compare(ours, theirs))
    target = _load_model(spec.target, target_place, "target", spec.dtype, device)
    draft = _load_model(spec.draft, draft_place, "draft", spec.dtype, device)
    eos_ids = _eos_ids(target, tokenizer)
    for model, role in ((target, "target"), (draft, "draft")):
        _check_cache(model, role)
        model.generation_config = greedy_config(eos_ids)
    contexts = [limit for model in (target, draft) if (limit := getattr(_text_config(model), "max_position_embeddings", None))]
    return Pair(target, draft, tokenizer, eos_ids, min(contexts, default=None), device)


def greedy_config(eos_ids: tuple[int, ...]) -> GenerationConfig:
    """Plain decoding that ends at `eos_ids`. The padding token is one of them, because any other is masked in the draft's context."""
    return GenerationConfig(eos_token_id=list(eos_ids) or None, pad_token_id=eos_ids[0] if eos_ids else None)


def _text_config(model: PreTrainedModel) -> Any:
    return model.config.get_text_config(decoder=True)


def _eos_ids(target: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    found = target.generation_config.eos_token_id if target.generation_config else None
    if found is None:
        found = tokenizer.eos_token_id
    if found is None:
        return ()
    return tuple(cast("list[int]", found)) if isinstance(found, list | tuple) else (int(found),)


def places(spec: RunSpec, report: Report) -> tuple[Place, Place]:
    """Where target and draft are, after what is missing of Hub models was downloaded. Raises ModelError."""
    hub = [ref for ref in (spec.target, spec.draft) if ref.source == "hub"]
    folders = dict(zip(hub, download.fetch(hub, report), strict=True)) if hub else {}
    return _place(spec.target, folders, "target"), _place(spec.draft, folders, "draft")


def _place(ref: ModelRef, folders: dict[ModelRef, Path], role: str) -> Place:
    """The place with its newest change, so that a model written anew is loaded anew."""
    if ref.source == "gguf":
        return _gguf_place(Path(ref.path), role)
    folder = folders.get(ref, Path(ref.path))
    if not (folder / "config.json").is_file():
        what = "holds no config.json" if folder.is_dir() else "does not exist"
        raise ModelError(f"The {role}'s folder {folder} {what}. Choose another model, or put its files back.")
    return Place(folder, changed_ns=_newest(Place(folder)))


def _newest(place: Place) -> int:
    """When a file of the place last changed, ns; 0 when it is gone."""
    files = [place.folder / place.gguf_file] if place.gguf_file else list(place.folder.iterdir()) if place.folder.is_dir() else []
    return max((file.stat().st_mtime_ns for file in files if file.exists()), default=0)


def _gguf_place(file: Path, role: str) -> Place:
    if not file.is_file():
        raise ModelError(f"The {role}'s file {file} does not exist. Choose another model, or put it back.")
    needed = [package for package in _FOR_GGUF if importlib.util.find_spec(package) is None]
    if needed:
        raise ModelError(f"The {role} {file.name} is a GGUF file, and its reader is not installed. Install it with: pip install {' '.join(needed)}")
    return Place(file.parent, file.name, file.stat().st_mtime_ns)


def _load_model(ref: ModelRef, place: Place, role: str, dtype: Dtype, device: torch.device) -> PreTrainedModel:
    try:
        loaded = AutoModelForCausalLM.from_pretrained(place.folder, dtype=DTYPES[dtype], output_loading_info=True, **place.loader)
    except torch.OutOfMemoryError:
        raise
    except _LOAD_FAILURES as error:
        raise ModelError(
            f"The {role} {ref.name} in {place.folder} could not be loaded: {_first_line(error)} Check its files, or choose another model."
        ) from error
    model, info = cast("tuple[PreTrainedModel, dict[str, Any]]", loaded)
    if info["missing_keys"]:
        missing = sorted(info["missing_keys"])
        raise ModelError(f"The {role} {ref.name} lacks {len(missing)} of its weights, {missing[0]} first. Download it again.")
    return cast("PreTrainedModel", cast("torch.nn.Module", model).to(device)).eval()


@torch.no_grad()
def _check_cache(model: PreTrainedModel, role: str) -> None:
    """Assisted decoding takes rejected tokens back out of the cache; a running state cannot do that."""
    cache = DynamicCache(config=model.config)
    model(input_ids=torch.zeros((1, 1), dtype=torch.long, device=model.device), cache=cache, use_cache=True)
    if cache.get_seq_length() != 1 or not all(isinstance(layer, DynamicLayer) for layer in cache.layers):
        raise ModelError(f"The {role} keeps a running state ({model.config.model_type}), so rejected tokens cannot be undone. Choose another model.")


def _load_tokenizer(ref: ModelRef, place: Place) -> PreTrainedTokenizerBase:
    try:
        return cast("PreTrainedTokenizerBase", AutoTokenizer.from_pretrained(place.folder, **place.loader))
    except _LOAD_FAILURES as error:
        raise ModelError(f"The tokenizer of {ref.name} in {place.folder} could not be loaded: {_first_line(error)} Check its files.") from error


def _vocab_size(ref: ModelRef, place: Place, role: str) -> int:
    """The rows of the model's embedding, by its config: known before any weights are loaded."""
    try:
        return int(AutoConfig.from_pretrained(place.folder, **place.loader).get_text_config(decoder=True).vocab_size)
    except _LOAD_FAILURES as error:
        raise ModelError(
            f"The config of the {role} {ref.name} in {place.folder} could not be loaded: {_first_line(error)} Check its files."
        ) from error


def _check_tokens(spec: RunSpec, verdict: VocabVerdict) -> None:
    """Raise ModelError when the pair cannot run natively: ids that stand for other tokens, or sizes that differ."""
    if verdict.native:
        return
    pair = f"The target {spec.target.name} and the draft {spec.draft.name}"
    if verdict.kind in ("different", "same_size_different_map"):
        raise ModelError(
            f"{pair} number their tokens differently: {verdict.different_ids:,} of {verdict.common_ids:,} ids stand for other tokens, "
            f"for example {verdict.example}. Choose a draft that was made with the target's tokenizer."
        )
    raise ModelError(
        f"{pair} fit in their tokens, but the target has a vocabulary of {verdict.target_size:,} tokens and the draft one of "
        f"{verdict.draft_size:,}, and Transformers drafts natively only when both are equal. Choose a draft of the target's size."
    )


def _first_line(error: Exception) -> str:
    """The library's own reason, cut to one line and ended with a full stop."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip()
    return line if line.endswith(".") else line + "."
