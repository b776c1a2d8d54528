"""Estimated c against speeds that others measured, against the bundled run, and against its own definition."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import c_estimate
from core import demo
from core.devices import CPU, Band, Device, engine, gpu
from core.estimate import HIGH, LIKELY, LOW, TIED_BY_DEFAULT, Load, estimate, load_of, tied_embedding, verify_ratios
from core.memory import CacheProfile, LayerCache

A100 = gpu("A100 80GB", 2039)
SMOLLM = {"135M": (30, 134515008), "1.7B": (24, 1711376384)}


def dense(layers, parameters, bytes_each=2):
    return Load(layers, parameters * bytes_each, parameters * bytes_each)


def profile(**changed):
    layers = tuple(LayerCache("full", 2, 64, 64, bytes_per_token=512) for _ in range(4))
    values = {"parameters": 1000, "active_parameters": 1000, "embedding_parameters": 300, "per_layer": layers} | changed
    return CacheProfile(model_type="llama", architecture="LlamaForCausalLM", vocab_size=10, hidden_size=30, context=None, **values)


@pytest.mark.parametrize("system", list(c_estimate.SYSTEMS))
def test_c_of_published_pairs(system):
    cases = c_estimate.speeds(system)
    inside = sum(case.made.low <= case.measured <= case.made.high for case in cases)
    assert inside / len(cases) >= 0.8
    if "one thread" not in system:
        assert max(abs(case.made.c / case.measured - 1) for case in cases) < 0.2


def test_c_of_the_paper_from_one_constant():
    made = {case.name: (round(case.made.c, 3), case.measured) for case in c_estimate.paper()}
    assert made == {"T5-small": (0.02, 0.02), "T5-base": (0.041, 0.04), "T5-large": (0.107, 0.11)}


def test_c_of_the_bundled_run_lies_in_the_range():
    (case,) = c_estimate.bundled()
    assert case.measured == pytest.approx(0.085, abs=0.001)
    assert case.made.low < case.measured < case.made.high
    assert case.made.c == pytest.approx(case.measured, rel=0.25)


def test_most_measured_speedups_lie_in_their_range():
    cases = [case for group in c_estimate.speedup_cases().values() for case in group]
    inside = sum(case.made.speedup_low <= case.measured <= case.made.speedup_high for case in cases)
    assert len(cases) == 175
    assert inside / len(cases) >= 0.9


def test_a_deep_narrow_draft_is_not_cheap_on_a_gpu():
    made = estimate(dense(*SMOLLM["1.7B"]), dense(*SMOLLM["135M"]), A100)
    ratio = SMOLLM["135M"][1] / SMOLLM["1.7B"][1]
    assert ratio == pytest.approx(0.079, abs=0.001)
    assert made.low > 10 * ratio
    assert made.c == pytest.approx(1.24, abs=0.02)
    assert not made.cheap
    assert (made.speedup_low, made.speedup_middle, made.gamma_low) == (1.0, 1.0, 0)
    assert "30 layers against 24" in made.why[0]
    assert any("layer count decides" in sentence for sentence in made.why)


def test_where_the_draft_runs_decides_its_cost():
    target, draft = dense(32, 8e9), dense(16, 1e9)
    together, apart = estimate(target, draft, A100), estimate(target, draft, A100, CPU)
    assert apart.c > 5 * together.c, "a CPU reads far slower"
    assert apart.low < apart.c < apart.high
    assert apart.why == ("The draft runs on CPU, one thread, the target on A100 80GB.",)
    assert estimate(target, draft, A100, A100) == together


def test_the_same_draft_is_cheap_where_reading_decides():
    made = estimate(dense(*SMOLLM["1.7B"]), dense(*SMOLLM["135M"]), Device(**{**vars(CPU), "layer_s": Band(0, 0, 0), "step_s": Band(0, 0, 0)}))
    assert made.c == pytest.approx(134515008 / 1711376384)
    assert made.cheap
    assert len(made.why) == 1


def test_a_graph_capturing_engine_makes_the_small_draft_cheaper():
    target, draft = dense(32, 7.5e9), dense(16, 1.2e9)
    assert estimate(target, draft, engine("A100", 2039)).c < 0.6 * estimate(target, draft, A100).c


def test_speedups_span_the_paper_s_alphas():
    made = estimate(dense(80, 70e9), dense(2, 0.3e9), A100)
    assert 1 < made.speedup_low < made.speedup_middle < made.speedup_high
    assert made.gamma_low < made.gamma_high
    free = Device(**{**vars(A100), "verify_jump": Band(0, 0, 0), "verify_slope": Band(0, 0, 0), "round_s": Band(0, 0, 0)})
    assert estimate(dense(80, 70e9), dense(2, 0.3e9), free).speedup_low > made.speedup_low


@given(st.integers(1, 100), st.floats(1e6, 1e11), st.integers(1, 100), st.floats(1e6, 1e11))
def test_the_range_holds_c_and_the_same_model_costs_one_step(layers, parameters, others, more):
    made = estimate(dense(layers, parameters), dense(others, more), A100)
    assert 0 < made.low < made.c < made.high
    assert made.speedup_low >= 1
    assert made.speedup_low <= made.speedup_high
    assert estimate(dense(layers, parameters), dense(layers, parameters), A100).c == 1


def test_experts_make_verification_dear():
    experts, plain = Load(48, 6e9, 60e9), Load(48, 6e9, 6e9)
    assert experts.bytes_for(1) == pytest.approx(6e9)
    assert experts.bytes_for(2) == pytest.approx(60e9 * (1 - 0.9**2))
    assert plain.bytes_for(20) == 6e9
    fast = engine("H100", 3350)
    assert verify_ratios(fast, experts, LIKELY)[4] > 1.5
    assert verify_ratios(fast, experts, LOW)[4] == 1
    assert verify_ratios(fast, plain, LIKELY)[4] == pytest.approx(1.07)
    assert verify_ratios(fast, plain, HIGH)[0] == pytest.approx(1.13)
    assert any("experts" in sentence for sentence in estimate(experts, plain, fast).why)


def test_load_counts_what_is_multiplied():
    untied = load_of(profile(), bytes_per_parameter=2, tied=False, cache_tokens=10)
    assert (untied.layers, untied.read_bytes, untied.most_bytes, untied.cache_bytes) == (4, 1400, 1400, 4 * 512 * 10)
    tied = load_of(profile(), bytes_per_parameter=0.5, tied=True, cache_tokens=10, cache_dtype="float32")
    assert (tied.read_bytes, tied.cache_bytes) == (500, 2 * untied.cache_bytes)
    experts = load_of(profile(active_parameters=500), bytes_per_parameter=2, tied=True)
    assert (experts.read_bytes, experts.most_bytes) == (1000, 2000)


def test_tying_is_read_from_the_config():
    assert tied_embedding({"model_type": "llama", "tie_word_embeddings": True})
    assert not tied_embedding({"model_type": "llama"})
    assert tied_embedding({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}})
    assert not tied_embedding({"model_type": "gemma2", "tie_word_embeddings": False})
    for folder in (demo.TARGET.path, demo.DRAFT.path):
        assert tied_embedding(json.loads((Path(folder) / "config.json").read_text()))


def test_tied_by_default_is_what_the_library_does():
    from transformers import CONFIG_MAPPING

    for name in TIED_BY_DEFAULT:
        assert CONFIG_MAPPING[name]().tie_word_embeddings, name
    for name in ("llama", "mistral", "qwen2", "qwen3", "gpt_neox", "phi3", "olmo2"):
        assert not getattr(CONFIG_MAPPING[name](), "tie_word_embeddings", False), name
