"""The recorded trace against a token-by-token computation without caches, batches or padding."""

import dataclasses

import numpy as np
import pytest
import torch
from transformers import DynamicCache

from core.decoding import Decoding
from core.policies import Plain
from core.trace import LONGEST_TAIL, PromptTrace, Tails
from core.worker import reading, tracing
from core.worker import tails as rolled
from core.worker.batch import Written
from core.worker.branches import Branches, may_branch
from core.worker.generate import run_policy
from core.worker.models import Pair
from core.worker.reader import Reader
from core.worker.tails import _Rows as Rows
from core.worker.tracing import pieces, trace, traces
from tests.models import TEXTS
from tests.pairs import small_pair

BUDGET = 20


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> Pair:
    return small_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def prompt(pair) -> torch.Tensor:
    return pair.tokenizer(TEXTS[1], return_tensors="pt")["input_ids"]


@pytest.fixture(scope="module")
def recorded(pair, prompt) -> PromptTrace:
    return trace(pair, prompt, run_policy(pair, prompt, Plain(), BUDGET).tokens, BUDGET)


def tails_of(found: PromptTrace) -> Tails:
    assert found.tails is not None
    return found.tails


@torch.no_grad()
def next_choice(pair: Pair, ids: list[int]) -> tuple[int, float]:
    probabilities = pair.draft(input_ids=torch.tensor([ids])).logits[0, -1].softmax(-1)
    return int(probabilities.argmax()), float(probabilities.max())


def test_choice_confidence_and_acceptance(pair, prompt, recorded):
    text = [*prompt[0].tolist(), *recorded.answer.tolist()]
    for position, token in enumerate(recorded.answer.tolist()):
        choice, confidence = next_choice(pair, text[: prompt.shape[1] + position])
        assert recorded.draft_choice[position] == choice
        assert recorded.confidence[position] == pytest.approx(confidence, abs=1e-5)
        assert recorded.accept[position] == (choice == token)
    assert (recorded.prompt_tokens, recorded.ended, recorded.budget) == (prompt.shape[1], "length", BUDGET)


def test_tails_are_what_the_draft_writes_after_each_wrong_token(pair, prompt, recorded):
    assert tails_of(recorded).position.tolist() == np.flatnonzero(recorded.accept == 0).tolist()
    for position, row, eos_at in zip(
        tails_of(recorded).position.tolist(), tails_of(recorded).confidence, tails_of(recorded).eos_at.tolist(), strict=True
    ):
        ids = [*prompt[0].tolist(), *recorded.answer[:position].tolist(), int(recorded.draft_choice[position])]
        for column in range(LONGEST_TAIL if eos_at < 0 else eos_at + 1):
            choice, confidence = next_choice(pair, ids)
            assert row[column] == pytest.approx(confidence, abs=1e-5)
            assert (choice in pair.eos_ids) == (column == eos_at)
            ids.append(choice)


def test_a_tail_ends_with_the_drafts_own_end_of_text(pair, prompt, recorded):
    """Take a token of a tail as the end of text: the row stops there, and an end of text as wrong choice has no tail."""
    position = int(tails_of(recorded).position[0])
    ids = [*prompt[0].tolist(), *recorded.answer[:position].tolist(), int(recorded.draft_choice[position])]
    written = [next_choice(pair, ids)[0]]
    written.append(next_choice(pair, [*ids, *written])[0])
    other = dataclasses.replace(pair, eos_ids=(written[1], int(recorded.draft_choice[tails_of(recorded).position[1]])))
    again = trace(other, prompt, recorded.answer, BUDGET)
    assert tails_of(again).eos_at[0] == (0 if written[0] in other.eos_ids else 1)
    assert np.isnan(tails_of(again).confidence[0, 2:]).all()
    assert np.isfinite(tails_of(again).confidence[0, 0])
    assert np.isnan(tails_of(again).confidence[1]).all()
    assert again.draft_eos[tails_of(again).position[1]]


