"""Where a stop string cuts an answer, and the rounds of a cut answer beside those of the real call that wrote on."""

import dataclasses

import numpy as np
import pytest
import torch

from core.decoding import Decoding
from core.errors import InvalidInput
from core.expected import Chances, average
from core.policies import Confidence, Drafting, FixedGamma, Heuristic, Oracle, Plain, PromptLookup
from core.replay import replay, replay_prompt, rounds_of
from core.stop import tokens_until_stop
from core.trace import PromptTrace
from core.walk import walk_constant
from core.worker.generate import run_policy
from core.worker.models import Pair
from core.worker.tracing import trace
from tests.models import TEXTS, spec_of, write_pair
from tests.pairs import load_pair
from tests.test_replay_sampling import sampled_of
from tests.test_sampled_trace import kept_by

BUDGET, CUT = 40, 19
DRAFTING = [FixedGamma(3), FixedGamma(12), Confidence(0.4, 12), Confidence(0.2, 20), Heuristic(5, persistent=False)]


@pytest.mark.parametrize(
    ("pieces", "stop", "kept"),
    [
        (["a", "b\n", "\nc", "d"], ["\n\n"], 3),  # begins inside one token, ends inside the next
        (["a", "\n\n", "b"], ["\n\n"], 2),
        (["xx", "S", "T", "OP", "y"], ["STOP"], 4),
        (["a", "###b", "END"], ["END", "##"], 2),  # the first to be complete counts
        (["aaEN", "", "D"], ["END"], 3),
        (["STOP"], ["STOP"], 1),
        (["S", "TO", "x"], ["STOP"], None),
        (["a"], [], None),
        ([], ["a"], None),
    ],
)
def test_the_answer_ends_with_the_token_that_completes_the_first_stop_string(pieces, stop, kept):
    assert tokens_until_stop(pieces, stop) == kept


def test_an_empty_stop_string_is_refused():
    with pytest.raises(InvalidInput, match="empty"):
        tokens_until_stop(["a"], ["b", ""])


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> Pair:
    """Without an end of text, so that every answer is written to its budget."""
    torch.set_num_threads(1)
    loaded = load_pair(spec_of(write_pair(tmp_path_factory.mktemp("pair"))))
    for model in (loaded.target, loaded.draft):
        model.generation_config.eos_token_id = None
    return dataclasses.replace(loaded, eos_ids=())


@pytest.fixture(scope="module")
def recorded(pair) -> list[tuple[torch.Tensor, PromptTrace, PromptTrace]]:
    """Prompts with the trace of the whole answer, and of the answer cut at its 19th token or so."""
    rows = []
    for text in TEXTS[:3]:
        prompt = pair.tokenizer(text, return_tensors="pt")["input_ids"]
        answer = run_policy(pair, prompt, Plain(), BUDGET).tokens
        whole = trace(pair, prompt, answer, BUDGET)
        stop = "".join(whole.pieces[CUT - 4 : CUT])
        rows.append((prompt, whole, trace(pair, prompt, answer, BUDGET, stop=[stop])))
    return rows


def test_a_trace_is_cut_at_the_stop_string(recorded):
    for _, whole, cut in recorded:
        length = len(cut.answer)
        assert (cut.ended, cut.budget) == ("stop", BUDGET)
        assert CUT - 4 < length <= CUT  # last tokens without text of their own are not needed to complete the string
        assert cut.answer.tolist() == whole.answer[:length].tolist()
        assert "".join(cut.pieces) == "".join(whole.pieces[:length])
        np.testing.assert_allclose(cut.confidence, whole.confidence[:length], atol=1e-5)
        assert cut.accept.tolist() == whole.accept[:length].tolist()


def test_without_the_string_and_behind_the_end_of_text_nothing_is_cut(pair, recorded):
    prompt, whole, _ = recorded[0]
    assert trace(pair, prompt, whole.answer, BUDGET, stop=["no such string"]).ended == "length"
    ends = dataclasses.replace(pair, eos_ids=(int(whole.answer[CUT]),))
    shown = whole.pieces[CUT]
    answer = whole.answer[: CUT + 1]
    assert trace(ends, prompt, answer, BUDGET, stop=["".join(whole.pieces[CUT - 3 : CUT]) + shown]).ended == "eos"


