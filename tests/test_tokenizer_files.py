"""Reading tokenizers from folders and GGUF files: equal to what Transformers reads, and a sentence for everything else."""

import base64
import importlib.util
import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models
from transformers import AutoTokenizer

from core import demo
from core.errors import ModelError
from core.plan.gguf_file import read_metadata
from core.plan.tokenizer_files import LARGEST_BYTES, chat_template
from core.plan.vocabulary import read_gguf_vocabulary, read_vocabulary
from core.vocab import Vocabulary, compare
from tests.models import TEXTS, tokenizer_of

DEMO = Path(demo.TARGET.path)


def library(folder: Path, **how: Any) -> Any:
    return AutoTokenizer.from_pretrained(folder, local_files_only=True, **how)


def assert_as_the_library(found: Vocabulary, tokenizer: Any) -> None:
    assert found.tokens == tokenizer.get_vocab()
    roles = {"bos_token": tokenizer.bos_token_id, "eos_token": tokenizer.eos_token_id, "pad_token": tokenizer.pad_token_id}
    assert {role: found.special.get(role) for role in roles} == roles
    assert found.chat_template == (tokenizer.chat_template or "")


def write_json(file: Path, content: Any) -> Path:
    file.write_text(json.dumps(content))
    return file.parent


def word_level(folder: Path, tokens: dict[str, int]) -> Path:
    """A folder whose tokenizer.json holds just this map."""
    Tokenizer(models.WordLevel(tokens, unk_token=next(iter(tokens)))).save(str(folder / "tokenizer.json"))
    return folder


def test_the_demo_pair():
    target, draft = (read_vocabulary(Path(ref.path), 4096) for ref in (demo.TARGET, demo.DRAFT))
    assert_as_the_library(target, library(DEMO))
    assert target.added == {"<|endoftext|>"}
    assert target.normaliser == ""
    assert json.loads(target.pre_tokenizer or "")["type"] == "ByteLevel"
    found = compare(target, draft)
    assert (found.kind, found.native, found.pre_tokenizer) == ("identical", True, "same")
    assert found.sentence == "Same token map, same size: 4,096 of 4,096 tokens."


def test_added_and_special_tokens_get_the_ids_that_the_library_gives(tmp_path):
    tokenizer = tokenizer_of(list(TEXTS))
    tokenizer.add_tokens(["<think>", "</think>"])
    tokenizer.add_special_tokens({"bos_token": "<s>", "additional_special_tokens": ["<|user|>"]})
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    tokenizer.save_pretrained(tmp_path)
    found = read_vocabulary(tmp_path, 400)
    assert (tmp_path / "chat_template.jinja").is_file()
    assert_as_the_library(found, library(tmp_path))
    assert found.added == {"<|endoftext|>", "<think>", "</think>", "<s>", "<|user|>"}
    assert found.special["bos_token"] == found.tokens["<s>"] > 383


def test_tokens_that_only_the_config_names(tmp_path):
    word_level(tmp_path, {"<unk>": 0, "a": 1, "b": 2})
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "added_tokens_decoder": {"4": {"content": "<y>", "special": True}, "3": {"content": "<x>", "special": True}},
        "eos_token": {"content": "<x>", "__type": "AddedToken"},
        "pad_token": "<pad>",
        "unk_token": "<unk>",
    }
    write_json(tmp_path / "tokenizer_config.json", config)
    found = read_vocabulary(tmp_path, 8)
    assert found.tokens == {"<unk>": 0, "a": 1, "b": 2, "<x>": 3, "<y>": 4, "<pad>": 5}
    assert found.special == {"eos_token": 3, "pad_token": 5, "unk_token": 0}
    assert_as_the_library(found, library(tmp_path))


def test_a_hundred_thousand_special_tokens_take_no_time(tmp_path):
    word_level(tmp_path, {f"t{id_}": id_ for id_ in range(10_000)})
    write_json(tmp_path / "tokenizer_config.json", {"additional_special_tokens": [f"<{number}>" for number in range(100_000)]})
    start = time.process_time()
    found = read_vocabulary(tmp_path, 110_000)
    assert time.process_time() - start < 5
    assert (len(found.tokens), found.tokens["<0>"], found.tokens["<99999>"]) == (110_000, 10_000, 109_999)


