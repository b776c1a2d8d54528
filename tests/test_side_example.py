"""The bundled side-by-side run is what the record, the replay of its trace and the example measurement say it must be."""

import pytest

from core import demo, side
from core.player import player
from core.policies import FixedGamma, Plain, PromptLookup
from core.replay import rounds_of
from core.side_prediction import predict

RUN = demo.side_example()


def test_all_columns_wrote_the_same_answer_to_a_bundled_prompt():
    assert RUN.spec.prompts[0] in demo.prompts()
    assert sorted(RUN.spec.order) == [0, 1, 2]
    answer = RUN.traces[0].pieces
    assert len(answer) == RUN.spec.max_new_tokens
    for lane, policy in enumerate((Plain(), FixedGamma(4), PromptLookup(10))):
        steps, call = side.steps_of(RUN.steps, lane), side.call_of(RUN, lane)
        assert RUN.spec.lanes[lane].policy == policy
        assert "".join(piece for step in steps for piece in step.pieces) == "".join(answer)
        assert call
        assert call.tokens == len(answer)
        assert steps[0].at_s == pytest.approx(call.first_token_s, abs=1e-3)
        assert steps[-1].at_s <= call.total_s
        assert side.comparison(RUN, lane).equality == "equal"


def test_its_rounds_are_those_that_the_trace_gives():
    rounds = rounds_of(RUN.traces[0], FixedGamma(4))
    assert [(step.drafted, step.accepted) for step in side.steps_of(RUN.steps, 1)] == [(each.drafted, each.accepted) for each in rounds]
    assert all(len(step.rejected) == step.drafted - step.accepted for step in RUN.steps)


def test_the_example_measurement_predicts_it():
    found = predict(RUN, demo.example_run(), 1)
    assert found.same_rounds
    assert abs(found.relative) < 0.10


def test_it_was_measured_undisturbed_and_names_no_machine():
    assert not RUN.disturbed
    assert RUN.environment
    assert RUN.environment.host == "example"
    assert RUN.environment.device_name
    file = demo.FOLDER / "example" / "side.json"
    assert '"path":""' in file.read_text(encoding="utf-8")
    assert file.stat().st_size < 40_000


def test_it_plays():
    text = player(RUN)
    assert "Demo target with Demo draft, side by side" in text
    assert len(text) < 60_000
