"""Encoder-decoder pairs: real calls against the replay, what the library shares and what it needs, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel, SwitchTransformersConfig, SwitchTransformersForConditionalGeneration

from core.decoding import Decoding
from core.errors import InvalidInput, ModelError
from core.policies import Confidence, FixedGamma, Heuristic, Plain, Policy, PromptLookup, TransformersDefault
from core.replay import replay_all, rounds_of
from core.runs import Prompt
from core.trace import PromptTrace
from core.worker.batch import Written, write
from core.worker.calls import counted
from core.worker.feeding import EncoderDecoder
from core.worker.generate import draft_settings, run_policy
from core.worker.inputs import encode_prompts
from core.worker.models import Garage, Pair
from core.worker.processors import lists
from core.worker.reading import Texts, scores_of
from core.worker.tracing import traces
from tests import encoder_pairs
from tests.encoder_pairs import EOS, PAD, POSITIONS

BUDGET = 20
GREEDY = Decoding()
POLICIES: tuple[Policy, ...] = (
    FixedGamma(1),
    FixedGamma(4),
    Confidence(0.4, 6),
    Heuristic(persistent=False),
    TransformersDefault(),
    PromptLookup(5, 2),
)


@pytest.fixture(scope="module", params=["t5", "bart", "marian"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Pair, list[torch.Tensor]]:
    torch.set_num_threads(1)
    refs = encoder_pairs.write_pair(tmp_path_factory.mktemp(request.param), getattr(encoder_pairs, request.param), noise=0.02)
    spec = encoder_pairs.spec_of(refs, prompts=4, max_new_tokens=BUDGET)
    pair = Garage().get(spec)
    return pair, encode_prompts(pair, spec)


def recorded(pair: Pair, prompts: list[torch.Tensor], decoding: Decoding = GREEDY) -> list[PromptTrace]:
    written = dict(write(pair, prompts, BUDGET, decoding, 0))
    found = dict(traces(pair, prompts, [written[at] for at in range(len(prompts))], BUDGET, decoding))
    return [found[at] for at in range(len(prompts))]


def test_every_real_call_runs_the_rounds_that_were_replayed(loaded: tuple[Pair, list[torch.Tensor]]) -> None:
    """Answers written in a padded batch, the draft read beside them, and 36 calls of the unmodified library in all."""
    pair, prompts = loaded
    for prompt, trace in list(zip(prompts, recorded(pair, prompts), strict=True))[:2]:
        assert trace.prompt_tokens == prompt.shape[1]
        assert run_policy(pair, prompt, Plain(), BUDGET).tokens.tolist() == trace.answer.tolist()
        for policy in POLICIES:
            timed, drafted = counted(pair, prompt, policy, BUDGET, Decoding(), 0)
            expected = rounds_of(trace, policy)
            assert timed.tokens.tolist() == trace.answer.tolist()
            assert timed.rounds == tuple(one.emitted for one in expected), policy
            assert drafted == tuple(one.drafted for one in expected), policy


def test_the_decoders_mask_keeps_the_drafts_place(loaded: tuple[Pair, list[torch.Tensor]]) -> None:
    """Without it Transformers 5.24 reads the text to the draft anew in each round, behind what it has read already."""
    pair, prompts = loaded
    widths: list[int] = []
    hook = pair.draft.register_forward_pre_hook(lambda *given: widths.append(given[2]["decoder_input_ids"].shape[1]), with_kwargs=True)
    try:
        run_policy(pair, prompts[0], FixedGamma(2), BUDGET)
        assert set(widths[2:]) <= {1, 2}
        widths.clear()
        with draft_settings(pair.draft, FixedGamma(2)):
            pair.target.generate(  # pyright: ignore[reportCallIssue]
                **pair.feeding.arguments(prompts[:1]), assistant_model=pair.draft, max_new_tokens=BUDGET, do_sample=False
            )
        assert max(widths) > BUDGET // 2
    finally:
        hook.remove()


def test_rounds_expected_under_sampling_are_those_of_real_calls(loaded: tuple[Pair, list[torch.Tensor]]) -> None:
    """Each call's own text tells how many rounds it took on average; over all calls chance evens out."""
    pair, prompts = loaded
    decoding, gaps = Decoding(sample=True, temperature=0.8), list[float]()
    for seed in range(16):
        timed, _ = counted(pair, prompts[seed % 2], FixedGamma(3), 10, decoding, seed)
        written = [Written(timed.tokens, None, 0.0, 0.0, 1)]
        [(_, trace)] = traces(pair, [prompts[seed % 2]], written, 10, decoding)
        gaps.append(len(timed.rounds) - replay_all([trace], [FixedGamma(3)])[0][0].rounds)
    assert abs(np.mean(gaps)) < max(1e-6, 4 * np.std(gaps, ddof=1) / np.sqrt(len(gaps)))


def test_sampling_probabilities_are_those_that_were_drawn_from(loaded: tuple[Pair, list[torch.Tensor]]) -> None:
    """P as kept while a batch was written, against both models read over the text."""
    pair, prompts = loaded
    decoding = Decoding(sample=True, temperature=0.8, top_k=20)
    written = dict(write(pair, prompts, 12, decoding, 0))
    used = lists(pair, decoding)
    texts = Texts.of(prompts, [torch.from_numpy(written[at].tokens) for at in range(len(prompts))], pair.feeding)
    found: list[list[torch.Tensor]] = [[] for _ in prompts]
    for at, scores in scores_of(texts.begin(pair.target), used.target, texts):
        found[at].append(scores.softmax(-1))
    for at in range(len(prompts)):
        p = torch.cat(found[at]).gather(1, texts.answer(at)[:, None])[:, 0]
        assert p.detach().numpy() == pytest.approx(written[at].p, abs=1e-4)