def test_long_texts_are_read_in_parts_with_the_same_result(pair, prompt, recorded, monkeypatch):
    monkeypatch.setattr(reading, "HELD_CELLS", 3 * 384)
    monkeypatch.setattr(rolled, "HELD_CELLS", 2 * 384)
    again = trace(pair, prompt, recorded.answer, BUDGET)
    assert again.draft_choice.tolist() == recorded.draft_choice.tolist()
    np.testing.assert_allclose(again.confidence, recorded.confidence, atol=1e-5)
    np.testing.assert_allclose(tails_of(again).confidence, tails_of(recorded).confidence, atol=1e-5)


def blind(self, lengths, names):
    """A mask as of a model that looks at everything."""
    return torch.zeros((*names.shape, self._known + self._owner.shape[1]))[:, None]


@pytest.mark.parametrize("what", ["no branches", "masks unheeded"])
def test_tails_come_out_the_same_where_a_model_cannot_branch(pair, prompt, recorded, monkeypatch, what):
    made = []
    monkeypatch.setattr(rolled, "_Rows", lambda *given: made.append(given) or Rows(*given))
    monkeypatch.setattr(rolled, "_ROWS", 2)
    assert trace(pair, prompt, recorded.answer, BUDGET).tails is not None
    assert not made
    if what == "no branches":
        monkeypatch.setattr(rolled, "may_branch", lambda *_: False)
    else:
        monkeypatch.setattr(Branches, "_mask", blind)
    again = trace(pair, prompt, recorded.answer, BUDGET)
    assert len(made) > 1
    np.testing.assert_allclose(tails_of(again).confidence, tails_of(recorded).confidence, atol=1e-5)


def test_only_models_that_take_any_mask_branch(pair):
    reader = Reader(pair.draft, DynamicCache())
    assert may_branch(reader, 100)
    for name, value in {"sliding_window": 99, "attention_chunk_size": 64, "_attn_implementation": "flash_attention_2", "alibi": True}.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pair.draft.config, name, value, raising=False)
            assert not may_branch(reader, 100), name
            assert name != "sliding_window" or may_branch(reader, 99)


@pytest.fixture(scope="module")
def several(pair):
    """Prompts of unlike lengths with their answers, two of which end early; the last one is far longer than the first."""
    texts = [*TEXTS, TEXTS[1] * 4]
    prompts = [pair.tokenizer(text, return_tensors="pt")["input_ids"] for text in texts]
    answers = [run_policy(pair, prompt, Plain(), budget).tokens for prompt, budget in zip(prompts, (20, 7, 20, 13, 20), strict=True)]
    return prompts, [Written(answer, None, 1.0, 0.5, 1) for answer in answers]


