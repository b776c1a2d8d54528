"""One timed call of the library's generate: tokens, rounds, times, and draft settings that do not leak."""

import pytest
import torch

from core.errors import InvalidInput
from core.policies import FixedGamma, Heuristic, Oracle, Plain, PromptLookup, TransformersDefault
from core.worker.generate import RoundClock, draft_settings, run_policy, timed_generate
from core.worker.models import Pair
from tests.models import TEXTS, make_forgetful
from tests.pairs import small_pair

BUDGET = 16


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> Pair:
    return small_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def prompt(pair) -> torch.Tensor:
    return pair.tokenizer(TEXTS[0], return_tensors="pt")["input_ids"]


def test_plain_is_the_target_alone(pair, prompt):
    timed = run_policy(pair, prompt, Plain(), BUDGET)
    expected = pair.target.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=BUDGET)
    assert timed.tokens.tolist() == expected[0, prompt.shape[1] :].tolist()
    assert timed.rounds == (1,) * BUDGET
    assert 0 < timed.first_token_s < timed.total_s


@pytest.mark.parametrize("policy", [FixedGamma(3), TransformersDefault()], ids=str)
def test_assistance_changes_rounds_and_no_token(pair, prompt, policy):
    plain, assisted = (run_policy(pair, prompt, chosen, BUDGET) for chosen in (Plain(), policy))
    assert assisted.tokens.tolist() == plain.tokens.tolist()
    assert sum(assisted.rounds) == BUDGET
    assert max(assisted.rounds) > 1


def test_prompt_lookup_shortens_an_answer_that_repeats_itself(pair, prompt, monkeypatch):
    make_forgetful(pair.target, monkeypatch)
    plain, assisted = (run_policy(pair, prompt, chosen, 80) for chosen in (Plain(), PromptLookup(5)))
    assert assisted.tokens.tolist() == plain.tokens.tolist()
    assert max(assisted.rounds) == 6


def test_fixed_gamma_really_limits_the_draft(pair, prompt):
    """As keyword arguments of generate these settings would be ignored, and 20 drafted."""
    assert max(run_policy(pair, prompt, FixedGamma(1), BUDGET).rounds) == 2


def test_the_drafts_first_pass_is_the_whole_prompt_and_later_rounds_begin_two_wide(pair, prompt):
    widths: list[int] = []
    hook = pair.draft.register_forward_pre_hook(lambda _, __, given: widths.append(given["input_ids"].shape[1]), with_kwargs=True)
    try:
        timed = run_policy(pair, prompt, FixedGamma(2), BUDGET)
    finally:
        hook.remove()
    assert widths[0] == prompt.shape[1]
    assert widths.count(2) >= len(timed.rounds) - 2
    assert set(widths[1:]) == {1, 2}


def test_draft_settings_are_restored_after_a_heuristic_and_after_an_error(pair, prompt):
    before = pair.draft.generation_config.to_dict()
    run_policy(pair, prompt, Heuristic(5), BUDGET)
    assert pair.draft.generation_config.to_dict() == before
    with pytest.raises(IndexError), draft_settings(pair.draft, FixedGamma(7)):
        [][pair.draft.generation_config.num_assistant_tokens]
    assert pair.draft.generation_config.to_dict() == before


def test_a_persistent_heuristic_carries_its_length_inside(pair, prompt):
    with draft_settings(pair.draft, Heuristic(20)):
        timed = timed_generate(pair, prompt, BUDGET, assistant_model=pair.draft)
        misses = sum(emitted <= 10 for emitted in timed.rounds[:-1])
        assert 20 - misses - 1 <= pair.draft.generation_config.num_assistant_tokens < 20


def test_the_oracle_cannot_be_run(pair, prompt):
    with pytest.raises(InvalidInput, match="upper limit"):
        run_policy(pair, prompt, Oracle(), BUDGET)


def test_the_clock_counts_no_prompt():
    clock = RoundClock()
    clock.put(torch.zeros(1, 9))
    assert clock.rounds == []
    assert clock.first_at is None
    clock.put(torch.zeros(1, 3))
    assert clock.rounds == [3]