def test_an_id_taken_twice_goes_to_the_tokenizer_and_a_slow_placeholder_to_the_config(tmp_path):
    decoder = {"added_tokens_decoder": {"1": {"content": "<x>"}}}
    write_json(word_level(tmp_path, {"a": 0, "b": 1}) / "tokenizer_config.json", decoder)
    assert read_vocabulary(tmp_path, 8).tokens == {"a": 0, "b": 1, "<x>": 2}
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "tokenizer.model").write_bytes(b"YQ== 0\nYg== 1\n")
    assert read_vocabulary(tmp_path, 8).tokens == {"a": 0, "<x>": 1}


def test_chat_templates(tmp_path):
    assert chat_template(tmp_path) == ""
    write_json(tmp_path / "tokenizer_config.json", {"chat_template": [{"name": "tool", "template": "t"}, {"name": "default", "template": "d"}]})
    assert chat_template(tmp_path) == "d"
    write_json(tmp_path / "tokenizer_config.json", {"chat_template": "one"})
    assert chat_template(tmp_path) == "one"
    (tmp_path / "chat_template.jinja").write_text("zwei ü")
    assert chat_template(tmp_path) == "zwei ü"


def test_vocab_and_merges(tmp_path):
    tokenizer_of(list(TEXTS)).save_pretrained(tmp_path / "fast")
    model = json.loads((tmp_path / "fast" / "tokenizer.json").read_text())["model"]
    (tmp_path / "slow").mkdir()
    write_json(tmp_path / "slow" / "vocab.json", model["vocab"])
    (tmp_path / "slow" / "merges.txt").write_text("\n".join(" ".join(merge) for merge in model["merges"]))
    write_json(tmp_path / "slow" / "added_tokens.json", {"<extra>": 384})
    write_json(
        tmp_path / "slow" / "tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer", "eos_token": "<|endoftext|>", "pad_token": "<extra>"}
    )
    found = read_vocabulary(tmp_path / "slow", 385)
    assert found.tokens == {**model["vocab"], "<extra>": 384}
    assert found.tokens == library(tmp_path / "slow").get_vocab()
    assert found.normaliser is None
    assert compare(found, read_vocabulary(tmp_path / "fast", 385)).kind == "tail_differs"


def test_tiktokens_lines_are_spelled_as_byte_level_tokens(tmp_path):
    words = [bytes([byte]) for byte in range(256)] + [b" the", "é".encode(), b"\n\n"]
    lines = b"".join(base64.b64encode(word) + f" {rank}\n".encode() for rank, word in enumerate(words))
    (tmp_path / "tokenizer.model").write_bytes(lines)
    found = read_vocabulary(tmp_path, 259)
    assert len(found.tokens) == 259
    assert [found.tokens[token] for token in ("!", "Ġ", "Ċ", "Ġthe", "Ã©", "ĊĊ")] == [33, 32, 10, 256, 257, 258]
    spelled = read_vocabulary(DEMO, 4096).tokens
    assert {token for token in spelled if len(token) == 1} == {token for token, id_ in found.tokens.items() if id_ < 256}


