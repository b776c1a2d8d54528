"""The embedded pair: small enough to ship, worth measuring, and replayed as the library runs it."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors import safe_open

from core import demo
from core.policies import Drafting, FixedGamma, Heuristic, Plain, PromptLookup, TransformersDefault
from core.replay import rounds_of
from core.runs import RunSpec
from core.trace import repeated_share
from core.worker.generate import run_policy
from core.worker.inputs import encode_prompts
from core.worker.models import Pair, greedy_config
from core.worker.tracing import teacher_forced, trace
from tests.pairs import load_pair
from tests.test_library_rounds import Recorded, assert_drafting, assert_same, with_eos

SPEC = RunSpec(target=demo.TARGET, draft=demo.DRAFT, prompts=demo.prompts())
ANSWER_TOKENS, LOOPS, BUDGET = 64, 0.5, 32
LARGEST_BYTES = 32 * 2**20


@pytest.fixture(scope="module")
def pair() -> Pair:
    torch.set_num_threads(1)
    return load_pair(SPEC)


@pytest.fixture(scope="module")
def prompts(pair: Pair) -> list[torch.Tensor]:
    return encode_prompts(pair, SPEC)


@pytest.fixture(scope="module")
def answers(pair: Pair, prompts: list[torch.Tensor]) -> list[NDArray[np.int32]]:
    """The target's greedy answers, written all at once; each up to its end of text."""
    longest = max(prompt.shape[1] for prompt in prompts)
    ids = torch.cat([torch.nn.functional.pad(prompt, (longest - prompt.shape[1], 0)) for prompt in prompts])
    mask = torch.cat([torch.nn.functional.pad(torch.ones_like(prompt), (longest - prompt.shape[1], 0)) for prompt in prompts])
    config = greedy_config(pair.eos_ids)
    config.max_new_tokens = ANSWER_TOKENS
    written = pair.target.generate(ids, attention_mask=mask, generation_config=config)[:, longest:].numpy().astype(np.int32)  # pyright: ignore[reportCallIssue]
    return [until_end(row, pair.eos_ids) for row in written]


def until_end(row: NDArray[np.int32], eos_ids: tuple[int, ...]) -> NDArray[np.int32]:
    ends = np.flatnonzero(np.isin(row, eos_ids))
    return row[: ends[0] + 1] if len(ends) else row


def test_the_weights_are_small_and_in_bf16():
    files = [Path(ref.path) / "model.safetensors" for ref in (demo.TARGET, demo.DRAFT)]
    assert sum(file.stat().st_size for file in files) <= LARGEST_BYTES
    for file in files:
        with safe_open(file, "numpy") as weights:
            assert {weights.get_slice(name).get_dtype() for name in weights.keys()} == {"BF16"}  # noqa: SIM118


def test_one_vocabulary_is_shared(pair):
    folders = [Path(ref.path) for ref in (demo.TARGET, demo.DRAFT)]
    assert len({(folder / "tokenizer.json").read_bytes() for folder in folders}) == 1
    assert len(pair.tokenizer) == pair.target.config.vocab_size == pair.draft.config.vocab_size == 4096


def test_the_prompts_are_of_three_kinds_and_of_the_length_that_keeps_answers_from_looping(prompts):
    assert sorted(Counter(prompt.label for prompt in SPEC.prompts).values()) == [8, 8, 8]
    assert len({prompt.text for prompt in SPEC.prompts}) == 24
    assert all(100 <= prompt.shape[1] <= 200 for prompt in prompts)


def test_few_answers_loop(answers):
    assert sum(repeated_share(answer) > LOOPS for answer in answers) <= len(answers) / 4


def test_the_draft_is_right_often_enough(pair, prompts, answers):
    right = 0
    for prompt, answer in zip(prompts, answers, strict=True):
        text = torch.cat([prompt, torch.from_numpy(answer).long()[None]], dim=1)
        with torch.no_grad():
            right += int((teacher_forced(pair.draft, text, prompt.shape[1])[0] == answer).sum())
    assert right / sum(len(answer) for answer in answers) >= 0.6


@pytest.fixture(scope="module", params=["length", "eos"])
def recorded(request, pair: Pair, prompts: list[torch.Tensor]) -> Recorded:
    """One prompt of each kind; with the pair's own end of text, and with one that the target writes in mid-answer."""
    few = prompts[::8]
    ends = pair.eos_ids
    if request.param == "eos":
        free = [run_policy(with_eos(pair), prompt, Plain(), BUDGET).tokens.tolist() for prompt in few]
        ends = tuple(next(token for at, token in enumerate(answer) if at >= 12 and token not in answer[:at]) for answer in free[:2])
    here = with_eos(pair, *ends)
    answers = [run_policy(here, prompt, Plain(), BUDGET).tokens for prompt in few]
    return Recorded(here, few, [trace(here, prompt, answer, BUDGET) for prompt, answer in zip(few, answers, strict=True)])


def test_answers_end_as_they_should(recorded, request):
    assert {t.ended for t in recorded.traces[:2]} == {request.node.callspec.params["recorded"]}


@pytest.mark.parametrize("policy", [FixedGamma(1), FixedGamma(5), FixedGamma(20), Heuristic(5), TransformersDefault()], ids=str)
def test_drafting_equals_generate_round_by_round(recorded, policy: Drafting):
    assert_drafting(recorded, policy, BUDGET)


def test_prompt_lookup_equals_generate_round_by_round(recorded):
    for prompt, recorded_trace in zip(recorded.prompts, recorded.traces, strict=True):
        timed = run_policy(recorded.pair, prompt, PromptLookup(5), BUDGET)
        assert_same(rounds_of(recorded_trace, PromptLookup(5)), timed, recorded_trace)
