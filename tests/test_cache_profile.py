"""Profiles read off the library against published numbers, and against what the library was seen to build for this product."""

import csv
import json
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from transformers import CONFIG_MAPPING

from core import builtin
from core.errors import DraftgaugeError, InvalidInput, ModelError
from core.memory import CacheProfile, kv_cache_bytes
from core.plan.cache_profile import cache_profile, profile
from core.settings import Settings
from tests import public_models as public

DATA = Path(__file__).parent / "data"
CONFIGS = json.loads((DATA / "model_configs.json").read_text(encoding="utf-8"))


def table(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((DATA / name).read_text(encoding="utf-8").splitlines()))


ROWS = {row["model_id"]: row for row in table("models.csv")}
LLAMA = CONFIGS["meta-llama/Llama-3.2-1B"]
QWEN3 = CONFIGS["Qwen/Qwen3-0.6B"]


def without(config: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != key}


def kinds(found: CacheProfile) -> dict[str, int]:
    return dict(Counter(layer.kind for layer in found.per_layer))


@pytest.mark.parametrize("address", CONFIGS)
def test_every_published_row_and_every_built_in_profile(address):
    found, row = cache_profile(CONFIGS[address]), ROWS[address]
    size = kv_cache_bytes(found, 4096, engine="vLLM")
    assert found.parameters == int(row["params_total"])
    assert found.engine_bytes_per_token == int(row["kv_bytes_per_token_bf16"])
    assert found.fixed_bytes_per_sequence == int(row["fixed_state_bytes_per_seq"])
    assert found.cross_bytes_per_source_token == int(row["cross_attn_bytes_per_src_token"] or 0)
    assert size.minimum / 2**20 == float(row["kv_MiB_4096_window_capped"])
    assert size.reserved / 2**20 == float(row["kv_MiB_4096_all_layers_full"])
    assert found.layers == int(row["layers"])
    assert str(found.context or "") == row["max_position_embeddings"]
    counted = kinds(found)
    assert counted.get("sliding", 0) == int(row["sliding_layers"])
    assert counted.get("linear", 0) + counted.get("recurrent", 0) == int(row["linear_layers"])
    assert builtin.find(address).profile == found


def test_only_falcon_40b_differs_between_the_library_and_the_engines():
    differing = {model.address for model in builtin.models() if model.profile.bytes_per_token != model.profile.engine_bytes_per_token}
    assert differing == {"tiiuae/falcon-40b"}
    falcon = builtin.find("tiiuae/falcon-40b").profile
    assert (falcon.bytes_per_token, falcon.engine_bytes_per_token) == (1_966_080, 122_880)
    assert "122,880 bytes of cache per token in vLLM" in falcon.notes[0]
    assert "1,966,080 in Transformers 5.24" in falcon.notes[0]


def test_flan_t5_names_both_counts():
    flan = builtin.find("google/flan-t5-large").profile
    assert flan.parameters == 783_150_080
    assert "750,251,008 as Transformers 5.24 ties it" in flan.notes[0]
    assert kinds(flan) == {"full": 24}
    assert flan.per_layer[0].cross_bytes_per_source_token == 4096


def test_an_encoder_has_a_limit_of_its_own():
    bart = cache_profile(public.BART_LARGE)
    assert (bart.context, bart.source_context) == (1024, 1024)
    assert cache_profile(LLAMA).source_context is None
    flan = builtin.find("google/flan-t5-large").profile
    assert (flan.context, flan.source_context) == (None, None)


def test_memory_table():
    addresses = {"Llama 3.1 8B": "meta-llama/Llama-3.1-8B", "Llama 3.2 1B": "meta-llama/Llama-3.2-1B"}
    addresses |= {"SmolLM-1.7B": "HuggingFaceTB/SmolLM-1.7B", "SmolLM-135M": "HuggingFaceTB/SmolLM-135M"}
    for row in table("memory_table.csv"):
        found = builtin.find(addresses[row["model"]]).profile
        digits = len(row["params"].removesuffix("B").split(".")[1])
        assert f"{found.parameters / 1e9:.{digits}f}B" == row["params"]
        assert f"{found.parameters * 2 / 1e9:.2f}" == row["bf16_weights_GB"]
        assert found.bytes_per_token / 1024 == float(row["kv_per_token_KiB"])
        assert kv_cache_bytes(found, 4096).reserved / 2**20 == float(row["kv_4096_tokens_MiB"])


