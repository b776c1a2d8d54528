"""Public reports of wrong memory estimates (tests/data/memory_reports.csv): each right answer, or why it cannot be given here."""

import csv
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from core import builtin, memory
from core.headers import Tensor
from core.memory import CacheProfile, GpuMemory, kv_cache_bytes, model_memory
from core.memory_engines import kv_bytes, state_bytes
from core.model_info import Weights
from core.plan.cache_profile import cache_profile
from core.prices import Price
from core.weights import weigh
from tests import public_models as public

GIB, MIB = 2**30, 2**20
ROWS = {row["id"]: row for row in csv.DictReader((Path(__file__).parent / "data" / "memory_reports.csv").read_text("utf-8").splitlines())}
HUGE = GpuMemory("made", 10**13)
SHORT_MIMO = {"model_type": "mimo_v2_flash", "num_hidden_layers": 2, "hidden_size": 4096, "num_attention_heads": 64, "num_key_value_heads": 4}


@cache
def known(name: str) -> CacheProfile:
    return cache_profile(getattr(public, name))


def built_in(address: str) -> CacheProfile:
    return builtin.find(address).profile


def test_every_report_has_a_test():
    tested = {name.removeprefix("test_").split("_")[0].upper() for name in globals() if name.startswith("test_b")}
    assert tested == set(ROWS)


def test_b01_every_attention_layer_counts():
    profile = known("GPT_OSS_120B")
    assert kv_cache_bytes(profile, 1).minimum == profile.bytes_per_token == 73_728
    assert f"{78_384 * 73_728 / GIB:.2f}" == "5.38"


def test_b02_both_bounds():
    size = kv_cache_bytes(known("GPT_OSS_20B"), 8192, sequences=32)
    assert (f"{size.minimum / GIB:.2f}", f"{size.reserved / GIB:.2f}") == ("6.09", "12.00")


def test_b04_linear_layers_keep_a_state_and_no_tokens():
    """598.5 MiB is llama.cpp's, which keeps 3 columns of the convolution in fp32; Transformers keeps 4 in bf16: 7.5 MiB less."""
    profile = known("QWEN3_6_27B")
    assert kv_cache_bytes(profile, 262_144).reserved == 16_384 * MIB
    ours, convolution = 4 * profile.fixed_bytes_per_sequence, 10_240
    assert ours == 591 * MIB
    assert ours + 4 * 48 * (convolution * 3 * 4 - convolution * 4 * 2) == 598.5 * MIB


def test_b05_sliding_layers_flatten():
    profile = known("GEMMA4_26B_A4B")
    sizes = [kv_bytes(profile, tokens, dtype="float16", engine="llama.cpp") / 1e9 for tokens in (4096, 131_072)]
    assert [f"{size:.2f}" for size in sizes] == ["0.40", "3.00"]


def test_b06_stated_head_width_and_interval():
    moe, hybrid = known("QWEN3_30B_A3B"), built_in("Qwen/Qwen3-Next-80B-A3B-Instruct")
    assert {layer.key_width for layer in moe.per_layer} == {128}
    assert moe.bytes_per_token == 98_304
    assert [index for index, layer in enumerate(hybrid.per_layer) if layer.bytes_per_token] == list(range(3, 48, 4))


