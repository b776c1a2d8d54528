"""The replay's rules on hand-made texts, its identities, and Algorithm 1 simulated without it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import theory
from core.errors import InvalidInput
from core.expected import Chances, average, expected_constant
from core.policies import Confidence, FixedGamma, Heuristic, Oracle, Plain, PromptLookup, TransformersDefault
from core.replay import carried_limit, replay, replay_all, replay_prompt, rounds_of
from core.trace import Ended, Lookup, PromptTrace, Tails
from core.walk import walk_constant


def trace(accept, *, ended: Ended = "length", budget=None, confidence=None, draft_eos=None, tails=None, lookup=None):
    accept = np.asarray(accept, dtype=np.float32)
    n = len(accept)
    return PromptTrace(
        prompt_tokens=5,
        answer=np.arange(n, dtype=np.int32),
        pieces=("x",) * n,
        ended=ended,
        budget=n if budget is None else budget,
        accept=accept,
        confidence=np.ones(n, dtype=np.float32) if confidence is None else np.asarray(confidence, dtype=np.float32),
        draft_choice=np.zeros(n, dtype=np.int32),
        draft_eos=np.zeros(n, dtype=np.bool_) if draft_eos is None else np.asarray(draft_eos),
        tails=tails,
        lookup=lookup,
    )


def drafted(t, policy, **options):
    return [r.drafted for r in rounds_of(t, policy, **options)]


def emitted(t, policy, **options):
    return [r.emitted for r in rounds_of(t, policy, **options)]


outcomes = st.lists(st.integers(0, 1), min_size=1, max_size=60)
policies = st.one_of(
    st.builds(FixedGamma, st.integers(1, 25)),
    st.builds(Heuristic, st.integers(1, 20), st.booleans(), st.sampled_from([0.0, 0.5])),
    st.builds(Confidence, st.floats(0.1, 0.9), st.integers(1, 20)),
)


def test_budget_limits_the_draft():
    assert drafted(trace([1, 1, 1, 1, 1]), FixedGamma(3)) == [3, 0]
    assert emitted(trace([1, 1, 1, 1, 1]), FixedGamma(3)) == [4, 1]
    assert drafted(trace([1, 1, 1]), FixedGamma(20)) == [2]


def test_before_an_end_of_text_the_draft_runs_on():
    assert drafted(trace([1, 1, 0], ended="eos", budget=50), FixedGamma(8)) == [8]
    assert drafted(trace([1, 1, 0], ended="eos", budget=6), FixedGamma(8)) == [5]


def test_an_accepted_end_of_text_is_cropped():
    only = rounds_of(trace([1, 1, 1], ended="eos", budget=50, draft_eos=[False, False, True]), FixedGamma(8))
    assert [(r.drafted, r.accepted, r.emitted, r.rejected) for r in only] == [(3, 2, 3, False)]


def test_the_draft_s_own_end_of_text_stops_it():
    assert drafted(trace([1, 0, 1, 1, 1, 1], draft_eos=[False, True, False, False, False, False]), FixedGamma(4)) == [2, 3]


def test_heuristic_moves_and_counts_zero_of_zero_as_all():
    t = trace([1, 1, 1, 0, 1, 1, 1, 1])
    assert drafted(t, Heuristic(2)) == [2, 4, 3]
    assert emitted(t, Heuristic(2)) == [3, 1, 4]
    assert carried_limit(t, Heuristic(2)) == 5
    assert carried_limit(t, Heuristic(2, persistent=False)) == 2
    assert carried_limit(trace([0]), Heuristic(1)) == 3
    assert carried_limit(trace([0, 0, 1]), Heuristic(1)) == 3
    assert drafted(t, Heuristic(2), start=1) == [1, 3, 2, 0]
    assert drafted(t, Heuristic(2, persistent=False), start=1) == [2, 4, 3]


def test_heuristic_shrinks_after_a_cropped_end_of_text():
    t = trace([1, 1, 1], ended="eos", budget=50, draft_eos=[False, False, True])
    assert carried_limit(t, Heuristic(5)) == 4


def test_persistent_heuristic_carries_from_prompt_to_prompt():
    traces = [trace([0] * 6), trace([1] * 20)]
    row = replay_all(traces, [Heuristic(5)])[0]
    assert row[1].first_by_drafted.argmax() == carried_limit(traces[0], Heuristic(5))
    assert replay_all(traces, [Heuristic(5, persistent=False)])[0][1].first_by_drafted.argmax() == 5


def test_confidence_stops_after_the_unsure_token():
    t = trace([1, 1, 1, 1, 1, 1, 1, 1], confidence=[0.9, 0.3, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9])
    assert drafted(t, TransformersDefault()) == [2, 4]


def test_tails_tell_how_long_a_wrong_draft_runs_on():
    tails = Tails(np.array([1], np.int32), np.array([[0.9, 0.2, 0.9]], np.float32), np.array([-1], np.int16))
    t = trace([1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], tails=tails)
    assert rounds_of(t, TransformersDefault())[0].drafted == 4
    assert rounds_of(t, TransformersDefault())[0].drafted_low == 4
    assert rounds_of(t, FixedGamma(8))[0].drafted == 8
    ends = Tails(np.array([1], np.int32), np.array([[0.9, np.nan, np.nan]], np.float32), np.array([0], np.int16))
    assert rounds_of(trace([1, 0, *[1] * 10], tails=ends), FixedGamma(8))[0].drafted == 3


def test_without_tails_the_drafted_count_has_bounds():
    t = trace([1, 0, *[1] * 10])
    first = rounds_of(t, TransformersDefault())[0]
    assert (first.drafted_low, first.drafted) == (3, 11)
    total = replay_prompt(t, TransformersDefault())
    assert total.drafted_low < total.drafted


def test_prompt_lookup_is_not_capped_by_the_budget():
    lookup = {2: Lookup(np.array([0, 10, 3, 0, 10, 10], np.int16), np.array([0, 2, 0, 0, 2, 1], np.int16))}
    rounds = rounds_of(trace([0] * 6, lookup=lookup), PromptLookup(10))
    assert [(r.drafted, r.accepted, r.emitted) for r in rounds] == [(0, 0, 1), (10, 2, 3), (10, 1, 2)]
    assert [r.drafted for r in rounds_of(trace([0] * 6, lookup=lookup), PromptLookup(1))] == [0, 1, 0, 1]


@given(outcomes, policies)
def test_identities(accept, policy):
    rounds = rounds_of(trace(accept), policy)
    total = replay_prompt(trace(accept), policy)
    assert sum(r.emitted for r in rounds) == total.tokens == len(accept)
    assert total.tokens == total.accepted + total.rounds
    assert total.accepted <= total.drafted
    assert all(r.accepted <= r.drafted and r.emitted == r.accepted + 1 for r in rounds)
    assert total.rounds_by_drafted.sum() == total.rounds
    assert total.rounds_by_drafted @ np.arange(len(total.rounds_by_drafted)) == total.drafted
    assert total.first_by_drafted.sum() == 1
    assert total.passed.sum() == total.accepted
    assert (np.diff(total.passed) <= 0).all()
    assert ((total.survival >= 0) & (total.survival <= 1)).all()


@given(outcomes, st.integers(1, 8))
def test_survival_never_rises_where_all_rounds_draft_the_same(accept, gamma):
    """The end of the answer cuts the last rounds short; before an end of text the draft runs on."""
    t = trace([*accept, 0], ended="eos", budget=500)
    survival = replay_prompt(t, FixedGamma(gamma)).survival
    assert (np.diff(survival) <= 0).all()


@given(outcomes, policies)
def test_constant_limit_agrees_with_the_moving_limit_that_stands_still(accept, policy):
    """The vectorised walk and the plain loop are the same machine."""
    if policy.schedule != "constant":
        policy = FixedGamma(policy.limit)
    slow, at = [], 0
    while at < len(accept):
        room = min(policy.limit, len(accept) - 1 - at)
        right = 0
        while right < room and accept[at + right]:
            right += 1
        slow.append((at, room, right))
        at += right + 1
    assert [(r.start, r.drafted, r.accepted) for r in rounds_of(trace(accept), FixedGamma(policy.limit))] == slow


@given(st.integers(1, 200), st.integers(1, 20))
def test_closed_form_for_constant_traces(length, gamma):
    assert replay([1] * length, FixedGamma(gamma)).rounds == -(-length // (gamma + 1))
    assert replay([0] * length, FixedGamma(gamma)).rounds == length
    assert replay([1] * length, Plain()).rounds == length


@given(outcomes, st.integers(1, 20))
def test_expectation_of_a_certain_text_is_its_walk(accept, gamma):
    certain = np.asarray(accept, dtype=np.float64)
    stops = np.zeros(len(accept), dtype=np.bool_)
    expected = expected_constant(Chances(certain, stops, np.zeros(len(accept)), len(accept), unsure=False), gamma)
    walked = replay(accept, FixedGamma(gamma))
    for name in ("rounds", "drafted", "accepted", "rejected", "drafted_low"):
        assert getattr(expected, name) == pytest.approx(getattr(walked, name))
    width = len(walked.rounds_by_drafted)
    assert expected.rounds_by_drafted[:width] == pytest.approx(walked.rounds_by_drafted)
    assert expected.passed[: width - 1] == pytest.approx(walked.passed)


@given(st.lists(st.floats(0.05, 0.95), min_size=1, max_size=12), st.integers(1, 6))
def test_expected_rounds_follow_the_recursion(accept, gamma):
    """R(i) as it is written down, by plain recursion."""
    n = len(accept)

    def rest(i):
        if i >= n:
            return 0.0
        k = min(gamma, n - i - 1)
        total, alive = 1.0, 1.0
        for j in range(k):
            total += alive * (1 - accept[i + j]) * rest(i + j + 1)
            alive *= accept[i + j]
        return total + alive * rest(i + k + 1)

    assert replay(accept, FixedGamma(gamma)).rounds == pytest.approx(rest(0))


@pytest.mark.parametrize("alpha", [0.3, 0.7, 0.9])
@pytest.mark.parametrize("gamma", [1, 4, 12])
def test_equal_chances_tend_to_the_theorem(alpha, gamma):
    n = 4000
    assert replay([alpha] * n, FixedGamma(gamma)).tokens_per_round == pytest.approx(theory.tokens_per_round(alpha, gamma), rel=0.005)


def test_exact_expectation_agrees_with_drawn_outcomes():
    random = np.random.default_rng(1)
    accept, confidence = random.uniform(0.2, 0.95, 80), random.uniform(0.1, 1, 80)
    policy = Confidence(0.4, 9)
    stop = random.uniform(0, 1, 80)
    exact = replay(accept, policy, confidence=confidence, stop_rejected=stop, ended="eos", budget=200)
    stops = confidence < 0.4
    stops[-1] = True
    drawn = average(Chances(accept, stops, stop, 200), lambda path: walk_constant(path, 9), 3000, 5)
    assert abs(drawn.rounds - exact.rounds) < 4.5 * drawn.rounds_error
    assert drawn.drafted == pytest.approx(exact.drafted, rel=0.02)
    assert drawn.rejected == pytest.approx(exact.rejected, rel=0.03)
    assert drawn.drafted_low <= drawn.drafted
    assert exact.drafted_low < exact.drafted


def algorithm_1(p, q, gamma, length, random):
    """Speculative sampling of `length` tokens from one fixed p and q: emitted tokens, drafted tokens, rounds."""
    text, rounds, drafted, accepted = [], 0, 0, 0
    while len(text) < length:
        k = min(gamma, length - len(text) - 1)
        rounds, drafted = rounds + 1, drafted + k
        for token in random.choice(len(q), size=k, p=q):
            if random.random() > p[token] / q[token]:
                rest = np.maximum(p - q, 0)
                text.append(random.choice(len(p), p=rest / rest.sum()))
                break
            text.append(token)
            accepted += 1
        else:
            text.append(random.choice(len(p), p=p))
    return np.array(text), rounds, drafted, accepted


@pytest.mark.parametrize("gamma", [1, 3, 8])
def test_algorithm_1_paired_with_the_replay_of_its_own_text(gamma):
    random = np.random.default_rng(gamma)
    p, q = random.dirichlet(np.ones(12)), random.dirichlet(np.ones(12))
    differences = []
    for _ in range(400):
        text, rounds, drafted, _ = algorithm_1(p, q, gamma, 40, random)
        expected = replay(np.minimum(1, q[text] / p[text]), FixedGamma(gamma))
        differences.append((rounds - expected.rounds, drafted - expected.drafted))
    mean, error = np.mean(differences, axis=0), np.std(differences, axis=0, ddof=1) / 20
    assert (np.abs(mean) < 4.5 * error).all()
    assert (error > 0).all()


def test_moving_limit_under_sampling_has_an_error():
    accept = np.full(100, 0.7)
    result = replay(accept, Heuristic(5), seed=3)
    again = replay(accept, Heuristic(5), seed=3)
    assert 0 < result.rounds_error < 0.03 * result.rounds
    assert result.rounds == again.rounds
    assert result.tokens == pytest.approx(result.accepted + result.rounds)


@settings(deadline=None)
@given(outcomes, policies, st.floats(0, 1), st.floats(0, 1))
def test_the_oracle_is_never_slower(accept, policy, draft_cost, overhead):
    cost = 1 + np.arange(27) * draft_cost + overhead
    best = replay(accept, Oracle(limit=26), round_cost=cost).rounds_by_drafted
    other = replay_prompt(trace(accept), policy).rounds_by_drafted
    many = 1 + np.arange(len(other)) * draft_cost + overhead
    assert best @ cost[: len(best)] <= other @ many + 1e-9


def test_alpha_and_utilisation():
    total = replay([1, 0, 1, 0, 1, 0], FixedGamma(2))
    assert (total.accepted, total.rejected, total.drafted) == (3, 2, 5)
    assert total.alpha_examined == 0.6
    assert total.utilisation == 0.6
    assert replay([1, 1], Plain()).utilisation is None


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: replay([], FixedGamma(2)), "at least one"),
        (lambda: replay([0.5, float("nan")], FixedGamma(2)), "nan at answer token 2"),
        (lambda: replay([1.5], FixedGamma(2)), "1.5"),
        (lambda: replay([1, 1], FixedGamma(2), budget=1), "budget of 1"),
        (lambda: replay([1, 1], FixedGamma(2), budget=9), "budget of 9"),
        (lambda: replay([1, 1], Confidence()), "no confidence"),
        (lambda: replay([1, 1], Confidence(), confidence=[0.5, float("nan")]), "confidence is nan"),
        (lambda: replay([1, 1], Confidence(), confidence=[0.5]), "1 values"),
        (lambda: replay([1, 1], PromptLookup(3)), "not recorded"),
        (lambda: rounds_of(trace([0.5, 1]), FixedGamma(2)), "sampled"),
    ],
)
def test_impossible_input(call, says):
    with pytest.raises(InvalidInput, match=says):
        call()


def test_one_token_and_traces_shorter_than_gamma():
    for policy in (FixedGamma(20), Heuristic(20), Oracle(), Plain()):
        assert replay([1], policy).rounds == 1
        assert replay([1], policy).drafted == 0
    assert replay([0.5], FixedGamma(3)).rounds == 1


@st.composite
def texts(draw: st.DrawFn) -> PromptTrace:
    """A greedy answer, and what stops a draft in it: unsure tokens, ends of text, recorded tails."""
    accept = draw(outcomes)
    n = len(accept)
    sure, ends = st.sampled_from([0.1, 0.3, 0.5, 0.9]), st.booleans()
    confidence, draft_eos = (draw(st.lists(each, min_size=n, max_size=n)) for each in (sure, ends))
    ends_text, spare = draw(st.booleans()), draw(st.sampled_from([0, 5]))
    wrong = [at for at, right in enumerate(accept) if not right][: draw(st.integers(0, 3))]
    tails = None
    if wrong:
        rows = [draw(st.lists(sure, min_size=4, max_size=4)) for _ in wrong]
        tails = Tails(np.array(wrong, dtype=np.int32), np.array(rows, dtype=np.float32), np.full(len(wrong), -1, dtype=np.int16))
    ended: Ended = "eos" if ends_text else "length"
    return trace(accept, ended=ended, budget=n + spare if ends_text else n, confidence=confidence, draft_eos=draft_eos, tails=tails)


@given(st.lists(texts(), min_size=1, max_size=5), st.integers(1, 25), st.sampled_from([0.0, 0.4]))
def test_texts_that_are_walked_as_one_come_to_what_each_comes_to_alone(several: list[PromptTrace], limit: int, threshold: float):
    policy = Confidence(threshold, limit)
    [together] = replay_all(several, [policy])
    for one, rounds in zip(several, together, strict=True):
        alone = replay(one.accept, policy, budget=one.budget, ended=one.ended, confidence=one.confidence, draft_eos=one.draft_eos, tails=one.tails)
        for name, value in vars(alone).items():
            np.testing.assert_array_equal(getattr(rounds, name), value, name)
