"""Every tool's definition on the example alpha 0.8, gamma 5; and back to alpha."""

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import theory, translate
from core.errors import InvalidInput
from core.policies import Confidence, FixedGamma, Plain
from core.replay import replay
from core.rounds import Rounds

TABLE = Path(__file__).parent / "data" / "acceptance_definitions.csv"


def equal_chances(alpha, gamma, rounds=1000.0):
    """Rounds of an endless text in which every token has the same chance and every round drafts gamma."""
    passed = rounds * alpha ** np.arange(1, gamma + 1)
    by_drafted = np.zeros(gamma + 1)
    by_drafted[gamma] = rounds
    accepted = float(passed.sum())
    return Rounds(
        tokens=accepted + rounds,
        rounds=rounds,
        drafted=rounds * gamma,
        accepted=accepted,
        rejected=rounds - passed[-1],
        drafted_low=rounds * gamma,
        rounds_by_drafted=by_drafted,
        first_by_drafted=by_drafted / rounds,
        reached=np.full(gamma, rounds),
        passed=passed,
    )


def expected(text, named):
    if text.startswith("as vLLM"):
        return named["vLLM", "per-position acceptance rate"].value
    return tuple(float(value) for value in text.split(","))


def test_every_definition_of_the_table():
    words = {(word.tool, word.name): word for word in translate.in_other_words(equal_chances(0.8, 5), 0.8)}
    with TABLE.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(words)
    for row in rows:
        tool, name = row["tool"].removesuffix(" (PR 4248)"), row["name_used"]
        word = next(w for w in words.values() if w.tool == tool and w.name == (name if not name.startswith('"') else "acceptance rate"))
        if tool == "specspecs":
            assert word.value[0] > words["llama.cpp", "draft acceptance rate"].value[0]
            continue
        value = expected(row["value_if_iid_alpha_0.8_gamma_5"], words)
        tolerance = 0.05 if word.percent else 0.0006
        assert word.value == pytest.approx(value if len(value) == len(word.value) else value * len(word.value), abs=tolerance)


@given(st.lists(st.integers(0, 1), min_size=3, max_size=60), st.integers(1, 8))
def test_identities_on_real_rounds(accept, gamma):
    rounds = replay(accept, FixedGamma(gamma))
    words = {(word.tool, word.name): word.value for word in translate.in_other_words(rounds, float(np.mean(accept)))}
    assert words["vLLM", "draft acceptance rate"][0] == pytest.approx(rounds.utilisation)
    assert words["SGLang", "spec_accept_length"][0] == pytest.approx(1 + sum(words["eagle-harness", "a_d"]))
    assert words["vLLM", "mean acceptance length"][0] == pytest.approx(1 + sum(words["vLLM", "per-position acceptance rate"]))
    conditional = words["NVIDIA Model-Optimizer specdec_bench", "Conditional_Acceptance_Rate"]
    assert np.cumprod(conditional) == pytest.approx(words["NVIDIA Model-Optimizer specdec_bench", "Joint_Acceptance_Rate"])


def test_plain_decoding_has_no_acceptance():
    with pytest.raises(InvalidInput, match="Nothing was drafted"):
        translate.in_other_words(replay([1, 0, 1], Plain()), 0.5)


@given(st.floats(0.01, 0.99), st.integers(1, 20))
def test_alpha_returns_from_utilisation_and_positions(alpha, gamma):
    ratio = float((theory.tokens_per_round(alpha, gamma) - 1) / gamma)
    assert translate.alpha_from_utilisation(ratio, gamma).alpha == pytest.approx(alpha, abs=1e-6)
    positions = tuple(alpha**k for k in range(1, gamma + 1))
    assert translate.alpha_from_positions(positions).alpha == pytest.approx(alpha)


def test_vllm_s_line():
    line = (
        "INFO [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 2.77, Accepted throughput: 62.6 tokens/s, Drafted throughput: 106.2 "
        "tokens/s, Accepted: 626 tokens, Drafted: 1062 tokens, Per-position acceptance rate: 0.802, 0.551, 0.415, Avg Draft acceptance rate: 58.9%"
    )
    reading = translate.alpha_from_vllm_log(line)
    assert reading.alpha == pytest.approx(1.768 / (1.768 + 0.585))
    assert not reading.exact
    known = translate.alpha_from_vllm_log(line, gamma=3)
    assert known.alpha == reading.alpha
    assert known.exact


def test_positions_of_rounds_that_were_cut_short_claim_nothing_exact():
    """Under a threshold rounds end without a rejection, so that accepted / examined would be higher than what the shares give."""
    rounds = replay([1, 1, 0, 1, 1, 1, 0, 1, 1, 1], Confidence(0.5, 3), confidence=[0.9, 0.1, 0.9, 0.9, 0.1, 0.9, 0.9, 0.9, 0.1, 0.9])
    shares = tuple(float(passed) / float(rounds.rounds) for passed in rounds.passed)
    reading = translate.alpha_from_positions(shares)
    assert not reading.exact
    assert reading.alpha < (rounds.alpha_examined or 0)
    assert "at least" in reading.how


def test_vllm_s_counters_of_two_engines():
    page = "\n".join(
        [
            "# TYPE vllm:spec_decode_num_drafts_total counter",
            *(f'vllm:spec_decode_num_drafts_total{{engine="{e}",model_name="m"}} 50.0' for e in (0, 1)),
            *(
                f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="{e}",model_name="m",position="{p}"}} {40 - 10 * p}.0'
                for e in (0, 1)
                for p in (0, 1)
            ),
            'vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 1e+03',
        ]
    )
    assert translate.alpha_from_vllm_counters(page).alpha == pytest.approx(1.4 / (1.4 + 0.4))


def test_llama_cpp_s_line():
    reading = translate.alpha_from_llama_cpp("draft acceptance rate = 0.57576 (  171 accepted /   297 generated)", 5)
    assert (theory.tokens_per_round(reading.alpha, 5) - 1) / 5 == pytest.approx(171 / 297)
    assert not reading.exact


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: translate.alpha_from_vllm_log("nothing here"), "nothing here"),
        (lambda: translate.alpha_from_vllm_counters("vllm:spec_decode_num_drafts_total 0"), "missing or 0"),
        (lambda: translate.alpha_from_llama_cpp("(  0 accepted /   0 generated)", 5), "0 generated"),
        (lambda: translate.alpha_from_utilisation(1.2, 5), "1.2"),
        (lambda: translate.alpha_from_utilisation(0.5, 0), "0 is not possible"),
        (lambda: translate.alpha_from_positions((0.5, 0.6)), "0.5, 0.6"),
        (lambda: translate.alpha_from_positions(()), "cannot be"),
        (lambda: translate.alpha_from_positions((0.5, 0.4), gamma=3), "2 shares .* length of 3"),
    ],
)
def test_impossible_input(call, says):
    with pytest.raises(InvalidInput, match=says):
        call()
