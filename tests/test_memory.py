"""Cache sizes, the fit of a pair on one GPU, and the curve over the context: against arithmetic, brute force, and engines' rules."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import builtin, memory, memory_engines
from core.errors import InvalidInput
from core.memory import CacheProfile, GpuMemory, LayerCache, ModelMemory
from core.memory_fit import largest
from core.model_info import Weights

GIB = 2**30
A10 = GpuMemory("A10", int(21.99 * GIB), "24 GB")
A100 = GpuMemory("A100 40GB", int(39.56 * GIB), "40 GB")
LLAMA_8B, LLAMA_1B = (builtin.find(f"meta-llama/Llama-{name}").profile for name in ("3.1-8B", "3.2-1B"))
GEMMA = builtin.find("google/gemma-3-27b-it").profile
NEXT = builtin.find("Qwen/Qwen3-Next-80B-A3B-Instruct").profile
MLA = builtin.find("deepseek-ai/DeepSeek-V2-Lite").profile
FALCON = builtin.find("tiiuae/falcon-40b").profile
T5 = builtin.find("google-t5/t5-small").profile


def layers() -> st.SearchStrategy[LayerCache]:
    windows = st.one_of(st.none(), st.integers(1, 5000))
    return st.builds(
        lambda window, heads, width, state: LayerCache(
            "sliding" if window else "full", heads, width, width, window, heads * width * 4, state_bytes=state
        ),
        windows, st.integers(1, 8), st.integers(1, 128), st.integers(0, 10**6),
    )  # fmt: skip


def profiles() -> st.SearchStrategy[CacheProfile]:
    return st.builds(
        lambda found, vocabulary: CacheProfile("made", "Made", 10**7, 10**7, 10**6, vocabulary, 64, None, tuple(found)),
        st.lists(layers(), min_size=1, max_size=6), st.integers(1, 50_000),
    )  # fmt: skip


@given(profiles(), st.integers(0, 10**6), st.integers(0, 100), st.sampled_from(memory.KV_DTYPES))
def test_the_minimum_is_never_above_the_reserved_and_both_grow(profile, tokens, sequences, dtype):
    size = memory.kv_cache_bytes(profile, tokens, sequences=sequences, dtype=dtype)
    longer = memory.kv_cache_bytes(profile, tokens + 1, sequences=sequences, dtype=dtype)
    assert 0 <= size.minimum <= size.reserved
    assert longer.minimum >= size.minimum
    assert longer.reserved >= size.reserved


@given(profiles(), st.integers(0, 10**6), st.integers(0, 1000))
def test_what_is_reserved_is_linear(profile, tokens, sequences):
    size = memory.kv_cache_bytes(profile, tokens, sequences=sequences)
    assert size.reserved == profile.bytes_per_token * tokens * sequences
    if all(layer.window is None or layer.window >= tokens for layer in profile.per_layer):
        assert size.minimum == size.reserved


def test_a_window_stops_growing_where_it_is_full():
    capped = [memory.kv_cache_bytes(GEMMA, tokens).minimum for tokens in (1024, 1025, 2048)]
    full_layers = 10 * 2 * 16 * 128 * 2
    assert capped[1] - capped[0] == full_layers
    assert capped[2] - capped[0] == 1024 * full_layers


@pytest.mark.parametrize(
    ("spellings", "bytes_per_token"),
    [
        (("float32", "fp32", "f32", "torch.float32"), 65_536),
        (("bfloat16", "bf16", "BF16", "float16", "fp16", "half", "auto"), 32_768),
        (("fp8", "fp8_e4m3", "fp8_e5m2", "float8_e4m3fn"), 16_384),
        (("int8", "q8_0"), 17_408),
        (("int4", "q4_0"), 9_216),
    ],
)
def test_cache_dtypes_as_engines_store_them(spellings, bytes_per_token):
    """16 layers x 8 heads x 64 x 2 = 16,384 values a token; blocks of 32 in 34 bytes (q8_0) or 18 (q4_0)."""
    for spelling in spellings:
        assert memory.kv_cache_bytes(LLAMA_1B, 1, dtype=spelling).reserved == bytes_per_token
        assert memory.kv_cache_bytes(LLAMA_1B, 4096, sequences=3, dtype=spelling).reserved == 3 * 4096 * bytes_per_token


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: memory.kv_cache_bytes(LLAMA_1B, -1),
        lambda: memory.kv_cache_bytes(LLAMA_1B, 1.5),  # pyright: ignore[reportArgumentType]
        lambda: memory.kv_cache_bytes(LLAMA_1B, True, sequences=-2),
        lambda: memory.kv_cache_bytes(LLAMA_1B, 10**13),
        lambda: memory.kv_cache_bytes(LLAMA_1B, 1, dtype="float99"),
        lambda: memory.formula_kv_bytes_per_token(-1, 8, 128),
        lambda: memory.fit(LLAMA_1B, None, A10, context=0),
        lambda: memory.fit(LLAMA_1B, None, A10, context=131_073),
        lambda: memory.fit(LLAMA_1B, None, A10, context=10, utilisation=0),
        lambda: memory.fit(LLAMA_1B, None, A10, context=10, utilisation=1.01),
        lambda: memory.fit(LLAMA_1B, None, A10, context=10, utilisation=math.nan),
        lambda: memory.fit(LLAMA_1B, None, A10, context=10, overhead=-1),
        lambda: memory.fit(LLAMA_1B, None, A10, context=10, engine="TGI"),  # pyright: ignore[reportArgumentType]
        lambda: memory.fit(LLAMA_1B, None, A10, context=10, gamma=0),
        lambda: memory.fit(LLAMA_1B, None, GpuMemory("none", 0), context=10),
        lambda: memory.fit(LLAMA_1B, memory.model_memory(LLAMA_1B, ranks=2), A10, context=10),
        lambda: memory.model_memory(LLAMA_1B, dtype="float99"),  # pyright: ignore[reportArgumentType]
        lambda: memory.memory_curve(LLAMA_1B, None, A10, contexts=[], sequences=1),
        lambda: memory.memory_curve(LLAMA_1B, None, A10, contexts=[5, 5], sequences=1),
    ],
)
def test_impossible_numbers_are_sentences(wrong):
    with pytest.raises(InvalidInput, match=r"\.$"):
        wrong()


def test_a_context_beyond_the_limit_names_both():
    with pytest.raises(InvalidInput, match="A context of 200,000 tokens is beyond the target's limit of 131,072"):
        memory.fit(LLAMA_8B, None, A10, context=200_000)


def test_profiles_survive_storage_and_refuse_damage():
    for profile in (GEMMA, NEXT, FALCON, T5):
        assert CacheProfile.from_json(profile.to_json()) == profile
    with pytest.raises(InvalidInput, match="cannot be read"):
        CacheProfile.from_json({"parameters": 3})


@given(profiles(), st.one_of(st.none(), profiles()), st.integers(1, 4000), st.sampled_from(memory.ENGINES), st.floats(0, 12))
@settings(max_examples=60, deadline=None)
def test_capacity_is_what_trying_every_number_finds(target, draft, context, engine, room):
    def used(count: int) -> int:
        gpu = GpuMemory("made", 10**12)
        return memory.fit(target, draft, gpu, context=context, overhead=0, engine=engine, gamma=3, sequences=count).parts.used_bytes

    each = used(2) - used(1)
    gpu = GpuMemory("made", used(1) - each + int(room * each))
    found = memory.fit(target, draft, gpu, context=context, utilisation=1, overhead=0, engine=engine, gamma=3)
    assert found.together.sequences == max((count for count in range(1, 14) if used(count) <= gpu.usable_bytes), default=0)
    assert found.together.sequences <= found.alone.sequences
    assert found.together.sequences * context <= found.together.kv_tokens < (found.together.sequences + 1) * context


@given(st.integers(0, 300), st.integers(0, 300))
def test_largest(limit, most):
    assert largest(lambda n: n <= limit, most) == min(limit, most)


def test_the_parts_add_up_to_the_gpu():
    for context in (1, 4096, 131_072):
        parts = memory.fit(LLAMA_8B, LLAMA_1B, A100, context=context, sequences=7).parts
        assert parts.used_bytes + parts.free_bytes + parts.held_back_bytes - parts.missing_bytes == A100.usable_bytes
        assert parts.missing_bytes == 0 or parts.free_bytes == 0


def test_the_pair_of_the_note_on_a_24_gb_card():
    """8B and 1B in bf16 are 18.53 GB of weights; 160 KiB of cache a token instead of 128."""
    found = memory.fit(LLAMA_8B, LLAMA_1B, A10, context=2048, overhead=0, gamma=5)
    assert found.parts.target_weights_bytes == 16_060_522_496
    assert found.parts.draft_weights_bytes == 2_471_628_800
    assert found.parts.target_kv_bytes == 2048 * 131_072
    assert found.parts.draft_kv_bytes == 2048 * 32_768
    assert found.parts.logits_bytes == 4 * (128_256 * 6 + 128_256 * 5)
    budget = int(A10.usable_bytes * 0.9)
    assert found.alone.sequences == (budget - 16_060_522_496) // (2048 * 131_072 + 4 * 128_256) == 19
    assert found.together.sequences == (budget - 18_532_151_296) // (2048 * 163_840 + 4 * 128_256 * 11) == 7
    assert found.concurrency_lost == 1 - 7 / 19
    assert found.verdict == "fits"
    assert found.notes == (
        "Target: weights estimated as parameters x dtype; the files may differ.",
        "Draft: weights estimated as parameters x dtype; the files may differ.",
    )


def test_verdicts():
    """Tight: under 5 % of the budget is left."""
    need = memory.fit(LLAMA_1B, None, A10, context=4096, overhead=0).parts.used_bytes
    for usable, verdict in ((need - 1, "does not fit"), (need, "tight"), (need * 100 // 95, "tight"), (need * 100 // 94, "fits")):
        found = memory.fit(LLAMA_1B, None, GpuMemory("made", usable), context=4096, overhead=0, utilisation=1)
        assert found.verdict == verdict
    short = memory.fit(LLAMA_8B, None, GpuMemory("made", 8 * GIB), context=4096, overhead=0, utilisation=1)
    assert short.reason == "1 request of 4,096 tokens would need 7.46 GiB more than the made may give."
    assert short.concurrency_lost is None


def test_stored_bytes_are_believed_and_named():
    stored = memory.model_memory(LLAMA_8B, Weights(bytes=5_700_000_000, parameters=None))
    assert (stored.weight_bytes, stored.weight_origin) == (5_700_000_000, "safetensors")
    assert memory.model_memory(LLAMA_8B, Weights(bytes=1, parameters=None, origin="sizes")).weight_origin == "file sizes"
    assert memory.model_memory(LLAMA_8B, dtype="int4").weight_bytes == LLAMA_8B.parameters // 2
    assert memory.fit(stored, None, A10, context=1).notes == ()


def test_the_caches_dtype_is_not_the_weights():
    quantised = ModelMemory(LLAMA_8B, 5_700_000_000, "safetensors")
    halved = replace(quantised, kv_dtype="fp8")
    sizes = [memory.fit(model, None, A10, context=8192).parts.target_kv_bytes for model in (quantised, halved)]
    assert sizes == [2**30, 2**29]


def test_vllm_keeps_a_running_state_for_each_drafted_token():
    big = GpuMemory("made", 10**12)
    state = 77_856_768
    for engine in memory.ENGINES:
        copies = 6 if engine == "vLLM" else 1
        found = memory.fit(NEXT, LLAMA_1B, big, context=256, engine=engine, gamma=5)
        assert found.parts.target_kv_bytes == 24_576 * 256 + copies * state
    assert "Target: vLLM keeps 1 + 5 copies of the running state of each sequence" in memory.fit(NEXT, LLAMA_1B, big, context=256).notes[1]
    alone = memory.fit(NEXT, None, big, context=256)
    assert alone.parts.target_kv_bytes == 24_576 * 256 + state
    assert alone.gamma == 0


def test_engines_differ_by_name():
    window, per_layer, full = 1024, 2 * 16 * 128 * 2, 10
    tokens = 8192
    sliding: dict[memory.Engine, int] = {"transformers": window, "vLLM": window + 16, "SGLang": math.ceil(tokens * 0.8), "llama.cpp": 1536}
    for engine, kept in sliding.items():
        size = memory_engines.kv_bytes(GEMMA, tokens, dtype="bf16", engine=engine)
        assert size == per_layer * (full * tokens + 52 * kept)
        repeated = 1_966_080 if engine == "transformers" else 122_880
        assert memory_engines.kv_bytes(FALCON, tokens, dtype="bf16", engine=engine) == tokens * repeated
    notes = memory.fit(GEMMA, None, GpuMemory("made", 10**12), context=tokens, engine="SGLang").notes
    assert "Target: SGLang reserves 80 % of the tokens for window layers" in notes[1]


def test_tensor_parallelism_splits_heads_and_never_a_latent():
    big = GpuMemory("made", 10**12)
    for ranks, heads in ((1, 8), (2, 4), (8, 1), (16, 1)):
        found = memory.fit(memory.model_memory(LLAMA_8B, ranks=ranks), None, big, context=4096)
        assert found.parts.target_kv_bytes == 4096 * 131_072 * heads // 8
        assert found.parts.target_weights_bytes == 16_060_522_496 // ranks
        latent = memory.fit(memory.model_memory(MLA, ranks=ranks), None, big, context=4096)
        assert latent.parts.target_kv_bytes == 4096 * 31_104


def test_an_encoders_output_is_kept_too():
    found = memory.fit(T5, None, A10, context=512)
    assert found.parts.target_kv_bytes == 512 * (12_288 + 12_288)


def test_a_draft_with_a_shorter_context_is_a_note():
    draft = builtin.find("HuggingFaceTB/SmolLM-135M").profile
    notes = memory.fit(LLAMA_8B, draft, A100, context=4096).notes
    assert notes[-1] == "Draft: it reads at most 2,048 tokens; beyond them nothing can be drafted."


@pytest.mark.parametrize("sequences", [1, 4, 16, 64])
def test_the_curve_crosses_where_the_fit_says(sequences):
    contexts = [1, 1000, 10_000, 131_072]
    curve = memory.memory_curve(LLAMA_8B, LLAMA_1B, A100, contexts=contexts, sequences=sequences)
    for context, used in zip(contexts, curve.used_bytes, strict=True):
        assert used == memory.fit(LLAMA_8B, LLAMA_1B, A100, context=context, sequences=sequences).parts.used_bytes
    assert curve.crossing is not None
    inside, beyond = (memory.fit(LLAMA_8B, LLAMA_1B, A100, context=curve.crossing + more, sequences=sequences) for more in (0, 1))
    assert (inside.parts.missing_bytes, beyond.parts.free_bytes) == (0, 0)
    assert beyond.parts.missing_bytes > 0


def test_a_curve_that_never_crosses():
    assert memory.memory_curve(LLAMA_1B, None, A100, contexts=[1, 100], sequences=1).crossing is None
    assert memory.memory_curve(LLAMA_8B, None, GpuMemory("small", GIB), contexts=[1, 100], sequences=1).crossing == 0


def told(profile: CacheProfile, engine: memory.Engine, kv_dtype: str = "bfloat16") -> str:
    model = memory.model_memory(profile, kv_dtype=kv_dtype)
    return " ".join(memory.fit(model, None, GpuMemory("made", 10**15), context=256, engine=engine).notes)


def test_states_are_named_as_transformers_keeps_them_only_where_vllm_keeps_less():
    assert "vLLM keeps them in the weights' dtype, down to half" in told(NEXT, "vLLM")
    assert "weights' dtype" not in told(NEXT, "SGLang") + told(LLAMA_8B, "vLLM")


def test_a_cache_format_that_the_engine_lacks_is_named():
    assert "counted as llama.cpp keeps it" in told(LLAMA_8B, "vLLM", "q4_0")
    assert "counted as llama.cpp keeps it" in told(LLAMA_8B, "SGLang", "int8")
    assert "offers no fp8 cache" in told(LLAMA_8B, "llama.cpp", "fp8")
    for said in (told(LLAMA_8B, "vLLM", "fp8"), told(LLAMA_8B, "llama.cpp", "int4"), told(LLAMA_8B, "transformers")):
        assert "counted as" not in said
        assert "offers no" not in said


def test_an_indexers_keys_are_named():
    """DeepSeek-V3.2: 576 values of the latent and 128 of the indexer, in bf16."""
    layer = memory.LayerCache("latent", 1, 512, 64, bytes_per_token=2 * (576 + 128))
    sparse = replace(LLAMA_8B, per_layer=(layer,) * 61)
    assert sparse.bytes_per_token == 85_888
    assert "keys of its indexer are counted in bf16" in told(sparse, "vLLM")
    dense = replace(layer, bytes_per_token=2 * 576)
    assert "indexer" not in told(replace(LLAMA_8B, per_layer=(dense,) * 61), "vLLM")
