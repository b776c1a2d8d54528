"""Expected rounds under sampling against the unmodified library: paired, each run against the replay of its own text.

The whole chain is tested: a real assisted `generate`, the trace of what it wrote as the worker records it, and the replay.
In 5.24 the draft's list holds temperature, top-k and top-p twice, the repetition penalty once; a replay that applies them
once is caught here. Seeds are fixed and differ between the cases, so that their z values are independent.
"""

from functools import cache
from math import erfc, exp, gamma, sqrt
from typing import NamedTuple

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from core.decoding import Decoding
from core.policies import Confidence, Drafting, FixedGamma, Heuristic, Plain, Policy, PromptLookup
from core.replay import replay_all, replay_prompt, rounds_of
from core.trace import PromptTrace, Sampled
from core.worker.generate import draft_settings, run_policy, timed_generate
from core.worker.models import Pair, greedy_config
from core.worker.tracing import trace
from tests.models import TEXTS, tokenizer_of

VOCABULARY, PROMPT, TOKENS = 128, 6, 12
TRAP, TRAP_TOKENS = "T 0.5", 32  # long enough for the wrong list to be seen in this many runs
EOS = VOCABULARY - 1
RUNS, LIMIT, RARE = 64, 4.5, 1e-4

FIXED, UNSURE = FixedGamma(4), Confidence(0.4, 6)
MIXED = Decoding(sample=True, temperature=0.7, top_p=0.9, top_k=50)
CASES: dict[str, tuple[Decoding, Drafting]] = {
    "T 0.5": (Decoding(sample=True, temperature=0.5), FIXED),
    "T 0.5, confidence": (Decoding(sample=True, temperature=0.5), UNSURE),
    "T 0.7, top-p 0.9, top-k 50": (MIXED, FIXED),
    "T 0.7, top-p 0.9, top-k 50, confidence": (MIXED, UNSURE),
    "T 1.0": (Decoding(sample=True), FIXED),
    "T 1.3, top-k 20, confidence": (Decoding(sample=True, temperature=1.3, top_k=20), Confidence(0.2, 6)),
    "T 1.0, repetition penalty 1.3": (Decoding(sample=True, repetition_penalty=1.3), FIXED),
    "T 0.7, repetition penalty 1.3, top-p 0.8, confidence": (
        Decoding(sample=True, temperature=0.7, repetition_penalty=1.3, top_p=0.8),
        UNSURE,
    ),
    "T 0.5, warpers once": (Decoding(sample=True, temperature=0.5, warpers_once=True), FIXED),
    "T 0.7, top-p 0.9, draft at 1.0": (Decoding(sample=True, temperature=0.7, top_p=0.9, draft_temperature=1.0), UNSURE),
    "T 1.0, draft at 0.6": (Decoding(sample=True, draft_temperature=0.6), FIXED),
    "T 0.7, heuristic": (Decoding(sample=True, temperature=0.7), Heuristic(4, persistent=False)),
    "T 1.0, heuristic with confidence": (Decoding(sample=True), Heuristic(4, persistent=False, threshold=0.4)),
}


class Run(NamedTuple):
    """One assisted run: its rounds and drafted tokens, and the trace of its text."""

    seed: int
    rounds: int
    drafted: int
    trace: PromptTrace


@pytest.fixture(scope="module")
def pair() -> Pair:
    """A random model, and the same with noise on its weights."""
    torch.set_num_threads(1)
    torch.manual_seed(3)
    shape = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, initializer_range=0.35
    )
    target, draft = LlamaForCausalLM(shape).eval(), LlamaForCausalLM(shape).eval()
    draft.load_state_dict(target.state_dict())
    with torch.no_grad():
        for weight in draft.parameters():
            weight.add_(torch.randn_like(weight) * 0.04)
    for model in (target, draft):
        model.generation_config = greedy_config((EOS,))
    return Pair(target, draft, tokenizer_of(list(TEXTS)), (EOS,), None, torch.device("cpu"))


@pytest.fixture(scope="module")
def runs(pair):
    """The runs of a case, made when first asked for."""

    @cache
    def of(case: str) -> list[Run]:
        first = 1000 * list(CASES).index(case)
        tokens = TRAP_TOKENS if case == TRAP else TOKENS
        return [run(pair, *CASES[case], tokens, seed) for seed in range(first, first + RUNS)]

    return of


