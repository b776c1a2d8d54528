"""Expected rounds under sampling against the unmodified library: paired, each run against the replay of its own text.

p and q are what the library really samples from: the very processor lists it built are recorded and
applied again to a teacher-forced pass (temperature, top-k and top-p act twice on the draft).
"""

import numpy as np
import pytest
import torch
from transformers import GenerationConfig

from core.policies import Confidence, FixedGamma, Heuristic
from core.replay import replay
from tests.test_replay_library import PROMPT, VOCABULARY, Sizes, configure, pair

__all__ = ["pair"]

TOKENS, RUNS, LIMIT = 24, 100, 4.5

CASES = [
    pytest.param({"temperature": 0.5, "top_k": 0}, FixedGamma(3), id="temperature 0.5"),
    pytest.param({"temperature": 0.7, "top_k": 20, "top_p": 0.9}, FixedGamma(5), id="temperature 0.7, top-k, top-p"),
    pytest.param({"temperature": 1.0, "top_k": 0, "repetition_penalty": 1.3}, Confidence(0.4, 8), id="penalty, confidence"),
    pytest.param({"temperature": 0.7, "top_k": 0}, Heuristic(4, persistent=False), id="heuristic"),
]


class Lists:
    """The processor lists that a model built, the longest last."""

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


@torch.no_grad()
def sampled_from(model, processors, text):
    """(N, V) what is sampled from at each answer position."""
    scores = model(text[None]).logits[0, PROMPT - 1 : -1].float()
    rows = [processors(text[None, : PROMPT + at], scores[at : at + 1]) for at in range(len(scores))]
    return torch.cat(rows).double().softmax(-1).numpy()


def one_run(models, settings, policy, seed):
    """Real rounds and drafted tokens of a run, and the replay of its text."""
    target, draft = models
    config = GenerationConfig(max_new_tokens=TOKENS, do_sample=True, eos_token_id=VOCABULARY - 1, pad_token_id=VOCABULARY - 1, **settings)
    ids = torch.randint(0, VOCABULARY - 2, (1, PROMPT), generator=torch.Generator().manual_seed(seed))
    configure(draft, policy)
    streamer = Sizes(draft)
    torch.manual_seed(seed)
    with Lists(target) as own, Lists(draft) as drafted:
        text = target.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config, assistant_model=draft, streamer=streamer)[0]
    streamer.hook.remove()
    answer = text[PROMPT:].numpy()
    p, q = sampled_from(target, own.built[0], text), sampled_from(draft, drafted.built[0], text)
    at = np.arange(len(answer)), answer
    excess = np.maximum(q - p, 0)
    unsure = np.where(q < (policy.threshold or 0), excess, 0).sum(-1) / np.maximum(excess.sum(-1), 1e-300)
    expected = replay(
        np.minimum(1, q[at] / np.maximum(p[at], 1e-12)),
        policy,
        budget=TOKENS,
        ended="eos" if answer[-1] == VOCABULARY - 1 else "length",
        confidence=q[at],
        stop_rejected=unsure,
        samples=100,
        seed=seed,
    )
    return len(streamer.sizes) - 1, sum(streamer.drafted[1:]), expected


@pytest.mark.parametrize(("settings", "policy"), CASES)
def test_real_rounds_are_the_expected_ones_on_average(pair, settings, policy):
    runs = [one_run(pair, settings, policy, seed) for seed in range(RUNS)]
    differences = np.array([real - expected.rounds for real, _, expected in runs])
    z = differences.mean() / (differences.std(ddof=1) / np.sqrt(RUNS))
    assert abs(z) < LIMIT
    spread = np.array([drafted - expected.drafted for _, drafted, expected in runs])
    if policy.schedule == "constant" and not policy.threshold:
        assert abs(spread.mean() / (spread.std(ddof=1) / np.sqrt(RUNS))) < LIMIT
    assert np.mean([drafted for _, drafted, _ in runs]) <= 1.05 * np.mean([expected.drafted for *_, expected in runs])
