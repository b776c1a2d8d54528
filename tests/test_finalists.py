"""Which settings are really run, in which order of prompts, and when it is enough."""

import pytest

from core import predict
from core.finalists import NEAR, finalists, tight
from core.policies import Drafting, FixedGamma, Plain, PromptLookup, TransformersDefault
from core.worker.calls import Calls
from core.worker.confirm import confirm, plain_seconds
from core.worker.recorder import Recorder
from tests import priced, synthetic


def test_the_recommended_setting_comes_first_and_then_the_best_of_the_other_kind():
    run = priced.run()
    chosen, share = finalists(run)
    assert [isinstance(policy, Drafting) for policy in chosen[:2]] == [True, True]
    assert {isinstance(policy, Drafting) and policy.threshold > 0 for policy in chosen[:2]} == {True, False}
    table = predict.predict(run, [*predict.sweep(), *chosen])
    speedups = dict(zip(table["policy"], table["speedup"], strict=True))
    assert speedups[chosen[0]] >= max(speedups[policy] for policy in predict.sweep()) / 1.03
    assert share == pytest.approx(sum(1 / speedups[policy] for policy in chosen))


def test_the_best_fixed_length_and_the_library_s_default_are_always_run():
    for run in (priced.run(), synthetic.run(), synthetic.run(alpha=0.95)):
        chosen = finalists(run)[0]
        assert TransformersDefault() in chosen
        assert sum(isinstance(policy, Drafting) and policy.threshold == 0 and policy.schedule == "constant" for policy in chosen) == 1
        assert len(set(chosen)) == len(chosen)


def test_what_was_confirmed_before_does_not_sway_the_choice():
    assert finalists(priced.run(confirmed=(FixedGamma(20),), noise=0.0))[0] == finalists(priced.run())[0]


def test_prompt_lookup_is_run_where_it_is_predicted_near_the_best():
    run = priced.run()
    lookups = [policy for policy in predict.default_policies(run) if isinstance(policy, PromptLookup)]
    table = predict.predict(run, [*lookups, *finalists(run)[0][:2]])
    speedups = dict(zip(table["policy"], table["speedup"], strict=True))
    nearest = max(lookups, key=lambda policy: speedups[policy])
    near = speedups[nearest] >= NEAR * max(speedups[policy] for policy in finalists(run)[0][:1])
    assert (nearest in finalists(run)[0]) is near
    assert not any(isinstance(policy, PromptLookup) for policy in finalists(synthetic.run(alpha=0.95))[0])


def test_where_the_threshold_adapts_itself_only_the_default_has_one():
    run = synthetic.run()
    assert run.environment is not None
    adaptive = run.model_copy(update={"environment": run.environment.model_copy(update={"scikit_learn": True})})
    thresholds = [policy for policy in finalists(adaptive)[0] if isinstance(policy, Drafting) and policy.threshold > 0]
    assert thresholds in ([], [TransformersDefault()])


def test_answers_of_one_token_leave_the_default():
    run = priced.run([priced.trace(0.7, 1, seed) for seed in range(3)])
    assert finalists(run) == ([TransformersDefault()], 1.0)
    assert tight(run, [TransformersDefault()])


def test_enough_is_an_interval_of_three_percent_for_every_setting():
    policies = [FixedGamma(3), FixedGamma(5)]
    assert tight(priced.run(confirmed=policies, noise=0.005), policies)
    assert not tight(priced.run(confirmed=policies, noise=0.2), policies)
    assert not tight(priced.run(confirmed=policies[:1], noise=0.005), policies)


class Noted(Calls):
    """Notes what is run instead; each block takes ten seconds of `clock`."""

    def __init__(self):
        self.now_s, self.blocks = 0.0, []

    def block(self, purpose, index, policies, budget):
        self.now_s += 10
        self.blocks.append((purpose, index, policies, budget))

    def clock(self):
        return self.now_s


class Sink(Recorder):
    """A run that is as measured as `run`, and the stages it was told."""

    def __init__(self, run):
        self._run, self.stages = run, []

    def run(self):
        return self._run

    def stage(self, stage, done, total):
        self.stages.append((stage, done, total))


def confirmed(run, confirm_s):
    calls, sink = Noted(), Sink(run)
    confirm(calls, run.spec.model_copy(update={"confirm_s": confirm_s}), sink, [60] * len(run.spec.prompts), calls.clock)
    return calls.blocks, sink.stages


def test_every_prompt_is_run_once_then_more_until_the_intervals_are_tight():
    loose, _ = finalists(priced.run())
    noisy = priced.run(confirmed=loose, noise=0.3)
    blocks, stages = confirmed(noisy, 1e4)
    assert sorted(index for _, index, _, _ in blocks) == sorted([*range(10)] * 6)
    assert stages[-1] == ("confirming", 60, 60)
    firsts = {policies[0] for _, _, policies, _ in blocks}
    assert firsts == {Plain(), *finalists(noisy)[0]}
    assert all(policies.count(Plain()) == 1 and set(policies) == firsts for _, _, policies, _ in blocks)
    calm = priced.run(confirmed=loose, noise=0.001)
    blocks, stages = confirmed(calm, 1e4)
    assert sorted(index for _, index, _, _ in blocks) == list(range(10))
    assert stages[-1][1] == stages[-1][2]


def test_where_time_is_short_the_prompts_that_are_run_have_different_labels():
    run = synthetic.run(prompts=12)
    blocks, stages = confirmed(run, 25)
    assert len(blocks) == 3
    assert {run.spec.prompts[index].label for _, index, _, _ in blocks} == set(synthetic.LABELS)
    assert stages[-1][1] == stages[-1][2]
    assert confirmed(run, 0) == ([], [])


def test_the_steps_are_those_for_which_the_time_reaches():
    """Told when one is done, since how long one takes is not known before."""
    _, [(_, none, every), *further, (_, last, of)] = confirmed(synthetic.run(prompts=12), 45)
    assert (none, last) == (0, of)
    assert every == of > 5
    assert [(done, total) for _, done, total in further] == [(1, 5), (2, 5), (3, 5), (4, 5)]


def test_plain_seconds_come_from_calls_that_tell_speed():
    run = priced.run()
    expected = 10 * (priced.PREFILL_S + 59 * priced.STEP_S)
    assert plain_seconds(run, [60] * 10) == pytest.approx(expected)
    slow = tuple(g.model_copy(update={"batch": 4, "total_s": 99.0}) if g.purpose == "answer" else g for g in run.generations)
    assert plain_seconds(run.model_copy(update={"generations": slow}), [60] * 10) == pytest.approx(expected)
