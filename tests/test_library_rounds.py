"""Rounds replayed from recorded traces equal those of the unmodified library, round by round.

Here the whole chain is tested: the pair as the worker loads it, the answer from the real
`generate`, the trace as the worker records it, and `core.replay`.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from transformers.generation.candidate_generator import AssistedCandidateGenerator

from core.policies import Confidence, Drafting, FixedGamma, Heuristic, Plain, PromptLookup
from core.replay import carried_limit, rounds_of
from core.trace import PromptTrace
from core.worker.generate import Timed, draft_settings, run_policy, timed_generate
from core.worker.models import Pair, greedy_config
from core.worker.tracing import trace
from tests.models import TEXTS, make_forgetful, spec_of, write_pair
from tests.pairs import load_pair

BUDGET = 48
DRAFTING = [
    *(FixedGamma(gamma) for gamma in (1, 2, 3, 5, 8, 12, 20)),
    *(Heuristic(start, persistent) for start in (5, 20) for persistent in (True, False)),
    *(Heuristic(start, persistent, 0.4) for start in (5, 20) for persistent in (True, False)),
    *(Confidence(threshold, 20) for threshold in (0.2, 0.4, 0.6)),
]


@dataclasses.dataclass(frozen=True)
class Recorded:
    """A pair, its end of text, and three prompts (1, P) with their traces."""

    pair: Pair
    prompts: list[torch.Tensor]
    traces: list[PromptTrace]


@pytest.fixture(scope="module", params=["none", "length", "eos"])
def recorded(request, tmp_path_factory) -> Recorded:
    """The same texts without an end of text, with one that never comes, and with one that the target writes in mid-answer."""
    torch.set_num_threads(1)
    pair = load_pair(spec_of(write_pair(tmp_path_factory.mktemp("pair"))))
    prompts = [pair.tokenizer(text, return_tensors="pt")["input_ids"] for text in TEXTS[:3]]
    pair = with_eos(pair)
    if request.param == "length":
        pair = with_eos(pair, unused_token(pair, prompts))
    if request.param == "eos":
        pair = with_eos(pair, late_token(pair, prompts[0]), late_token(pair, prompts[1]))
    answers = [run_policy(pair, prompt, Plain(), BUDGET).tokens for prompt in prompts]
    return Recorded(pair, prompts, [trace(pair, prompt, answer, BUDGET) for prompt, answer in zip(prompts, answers, strict=True)])


def with_eos(pair: Pair, *eos_ids: int) -> Pair:
    for model in (pair.target, pair.draft):
        model.generation_config = greedy_config(eos_ids)
    return dataclasses.replace(pair, eos_ids=eos_ids)


def unused_token(pair: Pair, prompts: list[torch.Tensor]) -> int:
    written = {token for prompt in prompts for token in run_policy(pair, prompt, Plain(), BUDGET).tokens.tolist()}
    return next(token for token in range(pair.target.config.vocab_size) if token not in written)


def late_token(pair: Pair, prompt: torch.Tensor) -> int:
    answer = run_policy(pair, prompt, Plain(), BUDGET).tokens.tolist()
    return next(token for position, token in enumerate(answer) if position >= 20 and token not in answer[:position])


@contextmanager
def drafted_by_round() -> Iterator[list[int]]:
    """How many tokens the draft proposes in each round, seen from outside by wrapping the library's own method."""
    counts: list[int] = []
    original = AssistedCandidateGenerator.get_candidates

    def counting(self, input_ids, **kwargs):
        candidates, logits = original(self, input_ids, **kwargs)
        counts.append(candidates.shape[1] - input_ids.shape[1])
        return candidates, logits

    AssistedCandidateGenerator.get_candidates = counting
    try:
        yield counts
    finally:
        AssistedCandidateGenerator.get_candidates = original


def assert_same(rounds, timed: Timed, recorded_trace: PromptTrace) -> None:
    assert timed.tokens.tolist() == recorded_trace.answer.tolist()
    assert [round_.emitted for round_ in rounds] == list(timed.rounds)


def assert_drafting(recorded: Recorded, policy: Drafting, budget: int) -> None:
    """Calls in a row: tokens and drafts of every round, and the draft length that is carried on."""
    carried = None
    pair = recorded.pair
    with draft_settings(pair.draft, policy):
        for prompt, recorded_trace in zip(recorded.prompts, recorded.traces, strict=True):
            with drafted_by_round() as drafted:
                timed = timed_generate(pair, prompt, budget, assistant_model=pair.draft)
            rounds = rounds_of(recorded_trace, policy, start=carried)
            assert_same(rounds, timed, recorded_trace)
            assert [round_.drafted for round_ in rounds] == drafted
            carried = carried_limit(recorded_trace, policy, start=carried)
            assert pair.draft.generation_config.num_assistant_tokens == carried


def test_the_texts_are_worth_replaying(recorded, request):
    """Answers end as they should, and the draft is neither always right nor always wrong."""
    assert {t.ended for t in recorded.traces[:2]} == ({"eos"} if request.node.callspec.params["recorded"] == "eos" else {"length"})
    alpha = sum(t.accept.sum() for t in recorded.traces) / sum(len(t.answer) for t in recorded.traces)
    assert 0.3 < alpha < 0.9


@pytest.mark.parametrize("policy", DRAFTING, ids=str)
def test_drafting(recorded, policy: Drafting):
    assert_drafting(recorded, policy, BUDGET)


LOOKUPS = [PromptLookup(tokens, ngram) for tokens in (2, 5, 10) for ngram in (1, 2, 3)]


@pytest.mark.parametrize("policy", LOOKUPS, ids=str)
def test_prompt_lookup(recorded, policy: PromptLookup):
    for prompt, recorded_trace in zip(recorded.prompts, recorded.traces, strict=True):
        timed = run_policy(recorded.pair, prompt, policy, BUDGET)
        assert_same(rounds_of(recorded_trace, policy), timed, recorded_trace)


@pytest.mark.parametrize("policy", LOOKUPS, ids=str)
def test_prompt_lookup_in_answers_that_repeat_themselves(recorded, policy: PromptLookup, monkeypatch):
    make_forgetful(recorded.pair.target, monkeypatch)
    prompt = recorded.prompts[2]
    plain = run_policy(recorded.pair, prompt, Plain(), 80)
    timed = run_policy(recorded.pair, prompt, policy, 80)
    recorded_trace = trace(recorded.pair, prompt, plain.tokens, 80)
    assert_same(rounds_of(recorded_trace, policy), timed, recorded_trace)
    assert max(timed.rounds) == policy.tokens + 1 or recorded_trace.ended == "eos"
