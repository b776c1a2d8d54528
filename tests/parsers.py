"""Every place where this program reads bytes or text that others wrote, as one table: how it is called, and valid documents to begin with.

`tests/test_fuzz.py` and `benchmarks/fuzz.py` give each of them what is nearly right and what is anything. Only a DraftgaugeError with a
sentence may come out, in bounded time and memory. Readers that need Transformers import it when they are called.
"""

import functools
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub.hf_api import ModelInfo as HubAnswer

from core import candidates, demo, imports, notes, pair, prices, prompt_files, prompt_text, prompts
from core.address import resolve
from core.cost import parse_amount
from core.errors import DraftgaugeError
from core.export_json import to_json
from core.headers import read_header
from core.hub import Hub
from core.hub_client import Limits, Meter
from core.model_folder import check_harmless, shard_names
from core.model_info import ModelInfo
from core.plan.model_files import FolderFiles, read_model
from core.plan.vocabulary import keep, read_gguf_vocabulary, read_vocabulary
from core.planner import Answer, Failed, Ready
from core.privacy import without_texts
from core.prompt_draft import Draft, keys
from core.prompt_rows import NO_LIMIT, judge
from core.runs import ModelRef, Prompt
from core.settings import Settings
from core.trace_file import unpack_traces
from core.ui import decoding_box, memory_typed, paste
from core.weights import weigh
from tests import documents

LONGEST_SENTENCE = 1_500


@dataclass(frozen=True)
class Parser:
    """One reader. read: of bytes, in a folder of its own. tree: whether its valid documents are JSON."""

    read: Callable[[bytes, Path], object]
    tree: bool = False


def harmless(parser: Parser, content: bytes, folder: Path) -> None:
    """Read it; whatever is refused must be refused with a sentence that can be shown."""
    try:
        parser.read(content, folder)
    except DraftgaugeError as error:
        sentence = str(error)
        assert 10 < len(sentence) <= LONGEST_SENTENCE, sentence[:2_000]
        assert " " in sentence
        sentence.encode()


def _text(content: bytes) -> str:
    return content.decode(errors="replace")


# Prompts.


def _judged(found: prompts.Reading) -> None:
    judge(found.prompts, [3] * len(found.prompts), NO_LIMIT, 8)
    assert len(keys(found.prompts)) == len(found.prompts) <= prompts.MOST_PROMPTS
    prompts.Reading.model_validate_json(found.model_dump_json())


def _pasted(content: bytes, folder: Path) -> None:
    _judged(prompt_text.read(_text(content)))


def _file(content: bytes, folder: Path, kind: str) -> None:
    _judged(prompt_files.read_file(f"prompts.{kind}", content))


def _saved(content: bytes, folder: Path) -> None:
    draft = Draft.read(_text(content))
    Draft.read(draft.saved())
    draft.changed(["a"], {0: {"Include": True, "Label": _text(content[:100])}})


def _tags(content: bytes, folder: Path) -> None:
    assert all(tag == " ".join(tag.split()) for tag in notes.clean_tags(_text(content).split("\n")))


# Runs from elsewhere.


def _imported(content: bytes, folder: Path) -> None:
    run = imports.read("a file", content, gamma=5)
    imports.preview(run)
    without_texts(imports.read("again", to_json(run)))


def _another_tool(content: bytes, folder: Path) -> None:
    found = paste.read(_text(content), 2)
    assert 0 <= found.alpha <= 1


def _traces(content: bytes, folder: Path) -> None:
    unpack_traces(content)


# Models.


def _header(content: bytes, folder: Path) -> None:
    """A file whose length fits whatever its header says."""
    file = folder / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(content)) + content + bytes(16))
    tensors = read_header(file)
    assert weigh(tensors, {}).bytes <= 16