def test_b08_head_width_is_not_hidden_by_heads():
    assert known("QWEN3_4B").bytes_per_token == 147_456
    assert memory.formula_kv_bytes_per_token(36, 8, 2560 // 32) == 92_160


def test_b12_tokens_are_sequences_times_their_length():
    """1,082,655 is 33.04 sequences of 32,768; 33 whole ones fit, the 0.04 is less than the state of one more."""
    profile = known("QWEN3_6_27B")
    each = 32_768 * 65_536 + profile.fixed_bytes_per_sequence + 4 * 248_320
    gpu = GpuMemory("made", profile.parameters * 2 + int(33.04 * each))
    room = memory.fit(profile, None, gpu, context=32_768, utilisation=1, overhead=0).alone
    assert (room.sequences, room.kv_tokens) == (33, 33 * 32_768)
    assert abs(room.kv_tokens - 1_082_655) < 32_768
    assert room.kv_tokens > 3 * 290_864


def test_b13_states_are_per_sequence():
    profile = built_in("Qwen/Qwen3-Next-80B-A3B-Instruct")
    gpu = GpuMemory("made", profile.parameters * 2 + 20 * GIB)
    found = memory.fit(profile, None, gpu, context=8192, utilisation=1, overhead=0)
    assert found.alone.sequences == 20 * GIB // (8192 * 24_576 + 77_856_768 + 4 * 151_936)


def test_b14_a_pair_is_two_weights_and_two_caches():
    """70B on four ranks, 8B on one of them, as reported."""
    target = model_memory(built_in("meta-llama/Llama-3.1-70B"), ranks=4)
    draft = model_memory(built_in("meta-llama/Llama-3.1-8B"), ranks=1)
    parts = memory.fit(target, draft, GpuMemory("A100 80GB", int(79.25 * GIB)), context=4096, utilisation=0.99).parts
    assert parts.target_weights_bytes == 70_553_706_496 * 2 // 4
    assert parts.draft_weights_bytes == 16_060_522_496
    assert parts.target_kv_bytes == 4096 * 327_680 // 4
    assert parts.draft_kv_bytes == 4096 * 131_072


def test_b15_the_drafts_weights_leave_fewer_cache_tokens():
    target, draft = built_in("meta-llama/Llama-3.1-8B"), built_in("meta-llama/Llama-3.2-1B")
    found = memory.fit(target, draft, GpuMemory("made", 24 * GIB), context=1024, overhead=0)
    assert found.alone.kv_tokens - found.together.kv_tokens > draft.parameters * 2 // target.bytes_per_token


def test_b16_a_draft_on_one_rank_fills_that_gpu():
    """GPU 0 of four: 34.61 GiB of one process, of which 28.75 allocated by PyTorch, and 1.62 GiB of each of three others."""
    gpu = GpuMemory("A100-SXM4-40GB", int(39.56 * GIB))
    overhead = int((34.61 - 28.75 + 3 * 1.62) * GIB)
    target = model_memory(built_in("Qwen/Qwen2.5-32B"), ranks=4)
    alone, shared = (model_memory(built_in("Qwen/Qwen2.5-7B"), ranks=ranks) for ranks in (1, 4))
    crowded = memory.fit(target, alone, gpu, context=1000, utilisation=1, overhead=overhead)
    assert f"{(crowded.parts.target_weights_bytes + crowded.parts.draft_weights_bytes) / GIB:.2f}" == "29.44"
    assert crowded.verdict == "does not fit"
    assert memory.fit(target, shared, gpu, context=1000, utilisation=1, overhead=overhead).verdict == "fits"


def test_b17_usable_memory_is_not_the_label():
    """23.58 GiB x 0.90, weights 14.99 GiB, peak of PyTorch 17.06 GiB, 0.35 GiB besides: 3.81 GiB, 1,952 pages of 16 tokens."""
    profile = built_in("meta-llama/Llama-3.1-8B")
    overhead = int((17.06 - 14.9888 + 0.35) * GIB) - 4 * profile.vocab_size
    target = model_memory(profile, Weights(bytes=int(14.9888 * GIB), parameters=None))
    found = memory.fit(target, None, GpuMemory("RTX 3090", int(23.58 * GIB), "24 GB"), context=20_000, utilisation=0.9, overhead=overhead)
    assert 1952 * 16 * profile.bytes_per_token == 3.8125 * GIB
    assert abs(found.alone.kv_tokens - 31_232) <= 0.005 * GIB / profile.bytes_per_token  # 3.81 is rounded
    assert found.alone.sequences == 1


def test_b19_the_formula_has_five_factors():
    assert memory.formula_kv_bytes_per_token(32, 8, 128) == 131_072 == built_in("meta-llama/Llama-3.1-8B").bytes_per_token


def test_b20_experts_and_untied_heads_count():
    assert built_in("mistralai/Mixtral-8x7B-v0.1").parameters == 46_702_792_704


def test_b21_head_width_in_both_directions():
    assert {layer.key_width for layer in known("MISTRAL_SMALL_24B").per_layer} == {128}
    assert {layer.key_width for layer in known("GPT_OSS_20B").per_layer} == {64}


def test_b23_keys_and_values_of_different_width():
    layer = cache_profile(SHORT_MIMO).per_layer[0]
    assert (layer.key_width, layer.value_width) == (192, 128)
    assert layer.bytes_per_token == layer.kv_heads * (192 + 128) * 2


def test_b25_four_global_layers():
    assert kv_cache_bytes(built_in("google/gemma-3-1b-it"), 32_768).minimum == 139 * MIB
    assert kv_cache_bytes(built_in("google/gemma-3-1b-it"), 32_768).reserved == 832 * MIB


def test_b27_capacity_is_searched():
    profile, context = known("GPT_OSS_20B"), 8192
    gpu = GpuMemory("made", profile.parameters * 2 + 8 * GIB)
    found = memory.fit(profile, None, gpu, context=context, utilisation=1, overhead=0)
    assert found.alone.sequences > 1.9 * (8 * GIB // (profile.bytes_per_token * context))


def test_b28_layers_without_keys_cost_none():
    """17.6 GiB includes the weights of a file that the report does not name; the cache's part is 4 GiB, where all layers would be 16."""
    assert kv_cache_bytes(known("QWEN3_6_27B"), 65_536).reserved == 4 * GIB
    assert [layer.bytes_per_token for layer in known("LFM2_1_2B").per_layer][:6] == [0, 0, 2048, 0, 0, 2048]


def test_b29_states_bound_the_requests():
    profile = known("QWEN3_6_27B")
    each = kv_bytes(profile, 16, dtype="bf16", engine="vLLM") + state_bytes(profile, engine="vLLM") + 4 * profile.vocab_size
    gpu = GpuMemory("made", profile.parameters * 2 + 614 * each)
    assert memory.fit(profile, None, gpu, context=16, utilisation=1, overhead=0).alone.sequences == 614


def test_b30_counts_come_from_the_architecture():
    assert built_in("Qwen/Qwen2.5-7B").parameters == 7_615_616_512


def test_b31_bytes_of_packed_weights_are_those_of_the_file():
    tensor = Tensor("layers.0.weight", "U32", (1000, 100), 400_000)
    config: dict[str, Any] = {"quantization": {"group_size": 64, "bits": 4}}
    assert weigh([tensor], config).bytes == 400_000
    assert model_memory(built_in("Qwen/Qwen2.5-7B"), weigh([tensor], config)).weight_bytes == 400_000


def test_b32_four_bit_llama_has_eight_billion():
    shapes = {"q": (4096, 4096), "k": (1024, 4096), "v": (1024, 4096), "o": (4096, 4096)}
    shapes |= {"gate": (14_336, 4096), "up": (14_336, 4096), "down": (4096, 14_336)}
    packed = [(f"{layer}.{name}.weight_packed", (rows, columns // 8)) for layer in range(32) for name, (rows, columns) in shapes.items()]
    plain = [("embed", (128_256, 4096)), ("lm_head", (128_256, 4096)), ("norm", (4096,)), *[(f"{n}.norm", (4096,)) for n in range(64)]]
    tensors = [Tensor(name, "I32", shape, 4 * shape[0] * shape[1]) for name, shape in packed]
    tensors += [Tensor(f"{name}.weight", "BF16", shape, 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)) for name, shape in plain]
    config = {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4}}}}}
    assert weigh(tensors, config).parameters == built_in("meta-llama/Llama-3.1-8B").parameters


def test_b33_stored_bytes_are_not_discounted_again():
    stored = model_memory(known("QWEN3_6_27B"), Weights(bytes=25_100_000_000, parameters=None, quantisation="awq 4 bit"))
    assert memory.fit(stored, None, HUGE, context=1).parts.target_weights_bytes == 25_100_000_000


def test_b35_old_prices_say_so():
    """The price itself changes; what can be kept is its date, and a user's own price in its place."""
    price = Price("RunPod", "H100", "H100 SXM", 1, 4.49, date(2024, 8, 1), "catalogue")
    assert price.stale(date(2024, 11, 1))
    assert not price.stale(date(2024, 10, 30))