@pytest.mark.parametrize("policy", DRAFTING, ids=str)
def test_rounds_up_to_the_cut_are_those_of_the_real_call(pair, recorded, policy: Drafting):
    """Greedy: emitted tokens equal, cut in the last round; drafted tokens equal or within the bounds, in the last round only."""
    for prompt, whole, cut in recorded:
        timed = run_policy(pair, prompt, policy, BUDGET)
        starts = np.cumsum([0, *timed.rounds[:-1]])
        real = [size for start, size in zip(starts, timed.rounds, strict=True) if start < len(cut.answer)]
        found, all_drafted = rounds_of(cut, policy), [each.drafted for each in rounds_of(whole, policy)][: len(real)]
        assert [each.emitted for each in found] == [*real[:-1], len(cut.answer) - int(starts[len(real) - 1])]
        assert [each.drafted for each in found[:-1]] == [each.drafted_low for each in found[:-1]] == all_drafted[:-1]
        assert found[-1].drafted_low <= all_drafted[-1] <= found[-1].drafted
        if not policy.threshold:
            assert found[-1].drafted_low == found[-1].drafted == all_drafted[-1]
        assert not found[-1].rejected or cut.accept[found[-1].start :].min() == 0


def test_some_last_round_ran_on_behind_the_cut(recorded):
    assert any(rounds_of(cut, FixedGamma(12))[-1].drafted > len(cut.answer) - rounds_of(cut, FixedGamma(12))[-1].start for _, _, cut in recorded)


def test_prompt_lookup_and_the_oracle_end_with_the_cut(recorded):
    for _, _, cut in recorded:
        for policy in (PromptLookup(10, 1), Oracle(), Plain()):
            rounds = replay_prompt(cut, policy)
            assert rounds.tokens == len(cut.answer) == rounds.accepted + rounds.rounds


@pytest.mark.parametrize("policy", [FixedGamma(5), Confidence(0.4, 7)], ids=str)
def test_a_cut_answer_of_certain_outcomes_is_the_limit_of_the_expectation(recorded, policy: Drafting):
    """Chances of 0 and 1 through the expectation give the walk's numbers; the bounds as well."""
    for _, _, cut in recorded:
        known = dataclasses.replace(cut, tails=None)
        stop = np.where(cut.accept == 0, cut.confidence < policy.threshold, 0).astype(float)
        walked = replay_prompt(known, policy)
        expected = replay(cut.accept, policy, budget=BUDGET, ended="stop", confidence=cut.confidence, stop_rejected=stop)
        for name in ("tokens", "rounds", "drafted", "accepted", "rejected", "drafted_low"):
            assert getattr(expected, name) == pytest.approx(getattr(walked, name)), name
        width = len(walked.rounds_by_drafted)
        assert expected.rounds_by_drafted[:width] == pytest.approx(walked.rounds_by_drafted)
        assert expected.passed[: width - 1] == pytest.approx(walked.passed)


def test_a_cut_sampled_answer_drawn_and_expected_agree():
    random = np.random.default_rng(1)
    accept, confidence, stop = random.uniform(0.5, 0.98, 30), random.uniform(0.3, 1, 30), random.uniform(0, 1, 30)
    exact = replay(accept, Confidence(0.4, 9), budget=50, ended="stop", confidence=confidence, stop_rejected=stop)
    drawn = average(Chances(accept, confidence < 0.4, stop, 50), lambda path: walk_constant(path, 9), 4000, 5)
    assert abs(drawn.rounds - exact.rounds) < 4.5 * drawn.rounds_error
    for name in ("drafted", "drafted_low", "accepted", "rejected"):
        assert getattr(drawn, name) == pytest.approx(getattr(exact, name), rel=0.02), name
    shorter = replay(accept, Confidence(0.4, 9), confidence=confidence, stop_rejected=stop)
    assert exact.drafted > shorter.drafted


def test_a_sampled_answer_is_cut_with_its_probabilities(pair, recorded):
    prompt, decoding = recorded[0][0], Decoding(sample=True)
    written = run_policy(pair, prompt, Plain(), BUDGET, decoding, keep=True)
    shown = trace(pair, prompt, written.tokens, BUDGET, decoding, p=written.p).pieces
    cut = trace(pair, prompt, written.tokens, BUDGET, decoding, p=written.p, stop=["".join(shown[5:9])])
    assert cut.ended == "stop"
    assert sampled_of(cut).p.tolist() == kept_by(written)[: len(cut.answer)].tolist()
    assert len(cut.accept) == len(sampled_of(cut).overlap) == len(cut.answer) <= 9
