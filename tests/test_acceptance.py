"""Alpha from greedy and from sampled traces, and for engines that always draft their first choice."""

import dataclasses

import numpy as np
import pytest

from core.acceptance import alpha, alpha_greedy_draft, mean_accept
from core.decoding import Decoding
from core.errors import NotMeasured
from core.runs import Run
from core.trace import PromptTrace, Sampled
from tests import synthetic
from tests.test_replay_sampling import sampled_of


def sampled_run(prompts: int = 9, tokens: int = 40) -> Run:
    """Chances of five tokens, p and q, drawn at random, and answers drawn from p: both estimates have the same mean."""
    run, random = synthetic.run(prompts=prompts, tokens=tokens), np.random.default_rng(3)
    spec = run.spec.model_copy(update={"decoding": Decoding(sample=True)})
    return run.model_copy(update={"spec": spec, "traces": tuple(drawn(trace, random) for trace in run.traces)})


def drawn(trace: PromptTrace, random: np.random.Generator) -> PromptTrace:
    tokens = len(trace.answer)
    p, q = random.dirichlet(np.ones(5), (2, tokens))
    y = np.array([random.choice(5, p=row) for row in p])
    at = np.arange(tokens), y
    found = Sampled(p[at].astype(np.float32), np.minimum(p, q).sum(1).astype(np.float32), {}, q.argmax(1) == y)
    return dataclasses.replace(trace, accept=np.minimum(1, q[at] / p[at]).astype(np.float32), sampled=found)


def test_greedy_alpha_is_the_share_of_first_choices():
    run = synthetic.run(alpha=0.7)
    found = alpha(run)
    assert (found.origin, found.value) == ("first choice", found.on_text)
    assert found.value == pytest.approx(np.mean([trace.accept for trace in run.traces]))
    assert alpha_greedy_draft(run) == found


def test_sampled_alpha_is_the_mean_overlap_and_keeps_the_other_beside_it():
    run = sampled_run()
    found = alpha(run)
    overlap = np.concatenate([sampled_of(trace).overlap for trace in run.traces])
    on_text = np.concatenate([trace.accept for trace in run.traces])
    assert found.origin == "overlap"
    assert found.value == pytest.approx(overlap.mean()) == mean_accept(run.traces)
    assert found.on_text == pytest.approx(on_text.mean())
    assert abs(found.value - found.on_text) < 4.5 * on_text.std() / np.sqrt(len(on_text))
    assert found.for_traffic is not None
    assert found.for_traffic.low < found.value < found.for_traffic.high
    assert (found.prompts, found.tokens) == (9, 360)


def test_an_engine_that_drafts_its_first_choice_has_an_alpha_of_its_own():
    run = sampled_run()
    found = alpha_greedy_draft(run)
    assert found.origin == "first choice"
    assert found.value == found.on_text == pytest.approx(np.mean([sampled_of(trace).greedy_hit for trace in run.traces]))
    assert found.value < alpha(run).value


def test_sampled_answers_recorded_without_more_give_what_they_can():
    run = sampled_run()
    bare = run.model_copy(update={"traces": tuple(dataclasses.replace(trace, sampled=None) for trace in run.traces)})
    assert alpha(bare).origin == "text"
    assert alpha(bare).value == alpha(run).on_text
    with pytest.raises(NotMeasured, match="first choices"):
        alpha_greedy_draft(bare)
    for of in (alpha, alpha_greedy_draft):
        with pytest.raises(NotMeasured, match="has read no answer"):
            of(run.model_copy(update={"traces": ()}))
