"""The engine table for each kind of verdict, and its calls."""

import json
import re
import shlex
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from core.engines import READ, VLLM_INTERSECTION, VLLM_INTERSECTION_READ, EngineRow, engines
from core.vocab import Vocabulary, VocabVerdict, compare
from tests.models import write_pair

BASE = {f"t{id_}": id_ for id_ in range(2_000)}


def renamed(*ids: int) -> dict[str, int]:
    return {f"other {token}" if id_ in ids else token: id_ for token, id_ in BASE.items()}


def verdict(draft: dict[str, int], target_size: int = 2_000, draft_size: int = 2_000, special: dict[str, int] | None = None) -> VocabVerdict:
    return compare(Vocabulary(BASE, target_size, {"eos_token": 1}), Vocabulary(draft, draft_size, special or {"eos_token": 1}))


IDENTICAL = verdict(BASE)
PADDED = verdict(BASE, 2_048, 2_176)
TAIL = verdict(renamed(1_999))
FEW = verdict(renamed(139))
FEW_IN_FRONT = verdict(renamed(3))
TREACHEROUS = verdict({f"t{1_999 - id_}": id_ for id_ in range(2_000)})
DIFFERENT = verdict({f"x{id_}" if id_ else "t7": id_ for id_ in range(1_000)}, 2_000, 1_000)

ACCEPTS, FLAG, REFUSES = ("accepts", True), ("accepts with a flag", True), ("refuses", False)
NOT_NEEDED, USELESS = ("accepts with a flag", False), ("accepts", False)


@pytest.mark.parametrize(
    ("found", "kind", "native", "universal", "vllm", "shared", "sglang", "llama_cpp"),
    [
        (IDENTICAL, "identical", ACCEPTS, REFUSES, ACCEPTS, NOT_NEEDED, ACCEPTS, ACCEPTS),
        (PADDED, "padded", REFUSES, FLAG, REFUSES, FLAG, REFUSES, ACCEPTS),
        (TAIL, "tail_differs", ACCEPTS, REFUSES, ACCEPTS, NOT_NEEDED, REFUSES, REFUSES),
        (FEW, "few_differ", ACCEPTS, REFUSES, ACCEPTS, NOT_NEEDED, REFUSES, REFUSES),
        (FEW_IN_FRONT, "few_differ", ACCEPTS, REFUSES, ACCEPTS, NOT_NEEDED, REFUSES, ACCEPTS),
        (TREACHEROUS, "same_size_different_map", USELESS, REFUSES, USELESS, FLAG, REFUSES, REFUSES),
        (DIFFERENT, "different", REFUSES, FLAG, REFUSES, NOT_NEEDED, REFUSES, REFUSES),
    ],
)
def test_each_kind(found, kind, native, universal, vllm, shared, sglang, llama_cpp):
    assert found.kind == kind
    rows = engines(found)
    assert [(row.engine, row.way) for row in rows] == [
        ("Transformers", "native"),
        ("Transformers", "universal"),
        ("vLLM", "draft_model"),
        ("vLLM", "draft_model, shared tokens"),
        ("SGLang", "STANDALONE"),
        ("llama.cpp", "draft-simple"),
    ]
    assert [(row.answer, row.advised) for row in rows] == [native, universal, vllm, shared, sglang, llama_cpp]
    assert rows[0].advised == found.native


@pytest.mark.parametrize("found", [IDENTICAL, PADDED, TAIL, FEW, TREACHEROUS, DIFFERENT], ids=lambda found: found.kind)
def test_every_row_has_its_reason_source_and_date(found):
    for row in engines(found):
        assert row.reason.endswith(".")
        assert re.fullmatch(r"https://github\.com/\S+", row.source)
        assert row.read == (VLLM_INTERSECTION_READ if row.source == VLLM_INTERSECTION else READ)
        assert bool(row.call) == (row.answer != "refuses")


def of(found: VocabVerdict, engine: str, way: str = "", **names) -> EngineRow:
    return next(row for row in engines(found, **names) if row.engine == engine and (not way or row.way == way))


@pytest.mark.parametrize(("rows", "answer"), [(127, "accepts"), (128, "accepts"), (129, "refuses")])
def test_llama_cpp_takes_128_rows_of_padding(rows, answer):
    """Qwen2.5: 151,936 and 152,064 are 128 apart; the limit was 100 before."""
    for sizes in ((2_000, 2_000 + rows), (2_000 + rows, 2_000)):
        assert of(verdict(BASE, *sizes), "llama.cpp").answer == answer


