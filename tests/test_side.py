"""What follows from the streamed rounds of a side-by-side run: figures, writers, equality, the prediction, and what may be asked for."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import side, side_ask
from core.errors import InvalidInput, NotMeasured
from core.policies import FixedGamma, Plain, PromptLookup
from core.record import Step
from core.runs import Lane, Message, ModelRef, Prompt
from core.side_prediction import predict
from core.vocab import Vocabulary, compare
from tests import side_runs, synthetic
from tests.side_runs import TEXT
from tests.synthetic import DRAFT_PREFILL_S, OVERHEAD, PER_DRAFT, PLAIN_S, TWO_WIDE, VERIFY_SLOPE

C = 0.10


def decode_s(rounds: list[tuple[int, int]]) -> float:
    """By the formula of `tests.synthetic`: the first round's target pass and first draft pass are the prefills."""
    whole = sum((1 + VERIFY_SLOPE * k + OVERHEAD + (TWO_WIDE if k else 0) + k * (C + PER_DRAFT)) * PLAIN_S for _, k in rounds)
    first = rounds[0][1]
    return whole - PLAIN_S * (1 + VERIFY_SLOPE * first + (C + TWO_WIDE if first else 0))


def test_speedup_is_decoding_alone_and_end_to_end_is_the_whole_call():
    run = side_runs.run(c=C)
    plain, own = run.generations[1], run.generations[0]
    assert (plain.lane, own.lane) == (0, 1)
    rounds = [(len(step.tokens), step.drafted) for step in side.steps_of(run.steps, 1)]
    assert side.speedup(run, 1) == pytest.approx((len(TEXT) - 1) * PLAIN_S / decode_s(rounds), rel=0.01)
    assert side.speedup(run, 0) == 1
    assert side.end_to_end(run, 1) == pytest.approx(plain.total_s / own.total_s)
    assert side.draft_prefill_s(side.steps_of(run.steps, 1)) == pytest.approx(DRAFT_PREFILL_S, rel=0.1)


def test_a_disturbed_first_token_of_plain_makes_no_other_column_faster():
    run = side_runs.run(c=C)
    late = tuple(g.model_copy(update={"first_token_s": 0.5, "total_s": g.total_s + 0.47}) if g.lane == 0 else g for g in run.generations)
    own = run.generations[0]
    per_token = side.decode_s_per_token(run.model_copy(update={"generations": late}), 1)
    assert per_token == pytest.approx((own.total_s - own.first_token_s) / (own.tokens - 1))


def test_figures_of_a_column_are_sums_over_its_steps():
    run = side_runs.run(c=C)
    steps = side.steps_of(run.steps, 1)
    found = side.lane_figures(run, 1)
    accepted, rejections = sum(step.accepted for step in steps), sum(step.drafted > step.accepted for step in steps)
    assert (found.tokens, found.rounds, found.accepted, found.ended_wrong) == (len(TEXT), len(steps), accepted, rejections)
    assert found.tokens == found.accepted + found.rounds
    assert found.examined == accepted + rejections
    assert found.acceptance == pytest.approx(accepted / (accepted + rejections))
    assert found.utilisation == pytest.approx(accepted / sum(step.drafted for step in steps))
    assert found.tokens_per_s == pytest.approx(len(TEXT) / run.generations[0].total_s)
    assert found.shares
    assert sum(found.shares) == pytest.approx(1)
    assert found.done


def test_a_column_that_has_not_begun_has_no_figures_that_could_mislead():
    found = side.figures([])
    assert (found.tokens_per_s, found.tokens_per_round, found.acceptance, found.utilisation, found.shares, found.first_token_s) == (None,) * 6