@pytest.mark.skipif(importlib.util.find_spec("sentencepiece") is None, reason="needs sentencepiece: pip install sentencepiece==0.2.3")
def test_sentencepiece_alone(tmp_path):
    trainer = importlib.import_module("sentencepiece").SentencePieceTrainer
    text = tmp_path / "text"
    text.write_text("\n".join(TEXTS) * 20)
    options = {"vocab_size": 300, "model_type": "bpe", "byte_fallback": True, "user_defined_symbols": ["<mine>"], "minloglevel": 2}
    trainer.train(input=str(text), model_prefix=str(tmp_path / "tokenizer"), hard_vocab_limit=False, **options)
    write_json(
        tmp_path / "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    )
    found = read_vocabulary(tmp_path, 300)
    assert found.tokens == library(tmp_path).get_vocab()
    assert found.special == {"unk_token": 0, "bos_token": 1, "eos_token": 2}
    assert found.tokens["<0x0A>"] == 14
    assert found.added == {"<s>", "</s>", "<unk>"}
    (tmp_path / "tokenizer.model").write_bytes(b"\x0anot a model")
    with pytest.raises(ModelError, match="neither a SentencePiece model nor tiktoken"):
        read_vocabulary(tmp_path, 300)


def test_without_sentencepiece_a_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    (tmp_path / "tokenizer.model").write_bytes(b"\x0a\x05")
    with pytest.raises(ModelError, match=r"needs the package sentencepiece to be read. Install it: pip install sentencepiece"):
        read_vocabulary(tmp_path, 300)


TOKENIZER = {"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}


def with_vocab(vocab: Any) -> str:
    return json.dumps({**TOKENIZER, "model": {"type": "BPE", "vocab": vocab, "merges": []}})


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("tokenizer.json", '{"version": "1.0", "model', "EOF while parsing a string"),
        ("tokenizer.json", "[]", "invalid type: sequence"),
        ("tokenizer.json", "[" * 200_000, "is not a tokenizer that can be read"),
        ("tokenizer.json", b'{"version": "\xff\xfe"}', "is not a tokenizer that can be read"),
        ("tokenizer.json", with_vocab({"a": -1}), "invalid value: integer `-1`"),
        ("tokenizer.json", with_vocab({"a": 1.5}), "invalid type: floating point `1.5`"),
        ("tokenizer.json", with_vocab({"a": "0"}), "invalid type: string"),
        ("tokenizer.json", with_vocab({"a": 2**40}), "invalid value: integer `1099511627776`"),
        ("tokenizer.json", with_vocab([1, 2]), "is not a tokenizer that can be read"),
        ("tokenizer.json", with_vocab({}), "holds no tokens"),
        ("tokenizer.json", '{"version":"1.0","model":{"type":"BPE","vocab":{"\\ud800":0},"merges":[]}}', "is not a tokenizer that can be read"),
        ("tokenizer.json", " " * (LARGEST_BYTES + 1), "has 64 MB; a file of its kind of more than 64 MB is not read"),
        ("vocab.json", "{", "is not readable as JSON"),
        ("vocab.json", "[]", "does not hold a JSON object"),
        ("vocab.json", '{"a":' * 200_000, "is not readable as JSON (maximum recursion"),
        ("vocab.json", '{"a": -1}', "maps 'a' to -1, which is no token and id"),
        ("vocab.json", '{"a": 1.5}', "maps 'a' to 1.5"),
        ("vocab.json", '{"a": true}', "maps 'a' to True"),
        ("vocab.json", '{"a": "1"}', "maps 'a' to 1"),
        ("vocab.json", '{"a": null}', "maps 'a' to None"),
        ("vocab.json", '{"\\ud800": 1}', "has a token or other text that is not valid"),
        ("vocab.json", b'{"\xff": 1}', "is not readable as JSON"),
        ("vocab.json", '{"a": ' + "9" * 10_000 + "}", "is not readable as JSON (Exceeds the limit"),
        ("tokenizer.model", "YQ== 0\nYg==\n", "has a line that is not base64 and rank: b'Yg=='"),
        ("tokenizer.model", "YQ== 0\n??? 1\n", "has a line that is not base64 and rank"),
        ("tekken.json", "{}", "has its tokenizer in tekken.json only"),
    ],
)
def test_damaged_files_are_a_sentence(tmp_path, name, content, sentence):
    (tmp_path / "merges.txt").write_text("")
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ModelError) as refused:
        read_vocabulary(tmp_path, 10)
    assert sentence in str(refused.value)
    assert str(tmp_path) in str(refused.value)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("[]", "does not hold a JSON object"),
        ('{"added_tokens_decoder": []}', None),
        ('{"added_tokens_decoder": [1]}', "has an added_tokens_decoder that is no object"),
        ('{"added_tokens_decoder": {"-1": {"content": "x"}}}', "lists the added token '-1'"),
        ('{"added_tokens_decoder": {"9999999999": {"content": "x"}}}', "maps 'x' to 9999999999"),
        ('{"added_tokens_decoder": {"3": {"content": 5}}}', "lists the added token '3'"),
        ('{"added_tokens_decoder": {"3": null}}', "lists the added token '3'"),
        ('{"eos_token": 5, "pad_token": false, "additional_special_tokens": "x", "chat_template": 7}', None),
    ],
)
def test_damaged_configs(tmp_path, config, sentence):
    (tmp_path / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    (tmp_path / "tokenizer_config.json").write_text(config)
    if sentence is None:
        found = read_vocabulary(tmp_path, 10)
        assert (found.tokens, found.special, found.chat_template) == ({"a": 0}, {}, "")
    else:
        with pytest.raises(ModelError) as refused:
            read_vocabulary(tmp_path, 10)
        assert sentence in str(refused.value)


def test_no_tokenizer_and_what_is_no_file(tmp_path):
    with pytest.raises(ModelError, match="has no tokenizer: none of tokenizer"):
        read_vocabulary(tmp_path, 10)
    os.mkfifo(tmp_path / "tokenizer.json")
    with pytest.raises(ModelError, match="has no tokenizer: none of tokenizer"):
        read_vocabulary(tmp_path, 10)
    with pytest.raises(ModelError, match="has no tokenizer"):
        read_vocabulary(tmp_path / "nowhere", 10)


def test_reading_needs_no_torch():
    code = "import sys, core.plan.vocabulary; print(sorted({'torch', 'transformers'} & sys.modules.keys()))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent)
    assert ran.stdout.strip() == "[]"


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def field(key: str, value: Any) -> bytes:
    """One metadata entry: text, a whole number, or a list of either."""
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, int):
        return text(key) + struct.pack("<II", 4, value)
    if isinstance(value[0], str):
        return text(key) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    return text(key) + struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)