@pytest.mark.parametrize(("config", "parameters_b", "active_b", "per_token", "state", "counted"), public.FACTS, ids=public.NAMES)
def test_public_models_that_are_not_built_in(config, parameters_b, active_b, per_token, state, counted):
    found = cache_profile(config)
    assert round(found.parameters / 1e9, 2) == parameters_b
    assert round(found.active_parameters / 1e9, 2) == active_b
    assert (found.bytes_per_token, found.fixed_bytes_per_sequence) == (per_token, state)
    assert kinds(found) == counted


def test_a_published_config_with_all_its_other_keys_is_read_the_same():
    dressed = LLAMA | {
        "architectures": ["LlamaForCausalLM"],
        "torch_dtype": "float16",
        "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128},
        "transformers_version": "4.43.0",
        "eos_token_id": [128001, 128008],
    }
    assert cache_profile(dressed) == cache_profile(LLAMA)


def test_a_library_object_is_read_like_its_file():
    config = CONFIG_MAPPING["qwen3"].from_dict(CONFIGS["Qwen/Qwen3-0.6B"])
    assert cache_profile(config) == builtin.find("Qwen/Qwen3-0.6B").profile


def test_own_code_beside_a_known_architecture_is_named_and_not_run():
    found = cache_profile(LLAMA | {"auto_map": {"AutoModelForCausalLM": "modeling_evil.Evil"}})
    assert found.parameters == 1_235_814_400
    assert "code of its own" in found.notes[0]


def test_a_model_that_also_sees_is_no_embedding_model():
    """Llama 4 Scout: 48 layers, three of four keep the latest 8,192 tokens."""
    found = cache_profile(public.LLAMA4_SCOUT)
    assert (found.parameters, found.bytes_per_token) == (107_769_861_120, 48 * 2 * 8 * 128 * 2)
    assert {(layer.kind, layer.window) for layer in found.per_layer} == {("sliding", 8192), ("full", None)}
    assert kinds(found) == {"sliding": 36, "full": 12}


def test_sizes_that_come_from_the_library_are_named():
    assert cache_profile({"model_type": "llama"}).notes[0].startswith("The config states no layers, width or heads")
    assert not cache_profile(LLAMA).notes
    named = cache_profile(LLAMA | {"architectures": ["SomebodysForCausalLM"]}).notes[0]
    assert "SomebodysForCausalLM, which Transformers does not have" in named


def test_heads_that_follow_from_other_sizes_need_not_be_stated():
    """JetMoE has heads of its own per expert: KV heads x experts per token."""
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_key_value_heads": 2, "kv_channels": 16, "num_local_experts": 4, "vocab_size": 100}
    with pytest.raises(ModelError, match="cannot be run without its weights"):
        cache_profile(sizes | {"model_type": "jetmoe"})


def test_values_without_a_meaning_for_memory_change_nothing():
    odd = {"num_labels": 10**9, "return_dict": False, "torch_dtype": "torch.bfloat16", "architectures": 5}
    assert cache_profile(LLAMA | odd) == cache_profile(LLAMA)


