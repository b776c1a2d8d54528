"""A whole measurement of an encoder-decoder pair: what it records, what follows from it, its script run as it stands, and side by side."""

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from core.analysis import Analysis, analyse
from core.decoding import Decoding
from core.deploy import settings_for
from core.errors import ModelError
from core.measured import Difference, Environment, Generation, PassTimes
from core.policies import Confidence, EarlyExit, FixedGamma, Plain, Policy, PromptLookup, TransformersDefault
from core.record import Step
from core.replay import rounds_of
from core.runs import Lane, ModelRef, Run, RunSpec, Stage
from core.settings import Settings
from core.trace import PromptTrace
from core.worker.measure import measure
from core.worker.recorder import Recorder
from tests import encoder_pairs

BUDGET = 16


class Quiet:
    """A sink that keeps the steps of lanes."""

    def __init__(self) -> None:
        self.written: list[Step] = []

    def stage(self, stage: Stage, done: int, total: int) -> None: ...
    def environment(self, environment: Environment) -> None: ...
    def passes(self, passes: PassTimes) -> None: ...
    def draft_prefill(self, seconds: tuple[float, ...]) -> None: ...
    def difference(self, difference: Difference) -> None: ...
    def generation(self, generation: Generation) -> None: ...
    def trace(self, index: int, trace: PromptTrace) -> None: ...
    def disturbed(self) -> None: ...

    def steps(self, steps: Sequence[Step]) -> None:
        self.written += steps


@pytest.fixture(scope="module")
def refs(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelRef, ModelRef]:
    return encoder_pairs.write_pair(tmp_path_factory.mktemp("t5"), noise=0.005)


def measured(spec: RunSpec) -> tuple[Run, Quiet]:
    sink = Quiet()
    recorder = Recorder(spec, sink)
    measure(spec, recorder, Settings(threads=1))
    return recorder.run().model_copy(update={"status": "done"}), sink


@pytest.fixture(scope="module")
def run(refs: tuple[ModelRef, ModelRef]) -> Run:
    return measured(encoder_pairs.spec_of(refs, prompts=3, max_new_tokens=BUDGET, confirm_s=2.0))[0]


def test_what_is_recorded(run: Run) -> None:
    assert run.environment is not None
    assert run.environment.encoder_decoder
    assert (run.environment.target_layers, len(run.draft_prefill_s)) == (2, 3)
    prompts = [trace.prompt_tokens for trace in run.traces]
    answers = [len(trace.answer) for trace in run.traces]
    assert run.passes[0].cache_tokens == sorted(prompt + answer // 2 for prompt, answer in zip(prompts, answers, strict=True))[1]
    assert min(sample.median_s for passes in run.passes for sample in passes.target.values()) > 0
    called = [g for g in run.generations if g.purpose in ("calibration", "confirmation")]
    assert {g.equal for g in called} == {True}
    for g in called:
        if not isinstance(g.policy, Plain | EarlyExit) and g.budget == BUDGET:
            expected = rounds_of(run.traces[g.prompt], g.policy)  # pyright: ignore[reportArgumentType]
            assert (g.rounds, g.drafted) == (tuple(one.emitted for one in expected), tuple(one.drafted for one in expected))


def test_what_the_first_round_drafts_is_priced_as_a_check_of_its_own(run: Run) -> None:
    """The decoder's first pass holds no prompt beside which more tokens would be cheap."""
    found = analyse(run)
    assert isinstance(found, Analysis)
    assert found.costs.first(4) == pytest.approx(found.costs.verify_up_to(4) - 1)
    assert found.advice.verdict in ("use", "leave_off", "undecided")


@pytest.mark.parametrize("policy", [FixedGamma(3), TransformersDefault(), PromptLookup(5, 2), Plain()])
def test_the_script_writes_the_answer_in_the_rounds_that_were_replayed(
    run: Run, policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = analyse(run)
    assert isinstance(found, Analysis)
    settings = settings_for(found, policy)
    file = tmp_path / "script.py"
    file.write_text(settings[0].code)
    monkeypatch.setattr(sys, "argv", [str(file), run.spec.prompts[1].text])
    left = runpy.run_path(str(file))
    passes: list[int] = []
    hook = left["target"].register_forward_pre_hook(lambda *given: passes.append(given[2]["decoder_input_ids"].shape[1]), with_kwargs=True)
    output = left["target"].generate(**left["inputs_for"](run.spec.prompts[1].text), **left["options"])
    hook.remove()
    assert output[0, 1:].tolist() == run.traces[1].answer.tolist()
    assert [width - 1 for width in passes] == [one.drafted for one in rounds_of(run.traces[1], policy)]
    assert [each.engine for each in settings] == ["Transformers", "vLLM", "SGLang", "llama.cpp", "TGI"]
    assert [bool(each.code) for each in settings] == [True, False, False, False, False]


def test_side_by_side(refs: tuple[ModelRef, ModelRef]) -> None:
    lanes = (Lane(policy=Plain()), Lane(policy=FixedGamma(3)), Lane(policy=PromptLookup(3, 2)))
    spec = encoder_pairs.spec_of(refs, prompts=1, max_new_tokens=BUDGET, extent="side_by_side", lanes=lanes, order=(0, 1, 2))
    written, sink = measured(spec)
    assert [g.equal for g in written.generations] == [True] * 3
    for lane, policy in ((1, FixedGamma(3)), (2, PromptLookup(3, 2))):
        steps = [step for step in sink.written if step.lane == lane]
        assert [(step.drafted, len(step.tokens)) for step in steps] == [(one.drafted, one.emitted) for one in rounds_of(written.traces[0], policy)]


def test_several_ways_and_batches(refs: tuple[ModelRef, ModelRef]) -> None:
    """Every lane that has no layers to leave runs; the others, and batches, get a sentence."""
    lanes = (Lane(policy=Plain()), Lane(policy=Confidence(0.4, 4)))
    written, _ = measured(encoder_pairs.spec_of(refs, prompts=1, max_new_tokens=8, extent="ways", lanes=lanes, confirm_s=0))
    assert {g.equal for g in written.generations} == {True}
    early = (lanes[0], Lane(policy=EarlyExit(layers=1)))
    with pytest.raises(ModelError, match="lets decoders alone draft for themselves"):
        measured(encoder_pairs.spec_of((refs[0], refs[0]), prompts=1, max_new_tokens=8, extent="ways", lanes=early))
    with pytest.raises(ModelError, match="passes behind encoded prompts are not timed here"):
        measured(encoder_pairs.spec_of(refs, prompts=1, extent="shapes", batches=(1,), cache_lengths=(32,)))


def test_a_sampled_measurement(refs: tuple[ModelRef, ModelRef]) -> None:
    found, _ = measured(encoder_pairs.spec_of(refs, prompts=2, max_new_tokens=8, decoding=Decoding(sample=True, temperature=0.8), confirm_s=0))
    assert all(trace.sampled is not None and trace.sampled.clamped == 0 for trace in found.traces)
    assert isinstance(analyse(found), Analysis)
