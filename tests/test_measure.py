"""A whole measurement of a tiny pair, and its inputs that cannot be measured."""

import sys

import numpy as np
import pytest
import torch

from core.errors import DeviceError, InvalidInput, ModelError
from core.policies import Drafting, FixedGamma, Plain
from core.runs import Prompt, RunSpec
from core.settings import Settings
from core.worker.environment import devices
from core.worker.generate import first_difference
from core.worker.inputs import cache_lengths, spread
from core.worker.measure import CALIBRATION_GAMMAS, measure
from core.worker.models import Garage
from core.worker.timing import DRAFT_WIDTHS, TARGET_WIDTHS, sample
from tests.models import CONTEXT, spec_of, write_pair

PROMPTS = 3


class Kept:
    """A sink that keeps everything in lists."""

    def __init__(self):
        self.stages, self.environments, self.pass_times, self.generations = [], [], [], []
        self.prefill, self.traces, self.disturbances, self.differences = (), {}, 0, []

    def stage(self, stage, done, total):
        self.stages.append((stage, done, total))

    def environment(self, environment):
        self.environments.append(environment)

    def passes(self, passes):
        self.pass_times.append(passes)

    def draft_prefill(self, seconds):
        self.prefill = seconds

    def difference(self, difference):
        self.differences.append(difference)

    def generation(self, generation):
        self.generations.append(generation)

    def trace(self, index, trace):
        self.traces[index] = trace

    def steps(self, steps) -> None:
        raise AssertionError("only side-by-side runs stream")

    def disturbed(self):
        self.disturbances += 1

    def of(self, purpose):
        return [g for g in self.generations if g.purpose == purpose]


class Stops(Kept):
    """Raises in the middle, as a cancellation does."""

    def stage(self, stage, done, total):
        super().stage(stage, done, total)
        if stage == "calibrating":
            raise Interrupted


class Interrupted(BaseException):
    """What a cancellation looks like: no ordinary error."""


