"""Jobs that say how many tokens prompts have for a model, and what exactly it reads: counted by Transformers' own tokenizer.

Heavy: in Transformers 5.24 many tokenizer classes build their rules themselves instead of from tokenizer.json, so that only the
library's own gives the numbers that a measurement will have, and importing it brings torch. A Hub model's small files are fetched
first, its weights are not. No code from models is run; chat templates run in the library's sandbox.
"""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from transformers import AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import logging

from core import chat
from core.address import resolve
from core.bounded import GIB, bounded
from core.errors import InvalidInput, ModelError
from core.hub_cache import cached_folder
from core.model_folder import check_harmless
from core.pair import check
from core.plan.describe import describe
from core.runs import ModelRef, Prompt
from core.settings import Settings
from core.stamp import stamp

MOST_MEMORY_BYTES = 4 * GIB
LONGEST_S = 100.0
"""Of loading one; the library may have to convert an older kind first."""

logging.disable_progress_bar()
logging.set_verbosity_error()  # every text longer than the model's context would be warned of


def prompt_tokens(arguments: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Job: {"model": address, "prompts": [Prompt], "chat_template": bool} -> {"tokens": [int or None], "problems": [str]}, one per prompt.

    A prompt that the chat template refuses has None and the reason. Raises InvalidInput and ModelError when there is no tokenizer,
    or no chat template where one is wanted.
    """
    tokenizer = _tokenizer(arguments, settings)
    prompts = [Prompt.model_validate(prompt) for prompt in arguments["prompts"]]
    counted = [_count(tokenizer, prompt, bool(arguments.get("chat_template"))) for prompt in prompts]
    return {"tokens": [tokens for tokens, _ in counted], "problems": [problem for _, problem in counted]}


def prompt_preview(arguments: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Job: {"model": address, "prompt": Prompt, "chat_template": bool} -> {"text": str, "tokens": int, "unknown": int}.

    text: what the model reads, its special tokens written out; unknown: tokens that stand for characters it does not know.
    Raises as `prompt_tokens`, and InvalidInput when the template refuses the prompt.
    """
    tokenizer = _tokenizer(arguments, settings)
    prompt, with_template = Prompt.model_validate(arguments["prompt"]), bool(arguments.get("chat_template"))
    found = chat.ids(tokenizer, prompt, with_template)
    text = chat.written(tokenizer, prompt) if with_template else _with_special_tokens(tokenizer, prompt.text, found)
    unknown = cast("int | None", tokenizer.unk_token_id)
    return {"text": text, "tokens": len(found), "unknown": 0 if unknown is None else found.count(unknown)}


def _count(tokenizer: PreTrainedTokenizerBase, prompt: Prompt, with_template: bool) -> tuple[int | None, str]:
    try:
        return len(chat.ids(tokenizer, prompt, with_template)), ""
    except InvalidInput as error:
        return None, str(error)


def _with_special_tokens(tokenizer: PreTrainedTokenizerBase, text: str, found: list[int]) -> str:
    """The text between the special tokens that the tokenizer adds by itself."""
    bare = list(cast("Any", tokenizer)(text, add_special_tokens=False)["input_ids"])
    for before in range(len(found) - len(bare) + 1):
        if found[before : before + len(bare)] == bare:
            return _names(tokenizer, found[:before]) + text + _names(tokenizer, found[before + len(bare) :])
    return cast("str", tokenizer.decode(found, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def _names(tokenizer: PreTrainedTokenizerBase, ids: Iterable[int]) -> str:
    return "".join(cast("list[str]", tokenizer.convert_ids_to_tokens(list(ids))))


def _tokenizer(arguments: dict[str, Any], settings: Settings) -> PreTrainedTokenizerBase:
    ref = resolve(str(arguments.get("model", "")), settings)
    tokenizer = _loaded(ref.name, *_place(ref, settings))
    if arguments.get("chat_template") and not tokenizer.chat_template:
        raise ModelError(f"{ref.name} has no chat template. Switch the chat template off.")
    return tokenizer


def _place(ref: ModelRef, settings: Settings) -> tuple[Path, str, str]:
    """Folder, GGUF file in it, and their `core.stamp`, so that a tokenizer written anew is loaded anew. Raises as `core.pair.check`."""
    if ref.source != "hub":
        check(ref, settings, weights=False)
    if ref.source == "gguf":
        file = Path(ref.path)
        return file.parent, file.name, stamp(file)
    folder = _fetched(ref, settings) if ref.source == "hub" else Path(ref.path)
    return folder, "", stamp(folder)


def _fetched(ref: ModelRef, settings: Settings) -> Path:
    """The small files of a Hub model on this machine. Raises what `describe` raises, ModelError when it cannot be used."""
    info = describe({"model": f"{ref.path}@{ref.revision}" if ref.revision else ref.path}, settings)
    folder = cached_folder(ModelRef.model_validate(info["ref"]), settings)
    if info["refusal"] or folder is None:
        raise ModelError(info["refusal"] or f"The files of {ref.path} are not on this machine. Try again when the Hub answers.")
    return folder


@lru_cache(maxsize=2)
def _loaded(name: str, folder: Path, gguf_file: str, _files: str) -> PreTrainedTokenizerBase:
    more = {"gguf_file": gguf_file} if gguf_file else {}
    check_harmless(folder)
    try:
        with bounded(MOST_MEMORY_BYTES, LONGEST_S):
            return cast("PreTrainedTokenizerBase", AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False, **more))
    except Exception as error:  # the library raises whatever a damaged file makes it raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise ModelError(f"The tokenizer of {name} could not be loaded ({reason}). Check its files, or choose another model.") from error
