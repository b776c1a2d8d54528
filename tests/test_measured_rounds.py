"""A whole measurement against its own replay, and against a second one with the same seed."""

import time

import pytest

from core.acceptance import alpha
from core.calibration import beginning
from core.policies import Drafting, Plain, TransformersDefault
from core.replay import rounds_of
from core.runs import Run
from core.settings import Settings
from core.worker import calls as calling
from core.worker.measure import measure
from core.worker.recorder import Recorder
from tests.models import spec_of, write_pair
from tests.test_measure import Kept

PROMPTS = 3


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    return spec_of(write_pair(tmp_path_factory.mktemp("pair")), PROMPTS).model_copy(update={"seed": 3})


def measured(spec, sink: Kept | None = None) -> Run:
    """The run as it was reported, confirmed in two turns however fast or slow the machine is."""
    recorder = Recorder(spec, sink or Kept())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("core.worker.confirm.plain_seconds", lambda run, budgets: 1e-9)
        patch.setattr("core.worker.confirm.MOST_TURNS", 2)
        patch.setattr("core.worker.confirm.tight", lambda run, policies: False)
        patch.setattr("core.worker.measure.CALIBRATION_S", float("inf"))
        measure(spec, recorder, Settings(threads=1))
    return recorder.run()


@pytest.fixture(scope="module")
def sink() -> Kept:
    return Kept()


@pytest.fixture(scope="module")
def run(spec, sink) -> Run:
    return measured(spec, sink)


def test_every_assisted_generation_ran_the_replayed_rounds(run):
    assisted = [g for g in run.generations if isinstance(g.policy, Drafting)]
    assert {g.purpose for g in assisted} == {"calibration", "confirmation"}
    assert len(assisted) >= PROMPTS * (4 + 2 * 2)
    for g in assisted:
        rounds = rounds_of(beginning(run.traces[g.prompt], g.budget), g.policy)
        assert tuple(r.emitted for r in rounds) == g.rounds
        assert all(r.drafted_low <= drafted <= r.drafted for r, drafted in zip(rounds, g.drafted, strict=True))


def test_the_same_seed_gives_the_same_alpha_and_rounds(run, spec):
    """Times differ, and so may the gamma that is confirmed; what both runs did is equal."""
    again = measured(spec)
    assert alpha(again) == alpha(run)
    assert [t.accept.tolist() for t in again.traces] == [t.accept.tolist() for t in run.traces]
    first, second = ({(g.purpose, g.prompt, g.policy): g.rounds for g in one.generations} for one in (run, again))
    both = first.keys() & second.keys()
    assert len(both) >= PROMPTS * (1 + 5 + 1)
    assert all(first[key] == second[key] for key in both)
    assert [g.prompt for g in again.generations if g.purpose == "calibration"] == [g.prompt for g in run.generations if g.purpose == "calibration"]
    assert all(g.reused for g in again.generations if g.purpose == "answer")


def test_the_confirmation_counts_both_turns_from_the_start(run, sink):
    found = [(done, total) for stage, done, total in sink.stages if stage == "confirming"]
    assert found == [(done, 2 * PROMPTS) for done in range(2 * PROMPTS + 1)]
    blocks = {}
    for g in sink.of("confirmation"):
        blocks.setdefault(g.block, []).append(g.prompt)
    assert sorted(prompt for block in blocks.values() for prompt in set(block)) == sorted([*range(PROMPTS)] * 2)


def test_a_call_beside_a_neighbour_that_takes_the_core_is_noted(spec, monkeypatch):
    """Each call of the calibration waits; the seed decides what is confirmed first."""
    real = calling.run_policy

    def waiting(*given):
        time.sleep(0.2)
        return real(*given)

    monkeypatch.setattr(calling, "run_policy", waiting)
    monkeypatch.setattr("core.worker.confirm.MOST_TURNS", 1)
    kept = Kept()
    measure(spec.model_copy(update={"prompts": spec.prompts[:1], "max_new_tokens": 1}), kept, Settings(threads=1))
    assert all(g.cpu_share < 0.95 for g in kept.of("calibration") if g.policy != Plain())
    assert kept.disturbances == 1
    assert [g.policy for g in kept.of("confirmation")][:2] == [TransformersDefault(), Plain()]