def prompt_of(seed: int) -> torch.Tensor:
    return torch.randint(0, EOS, (1, PROMPT), generator=torch.Generator().manual_seed(seed))


def sampled_of(found: PromptTrace) -> Sampled:
    assert found.sampled is not None
    return found.sampled


def run(pair: Pair, decoding: Decoding, policy: Drafting, tokens: int, seed: int) -> Run:
    prompt, passes = prompt_of(seed), []
    hook = pair.draft.register_forward_hook(lambda *_: passes.append(1))
    try:
        timed = run_policy(pair, prompt, policy, tokens, decoding, seed)
    finally:
        hook.remove()
    return Run(seed, len(timed.rounds), len(passes), trace(pair, prompt, timed.tokens, tokens, decoding))


def z_of(differences: list[float]) -> float:
    """Their mean in standard errors."""
    return float(np.mean(differences) / (np.std(differences, ddof=1) / sqrt(len(differences))))


def z_of_rounds(runs, case: str) -> float:
    """Real rounds minus expected ones."""
    return z_of([each.rounds - replay_prompt(each.trace, CASES[case][1]).rounds for each in runs(case)])


def chi_square_tail(total: float, degrees: int) -> float:
    """The probability of more than `total` by chance; Abramowitz and Stegun 26.4.4 and 26.4.5."""
    half, odd = total / 2, degrees % 2
    terms = [half**power * exp(-half) / gamma(power + 1) for power in np.arange(odd / 2, degrees / 2)]
    return odd * erfc(sqrt(half)) + sum(terms)


@pytest.mark.parametrize("case", CASES)
def test_real_rounds_are_the_expected_ones_on_average(runs, case):
    assert abs(z_of_rounds(runs, case)) < LIMIT


def test_all_cases_together_are_no_further_off_than_chance(runs):
    assert chi_square_tail(sum(z_of_rounds(runs, case) ** 2 for case in CASES), len(CASES)) > RARE


@pytest.mark.parametrize("case", CASES)
def test_what_was_written_could_be_written(runs, case):
    """A pass over the whole text may round a token out of the nucleus that was in it; more than a few mean a wrong list."""
    found = [sampled_of(each.trace) for each in runs(case)]
    assert sum(each.clamped for each in found) < 0.005 * sum(len(each.p) for each in found)
    assert all((each.p > 0).all() for each in found)


@pytest.mark.parametrize("case", CASES)
def test_drafted_tokens_lie_within_the_bounds_on_average(runs, case):
    """With a threshold it is unknown what the draft writes after a token that gets rejected; without one the bounds are equal."""
    policy = CASES[case][1]
    pairs = [(each.drafted, replay_prompt(each.trace, policy)) for each in runs(case)]
    if policy.threshold:
        assert z_of([drafted - rounds.drafted for drafted, rounds in pairs]) < LIMIT
        assert z_of([drafted - rounds.drafted_low for drafted, rounds in pairs]) > -LIMIT
    else:
        assert abs(z_of([drafted - rounds.drafted for drafted, rounds in pairs])) < LIMIT
        assert all(rounds.drafted_low == pytest.approx(rounds.drafted) for _, rounds in pairs)


def test_the_same_processors_on_both_sides_would_be_noticed(pair, runs):
    """The trap: temperature, top-k and top-p act twice on the draft. A replay that applies them once fails the limit."""
    decoding, policy = CASES[TRAP]
    once = decoding.model_copy(update={"warpers_once": True})
    traces = [trace(pair, prompt_of(each.seed), each.trace.answer, TRAP_TOKENS, once) for each in runs(TRAP)]
    wrong = [each.rounds - replay_prompt(found, policy).rounds for each, found in zip(runs(TRAP), traces, strict=True)]
    assert abs(z_of_rounds(runs, TRAP)) < LIMIT < abs(z_of(wrong))


def test_alpha_by_overlap_is_alpha_by_text_and_scatters_less(runs):
    every = [each.trace for case in CASES for each in runs(case)]
    by_text, by_overlap = (
        np.array([value for one in every for value in pick(one)]) for pick in (lambda t: t.accept, lambda t: sampled_of(t).overlap)
    )
    assert abs(z_of(list(by_text - by_overlap))) < LIMIT
    assert by_overlap.std() < by_text.std()