def test_a_draft_of_another_width_reads_the_prompt_with_its_own_encoder(tmp_path: Path) -> None:
    """Nothing is shared between the two, so no size must agree: the library's rounds are the replay's all the same."""
    target, _ = encoder_pairs.write_pair(tmp_path, noise=0.0)
    draft = encoder_pairs.save(tmp_path / "other", encoder_pairs.t5(width=16, layers=1))
    spec = encoder_pairs.spec_of((target, draft), prompts=1)
    pair = Garage().get(spec)
    prompts = encode_prompts(pair, spec)
    [trace] = recorded(pair, prompts)
    for policy in (FixedGamma(3), PromptLookup(3, 1)):
        timed, drafted = counted(pair, prompts[0], policy, BUDGET, Decoding(), 0)
        assert (timed.rounds, drafted) == tuple(zip(*((one.emitted, one.drafted) for one in rounds_of(trace, policy)), strict=True))


def refused(tmp_path: Path, target: PreTrainedModel, draft: PreTrainedModel) -> str:
    spec = encoder_pairs.spec_of((encoder_pairs.save(tmp_path / "one", target), encoder_pairs.save(tmp_path / "two", draft)))
    with pytest.raises(ModelError) as raised:
        Garage().get(spec)
    return str(raised.value)


def decoder() -> PreTrainedModel:
    return GPT2LMHeadModel(GPT2Config(vocab_size=encoder_pairs.VOCABULARY, n_embd=16, n_layer=1, n_head=2, n_positions=64))


def test_one_encoder_alone_is_refused_before_any_weights_are_read(tmp_path: Path) -> None:
    assert refused(tmp_path, encoder_pairs.t5(), decoder()).startswith("one is an encoder-decoder and two is a decoder alone")
    assert refused(tmp_path, decoder(), encoder_pairs.t5()).startswith("two is an encoder-decoder and one is a decoder alone")


def test_an_unknown_kind_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    config = SwitchTransformersConfig(vocab_size=encoder_pairs.VOCABULARY, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, num_experts=2)
    said = refused(tmp_path, SwitchTransformersForConditionalGeneration(config), encoder_pairs.t5())
    assert said.startswith("one is an encoder-decoder of the type 'switch_transformers', which is not measured here.")
    assert "plbart, t5, umt5, or a decoder." in said


def test_other_tokens_are_refused_because_the_drafts_encoder_would_get_the_targets_ids(tmp_path: Path) -> None:
    target = encoder_pairs.save(tmp_path / "one", encoder_pairs.t5())
    draft = encoder_pairs.save(tmp_path / "two", encoder_pairs.t5(vocab_size=encoder_pairs.VOCABULARY + 4))
    with pytest.raises(ModelError, match=r"have different tokens, and Transformers 5\.24 would give the target's"):
        Garage().get(encoder_pairs.spec_of((target, draft)).model_copy(update={"extent": "side_by_side"}))


def test_a_decoder_deeper_than_its_encoder_has_no_cache_for_all_layers(tmp_path: Path) -> None:
    deep = encoder_pairs.t5(layers=1, num_decoder_layers=2)
    assert "has more layers than its encoder (t5)" in refused(tmp_path, deep, deep)


def test_a_decoder_that_begins_with_nothing_is_refused(tmp_path: Path) -> None:
    model = encoder_pairs.t5(decoder_start_token_id=None)
    assert "names no decoder_start_token_id" in refused(tmp_path, model, model)


@pytest.mark.parametrize(
    ("prompt", "new", "said"), [("x" * 70, 8, "more than the 64 that the encoders"), ("x", 70, "the decoders of this pair hold 62")]
)
def test_texts_longer_than_the_models_positions_are_refused(tmp_path: Path, prompt: str, new: int, said: str) -> None:
    """BART has as many positions as its table; its answers begin with two tokens of their own."""
    refs = encoder_pairs.write_pair(tmp_path, encoder_pairs.bart)
    spec = encoder_pairs.spec_of(refs, max_new_tokens=new).model_copy(update={"prompts": (Prompt(text="fine"), Prompt(text=prompt))})
    pair = Garage().get(spec)
    assert pair.feeding == EncoderDecoder(start=(EOS, 2), reads=POSITIONS, writes=POSITIONS)
    with pytest.raises(InvalidInput, match=said):
        encode_prompts(pair, spec)


def test_what_must_never_be_written_stays_forbidden(tmp_path: Path) -> None:
    refs = encoder_pairs.write_pair(tmp_path, encoder_pairs.marian)
    spec = encoder_pairs.spec_of(refs, prompts=1)
    pair = Garage().get(spec)
    assert pair.feeding == EncoderDecoder(start=(PAD,), reads=POSITIONS, writes=POSITIONS, forbidden=(PAD,))
    scores = torch.zeros((1, encoder_pairs.VOCABULARY))
    for processors in (lists(pair, Decoding()).target, lists(pair, Decoding(sample=True)).draft):
        assert torch.isinf(processors(torch.tensor([[PAD]]), scores.clone())).nonzero().tolist() == [[0, PAD]]  # pyright: ignore[reportArgumentType]
