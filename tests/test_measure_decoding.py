"""Whole measurements as the service decodes: sampled, cut at stop strings; and those that end early."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from core import columns as col
from core import predict
from core.decoding import Decoding
from core.errors import DeviceError, ModelError
from core.policies import Confidence, Drafting, FixedGamma, Plain
from core.runs import RunSpec
from core.settings import Settings
from core.timing import calibration_rows
from core.worker import calls
from core.worker import measure as measuring
from core.worker.measure import measure
from core.worker.precision import differences
from core.worker.recorder import Recorder
from tests.models import spec_of, write_pair
from tests.pairs import load_pair
from tests.test_measure import Kept

ONCE = Settings(threads=1)
SAMPLED = Decoding(sample=True, temperature=0.8, top_p=0.95, repetition_penalty=1.1)


@pytest.fixture(scope="module")
def spec(tmp_path_factory) -> RunSpec:
    return spec_of(write_pair(tmp_path_factory.mktemp("pair")), 2).model_copy(update={"confirm_s": 0.5})


def measured(spec, sink=None):
    recorder = Recorder(spec, sink or Kept())
    measure(spec, recorder, ONCE)
    return recorder.run()


@pytest.fixture(scope="module")
def sampled(spec):
    return measured(spec.model_copy(update={"decoding": SAMPLED}))


def test_a_sampled_measurement_keeps_p_and_compares_no_texts(sampled):
    for trace in sampled.traces:
        assert trace.sampled is not None
        assert trace.sampled.clamped == 0
        assert (trace.sampled.p > 0).all()
    assert {g.equal for g in sampled.generations} == {None}
    assert {g.purpose for g in sampled.generations} == {"answer", "calibration", "confirmation"}
    assert sampled.differences == ()


def test_sampled_calls_have_texts_of_their_own_and_repeat_with_the_seed(sampled, spec):
    assisted = [g for g in sampled.generations if g.purpose == "calibration" and g.policy == FixedGamma(4)]
    again = measured(spec.model_copy(update={"decoding": SAMPLED, "confirm_s": 0.0}))
    assert [g.rounds for g in again.generations if g.purpose == "calibration" and g.policy == FixedGamma(4)] == [g.rounds for g in assisted]
    assert {g.purpose for g in again.generations} == {"answer", "calibration"}
    other = measured(spec.model_copy(update={"decoding": SAMPLED, "confirm_s": 0.0, "seed": 5}))
    assert [t.answer.tolist() for t in other.traces] != [t.answer.tolist() for t in again.traces]


def test_the_calibration_of_a_sampled_run_uses_the_rounds_that_were_run(sampled):
    rows, mismatched = calibration_rows(sampled)
    assisted = [g for g in sampled.generations if g.purpose == "calibration" and isinstance(g.policy, Drafting) and g.tokens > 1]
    assert mismatched == 0
    known = {(float(len(g.rounds)), float(sum(g.drafted))) for g in assisted}
    assert rows
    assert {(row.rounds, row.drafted) for row in rows} <= known


def test_a_sampled_run_is_predicted_by_expected_rounds_and_confirmed_per_token(sampled):
    rows = predict.predict(sampled, predict.default_policies(sampled)).to_dict("records")
    run = {g.policy for g in sampled.generations if g.purpose == "confirmation"} - {Plain()}
    assert {row[col.POLICY] for row in rows if row[col.MEASURED] is not None} == run
    gamma = next(row for row in rows if row[col.POLICY] == FixedGamma(3))
    assert gamma[col.TOKENS_PER_ROUND] > 1
    assert gamma[col.TOKENS_PER_ROUND] % 1 != 0


def test_a_stop_string_cuts_the_reference_and_real_runs_write_as_much(spec):
    whole = measured(spec.model_copy(update={"confirm_s": 0.0}))
    pieces = whole.traces[0].pieces
    stop = next(piece for piece in pieces[4:12] if len(piece.strip()) > 0)
    at = next(count for count in range(1, len(pieces) + 1) if stop in "".join(pieces[:count]))
    run = measured(spec.model_copy(update={"stop": (stop,)}))
    assert run.traces[0].ended == "stop"
    assert run.traces[0].answer.tolist() == whole.traces[0].answer.tolist()[:at]
    confirmed = [g for g in run.generations if g.purpose == "confirmation" and g.prompt == 0]
    assert {g.tokens for g in confirmed} == {at}
    assert all(g.equal for g in run.generations)
    assert all(g.reused for g in run.generations if g.purpose == "answer")


@pytest.mark.parametrize(
    ("place", "says"), [("core.worker.measure.traces", "the draft read the answers"), ("core.worker.calls.run_policy", "the loop was calibrated")]
)
def test_memory_that_does_not_suffice_ends_the_run_with_a_sentence_and_keeps_what_there_was(spec, monkeypatch, place, says):
    def none(*_given, **_how):
        raise torch.OutOfMemoryError("Tried to allocate 2 GiB.")

    monkeypatch.setattr(place, none)
    sink = Kept()
    with pytest.raises(
        DeviceError, match=rf"The memory of cpu did not suffice while {says}: 2 GiB more could not be had. What was measured before is kept."
    ):
        measure(spec, sink, ONCE)
    assert len(sink.of("answer")) == 2
    assert len(sink.traces) == (2 if "calls" in place else 0)
    assert measuring._garage._pair is None


class Rewrites(Kept):
    """Writes a model's weights anew while its answers are read."""

    def __init__(self, weights: Path):
        super().__init__()
        self.weights = weights

    def stage(self, stage, done, total):
        super().stage(stage, done, total)
        if stage == "draft" and done == 1:
            os.utime(self.weights)


