"""Where weights lie and how they are kept: what a server cannot follow and why, what it takes, and that a run says what it came to.

The tests with bitsandbytes and accelerate are skipped where those are not installed: pip install bitsandbytes accelerate
"""

from typing import get_args

import pytest
import torch
from transformers import AutoConfig

from core import comparison, demo, provenance
from core.errors import DraftgaugeError, InvalidInput, ModelError
from core.measured import DeviceInfo
from core.placement import ATTENTIONS, QUANTIZATIONS, Asked, devices_of, exact, format_words, installed, normal, problems, target_bytes, words
from core.plan.cache_profile import cache_profile
from core.policies import FixedGamma, Plain
from core.runs import Attention, Placement, Prompt, Quantization, RunSpec
from core.script import Service, script
from core.settings import Settings
from core.worker.environment import environment, prepare
from core.worker.generate import run_policy
from core.worker.inputs import encode_prompts
from core.worker.loading import Key, load_model, packed
from core.worker.measure import measure
from core.worker.memory import model_bytes
from core.worker.models import Garage
from core.worker.places import Place
from tests import synthetic
from tests.models import spec_of, write_pair
from tests.test_measure import Kept

CPU, GPU, OTHER = (DeviceInfo(id=name, name=name) for name in ("cpu", "cuda:0", "cuda:1"))
FEWER: tuple[Quantization, ...] = ("8bit", "4bit")
HAS_BITS, HAS_ACCELERATE = installed("bitsandbytes") and installed("accelerate"), installed("accelerate")
needs_bits = pytest.mark.skipif(not HAS_BITS, reason="needs bitsandbytes and accelerate")


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> RunSpec:
    torch.set_num_threads(1)
    return spec_of(write_pair(tmp_path_factory.mktemp("pair")), prompts=1, max_new_tokens=12)


def test_every_choice_has_words():
    assert tuple(QUANTIZATIONS) == get_args(Quantization)
    assert tuple(ATTENTIONS) == get_args(Attention)
    assert words(Placement()) == ""
    every = Placement(quantization="4bit", spread=True, draft_device="cuda:1", attention="eager")
    assert words(every) == "target in 4 bits, target over all GPUs, draft on cuda:1, Eager attention"


@pytest.mark.parametrize(
    ("placement", "asked", "said"),
    [
        (Placement(quantization="8bit"), Asked("cuda:0", "bfloat16", gguf=True), "The target is a GGUF file, whose weights are unpacked"),
        (Placement(quantization="4bit"), Asked("cuda:0", "bfloat16", stored="gptq"), "The target's files are quantised already (gptq)"),
        (Placement(quantization="4bit"), Asked("mps", "float16"), "not on mps"),
        (
            Placement(draft_device="cuda:7"),
            Asked("cuda:0", "float32", (GPU, CPU)),
            "This server has no device 'cuda:7' for the draft. Choose one of:",
        ),
        (Placement(spread=True), Asked("cpu", "float32", (CPU,)), "two or more CUDA GPUs, and this server has none."),
        (Placement(spread=True), Asked("cuda:0", "float32", (GPU, CPU)), "two or more CUDA GPUs, and this server has one."),
        (Placement(spread=True), Asked("cpu", "float32", (GPU, OTHER, CPU)), "cannot begin on cpu"),
        (Placement(attention="flash_attention_2"), Asked("cpu", "bfloat16"), "runs on CUDA GPUs only, not on cpu"),
        (Placement(attention="flash_attention_2"), Asked("cuda:0", "float32"), "computes in 16 bits only"),
        (Placement(attention="flash_attention_2", draft_device="cpu"), Asked("cuda:0", "float16"), "the draft is to run on cpu"),
    ],
)
def test_what_cannot_be_followed_is_one_sentence(placement: Placement, asked: Asked, said: str):
    [problem] = problems(placement, asked)
    assert said in problem


