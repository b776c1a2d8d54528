"""What others wrote, nearly right or anything at all: a sentence comes out or an answer, soon, and in little memory.

Each reader of `tests.parsers` gets its own documents with a few changes (`tests.mutations`), and bytes as they come; the same ones in every
test run. What was found so, or by reading, and mended since has a test of its own below. `benchmarks/fuzz.py` searches for minutes.
"""

import contextlib
import json
import random
import resource
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as limits
from hypothesis import strategies as st

from core import imports, prompt_files, prompt_text, translate
from core.address import resolve
from core.errors import DraftgaugeError, InvalidInput, ModelError
from core.headers import read_header
from core.imports_values import MOST_OBJECTS
from core.model_folder import LARGEST_INDEX_BYTES, shard_names
from core.model_info import ModelInfo
from core.plan.gguf_file import STRING
from core.plan.tokenizer_files import chat_template, read_tokenizer
from core.plan.vocabulary import read_gguf_vocabulary
from core.prompts import MOST_PROMPTS, MOST_TURNS
from core.runs import ModelRef
from core.settings import Settings
from core.ui.decoding_box import own_decoding
from tests import documents
from tests.apps import open_page
from tests.documents import SEEDS
from tests.mutations import LEAVES, changed_bytes, changed_json
from tests.parsers import PARSERS, harmless