def write_gguf(file: Path, version: int = 3, **changed: Any) -> Path:
    entries: dict[str, Any] = {
        "general.architecture": "llama",
        "llama.vocab_size": 8,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ["<unk>", "<s>", "▁a", "  ", "é", "[PAD5]", "[PAD6]", "[PAD7]"],
        "tokenizer.ggml.token_type": [2, 3, 1, 4, 1, 5, 5, 4],
        "tokenizer.ggml.merges": ["x y", "yy z"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.chat_template": "{{ x }}",
        **{name.replace("__", "."): value for name, value in changed.items()},
    }
    kept = {key: value for key, value in entries.items() if value is not None}
    file.write_bytes(b"GGUF" + struct.pack("<IQQ", version, 0, len(kept)) + b"".join(field(*entry) for entry in kept.items()))
    return file


def test_a_padded_gguf_file(tmp_path):
    found = read_gguf_vocabulary(write_gguf(tmp_path / "a.gguf"))
    assert found.tokens == {"<unk>": 0, "<s>": 1, "▁a": 2, "▁▁": 3, "é": 4}
    assert (found.size, found.special, found.added, found.chat_template) == (8, {"bos_token": 1}, {"<s>", "▁▁"}, "{{ x }}")
    assert (found.normaliser, found.pre_tokenizer) == (None, None)
    assert compare(found, Vocabulary(found.tokens, 5)).kind == "padded"


def test_a_gguf_file_without_a_size_has_as_many_rows_as_tokens(tmp_path):
    assert read_gguf_vocabulary(write_gguf(tmp_path / "a.gguf", llama__vocab_size=None)).size == 8
    assert read_metadata(tmp_path / "a.gguf", ()).keys().isdisjoint({"tokenizer.ggml.tokens", "tokenizer.ggml.merges"})


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"tokenizer__ggml__tokens": None}, "holds no tokenizer"),
        ({"tokenizer__ggml__tokens": [1, 2]}, "holds no tokenizer"),
        ({"tokenizer__ggml__token_type": [1]}, "lists 8 tokens and the types of 1"),
        ({"llama__vocab_size": "8"}, "of the wrong type"),
        ({"version": 1}, "of version 1 or of the other byte order"),
    ],
)
def test_gguf_files_that_cannot_be_used(tmp_path, changed, sentence):
    with pytest.raises(ModelError, match=sentence):
        read_gguf_vocabulary(write_gguf(tmp_path / "a.gguf", **changed))


def test_a_gguf_file_cut_anywhere(tmp_path):
    whole = write_gguf(tmp_path / "a.gguf").read_bytes()
    for length in range(4, len(whole), 7):
        (tmp_path / "a.gguf").write_bytes(whole[:length])
        with pytest.raises(ModelError, match="it is cut off or damaged"):
            read_gguf_vocabulary(tmp_path / "a.gguf")
    (tmp_path / "a.gguf").write_bytes(whole[:20] + b"\xff" * 40)
    with pytest.raises(ModelError, match="cut off or damaged"):
        read_gguf_vocabulary(tmp_path / "a.gguf")
    (tmp_path / "a.gguf").write_bytes(b"PK")
    with pytest.raises(ModelError, match="is not a GGUF file"):
        read_gguf_vocabulary(tmp_path / "a.gguf")
    with pytest.raises(ModelError, match="does not exist"):
        read_gguf_vocabulary(tmp_path / "b.gguf")