def _header_file(content: bytes, folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(content)
    read_header(folder / "model.safetensors")


def _gguf(content: bytes, folder: Path) -> None:
    (folder / "tiny.gguf").write_bytes(content)
    keep(read_gguf_vocabulary(folder / "tiny.gguf"), Settings(data=folder / "data"))


def _gguf_head(content: bytes, folder: Path) -> None:
    from core.plan.gguf_file import read_head

    (folder / "tiny.gguf").write_bytes(content)
    read_head(folder / "tiny.gguf", lambda key: not key.startswith("tokenizer."))


def _tokenizer(content: bytes, folder: Path, name: str) -> None:
    (folder / name).write_bytes(content)
    if name not in ("tokenizer.json", "tokenizer.model", "vocab.json"):
        (folder / "tokenizer.json").write_bytes(documents.WORD_LEVEL)
    (folder / "merges.txt").write_bytes(b"")
    keep(read_vocabulary(folder, 100), Settings(data=folder / "data"))


def _folder(content: bytes, folder: Path, name: str) -> None:
    """A model folder with one foreign file, as the job reads it and as pages then see it."""
    root = folder / "models"
    model = root / "m"
    if not model.is_dir():
        model.mkdir(parents=True)
        for file in Path(demo.DRAFT.path).iterdir():
            (model / file.name).symlink_to(file) if file.stat().st_size > 1_000_000 else (model / file.name).write_bytes(file.read_bytes())
    (model / name).unlink(missing_ok=True)
    (model / name).write_bytes(content)
    try:
        _described(ModelRef(source="demo", name="m", path=str(model)), Settings(data=folder / "data", model_roots=[root]))
    finally:
        original = Path(demo.DRAFT.path) / name
        (model / name).write_bytes(original.read_bytes()) if original.is_file() else (model / name).unlink()


def _described(ref: ModelRef, settings: Settings) -> None:
    check_harmless(Path(ref.path))
    info = ModelInfo.model_validate(json.loads(json.dumps(read_model(ref, FolderFiles(ref, settings), settings).model_dump(mode="json"))))
    decoding_box.own_decoding(info)

    def ask(task: str, arguments: dict[str, Any]) -> Answer:
        return Ready(info.model_dump(mode="json"), 1.0) if task == "describe" else Failed("Not asked.")

    candidates.gather(ask, "acme/target", ["acme/draft"], candidates.Setting())


def _index(content: bytes, folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_bytes(content)
    shard_names(folder / "model.safetensors.index.json")


def _sizes(content: bytes, folder: Path) -> None:
    from core.plan.model_config import resolve as resolved

    try:
        config = json.loads(content)
    except (ValueError, RecursionError):
        return
    resolved(config)


def _template(content: bytes, folder: Path) -> None:
    from core import chat

    tokenizer = _chatty()
    tokenizer.chat_template = _text(content)
    if tokenizer.chat_template:
        chat.ids(tokenizer, Prompt.model_validate({"text": "Why?", "messages": [{"role": "user", "content": "Why?"}]}), True)


@functools.cache
def _chatty() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(demo.DRAFT.path)


# The Hub, addresses, numbers.


class _Api:
    """Answers what it was made with."""

    endpoint = "https://huggingface.co"

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def model_info(self, *_: Any, **__: Any) -> HubAnswer:
        return HubAnswer(**self._answer)

    def list_models(self, **_: Any) -> list[HubAnswer]:
        return [HubAnswer(**each) for each in self._answer] if isinstance(self._answer, list) else [HubAnswer(**self._answer)]


def _hub(content: bytes, folder: Path) -> None:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return
    hub = Hub(Settings(data=folder / "data"), Limits(), Meter())
    hub._api = _Api(answer)  # pyright: ignore[reportAttributeAccessIssue]
    for found in _both(hub):
        json.dumps(found)


def _both(hub: Hub) -> list[Any]:
    refusals = 0
    found: list[Any] = []
    for ask in (lambda: [hub.repository(ModelRef(source="hub", name="acme/target", path="acme/target")).licence], lambda: hub.search("target")):
        try:
            found += [each if isinstance(each, str) else each.model_dump(mode="json") for each in ask()]
        except DraftgaugeError:
            refusals += 1
    return found


def _address(content: bytes, folder: Path) -> None:
    (folder / "m").mkdir(exist_ok=True)
    (folder / "m" / "config.json").write_bytes(documents.demo_file("config.json"))
    (folder / "m" / "x.gguf").write_bytes(b"GGUF")
    settings = Settings(data=folder / "data", model_roots=[folder])
    pair.check(resolve(_text(content), settings), settings, weights=False)


def _numbers(content: bytes, folder: Path) -> None:
    memory_typed.number("Context", _text(content), 0, 1e9)
    memory_typed.whole("Context", _text(content), 0, 1_000_000)


def _money(content: bytes, folder: Path) -> None:
    parse_amount(_text(content))


def _currency(content: bytes, folder: Path) -> None:
    memory_typed.currency(_text(content))


def _prices(content: bytes, folder: Path) -> None:
    prices.to_csv(prices.parse_csv(content))


def _tree(read: Callable[..., object], **more: str) -> Parser:
    """Of JSON."""
    return Parser(functools.partial(read, **more), tree=True)


def _bytes(read: Callable[..., object], **more: str) -> Parser:
    return Parser(functools.partial(read, **more))


PARSERS: dict[str, Parser] = {
    "pasted prompts": _tree(_pasted),
    "prompts .txt": _bytes(_file, kind="txt"),
    "prompts .jsonl": _tree(_file, kind="jsonl"),
    "prompts .json": _tree(_file, kind="json"),
    "prompts .csv": _bytes(_file, kind="csv"),
    "saved prompts": _bytes(_saved),
    "tags": _bytes(_tags),
    "run documents": _tree(_imported),
    "engines' responses": _tree(_imported),
    "engines' logs": _bytes(_imported),
    "another tool's output": _bytes(_another_tool),
    "stored traces": _bytes(_traces),
    "safetensors headers": _tree(_header),
    "safetensors files": _bytes(_header_file),
    "GGUF vocabularies": _bytes(_gguf),
    "GGUF heads": _bytes(_gguf_head),
    "tokenizer.json": _tree(_tokenizer, name="tokenizer.json"),
    "tokenizer_config.json": _tree(_tokenizer, name="tokenizer_config.json"),
    "added_tokens.json": _tree(_tokenizer, name="added_tokens.json"),
    "vocab.json": _tree(_tokenizer, name="vocab.json"),
    "tokenizer.model": _bytes(_tokenizer, name="tokenizer.model"),
    "config.json": _tree(_folder, name="config.json"),
    "generation_config.json": _tree(_folder, name="generation_config.json"),
    "index of shards": _tree(_index),
    "sizes of a config": _tree(_sizes),
    "chat templates": _bytes(_template),
    "answers of the Hub": _tree(_hub),
    "addresses of models": _bytes(_address),
    "typed numbers": _bytes(_numbers),
    "typed amounts": _bytes(_money),
    "typed currencies": _bytes(_currency),
    "own prices": _bytes(_prices),
}
"""By name, as `tests.documents.SEEDS`."""
