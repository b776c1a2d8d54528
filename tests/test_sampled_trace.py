"""What is recorded under sampling, against a computation position by position with the lists of a real assisted call.

Also here: that neither setting of the draft changes what the target's text is drawn from, that both leave nothing behind,
and what happens with scores that are no numbers.
"""

import dataclasses
import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import LlamaConfig, LlamaForCausalLM

from core.decoding import Decoding
from core.errors import InvalidInput, ModelError
from core.policies import FixedGamma, Plain
from core.predict import THRESHOLDS
from core.worker import reading
from core.worker.generate import Timed, run_policy
from core.worker.models import Pair, greedy_config
from core.worker.processors import lists, name_of
from core.worker.tracing import trace
from tests.models import TEXTS, tokenizer_of
from tests.pairs import small_pair
from tests.test_replay_sampling import chi_square_tail, sampled_of

BUDGET = 24
PENALISED = Decoding(sample=True, temperature=0.8, top_k=40, top_p=0.9, repetition_penalty=1.2)
DECODINGS = {
    "plain": Decoding(sample=True),
    "twice": PENALISED,
    "once": PENALISED.model_copy(update={"warpers_once": True}),
    "own temperature": PENALISED.model_copy(update={"draft_temperature": 1.1}),
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> Pair:
    return small_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def prompt(pair) -> torch.Tensor:
    return pair.tokenizer(TEXTS[0], return_tensors="pt")["input_ids"]


def kept_by(timed: Timed) -> NDArray[np.float32]:
    assert timed.p is not None
    return timed.p


def built_in_a_real_call(pair, prompt, decoding, monkeypatch):
    """The lists of target and draft of an assisted call that was run to its end."""
    built = {"target": [], "draft": []}
    for role, found in built.items():
        model = getattr(pair, role)

        def build(*given, before=model._get_logits_processor, seen=found, **named):
            seen.append(before(*given, **named))
            return seen[-1]

        monkeypatch.setattr(model, "_get_logits_processor", build, raising=False)
    run_policy(pair, prompt, FixedGamma(3), 8, decoding)
    monkeypatch.undo()
    return built["target"][-1], built["draft"][-1]


@torch.no_grad()
def drawn_from(model, processors, prompt, answer):
    """(N, V) in double, each position by itself from a pass without a cache."""
    text = torch.cat([prompt[0], torch.from_numpy(answer).long()])[None]
    scores = model(text).logits[0].float()
    rows = [processors(text[:, :known], scores[known - 1 : known]) for known in range(prompt.shape[1], text.shape[1])]
    return torch.cat(rows).softmax(-1).double().numpy()


@pytest.mark.parametrize("name", DECODINGS)
def test_every_number_equals_the_one_computed_position_by_position(pair, prompt, name, monkeypatch):
    decoding = DECODINGS[name]
    written = run_policy(pair, prompt, Plain(), BUDGET, decoding, seed=3, keep=True)
    monkeypatch.setattr(reading, "HELD_CELLS", 7 * 384)
    monkeypatch.setattr(reading, "_CELLS", 3 * 384)
    found = trace(pair, prompt, written.tokens, BUDGET, decoding, p=written.p)
    monkeypatch.undo()
    for_target, for_draft = built_in_a_real_call(pair, prompt, decoding, monkeypatch)
    p, q = (drawn_from(model, each, prompt, written.tokens) for model, each in ((pair.target, for_target), (pair.draft, for_draft)))
    at = np.arange(BUDGET), written.tokens
    np.testing.assert_allclose(kept_by(written), p[at], rtol=1e-3)
    np.testing.assert_array_equal(sampled_of(found).p, kept_by(written))
    np.testing.assert_allclose(found.accept, np.minimum(1, q[at] / p[at]), atol=1e-3)
    np.testing.assert_allclose(found.confidence, q[at], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(sampled_of(found).overlap, np.minimum(p, q).sum(1), atol=2e-4)
    assert found.draft_choice.tolist() == q.argmax(1).tolist()
    assert sampled_of(found).greedy_hit.tolist() == (q.argmax(1) == written.tokens).tolist()
    assert 0.1 < found.accept.mean() < 0.99
    assert tuple(sampled_of(found).stop_rejected) == THRESHOLDS
    excess = np.maximum(q - p, 0)
    certain = excess.sum(1) > 1e-4
    for threshold, chance in sampled_of(found).stop_rejected.items():
        stops = q < threshold
        stops[:, pair.eos_ids] = True
        np.testing.assert_allclose(chance[certain], (excess * stops).sum(1)[certain] / excess.sum(1)[certain], atol=2e-3)
    assert (sampled_of(found).clamped, found.tails) == (0, None)


def test_the_draft_gets_the_warpers_twice_or_once_and_the_penalty_once(pair):
    def counted(decoding):
        names = Counter(type(each).__name__ for each in lists(pair, decoding).draft)
        return [
            names[f"{name}Logits{kind}"]
            for name, kind in (("RepetitionPenalty", "Processor"), *((n, "Warper") for n in ("Temperature", "TopK", "TopP")))
        ]

    assert counted(DECODINGS["twice"]) == [1, 2, 2, 2]
    assert counted(DECODINGS["once"]) == [1, 1, 1, 1]
    assert counted(DECODINGS["own temperature"]) == [1, 1, 1, 1]
    assert counted(Decoding(repetition_penalty=1.2)) == [1, 0, 0, 0]
    assert counted(Decoding(sample=True)) == [0, 0, 0, 0]  # the library's own top_k of 50 stays out


def test_a_setting_of_the_draft_leaves_nothing_behind(pair, prompt):
    """A-B-A, rounds included; also after an error."""
    first, second = DECODINGS["twice"], DECODINGS["own temperature"]
    runs = [run_policy(pair, prompt, FixedGamma(4), BUDGET, each, seed=5) for each in (first, second, first)]
    assert runs[0].tokens.tolist() == runs[2].tokens.tolist()
    assert runs[0].rounds == runs[2].rounds
    assert (runs[0].tokens.tolist(), runs[0].rounds) != (runs[1].tokens.tolist(), runs[1].rounds)
    with pytest.raises(ValueError, match="max_new_tokens"):
        run_policy(pair, prompt, FixedGamma(4), 0, second)
    assert "_get_logits_processor" not in vars(pair.draft) | vars(pair.target)


def test_the_same_seed_writes_the_same_text_kept_or_not(pair, prompt):
    for decoding in DECODINGS.values():
        kept, timed, again = (
            run_policy(pair, prompt, Plain(), BUDGET, decoding, seed, keep=keep) for seed, keep in ((1, True), (1, False), (2, False))
        )
        assert kept.tokens.tolist() == timed.tokens.tolist() != again.tokens.tolist()
        assert timed.p is None


def test_what_differs_in_the_draft_alone_does_not_change_the_target_s_text(pair, prompt):
    texts = {tuple(run_policy(pair, prompt, Plain(), BUDGET, DECODINGS[name], 4).tokens.tolist()) for name in ("twice", "once", "own temperature")}
    assert len(texts) == 1
    assert DECODINGS["once"].for_target() == DECODINGS["own temperature"].for_target() == DECODINGS["twice"]


FEW = 6


@pytest.fixture(scope="module")
def small() -> Pair:
    """Six tokens and no end of text, so that every text of two tokens has a chance that can be counted."""
    torch.manual_seed(1)
    shape = LlamaConfig(vocab_size=FEW, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, initializer_range=0.8)
    models = [LlamaForCausalLM(shape).eval() for _ in range(2)]
    for model in models:
        model.generation_config = greedy_config(())
    return Pair(models[0], models[1], tokenizer_of(list(TEXTS)), (), None, torch.device("cpu"))


@pytest.mark.parametrize("changed", [{"warpers_once": True}, {"draft_temperature": 0.3}], ids=str)
def test_the_target_s_distribution_is_unchanged(small, changed):
    """Chi-square over all texts of two tokens; the draft's own distribution would be noticed."""
    decoding = Decoding(sample=True, temperature=0.8, top_k=5, **changed)
    prompt = torch.tensor([[1, 2, 3]])
    used = lists(small, decoding)
    texts = list(itertools.product(range(FEW), repeat=2))
    expected = {}
    for role, processors in (("target", used.target), ("draft", used.draft)):
        rows = [drawn_from(getattr(small, role), processors, prompt, np.array(text)) for text in texts]
        expected[role] = np.array([row[0, text[0]] * row[1, text[1]] for row, text in zip(rows, texts, strict=True)])
    count = 400
    written = Counter(tuple(run_policy(small, prompt, FixedGamma(1), 2, decoding, seed).tokens.tolist()) for seed in range(count))
    seen = np.array([written[text] for text in texts])
    assert seen[expected["target"] == 0].sum() == 0
    assert tail_of(seen, expected["target"] * count) > 1e-4
    assert tail_of(seen, expected["draft"] * count) < 1e-8


def tail_of(seen, expected) -> float:
    """Texts expected fewer than four times are counted together."""
    often = expected >= 4
    seen, expected = (np.append(each[often], each[~often].sum()) for each in (seen, expected))
    return chi_square_tail(float(((seen - expected) ** 2 / np.maximum(expected, 1e-9)).sum()), len(seen) - 1)


def test_a_token_outside_the_nucleus_computed_again_is_clamped_and_counted(pair, prompt):
    """As if rounding had moved the border: p is the least that is left in the nucleus."""
    narrow = Decoding(sample=True, top_k=2)
    answer = run_policy(pair, prompt, Plain(), BUDGET, Decoding(sample=True, temperature=2.0), seed=1).tokens
    found = trace(pair, prompt, answer, BUDGET, narrow)
    p = drawn_from(pair.target, lists(pair, narrow).target, prompt, answer)
    outside = p[np.arange(len(answer)), answer] == 0
    assert sampled_of(found).clamped == outside.sum() > 0
    np.testing.assert_allclose(sampled_of(found).p[outside], np.where(p > 0, p, 1).min(1)[outside], rtol=1e-4)
    assert np.isfinite(found.accept).all()
    kept = np.full(len(answer), 0.25, np.float32)
    again = trace(pair, prompt, answer, BUDGET, narrow, p=kept)
    assert sampled_of(again).p.tolist() == kept.tolist()
    assert sampled_of(again).clamped == sampled_of(found).clamped


def test_a_draft_that_is_the_target_is_accepted_everywhere(pair, prompt):
    same = dataclasses.replace(pair, draft=pair.target)
    decoding = DECODINGS["once"]
    written = run_policy(same, prompt, Plain(), BUDGET, decoding, keep=True)
    found = trace(same, prompt, written.tokens, BUDGET, decoding, p=written.p)
    assert found.accept == pytest.approx(1, abs=1e-4)
    assert sampled_of(found).overlap == pytest.approx(1, abs=1e-5)
    assert run_policy(same, prompt, FixedGamma(5), BUDGET, decoding).rounds == (6, 6, 6, 6)


def test_a_draft_that_never_stops_is_held_by_its_limit(pair, prompt):
    """It is sure of everything and never ends the text: the limit alone ends its turns."""
    same = dataclasses.replace(pair, draft=pair.target)
    passes: list[int] = []
    hook = same.draft.register_forward_hook(lambda *_: passes.append(1))
    try:
        timed = run_policy(same, prompt, FixedGamma(20), 43, DECODINGS["once"])
    finally:
        hook.remove()
    assert timed.rounds == (21, 21, 1)
    assert len(passes) == 40 + 3


def broken(pair: Pair, role: str, monkeypatch) -> Pair:
    monkeypatch.setattr(getattr(pair, role).lm_head.weight, "data", torch.full_like(getattr(pair, role).lm_head.weight, float("nan")))
    return pair


@pytest.mark.parametrize("role", ["target", "draft"])
def test_scores_that_are_no_numbers_name_their_model(pair, prompt, role, monkeypatch):
    decoding = DECODINGS["plain"]
    answer = run_policy(pair, prompt, Plain(), 8, decoding).tokens
    damaged = broken(pair, role, monkeypatch)
    with pytest.raises(ModelError, match=rf"The {role} {role} gives scores that are not numbers \(NaN\) in float32"):
        trace(damaged, prompt, answer, 8, decoding)
    with pytest.raises(ModelError, match=f"The {role} {role} gives"):
        run_policy(damaged, prompt, FixedGamma(3), 8, decoding)
    if role == "target":
        for each in (decoding, Decoding()):
            with pytest.raises(ModelError, match="The target target gives"):
                run_policy(damaged, prompt, Plain(), 8, each, keep=True)
    if role == "draft":
        with pytest.raises(ModelError, match="The draft draft gives"):
            trace(damaged, prompt, answer, 8)


def test_models_of_the_hub_are_named_by_their_repository(pair, monkeypatch):
    monkeypatch.setattr(pair.target, "name_or_path", "/cache/models--owner--some-model/snapshots/0123abc")
    assert name_of(pair.target) == "owner/some-model"


def test_only_plain_answers_keep_their_probabilities(pair, prompt):
    with pytest.raises(InvalidInput, match="without a draft"):
        run_policy(pair, prompt, FixedGamma(3), 8, DECODINGS["plain"], keep=True)


def test_tails_under_a_repetition_penalty_are_what_the_draft_writes(pair, prompt):
    decoding = Decoding(repetition_penalty=1.3)
    found = trace(pair, prompt, run_policy(pair, prompt, Plain(), BUDGET, decoding).tokens, BUDGET, decoding)
    penalise = lists(pair, decoding).draft
    assert found.tails is not None
    assert len(found.tails.position) > 1
    for position, row in zip(found.tails.position.tolist(), found.tails.confidence, strict=True):
        ids = torch.cat([prompt[0], torch.from_numpy(found.answer[:position]).long(), torch.tensor([int(found.draft_choice[position])])])[None]
        for column in range(3):
            with torch.no_grad():
                chances = penalise(ids, pair.draft(ids).logits[:, -1].float()).softmax(-1)  # pyright: ignore[reportArgumentType]
            if not np.isnan(row[column]):
                assert row[column] == pytest.approx(float(chances.max()), abs=1e-4)
            ids = torch.cat([ids, chances.argmax(-1, keepdim=True)], 1)