def test_each_token_has_one_writer_and_the_text_is_exact():
    run = side_runs.run(lookup=True)
    for lane in range(3):
        found = side.written(side.steps_of(run.steps, lane), run.spec.lanes[lane].policy)
        assert "".join(token.text for token in found) == "".join(TEXT)
    assert {token.writer for token in side.written(side.steps_of(run.steps, 0), Plain())} == {"plain"}
    assert {token.writer for token in side.written(side.steps_of(run.steps, 2), PromptLookup(5))} == {"copied", "target", "bonus"}


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30),
)
def test_writers_add_up_to_the_rounds(rounds: list[tuple[int, int]]):
    steps = [
        Step(
            lane=1,
            at_s=float(number),
            tokens=tuple(range(accepted + 1)),
            pieces=("x",) * (accepted + 1),
            drafted=accepted + wrong,
            accepted=accepted,
            rejected=("no",) * wrong,
        )
        for number, (accepted, wrong) in enumerate(rounds, 1)
    ]
    found = [token.writer for token in side.written(steps, FixedGamma(8))]
    assert found.count("draft") == sum(accepted for accepted, _ in rounds)
    assert found.count("target") == sum(wrong > 0 for _, wrong in rounds)
    assert found.count("bonus") == sum(wrong == 0 for _, wrong in rounds)


def test_an_equal_answer_is_equal_and_a_parting_one_says_where():
    assert side.comparison(side_runs.run(), 1) == side.Comparison("equal")
    assert side.comparison(side_runs.run(differ_at=30, margin=0.5), 1) == side.Comparison("real difference", 30, 0.5)
    assert side.comparison(side_runs.run(differ_at=30, margin=1e-5), 1) == side.Comparison("near tie", 30, 1e-5)
    assert side.comparison(side_runs.run(differ_at=30), 1) == side.Comparison("unexplained", 30)


def test_chance_loss_and_an_early_end_are_never_called_equal():
    assert side.comparison(side_runs.run(sampled=True), 1).equality == "sampled"
    assert side.comparison(side_runs.run(steps=20, status="cancelled"), 1).equality == "unfinished"
    assert side.speedup(side_runs.run(steps=20, status="cancelled"), 1) is None
    run = side_runs.run(differ_at=30)
    lossy = run.spec.lanes[1].model_copy(update={"ensemble_weight": 0.3})
    weighted = run.model_copy(update={"spec": run.spec.model_copy(update={"lanes": (run.spec.lanes[0], lossy)})})
    assert side.comparison(weighted, 1) == side.Comparison("lossy", 30)
    drawn = weighted.spec.model_copy(update={"decoding": synthetic.SAMPLING})
    assert side.comparison(weighted.model_copy(update={"spec": drawn}), 1) == side.Comparison("lossy")


@pytest.mark.parametrize(("ours", "theirs", "at"), [([1, 2], [1, 2], None), ([1, 2], [1, 3], 1), ([1, 2], [1], 1), ([], [], None), ([], [5], 0)])
def test_a_shorter_text_differs_where_it_ends(ours: list[int], theirs: list[int], at: int | None):
    assert side.first_difference(ours, theirs) == at


def test_the_next_turn_reads_the_answer_without_the_token_that_ends_it():
    run = side_runs.run()
    assert side.answer_of(run) == "".join(TEXT), "no budget is recorded, so nothing is known to have ended it"
    for budget, kept in ((len(TEXT), TEXT), (len(TEXT) + 1, TEXT[:-1])):
        asked = tuple(call.model_copy(update={"budget": budget}) for call in run.generations)
        assert side.answer_of(run.model_copy(update={"generations": asked})) == "".join(kept)


def test_the_prediction_replays_this_prompt_with_the_reference_prices():
    found = predict(side_runs.run(c=C), synthetic.run(c=C, best=3), 1)
    assert found.same_rounds
    assert found.speedup == pytest.approx(found.measured, rel=0.03)
    assert "the rounds are the same, 37;" in found.sentence
    assert found.relative == pytest.approx(found.measured_round_cost / found.round_cost - 1)


