"""What the files of a model say, wherever they lie: the same reading for a folder, the Hub, and the Hub's cache.

Units: bytes; `read_s` in seconds since 1970. Not covered: GGUF files (`core.plan.describe_gguf`).
"""

import re
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from core.address import inside
from core.errors import ModelError
from core.headers import Tensor, read_header
from core.hub_client import TooLarge
from core.model_folder import LARGEST_CONFIG_BYTES, check_enclosed, shard_names
from core.model_info import ModelInfo
from core.plan.tokenizer_files import read_json
from core.plan.vocabulary import keep, read_vocabulary
from core.runs import ModelRef
from core.settings import Settings
from core.usable import INDEX, SINGLE, judge_config, judge_files, judge_head, judge_weights, weightless
from core.weights import weigh

LONGEST_CARD_HEAD_BYTES = 20_000
MOST_ROWS = 10_000_000
"""Of an embedding; the largest that is known has 262,208."""
TOKENIZER_FILES = (
    *("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"),
    *("tokenizer.json", "tokenizer.model", "tiktoken.model", "vocab.json", "merges.txt"),
)
_EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "embed_in.weight", "word_embeddings.weight", "embeddings.weight")


class Files(Protocol):
    """Where a model's files come from. `weights` says whether the list of names can be trusted to show the weights as well."""

    names: Collection[str]
    weights: bool

    def get(self, name: str) -> Path | None:
        """The file on this machine, None when the model has none of that name."""
        ...

    def tensors(self) -> list[Tensor]:
        """The tensors of all weights that Transformers would load."""
        ...


class FolderFiles:
    """A folder on this machine. rooted: its files must lie below a configured root, links followed."""

    def __init__(self, ref: ModelRef, settings: Settings, folder: Path | None = None) -> None:
        """The folder of `ref`, else one in a cache of the Hub, which may lack weights."""
        self._folder = folder or Path(ref.path)
        self._settings, self._rooted = settings, folder is None and ref.source == "folder"
        if self._rooted:
            check_enclosed(self._folder, settings)
        try:
            self.names: Collection[str] = {
                str(file.relative_to(self._folder)) for file in [*self._folder.glob("*"), *self._folder.glob("1_Pooling/*")]
            }
        except OSError as error:
            raise ModelError(f"The model folder {self._folder} cannot be read ({error.strerror}). Choose another model.") from error
        self.weights = folder is None or self._complete()

    def get(self, name: str) -> Path | None:
        """The file; raises ModelError when it is a link that leads out of the roots."""
        file = self._folder / name
        if not file.is_file():
            return None
        if self._rooted and not inside(file, self._settings):
            raise ModelError(f"{file} is a link that leads out of the configured roots. Add the folder it leads to to DRAFTGAUGE_MODEL_ROOTS.")
        return file

    def tensors(self) -> list[Tensor]:
        """From the single file, else from those that the index names. Raises ModelError for one that is missing or damaged."""
        found: list[Tensor] = []
        for name in self._weight_files():
            file = self.get(name)
            if file is None:
                raise ModelError(f"The model folder {self._folder} lacks {name[:80]}. Download the model again.")
            found += read_header(file)
        return found

    def _complete(self) -> bool:
        names = self._weight_files()
        return bool(names) and all((self._folder / name).is_file() for name in names)

    def _weight_files(self) -> list[str]:
        if SINGLE in self.names:
            return [SINGLE]
        index = self.get(INDEX)
        return shard_names(index) if index else []


def read_model(ref: ModelRef, files: Files, settings: Settings, pipeline: str = "") -> ModelInfo:
    """A model's ModelInfo. Raises ModelError for damaged files, and what `files` raises."""
    refusal = judge_files(ref.name, files.names, _json(files, "adapter_config.json"))
    if refusal:
        return ModelInfo(ref=ref, read_s=time.time(), refusal=refusal)
    config = _json(files, "config.json")
    judged = judge_config(ref.name, config, files.names, pipeline)
    bare = ref.source == "folder" and weightless(files.names)
    weights = files.weights and not bare
    refusal = judged.refusal or (judge_weights(ref.name, files.names) if weights else "")
    lacks = (f"{ref.name} has no weights in its folder: it can be timed from its config, and measured once they are there.",) if bare else ()
    info = ModelInfo(ref=ref, read_s=time.time(), refusal=refusal, warnings=(*lacks, *judged.warnings), config=config)
    if refusal:
        return info
    tensors = files.tensors() if weights else []
    rows = _rows(config, tensors)
    pruned = judge_head(ref.name, rows, tensors)
    if pruned:
        return info.model_copy(update={"refusal": pruned})
    words = _vocabulary(ref, files, rows, settings)
    return info.model_copy(
        update={
            "generation_config": _json(files, "generation_config.json"),
            "weights": weigh(tensors, config) if weights else None,
            "vocabulary": words.key,
            "vocabulary_problem": words.problem,
            "chat_template": words.chat_template,
            "licence": _licence(files.get("README.md") if isinstance(files, FolderFiles) else None),
        }
    )


class _Words(NamedTuple):
    key: str = ""
    problem: str = ""
    chat_template: str = ""


def _vocabulary(ref: ModelRef, files: Files, rows: int | None, settings: Settings) -> _Words:
    """The stored vocabulary; a model without a readable one can still be described."""
    config = files.get("config.json")
    assert config is not None
    if rows is None:
        return _Words(problem=f"Neither the config of {ref.name} nor its weights say how many tokens it knows. Choose another model.")
    try:
        for name in TOKENIZER_FILES:
            if name not in ("vocab.json", "merges.txt") or "tokenizer.json" not in files.names:
                files.get(name)
        found = read_vocabulary(config.parent, rows)
    except (ModelError, TooLarge) as error:
        return _Words(problem=str(error).replace(str(config.parent), ref.name))
    return _Words(keep(found, settings), "", found.chat_template or "")


def _rows(config: dict[str, Any], tensors: list[Tensor]) -> int | None:
    """`vocab_size` of the config or of its text part; where that is missing or absurd it is read off the embedding."""
    inner: Any = config.get("text_config")
    parts: list[dict[str, Any]] = [config, inner if isinstance(inner, dict) else {}]
    for part in parts:
        stated = part.get("vocab_size")
        if isinstance(stated, int) and 0 < stated <= MOST_ROWS:
            return stated
    shapes = [tensor.shape for tensor in tensors if tensor.name.endswith(_EMBEDDINGS) and len(tensor.shape) == 2]
    return max((shape[0] for shape in shapes), default=None)


def _json(files: Files, name: str) -> dict[str, Any]:
    file = files.get(name)
    return read_json(file, LARGEST_CONFIG_BYTES) if file else {}


def _licence(card: Path | None) -> str:
    """The licence that a model card names in its head; the Hub itself says it of its models."""
    if card is None:
        return ""
    with card.open("rb") as opened:
        head = opened.read(LONGEST_CARD_HEAD_BYTES).decode(errors="replace")
    found = re.search(r"^license:[ \t]*([\w.+-]{1,60})[ \t]*$", head.partition("\n---")[0], re.MULTILINE)
    return found[1] if found else ""
