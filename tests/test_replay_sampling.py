"""Expected rounds under sampling against the unmodified library: paired, each run against the replay of its own text.

p and q are what the library really samples from: the very processor lists it built are recorded and
applied again to a teacher-forced pass. In 5.24 the draft's list holds temperature, top-k and top-p
twice, the repetition penalty once; a replay that applies them once is caught here (the last test).
Seeds are fixed and differ between the cases, so that their z values are independent.
"""

from functools import cache
from math import erfc, exp, gamma, sqrt
from typing import Literal, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from core.policies import Confidence, Drafting, FixedGamma, Heuristic
from core.replay import Rounds, replay
from tests.test_replay_library import Sizes, configure

VOCABULARY, PROMPT, TOKENS = 128, 6, 14
EOS = VOCABULARY - 1
RUNS, LIMIT, RARE = 100, 4.5, 1e-4

SETTINGS = {
    "T 0.5": {"temperature": 0.5, "top_k": 0},
    "T 0.7, top-p 0.9, top-k 50": {"temperature": 0.7, "top_p": 0.9, "top_k": 50},
    "T 1.0": {"temperature": 1.0, "top_k": 0},
    "T 1.0, repetition penalty 1.3": {"temperature": 1.0, "top_k": 0, "repetition_penalty": 1.3},
}
POLICIES = {"fixed": FixedGamma(4), "confidence": Confidence(0.4, 6)}
CASES: dict[str, tuple[dict[str, float], Drafting]] = {
    f"{warped}, {name}": (settings, policy) for warped, settings in SETTINGS.items() for name, policy in POLICIES.items()
} | {"T 0.7, heuristic": ({"temperature": 0.7, "top_k": 0}, Heuristic(4, persistent=False))}
Rows = NDArray[np.float64]


class Sampled(NamedTuple):
    """One assisted run: its rounds and drafted tokens, its answer (N,), and what was sampled from (N, V): target, draft.

    q_once: the draft under the target's list, which is what one would take it to use.
    """

    seed: int
    rounds: int
    drafted: int
    answer: NDArray[np.int64]
    p: Rows
    q: Rows
    q_once: Rows


class Lists:
    """The processor lists that a model builds inside, in order: one per call of its `generate`."""

    def __init__(self, model):
        self.model, self.built, self.original = model, [], model._get_logits_processor

    def __enter__(self):
        def build(*given, **named):
            self.built.append(self.original(*given, **named))
            return self.built[-1]

        self.model._get_logits_processor = build
        return self

    def __exit__(self, *_):
        del self.model._get_logits_processor


@pytest.fixture(scope="module")
def pair():
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
    return target, draft


@pytest.fixture(scope="module")
def runs(pair):
    """The runs of a case, made when first asked for."""

    @cache
    def of(case: str) -> list[Sampled]:
        first = 1000 * list(CASES).index(case)
        return [sample(pair, *CASES[case], seed) for seed in range(first, first + RUNS)]

    return of


def sample(pair, settings, policy: Drafting, seed: int) -> Sampled:
    target, draft = pair
    config = GenerationConfig(max_new_tokens=TOKENS, do_sample=True, eos_token_id=EOS, pad_token_id=EOS, **settings)
    ids = torch.randint(0, EOS, (1, PROMPT), generator=torch.Generator().manual_seed(seed))
    configure(draft, policy)
    streamer = Sizes(draft)
    torch.manual_seed(seed)
    with Lists(target) as targets, Lists(draft) as drafts:
        text = target.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config, assistant_model=draft, streamer=streamer)[0]
    streamer.hook.remove()
    p = sampled_from(target, targets.built[0], text)
    q, q_once = (sampled_from(draft, lists.built[0], text) for lists in (drafts, targets))
    return Sampled(seed, len(streamer.sizes) - 1, sum(streamer.drafted[1:]), text[PROMPT:].numpy(), p, q, q_once)