@pytest.mark.parametrize("threshold", [0.0, 0.4])
def test_a_persistent_heuristic_takes_its_limit_along(pair, threshold):
    """Three calls in a row, from a limit that is far too long: the later calls are drafted more cautiously."""
    policy, decoding, drafted, reset = Heuristic(12, True, threshold), Decoding(sample=True, temperature=0.7), [], []
    for chain in range(0, 60, 3):
        prompts = [prompt_of(9000 + chain + call) for call in range(3)]
        passes: list[int] = []
        hook = pair.draft.register_forward_hook(lambda *_, seen=passes: seen.append(1))
        with draft_settings(pair.draft, policy):
            calls = [
                timed_generate(pair, each, TOKENS, decoding, 9000 + chain + call, assistant_model=pair.draft) for call, each in enumerate(prompts)
            ]
        hook.remove()
        traces = [trace(pair, each, timed.tokens, TOKENS, decoding) for each, timed in zip(prompts, calls, strict=True)]
        ((*expected,),) = replay_all(traces, [policy])
        drafted.append((len(passes), sum(each.drafted for each in expected), sum(each.drafted_low for each in expected)))
        reset.append(sum(each.drafted for each in replay_all(traces, [Heuristic(12, False, threshold)])[0]))
    real, high, low = np.array(drafted).T
    assert z_of(list(real - high)) < LIMIT
    assert z_of(list(real - low)) > -LIMIT
    assert threshold or abs(z_of(list(real - reset))) > LIMIT


LOOKED_UP: dict[str, Decoding] = {
    "T 0.7": Decoding(sample=True, temperature=0.7),
    "top-p 0.6": Decoding(sample=True, temperature=0.3, top_p=0.6),
    "top-k 5, penalty below 1": Decoding(sample=True, temperature=0.3, top_k=60, repetition_penalty=0.7),
    "top-p, penalty above 1": Decoding(sample=True, temperature=0.3, top_p=0.9, repetition_penalty=1.02),
    "greedy, penalty": Decoding(repetition_penalty=1.02),
}


@pytest.mark.parametrize("name", LOOKED_UP)
@pytest.mark.parametrize("policy", [PromptLookup(3, 1), PromptLookup(10, 2)], ids=str)
def test_prompt_lookup_is_replayed_exactly_for_what_was_drawn(pair, name, policy: Policy):
    """The text settles its rounds, also where the processors forbid candidates."""
    proposed = 0
    for seed in range(4):
        prompt = torch.tensor([[7, 8, 9, 10, 11, 12] * 3]) + seed
        timed = run_policy(pair, prompt, policy, 30, LOOKED_UP[name], seed)
        found = trace(pair, prompt, timed.tokens, 30, LOOKED_UP[name])
        rounds = replay_prompt(found, policy)
        assert (rounds.rounds, rounds.drafted_low) == (len(timed.rounds), rounds.drafted)
        assert rounds.passed.tolist() == [sum(size > k for size in timed.rounds) for k in range(1, len(rounds.passed) + 1)]
        proposed += rounds.drafted
    assert proposed > 0


def test_greedy_with_a_repetition_penalty_is_replayed_round_by_round(pair):
    decoding = Decoding(repetition_penalty=1.3)
    accepted = 0
    for seed in range(4):
        prompt = prompt_of(seed)
        found = trace(pair, prompt, run_policy(pair, prompt, Plain(), 30, decoding).tokens, 30, decoding)
        for policy in (FixedGamma(3), UNSURE, Heuristic(5, persistent=False, threshold=0.4)):
            passes: list[int] = []
            hook = pair.draft.register_forward_hook(lambda *_, seen=passes: seen.append(1))
            timed = run_policy(pair, prompt, policy, 30, decoding)
            hook.remove()
            rounds = rounds_of(found, policy)
            assert timed.tokens.tolist() == found.answer.tolist()
            assert [each.emitted for each in rounds] == list(timed.rounds)
            assert sum(each.drafted for each in rounds) == sum(each.drafted_low for each in rounds) == len(passes)
            accepted += sum(each.accepted for each in rounds)
    assert accepted > 0


def test_the_chi_square_tail_is_that_of_the_tables():
    """The 99.99 % points of 8 and 9 degrees of freedom."""
    assert chi_square_tail(31.828, 8) == pytest.approx(RARE, rel=1e-3)
    assert chi_square_tail(33.720, 9) == pytest.approx(RARE, rel=1e-3)
