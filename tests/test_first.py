"""A further draft of a group: what it takes over from the first one, what is timed for it, and that its record says so."""

from pathlib import Path

import numpy as np
import pytest

from core.policies import FixedGamma, Plain
from core.predict import predict
from core.provenance import fit
from core.runs import ModelRef
from core.settings import Settings
from core.timing import LoopCosts
from core.worker import measure as measuring
from core.worker import timing
from core.worker.answers import Answers
from core.worker.first import CARRIED_ERROR, First
from core.worker.measure import measure
from core.worker.places import Place
from core.worker.recorder import Recorder
from tests.models import spec_of, write_pair
from tests.test_measure import Kept

PROMPTS = 3


@pytest.fixture(scope="module")
def specs(tmp_path_factory):
    """Two drafts for one target: the usual one, and one that agrees less."""
    folder = tmp_path_factory.mktemp("group")
    target, draft = write_pair(folder)
    _, other = write_pair(folder / "less", noise=0.06)
    first = spec_of((target, draft), PROMPTS).model_copy(update={"group": "g", "confirm_s": 0.0})
    return first, first.model_copy(update={"draft": other.model_copy(update={"name": "less"})})


@pytest.fixture(scope="module", autouse=True)
def calm():
    """Nothing counts as disturbed: on a busy machine a further draft would be measured in full, as it should."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timing, "QUIET_SHARE", 0.0)
        patch.setattr(timing, "FEW_SWITCHES", 10**9)
        patch.setattr(measuring, "_answers", Answers())
        patch.setattr(measuring, "_first", First())
        yield


def run_of(spec):
    recorder = Recorder(spec, Kept())
    measure(spec, recorder, Settings(threads=1))
    return recorder.run()


@pytest.fixture(scope="module")
def runs(specs, calm):
    first, further = specs
    return run_of(first), run_of(further), run_of(first), run_of(further.model_copy(update={"group": "another"}))


def test_the_target_is_not_timed_again_and_the_record_says_so(runs):
    first, further, _, _ = runs
    assert len(further.passes) == len(first.passes) == 2
    for mine, theirs in zip(further.passes, first.passes, strict=True):
        assert (mine.reused, theirs.reused) == (True, False)
        assert (mine.cache_tokens, mine.target, mine.target_one_s) == (theirs.cache_tokens, theirs.target, theirs.target_one_s)
        assert mine.draft != theirs.draft
        assert all(sample.n >= 5 for sample in mine.draft.values())
    assert len(further.draft_prefill_s) == PROMPTS


def test_the_plain_calls_are_those_of_the_first_draft_and_no_other_call_is_made(runs):
    first, further, _, _ = runs
    plain = [g for g in first.generations if g.purpose == "calibration" and g.policy == Plain()]
    assert [g for g in further.generations if g.purpose == "calibration"] == [g.model_copy(update={"reused": True}) for g in plain]
    assert all(g.reused for g in further.generations)
    assert not any(g.reused for g in first.generations)


def test_the_loop_costs_what_it_cost_with_the_first_draft(runs):
    first, further, _, _ = runs
    own, carried = LoopCosts.from_run(first), LoopCosts.from_run(further)
    assert (own.carried_from, carried.carried_from) == ("", "draft")
    for name in ("plain_step_s", "round_overhead", "token_overhead"):
        assert getattr(carried, name) == pytest.approx(getattr(own, name)), name
    assert carried.verify == pytest.approx(own.verify)
    assert carried.calibration_error == pytest.approx(np.hypot(own.calibration_error or 0.0, CARRIED_ERROR))
    assert predict(further, [FixedGamma(3)])["speedup"].iloc[0] > 0
    assert {known for *_, known in fit(carried)} >= {"from the first draft of this group, draft"}
    assert further.environment.target_peak_bytes == first.environment.target_peak_bytes


def test_its_traces_are_its_own(runs):
    first, further, _, alone = runs
    for mine, theirs, whole in zip(further.traces, first.traces, alone.traces, strict=True):
        assert mine.answer.tolist() == theirs.answer.tolist()
        assert mine.pieces == theirs.pieces
        assert all((mine.lookup[size].candidates == theirs.lookup[size].candidates).all() for size in (1, 2, 3))
        assert mine.draft_choice.tolist() == whole.draft_choice.tolist()
        assert mine.confidence == pytest.approx(whole.confidence, abs=1e-5)
    assert any(mine.accept.tolist() != theirs.accept.tolist() for mine, theirs in zip(further.traces, first.traces, strict=True))


def test_the_same_draft_again_and_another_group_are_measured_in_full(runs):
    for run in runs[2:]:
        assert not any(each.reused for each in run.passes)
        assert run.environment.carried is None
        assert not any(g.reused for g in run.generations if g.purpose == "calibration")


def test_nothing_is_kept_of_a_disturbed_run_or_without_a_group(runs, specs):
    first, further = runs[0], specs[1]
    place, changed = Place(Path("/target"), files="1"), Place(Path("/target"), files="2")
    kept = First()
    kept.keep(first.model_copy(update={"disturbed": True}), place)
    assert kept.of(further, place) is None
    kept.keep(first.model_copy(update={"spec": first.spec.model_copy(update={"group": ""})}), place)
    assert kept.of(further.model_copy(update={"group": ""}), place) is None
    kept.keep(first, place)
    assert kept.of(further, place) is not None
    assert kept.of(further.model_copy(update={"confirm_s": 9.0}), place) is not None
    for other in ({"seed": 1}, {"max_new_tokens": 5}, {"dtype": "bfloat16"}, {"target": ModelRef(source="folder", name="x", path="/x")}):
        assert kept.of(further.model_copy(update=other), place) is None
    assert kept.of(further, changed) is None