@torch.no_grad()
def sampled_from(model, processors, text) -> Rows:
    """(N, V) what is sampled from at each answer position."""
    scores = model(text[None]).logits[0, PROMPT - 1 : -1].float()
    rows = [processors(text[None, : PROMPT + at], scores[at : at + 1]) for at in range(len(scores))]
    return torch.cat(rows).double().softmax(-1).numpy()


def expected(run: Sampled, policy: Drafting, q: Rows) -> Rounds:
    """The replay of the run's text for a draft that samples from `q` (N, V)."""
    at = np.arange(len(run.answer)), run.answer
    excess = np.maximum(q - run.p, 0)
    unsure = np.where(q < policy.threshold, excess, 0).sum(-1) / np.maximum(excess.sum(-1), 1e-300)
    return replay(
        np.minimum(1, q[at] / np.maximum(run.p[at], 1e-12)),
        policy,
        budget=TOKENS,
        ended="eos" if run.answer[-1] == EOS else "length",
        confidence=q[at],
        stop_rejected=unsure,
        samples=100,
        seed=run.seed,
    )


def z_of(differences: list[float]) -> float:
    """Their mean in standard errors."""
    return float(np.mean(differences) / (np.std(differences, ddof=1) / sqrt(len(differences))))


def z_of_rounds(runs, case: str, drafted_from: Literal["q", "q_once"] = "q") -> float:
    """Real rounds minus expected ones."""
    return z_of([run.rounds - expected(run, CASES[case][1], getattr(run, drafted_from)).rounds for run in runs(case)])


def chi_square_tail(z: list[float]) -> float:
    """The probability of more than the sum of these squares by chance; Abramowitz and Stegun 26.4.4 and 26.4.5."""
    half, odd = float(np.square(z).sum()) / 2, len(z) % 2
    terms = [half**power * exp(-half) / gamma(power + 1) for power in np.arange(odd / 2, len(z) / 2)]
    return odd * erfc(sqrt(half)) + sum(terms)


@pytest.mark.parametrize("case", CASES)
def test_real_rounds_are_the_expected_ones_on_average(runs, case):
    assert abs(z_of_rounds(runs, case)) < LIMIT


@pytest.mark.parametrize("case", CASES)
def test_what_was_written_could_be_written(runs, case):
    """A pass over the whole text may round a token out of the nucleus that was in it; more than a few mean a wrong list."""
    chances = np.concatenate([run.p[np.arange(len(run.answer)), run.answer] for run in runs(case)])
    assert np.mean(chances == 0) < 0.005


@pytest.mark.parametrize("case", CASES)
def test_drafted_tokens_lie_within_the_bounds_on_average(runs, case):
    """With a threshold it is unknown what the draft writes after a token that gets rejected; without one the bounds are equal."""
    policy = CASES[case][1]
    pairs = [(run.drafted, expected(run, policy, run.q)) for run in runs(case)]
    assert z_of([drafted - rounds.drafted for drafted, rounds in pairs]) < LIMIT
    assert z_of([drafted - rounds.drafted_low for drafted, rounds in pairs]) > -LIMIT
    if not policy.threshold:
        assert all(rounds.drafted_low == pytest.approx(rounds.drafted) for _, rounds in pairs)


def test_all_cases_together_are_no_further_off_than_chance(runs):
    assert chi_square_tail([z_of_rounds(runs, case) for case in CASES]) > RARE


def test_the_same_processors_on_both_sides_would_be_noticed(runs):
    """The trap: temperature, top-k and top-p act twice on the draft. A replay that applies them once fails both limits."""
    assert abs(z_of_rounds(runs, "T 0.5, fixed", "q_once")) > LIMIT
    assert chi_square_tail([z_of_rounds(runs, case, "q_once") for case in CASES]) < RARE


def test_the_chi_square_tail_is_that_of_the_tables():
    """The 99.99 % points of 8 and 9 degrees of freedom."""
    assert chi_square_tail([sqrt(31.828), *[0.0] * 7]) == pytest.approx(RARE, rel=1e-3)
    assert chi_square_tail([sqrt(33.720), *[0.0] * 8]) == pytest.approx(RARE, rel=1e-3)