def test_missing_packages_are_named_with_the_command(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("core.placement.installed", lambda package: package == "accelerate")
    asked = Asked("cuda:0", "bfloat16", (GPU, OTHER))
    assert problems(Placement(quantization="8bit"), asked) == (
        "bitsandbytes is not installed on this server, and keeping the target in 8 bits needs it: pip install bitsandbytes",
    )
    [flash] = problems(Placement(attention="flash_attention_2"), asked)
    assert flash == "flash-attn is not installed on this server, and this attention needs it: pip install flash-attn"
    assert problems(Placement(spread=True), asked) == ()
    monkeypatch.setattr("core.placement.installed", lambda _package: False)
    [both] = problems(Placement(quantization="4bit"), asked)
    assert both.startswith("bitsandbytes and accelerate are not installed")
    assert both.endswith("needs them: pip install bitsandbytes accelerate")
    [spread] = problems(Placement(spread=True), asked)
    assert spread.endswith("pip install accelerate")


def test_everything_as_usual_and_a_draft_elsewhere_can_be_followed():
    assert problems(Placement(), Asked("cpu", "float32")) == ()
    assert problems(Placement(draft_device="cpu", attention="sdpa"), Asked("cuda:0", "bfloat16", (GPU, CPU))) == ()


def test_a_draft_on_the_runs_own_device_has_none_of_its_own():
    assert normal(Placement(draft_device="cpu"), "cpu") == Placement()
    assert normal(Placement(draft_device="cpu"), "cuda:0").draft_device == "cpu"


def test_a_run_takes_up_every_device_that_it_works_on(spec):
    devices = (CPU, OTHER, GPU)
    apart = spec.model_copy(update={"device": "cuda:1", "placement": Placement(draft_device="cpu")})
    assert devices_of(spec, devices) == ("cpu",)
    assert devices_of(apart, devices) == ("cpu", "cuda:1")
    assert devices_of(spec.model_copy(update={"device": "cuda:0", "placement": Placement(spread=True)}), devices) == ("cuda:0", "cuda:1")


def test_fewer_bits_are_not_exact(spec):
    fewer = spec.model_copy(update={"placement": Placement(quantization="8bit")})
    assert (exact(spec), exact(fewer)) == (True, False)
    assert format_words(fewer) == "float32, target in 8 bits"


def test_the_worker_refuses_what_it_cannot_follow(spec):
    spread = spec.model_copy(update={"placement": Placement(spread=True)})
    with pytest.raises(InvalidInput, match="spread over two or more CUDA GPUs"):
        prepare(spread, Settings())
    with pytest.raises(InvalidInput, match="no device 'cuda:7' for the draft"):
        measure(spec.model_copy(update={"placement": Placement(draft_device="cuda:7")}), Kept(), Settings(threads=1))


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_attention_that_was_asked_for_is_used_for_both(spec, attention: Attention):
    asked = spec.model_copy(update={"placement": Placement(attention=attention)})
    pair = Garage().get(asked)
    where = environment(asked, pair)
    assert (where.attention, where.draft_attention) == (attention, attention)
    assert (where.target_devices, where.draft_devices, where.target_quantization) == (("cpu",), ("cpu",), "")


def test_another_placement_loads_anew_and_the_same_one_does_not(spec):
    garage = Garage()
    pair = garage.get(spec)
    assert garage.get(spec.model_copy(update={"placement": Placement(draft_device="cpu")})) is pair
    target = pair.target
    assert garage.get(spec.model_copy(update={"placement": Placement(attention="eager")})).target is not target


def test_provenance_and_comparison_tell_a_placement():
    usual, special = synthetic.run(), synthetic.run()
    assert special.environment is not None
    where = {
        "target_devices": ("cuda:0", "cuda:1"),
        "draft_devices": ("cuda:1",),
        "target_quantization": "bitsandbytes, 4 bits (nf4)",
        "draft_quantization": "unpacked from GGUF",
        "draft_attention": "eager",
        "device_peak_bytes": {"cuda:0": 2_000_000_000, "cuda:1": 1_000_000_000},
        "compile_failed": "Failed to find C compiler.",
    }
    how = Placement(quantization="4bit", spread=True)
    special = special.model_copy(
        update={"environment": special.environment.model_copy(update=where), "spec": special.spec.model_copy(update={"placement": how})}
    )
    rows = dict(provenance.rows(special))
    assert rows["Placement asked for"] == "target in 4 bits, target over all GPUs"
    assert rows["Weights lie on"] == "target cuda:0, cuda:1; draft cuda:1"
    assert rows["Weights are kept"].startswith("target bitsandbytes, 4 bits (nf4), draft unpacked from GGUF; times are not those of engines")
    assert rows["Peak by device"] == "cuda:0 2.00 GB, cuda:1 1.00 GB"
    assert rows["Attention"].endswith("draft eager")
    assert rows["Plain decoding, the rival"].endswith("Compiled plain decoding could not be tried: Failed to find C compiler.")
    assert "Weights lie on" not in dict(provenance.rows(usual))
    named = {row.name for row in comparison.differences(comparison.rows([usual, special]))}
    assert named == {"Target's weights", "Draft's weights", "Target's devices", "Draft's devices", "Attention"}


def test_a_script_loads_as_the_run_did():
    how = Placement(quantization="4bit", draft_device="cuda:1", attention="sdpa")
    code = script(Service(demo.TARGET, demo.DRAFT, FixedGamma(4), dtype="bfloat16", device="cuda:0", placement=how))
    target, draft = (next(line for line in code.splitlines() if line.startswith(f"{role} = ")) for role in ("target", "draft"))
    fewer = 'BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)'
    assert f'attn_implementation="sdpa", quantization_config={fewer}, device_map={{"": "cuda:0"}}).eval()' in target
    assert draft.endswith('attn_implementation="sdpa").to("cuda:1").eval()')
    assert "BitsAndBytesConfig" in next(line for line in code.splitlines() if line.startswith("from transformers import"))
    compile(code, "script.py", "exec")
    spread = script(Service(demo.TARGET, demo.DRAFT, Plain(), dtype="float16", device="cuda:0", placement=Placement(spread=True)))
    assert 'dtype=torch.float16, device_map="auto").eval()' in spread


@needs_bits
@pytest.mark.parametrize("bits", FEWER)
def test_a_target_in_fewer_bits_runs_with_its_draft_and_is_recorded(spec, bits: Quantization):
    asked = spec.model_copy(update={"placement": Placement(quantization=bits)})
    pair = Garage().get(asked)
    where, prompt = environment(asked, pair), encode_prompts(pair, asked)[0]
    assert where.target_quantization == {"8bit": "bitsandbytes, 8 bits", "4bit": "bitsandbytes, 4 bits (nf4)"}[bits]
    assert (where.draft_quantization, packed(pair.target), packed(pair.draft)) == ("", True, False)
    assert where.target_parameters == where.draft_parameters
    assert where.target_bytes is not None
    assert where.draft_bytes is not None
    assert where.target_bytes < where.draft_bytes
    plain, assisted = (run_policy(pair, prompt, policy, 12) for policy in (Plain(), FixedGamma(4)))
    assert assisted.tokens.tolist() == plain.tokens.tolist()
    assert len(assisted.rounds) < len(plain.rounds)


@needs_bits
def test_a_measurement_of_a_target_in_4_bits(spec):
    kept = Kept()
    measure(spec.model_copy(update={"placement": Placement(quantization="4bit"), "confirm_s": 0.0}), kept, Settings(threads=1))
    assert kept.environments[-1].target_quantization == "bitsandbytes, 4 bits (nf4)"
    assert all(difference.margin is None for difference in kept.differences), "packed weights have no float32"
    assert len(kept.traces) == 1


@needs_bits
@pytest.mark.parametrize("bits", FEWER)
def test_the_weights_take_what_was_said(spec, bits: Quantization):
    model = Garage().get(spec.model_copy(update={"placement": Placement(quantization=bits)})).target
    profile = cache_profile(AutoConfig.from_pretrained(spec.target.path).to_dict())
    assert model_bytes(model) == pytest.approx(target_bytes(profile, bool(model.config.tie_word_embeddings), "float32", bits), rel=0.03)


@needs_bits
def test_widths_that_a_cpu_cannot_compute_in_4_bits_are_refused_before_the_first_pass():
    asked = RunSpec(target=demo.TARGET, draft=demo.DRAFT, prompts=(Prompt(text="x"),), placement=Placement(quantization="4bit"))
    with pytest.raises(ModelError, match="multiple of 64, and the target Demo target has some of"):
        Garage().get(asked)


@pytest.mark.skipif(not HAS_ACCELERATE, reason="needs accelerate")
def test_a_target_that_would_lie_outside_the_gpus_is_refused(spec):
    place = Place(folder=demo.FOLDER / "target")
    with pytest.raises(ModelError, match=r"does not fit into the GPUs together: .* weights would lie outside them"):
        load_model(demo.TARGET, Key(place, "cuda:0", "float32", spread=True), "target")


@pytest.mark.skipif(HAS_BITS, reason="only without bitsandbytes")
def test_without_the_package_a_measurement_ends_in_its_sentence(spec):
    with pytest.raises(DraftgaugeError, match=r"bitsandbytes .* not installed on this server.*pip install"):
        measure(spec.model_copy(update={"placement": Placement(quantization="8bit")}), Kept(), Settings(threads=1))