SLOWEST_S, MOST_GROWTH_KB = 5.0, 600_000
SLOW = {"config.json": 4, "generation_config.json": 4, "run documents": 12}
"""Readers that take tens of milliseconds get fewer documents."""
FEW = limits(derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def changed(name: str, seed: int) -> bytes:
    """A document for this reader, with a few changes."""
    rng = random.Random(seed)
    change = changed_json if PARSERS[name].tree and rng.random() < 0.8 else changed_bytes
    return change(rng.choice(SEEDS[name]()), rng)


@pytest.mark.parametrize("name", PARSERS)
def test_the_documents_that_it_begins_with_are_good(name: str, tmp_path: Path):
    """Else everything made from them would be refused at the door."""
    good = 0
    for document in SEEDS[name]():
        try:
            PARSERS[name].read(document, tmp_path)
            good += 1
        except DraftgaugeError:
            assert name == "chat templates"  # one of them refuses by itself
    assert good


@pytest.mark.parametrize("name", PARSERS)
def test_what_is_nearly_right_and_what_is_anything_is_read_or_refused(name: str, tmp_path: Path):
    parser = PARSERS[name]
    with contextlib.suppress(DraftgaugeError):
        parser.read(SEEDS[name]()[0], tmp_path)  # once untimed, for what it imports
    contents = st.integers(0, 2**32).map(lambda seed: changed(name, seed)) | st.binary(max_size=200)
    before_kb, slowest_s = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0.0

    @limits(FEW, max_examples=SLOW.get(name, 25))
    @given(content=contents)
    def each(content: bytes) -> None:
        nonlocal slowest_s
        began = time.perf_counter()
        harmless(parser, content, tmp_path)
        slowest_s = max(slowest_s, time.perf_counter() - began)

    each()
    assert slowest_s < SLOWEST_S
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < MOST_GROWTH_KB


# Whatever an address asks for.

QUERY = {
    "start": (),
    "pair": ("target", "draft", "on", "draft_on", "prompt_tokens", "answer_tokens", "batch", "engines_for"),
    "measure": ("target", "draft", "run", "group", "more", "pasted", "decoding", "temperature", "top_k", "tokens", "device", "dtype", "seed"),
    "gamma": ("run", "with", "baseline", "published", "costs", "alpha", "c", "v", "h", "setting", "engine_to_deploy", "labels_by"),
    "memory_cost": ("run", "target", "draft", "gpu", "context", "sequences", "utilisation", "kv", "engine", "currency", "hours"),
    "side_by_side": ("run", "from", "text", "side_third", "side_gamma_assisted", "side_lookup_tokens", "side_weight"),
    "runs": ("find", "sort", "columns", "since", "until", "page", "label", "status"),
}


@pytest.mark.parametrize("page", QUERY)
def test_an_address_asks_for_anything_and_the_page_stands(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, app_site: Any):
    rng = random.Random(len(page))
    values = [str(leaf) for leaf in LEAVES if isinstance(leaf, str | int | float) and len(str(leaf)) < 500 and str(leaf).isprintable()]
    values += ["<script>", "a,b,,", "../../..", "folder:" + "é" * 200, "gguf:a/b/c.gguf", "%00", "run", "example"]
    open_page(page, **{name: rng.choice(values) for name in QUERY[page]})


# Found, and mended.


@pytest.mark.parametrize("gamma", ["1e999", "inf", "nan", "0.5"])
def test_a_draft_length_that_is_no_number_of_tokens(gamma: str):
    with pytest.raises(InvalidInput, match=r"gamma is (inf|nan|0\.5); it is a number of tokens from 1 to 1000"):
        imports.read("a.txt", f"alpha 0.5, c 0.1, gamma {gamma}".encode())


@pytest.mark.parametrize(
    "read",
    [
        lambda: translate.alpha_from_vllm_log("Per-position acceptance rate:" + " " * 190_000 + "x"),
        lambda: translate.alpha_from_vllm_log("Per-position acceptance rate: " + "9" * 190_000),
        lambda: translate.alpha_from_vllm_counters("vllm:spec_decode_num_accepted_tokens_per_pos{" + 'position="1"}' * 14_000),
        lambda: translate.alpha_from_vllm_counters(('vllm:spec_decode_num_drafts{x="' + "}" * 3_900 + "\n") * 48),
        lambda: translate.alpha_from_llama_cpp("(" + " " * 190_000 + "(1", 3),
        lambda: imports.read("a.log", (b'vllm:spec_decode_num_drafts{a="' + b"a" * 3_900 + b"} 1\n") * 200),
        lambda: imports.read("a.log", (b"draft acceptance = 1 (2 accepted / 1 generated)" * 80 + b"\n") * 20),
    ],
)
def test_a_text_that_wants_to_be_read_slowly_is_not(read: Callable[[], object]):
    """The first five in the web process, where the first took minutes, in which no page moved."""
    began = time.perf_counter()
    with pytest.raises(InvalidInput):
        read()
    assert time.perf_counter() - began < SLOWEST_S


def test_counts_of_thousands_of_digits():
    with pytest.raises(InvalidInput, match="no count of accepted and generated drafts"):
        translate.alpha_from_llama_cpp(f"({'9' * 5_000} accepted / 1 generated)", 3)


def test_rounds_that_would_need_forty_gigabytes():
    counts = documents.VLLM_COUNTS | {"per_step_accepted": [0] * 50_000, "per_step_drafted": list(range(50_000))}
    with pytest.raises(InvalidInput, match="per_step_accepted does not fit per_step_drafted"):
        imports.read("a.json", json.dumps(counts).encode())


def test_a_run_of_more_objects_than_there_can_be():
    document = json.loads(documents.runs()[0])
    document["run"]["steps"] = [{}] * MOST_OBJECTS
    with pytest.raises(InvalidInput, match=f"the file holds {MOST_OBJECTS // 1000},[0-9]+ objects, more than any run of {MOST_PROMPTS} prompts"):
        imports.read("a.json", json.dumps(document).encode())


@pytest.mark.parametrize(
    ("purpose", "count", "words"),
    [
        ("answer", 20_001, "are 20,001 calls; a run has 20,000 at most"),
        ("calibration", 1_001, "are 1,001 calls of the calibration; a run has 1,000 at most"),
        ("confirmation", 101, "are 101 calls of one block; a run has 100 at most"),
    ],
)
def test_a_run_of_so_many_calls_that_no_page_could_compute_them(purpose: str, count: int, words: str):
    document = json.loads(documents.runs()[0])
    call = next(each for each in document["run"]["generations"] if each["purpose"] != "calibration")
    document["run"]["generations"] = [call | {"purpose": purpose}] * count
    with pytest.raises(InvalidInput, match=f"run.generations {words}"):
        imports.read("a.json", json.dumps(document).encode())


def test_a_label_that_is_half_a_character():
    found = prompt_text.read('[{"prompt": "a", "label": "\\ud800"}, {"prompt": "b"}]')
    assert [prompt.text for prompt in found.prompts] == ["b"]
    assert "has a label that is not text" in found.refused[0].why


def test_a_chat_of_a_million_turns_that_say_nothing():
    turns = [{"role": "assistant", "content": ""}] * MOST_TURNS + [{"role": "user", "content": "Why?"}]
    found = prompt_text.read(json.dumps([{"messages": turns}, {"messages": turns[1:]}]))
    assert [len(prompt.messages) for prompt in found.prompts] == [MOST_TURNS]
    assert found.refused[0].why == f"is a chat of {MOST_TURNS + 1} turns, and one may have {MOST_TURNS}"


@pytest.mark.parametrize("line", [",".join(map(str, range(1_001))), "x" * 100_001])
def test_a_table_whose_first_line_holds_no_names(line: str):
    with pytest.raises(InvalidInput, match=r"has a first line of [\d,]+ columns? and [\d,]+ characters, which are no names of columns"):
        prompt_files.read_file("a.csv", line.encode() + b"\nrest\n")


@pytest.mark.parametrize("kind", ["folder", "gguf"])
def test_a_name_that_no_file_system_takes(kind: str, tmp_path: Path):
    settings = Settings(data=tmp_path / "data", model_roots=[tmp_path])
    with pytest.raises(InvalidInput, match="is no name below a configured root"):
        resolve(f"{kind}:{'é' * 128}.gguf", settings)
    with pytest.raises(InvalidInput, match="below the configured roots"):
        resolve(f"{kind}:{'é' * 125}.gguf", settings)


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        ({"dtype": "F32", "shape": [10**30], "data_offsets": [0, 8]}, "where a size or a place belongs"),
        ({"dtype": "F32", "shape": [2**40], "data_offsets": [0, 8]}, r"has the shape \(1099511627776,\) in 'F32' and lies from 0 to 8"),
        ({"dtype": "NEW", "shape": [2**62] * 17, "data_offsets": [0, 8]}, "has 17 dimensions"),
        ({"dtype": "F32", "shape": [True, 2], "data_offsets": [0, 8]}, "has 'True' where"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [0, 8, 8]}, "too many values to unpack"),
    ],
)
def test_a_tensor_of_another_size_than_its_bytes(tensor: dict[str, Any], words: str, tmp_path: Path):
    header = json.dumps({"a": tensor}).encode()
    file = tmp_path / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with pytest.raises(ModelError, match=rf"has a damaged header \(.*{words}"):
        read_header(file)