def test_a_gap_in_time_is_told_from_a_gap_in_rounds():
    dear = predict(side_runs.run(c=0.4), synthetic.run(c=C, best=3), 1)
    assert dear.same_rounds
    assert dear.relative > 0.3
    assert "the rounds are the same" in dear.sentence
    run = side_runs.run(c=C)
    trace = run.traces[0]
    other = run.model_copy(update={"traces": (dataclasses.replace(trace, accept=trace.accept * 0, tails=None),)})
    luck = predict(other, synthetic.run(c=C, best=3), 1)
    assert not luck.same_rounds
    assert f"37 rounds were run and {len(TEXT)} expected" in luck.sentence


def test_other_models_or_a_missing_reading_are_not_predicted():
    run = side_runs.run(lookup=True)
    with pytest.raises(NotMeasured, match="other models"):
        predict(run, synthetic.run(draft="another"), 1)
    with pytest.raises(NotMeasured, match="nothing to predict"):
        predict(run, synthetic.run(), 0)
    with pytest.raises(NotMeasured, match="did not read it"):
        predict(run.model_copy(update={"traces": ()}), synthetic.run(), 1)
    with pytest.raises(InvalidInput, match="not recorded"):
        predict(run, synthetic.run(), 2)


def test_what_may_be_asked_for():
    assert side_ask.problem(" \n") == "The prompt is empty. Write something for the models to answer."
    assert "100,000 characters; at most 50,000" in side_ask.problem("x" * 100_000)
    assert side_ask.problem("$x$ <b>") == ""


def test_a_conversation_goes_on_with_its_answer():
    before = side_ask.continued(Prompt(text="hello"), "hi")
    assert before == (Message(role="user", content="hello"), Message(role="assistant", content="hi"))
    turn = side_ask.prompt_of("more", before, chat_template=True)
    assert (turn.text, len(turn.messages), turn.messages[-1].content) == ("more", 3, "more")
    assert side_ask.prompt_of("more", before, chat_template=False) == Prompt(text="more")
    assert len(side_ask.continued(turn, "yes")) == 4


def test_the_order_is_drawn_and_has_every_column_once():
    spec = synthetic.spec((Prompt(text="x"),)).model_copy(update={"stop": ("###",), "group": "abc"})
    made = [side_ask.side_by_side(spec, [Lane(policy=FixedGamma(3)), Lane(policy=PromptLookup(5))], "ref") for _ in range(64)]
    assert all(sorted(one.order) == [0, 1, 2] for one in made)
    assert {one.order[0] for one in made} == {0, 1, 2}  # fails by chance once in 10^11
    assert (made[0].extent, made[0].lanes[0].policy, made[0].reference, made[0].stop, made[0].group) == ("side_by_side", Plain(), "ref", (), "")


def test_what_vocabularies_allow_follows_the_library():
    names = {"a": 0, "b": 1, "c": 2}
    assert side_ask.fit(compare(Vocabulary(names, 3), Vocabulary(names, 3))).kind == "native"
    assert side_ask.fit(compare(Vocabulary(names, 3), Vocabulary({"c": 0, "b": 1, "a": 2}, 3))).kind == "refused"
    verdict = compare(Vocabulary(names, 3), Vocabulary({"c": 0, "a": 1}, 2))
    assert side_ask.fit(verdict, sample=True).kind == "refused"
    assert "ignore the ensemble weight" in side_ask.fit(verdict, weighted=True).sentence
    other = side_ask.fit(verdict)
    assert other.kind == "translated"
    assert "re-encoded through text" in other.sentence


def test_another_draft_in_a_column_is_not_predicted_by_the_pair():
    run = side_runs.run()
    other = run.spec.lanes[1].model_copy(update={"draft": ModelRef(source="folder", name="other", path="/models/other")})
    changed = run.model_copy(update={"spec": run.spec.model_copy(update={"lanes": (run.spec.lanes[0], other)})})
    with pytest.raises(NotMeasured, match="other models"):
        predict(changed, synthetic.run(), 1)