def test_llama_cpp_compares_from_id_5_to_the_end_of_the_smaller():
    assert of(verdict(renamed(0, 4)), "llama.cpp").answer == "accepts"
    refused = of(verdict(renamed(0, 5)), "llama.cpp")
    assert refused.answer == "refuses"
    assert "id 5 is 't5' for the target and 'other t5' for the draft." in refused.reason
    assert of(verdict({**BASE, "new": 2_000}, 2_000, 2_001), "llama.cpp").answer == "accepts"
    one_sided = of(verdict({**BASE, "new": 2_000}, 2_001, 2_001), "llama.cpp")
    assert "id 2000 is padding for the target and 'new' for the draft." in one_sided.reason


def test_llama_cpp_may_refuse_other_ends_of_text():
    row = of(verdict(BASE, special={"eos_token": 2}), "llama.cpp")
    assert (row.answer, row.advised) == ("not sure", False)
    assert row.reason.startswith("The ids of eos_token differ: it refuses if")


def test_vllm_warns_of_fewer_than_100_shared_tokens():
    for shared, advised in ((99, False), (100, True)):
        draft = {(f"t{id_ + 900}" if id_ < shared else f"x{id_}"): id_ for id_ in range(1_000)}
        found = verdict(draft, 2_000, 1_000)
        assert found.intersection_tokens == shared
        row = of(found, "vLLM", "draft_model, shared tokens")
        assert row.advised == advised
        assert f"would draft from {shared} tokens: {shared / 20:.1f} % of the target's 2,000 rows, {shared / 10:.1f} % of the" in row.reason
        assert ("So few that vLLM warns" in row.reason) != advised


def test_calls_can_be_pasted_whatever_the_names():
    target, draft = "my models/it's", 'a"b'
    words = shlex.split(of(PADDED, "vLLM", "draft_model, shared tokens", target=target, draft=draft, gamma=3).call)
    assert words[:4] == ["vllm", "serve", target, "--speculative-config"]
    assert json.loads(words[4]) == {"method": "draft_model", "model": draft, "num_speculative_tokens": 3, "use_heterogeneous_vocab": True}
    words = shlex.split(of(IDENTICAL, "SGLang", target=target, draft=draft, gamma=3).call)
    assert words[words.index("--model-path") + 1] == target
    assert words[words.index("--speculative-num-draft-tokens") + 1] == "4"
    assert shlex.split(of(IDENTICAL, "llama.cpp", target=target, draft=draft, gamma=3).call) == [
        *("llama-server", "-m", target, "-md", draft, "--spec-type", "draft-simple", "--spec-draft-n-max", "3")
    ]


@pytest.mark.parametrize("rows", ["equal", "padded"])
def test_the_transformers_rows_against_the_library(tmp_path, rows):
    """Every answer of the two rows, by really calling the library with the row's arguments."""
    target_ref, draft_ref = write_pair(tmp_path)
    target: Any = AutoModelForCausalLM.from_pretrained(target_ref.path)
    draft: Any = AutoModelForCausalLM.from_pretrained(draft_ref.path)
    tokenizer, other = (AutoTokenizer.from_pretrained(ref.path) for ref in (target_ref, draft_ref))
    if rows == "padded":
        draft.resize_token_embeddings(400)
    sizes = [model.config.vocab_size for model in (target, draft)]
    found = compare(Vocabulary(tokenizer.get_vocab(), sizes[0]), Vocabulary(other.get_vocab(), sizes[1]))
    inputs = tokenizer("def mean(values):", return_tensors="pt")
    length = {"max_new_tokens": 6, "do_sample": False}
    plain = target.generate(**inputs, **length)
    both = {"tokenizer": tokenizer, "assistant_tokenizer": other}
    for way, more in (("native", {}), ("universal", both)):
        row = of(found, "Transformers", way)
        assert all(name in row.call for name in more) or row.answer == "refuses"
        if row.answer == "refuses":
            with pytest.raises(ValueError, match="assistant_tokenizer"):
                target.generate(**inputs, assistant_model=draft, **more, **length)
        else:
            assert torch.equal(target.generate(**inputs, assistant_model=draft, **more, **length), plain)