def test_an_index_of_shards_that_is_larger_than_any(tmp_path: Path):
    index = tmp_path / "model.safetensors.index.json"
    with index.open("wb") as file:
        file.truncate(LARGEST_INDEX_BYTES + 1)
    with pytest.raises(ModelError, match="has more than 32 MB, which no index has"):
        shard_names(index)


def test_a_damaged_list_of_pairs_makes_the_tokenizers_library_give_up_and_not_this_program(tmp_path: Path):
    lacking = json.loads(documents.BYTE_PAIRS)
    del lacking["model"]["vocab"]["ab"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(lacking))
    with pytest.raises(ModelError, match=r"made its library give up \(.*\)\. Choose another model"):
        read_tokenizer(tmp_path)


def test_chat_templates_whose_names_are_no_names(tmp_path: Path):
    templates = [{"name": ["default"], "template": "a"}, {"name": {}, "template": "b"}, {"name": "default", "template": "c"}, 3]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": templates}))
    assert chat_template(tmp_path) == "c"


def test_half_a_character_in_the_settings_of_a_tokenizer(tmp_path: Path):
    (tmp_path / "tokenizer.json").write_bytes(documents.WORD_LEVEL)
    (tmp_path / "tokenizer_config.json").write_text('{"bos_token": "\\ud800"}')
    with pytest.raises(ModelError, match="has a token or other text that is not valid"):
        read_tokenizer(tmp_path)


def test_types_of_tokens_that_are_no_list(tmp_path: Path):
    key = b"tokenizer.ggml.token_type"
    document = documents.gguf()
    start = document.index(key) + len(key)
    listed = struct.pack("<IIQ4i", 9, 5, 4, 3, 1, 1, 1)
    assert document[start : start + len(listed)] == listed
    (tmp_path / "a.gguf").write_bytes(document[:start] + struct.pack("<IQ", STRING, 4) + b"1111" + document[start + len(listed) :])
    with pytest.raises(ModelError, match="has types of tokens that are no list"):
        read_gguf_vocabulary(tmp_path / "a.gguf")


@pytest.mark.parametrize("value", [10**400, float("inf"), float("nan"), -1, "0.7", True, None, [1]])
def test_sampling_settings_of_a_model_that_no_box_could_show(value: Any):
    ref = ModelRef(source="hub", name="a/b", path="a/b")
    info = ModelInfo(ref=ref, read_s=0.0, generation_config={"do_sample": True, "temperature": value, "top_k": 20})
    assert own_decoding(info) == {"top_k": 20}