def test_files_that_change_meanwhile_are_named_and_read_again_next_time(tmp_path):
    spec = spec_of(write_pair(tmp_path), 2).model_copy(update={"confirm_s": 0.0})
    with pytest.raises(ModelError, match=rf"The files in {tmp_path / 'draft'} changed while they were measured"):
        measure(spec, Rewrites(tmp_path / "draft" / "model.safetensors"), ONCE)
    assert measured(spec).traces


def test_a_draft_that_never_ends_a_text_stops_at_the_limit_and_at_the_budget(tmp_path):
    """It writes one token for ever, surely."""
    pair = load_pair(spec_of(write_pair(tmp_path), 1))
    endless = torch.nn.Linear(pair.draft.config.hidden_size, pair.draft.config.vocab_size)
    with torch.no_grad():
        endless.weight.zero_()
        endless.bias.copy_(50.0 * torch.nn.functional.one_hot(torch.tensor(7), pair.draft.config.vocab_size))
    pair.draft.lm_head = endless
    prompt = torch.tensor([[5, 6, 7]])
    timed, drafted = calls.counted(pair, prompt, Confidence(0.4, 20), 12, Decoding(), 0)
    assert timed.tokens.tolist() == calls.run_policy(pair, prompt, Plain(), 12).tokens.tolist()
    starts = np.cumsum(timed.rounds) - timed.rounds
    assert list(drafted) == [min(20, 12 - 1 - start) for start in starts]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_where_answers_part_the_margin_is_that_of_both_choices_in_float32(spec, dtype):
    spec = spec.model_copy(update={"dtype": dtype})
    pair = load_pair(spec)
    prompt = torch.tensor([[5, 6, 7, 8]])
    expected = calls.run_policy(pair, prompt, Plain(), 6).tokens
    before = {name: weight.clone() for name, weight in pair.target.named_parameters()}
    wide = load_pair(spec).target.float()
    with torch.no_grad():
        logits = wide(input_ids=torch.cat([prompt, torch.from_numpy(expected[:3]).long()[None]], dim=1)).logits[0, -1]
    order = logits.argsort(descending=True)
    written = expected.copy()
    written[3] = order[1] if order[1] != expected[3] else order[0]
    far = expected.copy()
    far[3] = order[-1]
    found = differences(pair, spec, [prompt], [expected], {(0, FixedGamma(4)): written, (0, FixedGamma(5)): far})
    assert [(each.prompt, each.token, each.dtype) for each in found] == [(0, 3, dtype)] * 2
    assert found[0].margin == pytest.approx(float(logits[order[0]] - logits[order[1]]), abs=1e-3)
    assert found[1].margin == pytest.approx(float(logits[order[0]] - logits[order[-1]]), abs=1e-3)
    assert found[1].near_tie is False
    assert all(torch.equal(weight, before[name]) and weight.dtype == before[name].dtype for name, weight in pair.target.named_parameters())


def test_answers_that_are_equal_have_no_differences(spec):
    assert differences(load_pair(spec), spec, [], [], {}) == []
