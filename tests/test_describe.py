"""`describe` as a job: demo pair, folders and GGUF files, in a process without torch."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers
from safetensors.torch import load_file, save_file
from transformers import T5Config
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from core import demo, encoders, usable
from core.errors import InvalidInput, ModelError
from core.headers import Tensor
from core.model_info import ModelInfo
from core.plan import describe_gguf
from core.plan.describe import describe
from core.plan.vocabulary import stored
from core.runs import ModelRef
from core.settings import Settings
from core.worker.kinds import check_kinds

ROOT = Path(__file__).parents[1]


@pytest.fixture
def folder(settings: Settings) -> Path:
    """The demo target as a folder below a root."""
    folder = settings.model_roots[0] / "mine"
    shutil.copytree(demo.TARGET.path, folder)
    return folder


def info(address: str, settings: Settings) -> ModelInfo:
    return ModelInfo.model_validate(describe({"model": address}, settings))


@pytest.mark.parametrize(("address", "stored_bytes", "parameters"), [("demo:target", 28_729_728, 14_364_864), ("demo:draft", 2_421_888, 1_210_944)])
def test_the_demo_pair_is_described(settings: Settings, address: str, stored_bytes: int, parameters: int) -> None:
    found = info(address, settings)
    assert found.weights is not None
    assert (found.weights.bytes, found.weights.parameters, found.weights.bytes_by_dtype) == (stored_bytes, parameters, {"BF16": stored_bytes})
    assert (found.refusal, found.warnings, found.vocabulary_problem, found.licence) == ("", (), "", "psf-2.0")
    assert found.config["model_type"] == "llama"
    assert stored(found.vocabulary, settings).size == 4096


def test_both_of_the_pair_have_one_vocabulary(settings: Settings) -> None:
    assert info("demo:target", settings).vocabulary == info("demo:draft", settings).vocabulary


def test_the_job_imports_neither_torch_nor_transformers(settings: Settings) -> None:
    code = (
        "import sys, json; from core.plan.describe import describe; from core.plan.search import search; from core.settings import Settings\n"
        "describe({'model': 'demo:target'}, Settings.model_validate_json(sys.argv[1]))\n"
        "print(json.dumps(sorted({'torch', 'transformers', 'streamlit'} & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", code, settings.model_dump_json()], cwd=ROOT, capture_output=True, check=True)
    assert json.loads(done.stdout) == []


def test_a_folder_is_described_like_the_model_that_it_is(settings: Settings, folder: Path) -> None:
    found, original = info("folder:mine", settings), info("demo:target", settings)
    assert found.ref == ModelRef(source="folder", name="mine", path=str(folder))
    assert found.model_copy(update={"ref": original.ref, "read_s": original.read_s}) == original


def edited(**changes: Any) -> Callable[[Path], object]:
    def edit(folder: Path) -> None:
        stated = {**json.loads((folder / "config.json").read_text()), **changes}
        (folder / "config.json").write_text(json.dumps({key: value for key, value in stated.items() if value is not None}))

    return edit


def test_the_vocabulary_size_comes_from_the_text_part_or_the_embedding(settings: Settings, folder: Path) -> None:
    edited(vocab_size=None)(folder)
    assert stored(info("folder:mine", settings).vocabulary, settings).size == 4096
    edited(vocab_size=None, text_config={"vocab_size": 5000})(folder)
    assert stored(info("folder:mine", settings).vocabulary, settings).size == 5000
    edited(vocab_size=-1, text_config={"vocab_size": 10**12})(folder)
    assert stored(info("folder:mine", settings).vocabulary, settings).size == 4096


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "config.json").unlink(), "mine has no config.json"),
        (lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"), "mine has pickled weights only"),
        (edited(model_type="bert", architectures=["BertForMaskedLM"]), "has no head that writes it"),
        (lambda folder: (folder / "modules.json").write_text("[]"), "an embedding model"),
        (lambda folder: ((folder / "1_Pooling").mkdir(), (folder / "1_Pooling" / "config.json").write_text("{}")), "an embedding model"),
    ],
)
def test_a_folder_that_cannot_be_used_is_refused(settings: Settings, folder: Path, damage: Callable[[Path], object], words: str) -> None:
    damage(folder)
    assert words in info("folder:mine", settings).refusal


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (edited(auto_map={"AutoConfig": "x.Y"}), "brings code of its own, which is not run"),
        (edited(model_type="gemma3", vision_config={"a": 1}), "also takes in images; only its text part is looked at"),
        (edited(is_encoder_decoder=True), "is an encoder-decoder"),
    ],
)
def test_what_one_should_know_is_a_warning(settings: Settings, folder: Path, change: Callable[[Path], object], words: str) -> None:
    change(folder)
    found = info("folder:mine", settings)
    assert found.refusal == ""
    assert words in found.warnings[0]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-1]), "bytes where"),
        (lambda folder: (folder / "config.json").write_text("{"), "not readable as JSON"),
        (lambda folder: (folder / "config.json").write_bytes(b" " * 1_000_001), "of more than 1 MB is not read"),
    ],
)
def test_a_damaged_folder_is_a_sentence(settings: Settings, folder: Path, damage: Callable[[Path], object], words: str) -> None:
    damage(folder)
    with pytest.raises(ModelError, match=words):
        info("folder:mine", settings)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_link_out_of_the_root_is_not_followed(settings: Settings, folder: Path, tmp_path: Path, name: str) -> None:
    (folder / name).rename(tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    with pytest.raises(ModelError, match="leads out of the configured roots"):
        info("folder:mine", settings)


def test_shards_of_a_folder_are_read_by_its_index(settings: Settings, folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-00001-of-00001.safetensors"}}))
    weights = info("folder:mine", settings).weights
    assert weights is not None
    assert weights.bytes == 28_729_728
    index.write_text(json.dumps({"weight_map": {"a": "gone.safetensors"}}))
    with pytest.raises(ModelError, match=r"lacks gone\.safetensors"):
        info("folder:mine", settings)
    index.write_text(json.dumps({"weight_map": {"a": "../secret.safetensors"}}))
    with pytest.raises(ModelError, match="which is no weights file beside it"):
        info("folder:mine", settings)


def test_no_address_is_a_sentence(settings: Settings) -> None:
    with pytest.raises(InvalidInput, match="is no model"):
        describe({}, settings)


def test_a_draft_whose_head_was_pruned_is_refused_from_the_headers(folder: Path, settings: Settings) -> None:
    file = folder / "model.safetensors"
    weights = load_file(file)
    save_file(weights | {"lm_head.weight": weights["model.embed_tokens.weight"][:1000].clone()}, file)
    said = "The output layer of mine has 1,000 rows, fewer than the 4,096 tokens that its config names: its head was pruned"
    assert info("folder:mine", settings).refusal.startswith(said)
    save_file(weights | {"lm_head.weight": weights["model.embed_tokens.weight"].clone()}, file)
    assert info("folder:mine", settings).refusal == ""
    packed = [Tensor("lm_head.weight", "U8", (1000, 1), 1000)]
    assert usable.judge_head("mine", 4096, packed) == usable.judge_head("mine", None, [Tensor("lm_head.weight", "F16", (10, 8), 160)]) == ""


def test_the_list_of_causal_types_is_the_librarys() -> None:
    assert usable.causal_types() == frozenset(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    assert transformers.__version__.startswith("5.24.")


def gguf_file(file: Path, architecture: str = "llama", rows: int = 4) -> None:
    """A small, whole GGUF file as the public package writes it."""
    import numpy as np
    from gguf import GGMLQuantizationType, GGUFWriter, quants

    writer = GGUFWriter(file, architecture)
    writer.add_name("tiny")
    writer.add_license("apache-2.0")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_rope_dimension_count(16)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(4)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["a", "b", "ab", "<end>"])
    writer.add_token_types([1, 1, 1, 3])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(3)
    packed = quants.quantize(np.ones((rows, 32), np.float32), GGMLQuantizationType.Q8_0)
    writer.add_tensor("token_embd.weight", packed, raw_dtype=GGMLQuantizationType.Q8_0)
    writer.add_tensor("output_norm.weight", np.ones(32, np.float32))
    writer.add_tensor("rope_freqs.weight", np.ones(8, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_is_described(settings: Settings) -> None:
    settings.model_roots[0].mkdir()
    gguf_file(settings.model_roots[0] / "tiny.gguf")
    found = info("gguf:tiny.gguf", settings)
    assert found.weights is not None
    assert (found.weights.bytes, found.weights.parameters, found.weights.quantisation) == (4 * 34 + 32 * 4 + 8 * 4, 4 * 32 + 32, "")
    assert {key: found.config[key] for key in ("model_type", "num_hidden_layers", "num_key_value_heads", "vocab_size", "tie_word_embeddings")} == {
        "model_type": "llama",
        "num_hidden_layers": 1,
        "num_key_value_heads": 1,
        "vocab_size": 4,
        "tie_word_embeddings": True,
    }
    assert dict(stored(found.vocabulary, settings).tokens) == {"a": 0, "b": 1, "ab": 2, "<end>": 3}
    assert (found.licence, found.refusal) == ("apache-2.0", "")


def test_a_gguf_config_is_what_transformers_maps_without_torch_and_in_a_blink(settings: Settings) -> None:
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    settings.model_roots[0].mkdir()
    file = settings.model_roots[0] / "tiny.gguf"
    gguf_file(file)
    assert info("gguf:tiny.gguf", settings).config == load_gguf_checkpoint(str(file))["config"]
    code = "import sys; from core.plan import gguf_config; gguf_config.main(); sys.exit(sys.modules['torch'] is not None)"
    assert subprocess.run([sys.executable, "-c", code, str(file)], check=False, cwd=ROOT, capture_output=True).returncode == 0


def test_a_gguf_file_is_quantised_as_most_of_its_bytes_are(settings: Settings) -> None:
    settings.model_roots[0].mkdir()
    gguf_file(settings.model_roots[0] / "tiny.gguf", rows=8)
    found = info("gguf:tiny.gguf", settings).weights
    assert found is not None
    assert (found.quantisation, found.bytes_by_dtype) == ("Q8_0", {"Q8_0": 8 * 34, "F32": 32 * 4 + 8 * 4})


def test_a_gguf_file_whose_weights_are_cut_off_is_said(settings: Settings) -> None:
    settings.model_roots[0].mkdir()
    file = settings.model_roots[0] / "tiny.gguf"
    gguf_file(file)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ModelError, match=r"tiny\.gguf is cut off: it ends before 'output_norm\.weight' does"):
        info("gguf:tiny.gguf", settings)


def test_a_gguf_architecture_that_transformers_cannot_map_is_refused(settings: Settings) -> None:
    settings.model_roots[0].mkdir()
    gguf_file(settings.model_roots[0] / "odd.gguf", "plamo")
    assert "Transformers 5.24 cannot read the architecture of odd.gguf" in info("gguf:odd.gguf", settings).refusal


def test_a_gguf_file_of_an_encoder_decoder_is_refused_from_its_head(settings: Settings) -> None:
    settings.model_roots[0].mkdir()
    file = settings.model_roots[0] / "flan.gguf"
    gguf_file(file, "t5")
    found = info("gguf:flan.gguf", settings)
    assert found.refusal == encoders.packed("flan.gguf", "t5")
    ref = ModelRef(source="gguf", name="flan.gguf", path=str(file))
    config = T5Config(**found.config)
    with pytest.raises(ModelError, match=r"flan\.gguf is a GGUF file of an encoder-decoder \(t5\)"):
        check_kinds([ref, ref], [config, config], native=True)


def test_a_gguf_file_that_is_none_or_a_part_is_said(settings: Settings) -> None:
    root = settings.model_roots[0]
    root.mkdir()
    (root / "no.gguf").write_bytes(b"PK")
    with pytest.raises(ModelError, match="does not begin with the letters GGUF"):
        info("gguf:no.gguf", settings)
    (root / "big-00001-of-00003.gguf").write_bytes(b"GGUF")
    assert "is one part of a split GGUF file" in info("gguf:big-00001-of-00003.gguf", settings).refusal
    (root / "cut.gguf").write_bytes(b"GGUF\x03\x00\x00\x00" + b"\xff" * 16)
    with pytest.raises(ModelError, match="cut off or damaged"):
        info("gguf:cut.gguf", settings)
    with pytest.raises(ModelError, match=r"was not read within 0\.01 seconds"):
        describe_gguf.describe_gguf(ModelRef(source="gguf", name="cut.gguf", path=str(root / "cut.gguf")), settings, limit_s=0.01)