BAD = {
    "not an object": ([1, 2], "must be a JSON object, not list"),
    "no architecture": ({}, "names no architecture"),
    "unknown": ({"model_type": "baichuan"}, "'baichuan' is not one that Transformers can build"),
    "remote code": ({"model_type": "chatglm", "auto_map": {"AutoModel": "modeling.M"}}, "brings code of its own, which is not run here"),
    "null heads": (LLAMA | {"num_attention_heads": None}, "num_attention_heads is null"),
    "missing heads": ({k: v for k, v in LLAMA.items() if k not in ("num_attention_heads", "head_dim")}, "no number of attention heads"),
    "zero heads": (LLAMA | {"num_attention_heads": 0}, "num_attention_heads is 0"),
    "heads do not divide": (LLAMA | {"num_attention_heads": 7, "num_key_value_heads": 3}, "LlamaConfig|llama"),
    "negative width": (LLAMA | {"hidden_size": -2048}, "hidden_size is -2,048"),
    "text for a number": (LLAMA | {"hidden_size": "2048"}, "hidden_size is '2048'"),
    "fraction": (LLAMA | {"num_hidden_layers": 16.5}, "num_hidden_layers is 16.5"),
    "switch for a number": (LLAMA | {"num_attention_heads": True}, "num_attention_heads is True"),
    "not a number": (LLAMA | {"rope_theta": math.nan}, "rope_theta is nan"),
    "endless": (LLAMA | {"initializer_range": math.inf}, "initializer_range is inf"),
    "a million layers": (LLAMA | {"num_hidden_layers": 10**6}, "num_hidden_layers is 1,000,000"),
    "absurd width": (LLAMA | {"hidden_size": 10**15}, "hidden_size is 1,000,000,000,000,000"),
    "two dtypes": (LLAMA | {"dtype": "bfloat16", "torch_dtype": "float16"}, "contradicts itself: dtype is 'bfloat16' and torch_dtype is 'float16'"),
    "no dtype": (LLAMA | {"torch_dtype": "float99"}, "torch_dtype is 'float99'"),
    "no tokens": (LLAMA | {"vocab_size": 0}, "vocab_size is 0"),
    "no layers": (without(LLAMA, "num_hidden_layers"), "states no number of layers"),
    "no width": (without(LLAMA, "hidden_size"), "states no hidden size"),
    "no heads where the class states a width": (without(QWEN3, "num_attention_heads"), "states no number of attention heads"),
    "no KV heads where the class has a default": (without(QWEN3, "num_key_value_heads"), "states no number of KV heads"),
    "sizes beside the text part": (
        {"model_type": "gemma3", "hidden_size": 5376, "num_hidden_layers": 62, "num_attention_heads": 32, "num_key_value_heads": 16},
        "hidden_size is 5376 in this config, but Transformers reads 2304",
    ),
    "a text part where none is read": (LLAMA | {"text_config": {}}, "has a text part, which 'llama' does not read"),
    "a draft head": (LLAMA | {"architectures": ["LlamaForCausalLMEagle3"]}, "LlamaForCausalLMEagle3 is a draft head"),
    "half a model": (CONFIGS["google/flan-t5-large"] | {"architectures": ["T5EncoderModel"]}, "T5EncoderModel is an embedding"),
    "an encoder": ({"model_type": "bert"}, "'bert' is an encoder"),
    "an embedding model": (LLAMA | {"architectures": ["LlamaModel"]}, "LlamaModel is an embedding or classification model"),
    "a classifier": (LLAMA | {"architectures": ["LlamaForSequenceClassification"]}, "writes no text"),
    "speech": ({"model_type": "whisper"}, "'whisper' is no model that continues text"),
    "compressed cache": ({"model_type": "deepseek_v4"}, "DeepseekV4HCACache, whose growth is not known"),
    "no cache": ({"model_type": "openai-gpt"}, "keeps no cache in Transformers"),
    "layer kinds": (CONFIGS["Qwen/Qwen3-0.6B"] | {"layer_types": ["full_attention"] * 3}, "layer"),
}


@pytest.mark.parametrize(("config", "says"), BAD.values(), ids=BAD)
def test_what_cannot_be_sized_is_a_sentence(config, says):
    with pytest.raises((InvalidInput, ModelError), match=says) as refused:
        cache_profile(config)
    assert str(refused.value).endswith(".")


def test_the_planners_job_returns_plain_data():
    plain = json.loads(json.dumps(profile({"config": LLAMA}, Settings())))
    assert CacheProfile.from_json(plain) == builtin.find("meta-llama/Llama-3.2-1B").profile
    with pytest.raises(DraftgaugeError, match="No config was given"):
        profile({}, Settings())


MEASURED = """
import json, resource, sys, time
started = time.process_time()
from core.plan.cache_profile import cache_profile
found = cache_profile(json.loads(sys.argv[1]))
print(json.dumps([found.parameters, found.bytes_per_token, time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))
"""


@pytest.mark.parametrize(
    ("config", "parameters", "per_token"),
    [(CONFIGS["meta-llama/Llama-3.1-405B"], 405_853_388_800, 516_096), (public.DEEPSEEK_V3, 671_026_404_352, 70_272)],
    ids=["405B", "671B"],
)
def test_the_largest_take_seconds_and_little_memory(config, parameters, per_token):
    done = subprocess.run([sys.executable, "-c", MEASURED, json.dumps(config)], capture_output=True, text=True, check=True, timeout=120)
    counted, rate, seconds, peak_bytes = json.loads(done.stdout.splitlines()[-1])
    assert (counted, rate) == (parameters, per_token)
    assert seconds < 20  # of one core, imports included: other work on the machine does not count
    assert peak_bytes < 2e9


def test_built_in_models_need_no_torch():
    check = "import sys; from core import builtin, memory; builtin.models(); assert not {'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True, timeout=60)


def test_built_in_models_carry_their_source():
    assert len(builtin.models()) == len(CONFIGS)
    assert all(model.source == ROWS[model.address]["config_source"] and model.config == CONFIGS[model.address] for model in builtin.models())
    with pytest.raises(InvalidInput, match="'nobody/nothing' is not built in"):
        builtin.find("nobody/nothing")
