"""Passes of tiny real pairs, loaded and built from their configurations; what does not fit, and configs that cannot be built."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from core.errors import DeviceError, InvalidInput, ModelError
from core.measured import PassTimes
from core.runs import ModelRef, RunSpec
from core.settings import Settings
from core.shapes import FEW_WIDTHS, WIDTHS
from core.worker import architectures, shapes
from core.worker.measure import measure
from core.worker.timing import TARGET_WIDTHS, Stepper
from tests.models import CONTEXT, spec_of, write_pair
from tests.test_measure import Kept

SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
LLAMA = {"model_type": "llama", **SMALL}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> RunSpec:
    """A pair with weights, to be timed at a few lengths, one of them too long for it."""
    torch.set_num_threads(1)
    refs = write_pair(tmp_path_factory.mktemp("pair"))
    return asked(refs, batches=(2, 1), cache_lengths=(CONTEXT, 16, 64))


def asked(refs: tuple[ModelRef, ModelRef], **how: Any) -> RunSpec:
    return spec_of(refs).model_copy(update={"prompts": (), "extent": "shapes", **how})


def written(folder: Path, config: dict[str, Any] | str, name: str = "built") -> ModelRef:
    """A folder with nothing but this config.json."""
    (folder / name).mkdir(parents=True)
    (folder / name / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return ModelRef(source="folder", name=name, path=str(folder / name))


def built(folder: Path, target: dict[str, Any] | str, draft: dict[str, Any] | None = None, **how: Any) -> RunSpec:
    """A pair to be built from these configs, and timed once."""
    refs = (written(folder, target, "target"), written(folder, draft or LLAMA, "draft"))
    return asked(refs, **{"random_weights": True, "batches": (1,), "cache_lengths": (16,), **how})


def timed(spec: RunSpec, settings: Settings) -> Kept:
    sink = Kept()
    measure(spec, sink, settings)
    return sink


def by_place(sink: Kept) -> dict[tuple[int, int], PassTimes]:
    return {(passes.batch, passes.cache_tokens): passes for passes in sink.pass_times}


@pytest.fixture(scope="module")
def kept(pair: RunSpec, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """The pair, timed once with as few repetitions as medians need."""
    with pytest.MonkeyPatch.context() as patch:
        hurry(patch)
        return timed(pair, Settings(data=tmp_path_factory.mktemp("data"), threads=1))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """For one test."""
    hurry(monkeypatch)


def hurry(patch: pytest.MonkeyPatch) -> None:
    """As few repetitions as medians need, on a busy machine too."""
    patch.setattr("core.worker.timing._MOST_ROUNDS", 2)
    patch.setattr("core.worker.timing._REPEATS", 0)


def test_a_loaded_pair_is_timed_at_every_combination(kept: Kept):
    sink = kept
    found = by_place(sink)
    assert list(found) == [(1, 16), (2, 16), (1, 64), (2, 64), (1, CONTEXT), (2, CONTEXT)], "short and few first"
    assert (set(found[1, 16].target), set(found[2, 64].target)) == (set(WIDTHS), set(FEW_WIDTHS))
    assert set(found[2, 16].draft) == {1, 2}
    assert all(sample.median_s > 0 for passes in sink.pass_times for sample in passes.target.values())
    assert (found[1, 64].target_prefill_s or 0) > 0 < (found[1, 64].draft_prefill_s or 0)
    assert (found[2, 64].target_prefill_s, found[2, 64].draft_prefill_s) == (None, None)
    assert found[1, CONTEXT].problem == found[2, CONTEXT].problem == f"Longer than the {CONTEXT} tokens that this pair can hold."
    assert sink.stages[-7:] == [("shapes", done, 6) for done in range(7)]
    assert (sink.generations, sink.traces, sink.prefill) == ([], {}, ())
    assert sink.environments[-1].peak_bytes


def test_widths_are_named_once():
    assert WIDTHS == TARGET_WIDTHS


@pytest.mark.usefixtures("quick")
def test_configs_are_enough(pair: RunSpec, kept: Kept, settings: Settings, tmp_path: Path):
    """No weights, no tokenizer: the same architecture in the same number of parameters."""
    refs: list[ModelRef] = []
    for ref in (pair.target, pair.draft):
        (tmp_path / ref.name).mkdir()
        shutil.copy(Path(ref.path) / "config.json", tmp_path / ref.name)
        refs.append(ModelRef(source="folder", name=ref.name, path=str(tmp_path / ref.name)))
    spec = asked((refs[0], refs[1]), random_weights=True, batches=(1,), cache_lengths=(16,), dtype="bfloat16")
    sink = timed(spec, settings)
    own, other = sink.environments[-1], kept.environments[-1]
    assert (own.target_parameters, own.draft_layers) == (other.target_parameters, other.draft_layers)
    assert own.target_bytes == pytest.approx((other.target_bytes or 0) / 2, rel=0.01), "16 bits"
    assert set(by_place(sink)[1, 16].target) == set(WIDTHS)
    assert sink.stages[:3] == [("load", 0, 2), ("load", 1, 2), ("load", 2, 2)]


@pytest.mark.parametrize("spread", [0.0, 1e-30, 1.0])
def test_random_weights_give_ordinary_numbers_whatever_the_config_says(tmp_path: Path, spread: float):
    """None denormal, none infinite, in any hidden state; so they take the time of trained ones."""
    config = {**LLAMA, "num_hidden_layers": 16, "initializer_range": spread}
    pair, unlike = architectures.build(built(tmp_path, config), lambda *_: None)
    with torch.no_grad():
        states = pair.target(input_ids=torch.arange(40)[None], output_hidden_states=True).hidden_states
    assert unlike == ()
    for state in states:
        assert bool(torch.isfinite(state).all())
        assert bool((state.abs() > torch.finfo(state.dtype).tiny).all())
        assert 1e-4 < float(state.std()) < 1e3


def test_the_same_config_gives_the_same_weights(tmp_path: Path):
    first, _ = architectures.build(built(tmp_path / "a", LLAMA), lambda *_: None)
    second, _ = architectures.build(built(tmp_path / "b", LLAMA), lambda *_: None)
    assert all(one.equal(other) for one, other in zip(first.target.parameters(), second.target.parameters(), strict=True))
    assert first.context == SMALL["max_position_embeddings"]


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"model_type": "t5", "d_model": 32, "num_heads": 2, "num_layers": 1}, "The target target is an encoder-decoder (t5)"),
        ({**LLAMA, "num_attention_heads": 3}, "The hidden size (32) is not a multiple of the number of attention heads (3)"),
        ({**LLAMA, "num_hidden_layers": 100_000}, "asks for 100,000 layers; at most 512 are built"),
        ({"model_type": "no_such_model"}, "The config of the target target cannot be read: "),
        ({"model_type": "mamba", "hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 64, "state_size": 4}, "keeps a running state (mamba)"),
        ("{", "cannot be read"),
        ('["llama"]', "does not hold a JSON object"),
    ],
)
def test_a_config_that_cannot_be_timed_gets_a_sentence(tmp_path: Path, settings: Settings, config: dict[str, Any] | str, says: str):
    with pytest.raises(ModelError) as refused:
        timed(built(tmp_path, config), settings)
    assert says in str(refused.value)


def test_weights_that_would_not_fit_are_refused_before_anything_is_allocated(tmp_path: Path, settings: Settings):
    huge = {
        **LLAMA,
        "hidden_size": 65_536,
        "intermediate_size": 262_144,
        "num_hidden_layers": 4,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
    }
    with pytest.raises(DeviceError, match=r"The weights take 1,09\d\.\d\d GB in float32, and cpu has .* free\. Use a smaller number format"):
        timed(built(tmp_path, huge), settings)


@pytest.mark.usefixtures("quick")
def test_what_makes_times_unlike_those_of_the_real_weights_is_noted(tmp_path: Path, settings: Settings):
    experts = {**LLAMA, "model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 16}
    windowed = {**LLAMA, "model_type": "mistral", "sliding_window": 8, "quantization_config": {"quant_method": "fp8"}}
    known = timed(built(tmp_path, experts, windowed), settings).environments[-1]
    quantised, woken, window = known.notes
    assert (
        quantised == "The draft's repository keeps quantised weights; it was timed with unquantised ones, which take more memory and other kernels."
    )
    assert known.draft_quantization == ""
    assert woken.startswith("The target is a mixture of experts, and which experts a token wakes depends on values. Random weights and random text")
    assert window == "2 of the draft's 2 layers see only the last 8 tokens, so that a longer cache costs them no more."


def out_of_memory_at(place: Callable[[int, int], bool], monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """A device whose memory does not suffice at some combinations; those that were tried."""
    tried: list[tuple[int, int]] = []
    widen = Stepper.widen

    def widened(self: Stepper, batch: int) -> None:
        tried.append((batch, self.cache_tokens))
        if place(batch, self.cache_tokens):
            raise torch.OutOfMemoryError("CUDA out of memory.")
        widen(self, batch)

    monkeypatch.setattr(Stepper, "widen", widened)
    return tried


@pytest.mark.usefixtures("quick")
def test_a_combination_that_does_not_fit_is_kept_as_such_and_the_rest_goes_on(pair: RunSpec, settings: Settings, monkeypatch: pytest.MonkeyPatch):
    tried = out_of_memory_at(lambda batch, tokens: batch * tokens >= 64, monkeypatch)
    sink = timed(pair.model_copy(update={"batches": (1, 2, 4, 8), "cache_lengths": (16, 32)}), settings)
    found = by_place(sink)
    problems = {place: passes.problem for place, passes in found.items() if passes.problem}
    smaller = "Not tried: a smaller combination did not fit into memory."
    assert problems == {
        (4, 16): "The memory of cpu did not suffice.",
        (8, 16): smaller,
        (2, 32): "The memory of cpu did not suffice.",
        (4, 32): smaller,
        (8, 32): smaller,
    }
    assert found[1, 32].target[5].median_s > 0
    assert {place for place in tried if place[0] == 8} == set()


def test_a_pair_of_which_nothing_fits_is_refused(pair: RunSpec, settings: Settings, monkeypatch: pytest.MonkeyPatch):
    out_of_memory_at(lambda *_: True, monkeypatch)
    with pytest.raises(DeviceError, match=r"The memory of cpu did not suffice\. Not even batch 1 after 16 tokens fits beside both models"):
        timed(pair.model_copy(update={"cache_lengths": (16,)}), settings)


@pytest.mark.usefixtures("quick")
def test_on_a_cpu_the_cache_is_reckoned_before_the_system_ends_the_worker(pair: RunSpec, settings: Settings, monkeypatch: pytest.MonkeyPatch):
    """A text of 16 tokens takes 2 models x 3 layers x keys and values x 2 heads x 16 x 4 bytes a token: 12,288 bytes, and its scores more."""
    known = shapes.device_named("cpu").model_copy(update={"free_bytes": 400_000})
    monkeypatch.setattr(shapes, "device_named", lambda _: known)
    found = by_place(timed(pair.model_copy(update={"batches": (1, 2, 64), "cache_lengths": (16,)}), settings))
    assert [place for place, passes in found.items() if passes.problem] == [(64, 16)]
    assert found[64, 16].problem.startswith("It needs about ")
    assert found[64, 16].problem.endswith(" MB more memory, and 0.4 MB are free.")


def test_lengths_of_which_all_are_too_long_are_refused(pair: RunSpec, settings: Settings):
    with pytest.raises(InvalidInput, match=f"can hold {CONTEXT} tokens, too few for {CONTEXT} in the cache and 21 more"):
        timed(pair.model_copy(update={"cache_lengths": (CONTEXT,)}), settings)


@pytest.mark.usefixtures("quick")
def test_what_was_timed_before_a_cancellation_stays(pair: RunSpec, settings: Settings):
    class Stops(Kept):
        def stage(self, stage: str, done: int, total: int) -> None:
            super().stage(stage, done, total)
            if (stage, done) == ("shapes", 1):
                raise KeyboardInterrupt

    sink = Stops()
    with pytest.raises(KeyboardInterrupt):
        measure(pair, sink, settings)
    assert list(by_place(sink)) == [(1, 16)]