def assert_alike(one: PromptTrace, other: PromptTrace) -> None:
    for name in ("prompt_tokens", "pieces", "ended", "budget"):
        assert getattr(one, name) == getattr(other, name)
    for name in ("answer", "accept", "draft_choice", "draft_eos"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()
    np.testing.assert_allclose(one.confidence, other.confidence, atol=1e-5)
    mine, theirs = tails_of(one), tails_of(other)
    assert (mine.position.tolist(), mine.eos_at.tolist()) == (theirs.position.tolist(), theirs.eos_at.tolist())
    np.testing.assert_allclose(mine.confidence, theirs.confidence, atol=1e-5)


@pytest.mark.parametrize("decoding", [Decoding(), Decoding(repetition_penalty=1.3)], ids=["greedy", "penalty"])
def test_texts_read_together_are_as_if_read_alone(pair, several, decoding, monkeypatch):
    prompts, written = several
    monkeypatch.setattr(reading, "HELD_CELLS", 5 * 5 * 384)
    found = dict(traces(pair, prompts, written, BUDGET, decoding, least=0.1))
    monkeypatch.undo()
    assert list(found) == list(range(5))
    for at, (prompt, answer) in enumerate(zip(prompts, written, strict=True)):
        assert_alike(found[at], trace(pair, prompt, answer.tokens, BUDGET, decoding, least=0.1))


def test_sampled_texts_read_together_are_as_if_read_alone(pair, several):
    prompts, decoding = several[0], Decoding(sample=True, temperature=0.8, top_k=40, repetition_penalty=1.2)
    calls = [run_policy(pair, prompt, Plain(), BUDGET - 3 * at, decoding, seed=at, keep=True) for at, prompt in enumerate(prompts)]
    written = [Written(call.tokens, call.p, 1.0, 0.5, 1) for call in calls]
    for at, one in traces(pair, prompts, written, BUDGET, decoding):
        alone = trace(pair, prompts[at], calls[at].tokens, BUDGET, decoding, p=calls[at].p)
        assert one.draft_choice.tolist() == alone.draft_choice.tolist()
        assert one.sampled is not None
        assert alone.sampled is not None
        np.testing.assert_allclose(one.accept, alone.accept, atol=1e-5)
        np.testing.assert_allclose(one.sampled.overlap, alone.sampled.overlap, atol=1e-5)
        for threshold, stop in alone.sampled.stop_rejected.items():
            np.testing.assert_allclose(one.sampled.stop_rejected[threshold], stop, atol=1e-4)


def test_texts_that_do_not_fit_together_are_read_in_halves(pair, several, monkeypatch):
    prompts, written = several
    whole = dict(traces(pair, prompts, written, BUDGET, Decoding()))
    real, sizes = tracing._together, []

    def small_memory(pair, used, told, *rest):
        sizes.append(len(told))
        if len(told) > 1:
            raise torch.OutOfMemoryError("no")
        return real(pair, used, told, *rest)

    monkeypatch.setattr(tracing, "_together", small_memory)
    found = dict(traces(pair, prompts, written, BUDGET, Decoding()))
    assert max(sizes) > 1
    assert sizes.count(1) == len(prompts)
    for at, one in whole.items():
        assert_alike(found[at], one)


def test_a_draft_that_is_always_right_has_no_tails(pair, prompt):
    same = dataclasses.replace(pair, draft=pair.target)
    found = trace(same, prompt, run_policy(same, prompt, Plain(), BUDGET).tokens, BUDGET)
    assert found.accept.tolist() == [1.0] * BUDGET
    assert tails_of(found).confidence.shape == (0, LONGEST_TAIL)


def test_one_token_is_a_trace(pair, prompt, recorded):
    found = trace(pair, prompt, recorded.answer[:1], 1)
    assert found.confidence == pytest.approx(recorded.confidence[:1], abs=1e-5)
    assert len(found.pieces) == 1


def test_lookup_copies_from_the_text_before(pair):
    """abcabc..., answered by more of it: everything that is proposed is right."""
    prompt, answer = torch.tensor([[10, 11, 12] * 4]), np.array([10, 11, 12, 10, 11], np.int32)
    found = trace(pair, prompt, answer, 5)
    assert found.lookup is not None
    assert found.lookup[2].candidates.tolist() == [9, 9, 12, 12, 0]  # the last token leaves no room for a proposal
    assert found.lookup[2].matched.tolist() == [5, 4, 3, 2, 0]
    assert set(found.lookup) == {1, 2, 3}


@pytest.mark.parametrize("text", ["plain words", "naïve 日本語 🙂", "tabs\tand\nlines  ", "\ufffd"])
def test_pieces_join_to_the_text(pair, text):
    ids = np.array(pair.tokenizer(text)["input_ids"], np.int32)
    assert "".join(pieces(pair.tokenizer, ids)) == text


def test_a_character_of_three_tokens_belongs_to_the_last(pair):
    ids = np.array(pair.tokenizer("a語b")["input_ids"], np.int32)
    assert len(ids) == 5
    assert pieces(pair.tokenizer, ids) == ("a", "", "", "語", "b")


def test_a_cut_character_is_shown_as_the_decoder_shows_it(pair):
    ids = np.array(pair.tokenizer("a語")["input_ids"], np.int32)[:-1]
    assert "".join(pieces(pair.tokenizer, ids)) == pair.tokenizer.decode(ids)