@pytest.fixture(scope="module", autouse=True)
def _one_turn():
    """Further turns of the confirmation are for `test_measured_rounds`, and that a busy machine cuts the calibration short is for the clock."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("core.worker.confirm.MOST_TURNS", 1)
        patch.setattr("core.worker.measure.CALIBRATION_S", float("inf"))
        yield


@pytest.fixture(scope="module")
def spec(tmp_path_factory) -> RunSpec:
    return spec_of(write_pair(tmp_path_factory.mktemp("pair")), PROMPTS)


@pytest.fixture(scope="module")
def once() -> Settings:
    return Settings(threads=1)


@pytest.fixture(scope="module")
def kept(spec, once) -> Kept:
    sink = Kept()
    measure(spec, sink, once)
    return sink


def test_stages_come_in_order_and_end_full(kept):
    order = list(dict.fromkeys(stage for stage, _, _ in kept.stages))
    assert order == ["load", "plain", "draft", "timing", "calibrating", "confirming"]
    stage, done, total = kept.stages[-1]
    assert (stage, done) == ("confirming", total)
    assert total % PROMPTS == 0
    assert all(0 <= done <= total for _, done, total in kept.stages)


def test_the_environment_says_where_and_with_what(kept, spec):
    first, found = kept.environments[0], kept.environments[-1]
    later = ("peak_bytes", "target_peak_bytes", "draft_peak_bytes")
    assert first == found.model_copy(update=dict.fromkeys(later))
    if sys.platform == "linux":
        assert found.target_peak_bytes >= found.target_bytes
        assert found.draft_peak_bytes >= found.draft_bytes
        assert found.target_peak_bytes < found.target_bytes + 50_000_000, "what a call of eight tokens needs, not the process"
    assert found.target_bytes == found.draft_bytes == 4 * found.target_parameters + 64  # the rotations' frequencies are a buffer
    assert found.peak_bytes > found.target_bytes + found.draft_bytes
    assert found.plain == "dynamic cache"
    assert (found.device, found.dtype, found.threads, found.attention) == ("cpu", "float32", 1, "sdpa")
    assert (found.target_layers, found.draft_layers) == (3, 3)
    assert found.target_parameters == found.draft_parameters > 100_000
    assert found.torch == torch.__version__


def test_every_prompt_has_an_answer_and_a_trace_of_it(kept):
    answers = kept.of("answer")
    assert sorted(g.prompt for g in answers) == list(kept.traces) == list(range(PROMPTS))
    assert {g.prompt: g.tokens for g in answers} == {index: len(t.answer) for index, t in kept.traces.items()}
    assert all(g.rounds == () and g.equal and g.batch == PROMPTS and not g.tells_speed for g in answers)


def test_passes_are_timed_at_two_cache_lengths(kept):
    first, second = kept.pass_times
    assert first.cache_tokens != second.cache_tokens
    for found in kept.pass_times:
        assert tuple(found.target) == tuple(found.target_one_s) == TARGET_WIDTHS
        assert tuple(found.draft) == tuple(found.target_one_beside_draft_s) == DRAFT_WIDTHS
        assert all(s.median_s > 0 and s.n >= 5 for s in [*found.target.values(), *found.draft.values()])
        assert 0 < (found.check_s or 0.0) < found.target[1].median_s
    assert len(kept.prefill) == PROMPTS
    assert min(kept.prefill) > 0


def test_calibration_puts_each_gamma_between_two_plain_runs_of_the_same_prompt(kept):
    blocks = {}
    for g in kept.of("calibration"):
        blocks.setdefault(g.block, []).append(g)
    assert len(blocks) == PROMPTS
    for block in blocks.values():
        assert len({g.prompt for g in block}) == 1
        assert [g.policy for g in block][::2] == [Plain()] * (len(CALIBRATION_GAMMAS) + 1)
        assert [g.policy for g in block][1::2] == [*map(FixedGamma, CALIBRATION_GAMMAS)]


def test_confirmation_runs_three_policies_per_prompt_in_turning_order(kept):
    blocks = {}
    for g in kept.of("confirmation"):
        blocks.setdefault(g.block, []).append(g)
    for block in blocks.values():
        policies = [g.policy for g in block]
        assert policies.count(Plain()) == 1
        assert len(policies) == len(set(policies)) >= 3
        assert sum(isinstance(p, Drafting) and p.threshold == 0 and p.schedule == "constant" for p in policies) == 1
    assert len({block[0].policy for block in blocks.values()}) >= 3
    assert {g.prompt for g in kept.of("confirmation")} == set(range(PROMPTS))


def test_all_answers_are_equal_in_float32_and_rounds_add_up(kept):
    assisted = [g for g in kept.generations if g.policy != Plain()]
    assert len(assisted) >= PROMPTS * 5
    for g in assisted:
        assert g.equal
        assert g.first_difference is None
        assert sum(g.rounds) == g.tokens == min(len(kept.traces[g.prompt].answer), g.budget)
        assert len(g.drafted) == len(g.rounds)
        assert all(emitted <= drafted + 1 for emitted, drafted in zip(g.rounds, g.drafted, strict=True))
        assert 0 < g.first_token_s <= g.total_s


def test_the_same_spec_gives_the_same_traces_and_rounds(kept, spec, once):
    again = Kept()
    measure(spec, again, once)
    for index, trace in kept.traces.items():
        assert again.traces[index].answer.tolist() == trace.answer.tolist()
        assert again.traces[index].confidence.tolist() == trace.confidence.tolist()
        np.testing.assert_array_equal(again.traces[index].tails.confidence, trace.tails.confidence)
    assert [(g.prompt, g.policy, g.rounds) for g in again.of("calibration")] == [(g.prompt, g.policy, g.rounds) for g in kept.of("calibration")]


def test_a_cancelled_measurement_keeps_its_part_and_the_next_one_works(spec, once):
    stopped, after = Stops(), Kept()
    with pytest.raises(Interrupted):
        measure(spec, stopped, once)
    assert len(stopped.traces) == PROMPTS
    assert len(stopped.pass_times) == 1
    assert stopped.of("calibration") == []
    measure(spec.model_copy(update={"prompts": spec.prompts[:1], "max_new_tokens": 1}), after, once)
    assert {g.tokens for g in after.generations} == {1}


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"max_new_tokens": 0}, InvalidInput, "0 new tokens"),
        ({"prompts": ()}, InvalidInput, "no prompt"),
        ({"prompts": (Prompt(text="fine"), Prompt(text=""))}, InvalidInput, "Prompt 2 is empty"),
        ({"prompts": (Prompt(text="fine"), Prompt(text="z" * CONTEXT))}, InvalidInput, "Prompt 2 has 256 tokens"),
        ({"device": "cuda:99"}, DeviceError, "no device 'cuda:99'"),
    ],
)
def test_impossible_input_is_named(spec, once, change, error, says):
    sink = Kept()
    with pytest.raises(error, match=says):
        measure(spec.model_copy(update=change), sink, once)
    assert sink.generations == []


def test_a_prompt_that_just_fits_is_measured(spec, once):
    sink = Kept()
    prompt = Prompt(text="z" * (CONTEXT - 8))
    measure(spec.model_copy(update={"prompts": (prompt,), "max_new_tokens": 8}), sink, once)
    assert sink.traces[0].prompt_tokens == CONTEXT - 8
    assert all(passes.cache_tokens + TARGET_WIDTHS[-1] <= CONTEXT for passes in sink.pass_times)


def test_damaged_and_missing_models_give_a_sentence(tmp_path):
    spec = spec_of(write_pair(tmp_path))
    weights = tmp_path / "draft" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match=r"The draft draft .* could not be loaded"):
        Garage().get(spec)
    weights.unlink()
    with pytest.raises(ModelError, match=r"The draft draft .* could not be loaded"):
        Garage().get(spec)
    (tmp_path / "draft" / "config.json").unlink()
    with pytest.raises(ModelError, match="holds no config"):
        Garage().get(spec)
    (tmp_path / "draft" / "config.json").write_text("{")
    with pytest.raises(ModelError, match=r"config.json cannot be read .* Download the model again"):
        Garage().get(spec)
    gone = spec.model_copy(update={"target": spec.target.model_copy(update={"path": str(tmp_path / "nowhere")})})
    with pytest.raises(ModelError, match="does not exist"):
        Garage().get(gone)


def test_missing_weights_are_not_made_up(tmp_path):
    spec = spec_of(write_pair(tmp_path))
    config = tmp_path / "draft" / "config.json"
    config.write_text(config.read_text().replace('"num_hidden_layers": 3', '"num_hidden_layers": 4'))
    with pytest.raises(ModelError, match="lacks 9 of its weights"):
        Garage().get(spec)


def test_vocabularies_of_different_sizes_are_refused(tmp_path):
    from transformers import LlamaForCausalLM

    spec = spec_of(write_pair(tmp_path))
    draft = LlamaForCausalLM.from_pretrained(spec.draft.path)
    draft.resize_token_embeddings(400)
    draft.save_pretrained(spec.draft.path)
    with pytest.raises(ModelError, match=r"384 tokens .* 400"):
        Garage().get(spec)


def test_a_pair_stays_warm_until_another_is_asked_for(tmp_path):
    spec = spec_of(write_pair(tmp_path))
    garage = Garage()
    first = garage.get(spec)
    assert garage.get(spec) is first
    assert garage.get(spec.model_copy(update={"dtype": "bfloat16"})).target.dtype == torch.bfloat16
    weights = tmp_path / "draft" / "model.safetensors"
    before = garage.get(spec)
    weights.write_bytes(weights.read_bytes())
    assert garage.get(spec) is not before


def test_the_models_own_sampling_defaults_are_put_aside(tmp_path):
    spec = spec_of(write_pair(tmp_path))
    settings = tmp_path / "draft" / "generation_config.json"
    settings.write_text('{"eos_token_id": [5, 6], "suppress_tokens": [1, 2], "repetition_penalty": 1.3}')
    (tmp_path / "target" / "generation_config.json").write_text('{"eos_token_id": [3, 0], "temperature": 0.3, "do_sample": true}')
    pair = Garage().get(spec)
    assert pair.eos_ids == (3, 0)
    for model in (pair.target, pair.draft):
        assert model.generation_config.eos_token_id == [3, 0]
        assert model.generation_config.suppress_tokens is None
        assert model.generation_config.repetition_penalty is None


def test_the_cpu_is_always_a_device():
    cpu = devices()[-1]
    assert cpu.id == "cpu"
    assert cpu.name
    assert cpu.memory_bytes is None or cpu.memory_bytes > 2**28


def test_spread_takes_labels_in_turn_and_the_same_ones_again():
    labels = ["a"] * 10 + ["b"] * 2 + ["c"]
    chosen = spread(labels, 4, seed=5)
    assert sorted(labels[i] for i in chosen[:3]) == ["a", "b", "c"]
    assert chosen == spread(labels, 4, seed=5)
    assert chosen != spread(labels, 4, seed=6)
    assert sorted(spread(["x", "y"], 4, seed=0)) == [0, 1]


def test_cache_lengths_are_the_middle_and_an_other_one_inside_the_context():
    assert cache_lengths([100, 120, 140], [40, 40, 40], None) == (140, 180)
    assert cache_lengths([1000, 1000], [10, 10], None) == (1005, 502)
    assert cache_lengths([240], [16], 256) == (235, 117)
    assert cache_lengths([1], [1], 64) == (1, 2)


@pytest.mark.parametrize(("tokens", "expected", "where"), [([1, 2], [1, 2], None), ([1, 3], [1, 2], 1), ([1], [1, 2], 1), ([1, 2, 3], [1, 2], 2)])
def test_first_difference(tokens, expected, where):
    assert first_difference(np.array(tokens), np.array(expected)) == where


def test_sample_is_median_and_middle_half():
    found = sample([4.0, 1.0, 3.0, 2.0, 10.0])
    assert (found.median_s, found.iqr_s, found.n) == (3.0, 2.0, 5)
