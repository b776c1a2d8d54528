"""A side-by-side run on tiny real models: its steps are the library's own rounds, whoever drafts, and lanes leave no trace in each other."""

import json
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.generation.candidate_generator import AssistantToTargetTranslator

from core.decoding import Decoding
from core.errors import DeviceError, InvalidInput
from core.policies import FixedGamma, Heuristic, Plain, PromptLookup, TransformersDefault
from core.replay import rounds_of
from core.runs import Lane, Message, ModelRef, Prompt, RunSpec
from core.settings import Settings
from core.worker import measure as measuring
from core.worker import models as loading
from core.worker.generate import run_policy
from core.worker.inputs import encode_prompts
from core.worker.measure import measure
from core.worker.models import Garage
from core.worker.side_by_side import _SideBySide, side_by_side
from core.worker.tracing import trace
from tests.models import TEXTS, spec_of, tokenizer_of, write_pair

BUDGET = 40
SAMPLED = Decoding(sample=True, temperature=0.8)


class Elsewhere:
    """A device that is no CPU and needs no waiting for."""

    type = "elsewhere"


class Kept:
    """A sink that keeps everything."""

    def __init__(self):
        self.stages, self.environments, self.generations, self.differences, self.written = [], [], [], [], []
        self.traces, self.disturbances = {}, 0

    def stage(self, stage, done, total):
        self.stages.append((stage, done, total))

    def environment(self, environment):
        self.environments.append(environment)

    def passes(self, passes):
        raise AssertionError("nothing but the lanes is timed")

    def draft_prefill(self, seconds):
        raise AssertionError("nothing but the lanes is timed")

    def difference(self, difference):
        self.differences.append(difference)

    def generation(self, generation):
        self.generations.append((generation, len(self.written)))

    def trace(self, index, trace):
        self.traces[index] = trace

    def steps(self, steps):
        self.written += steps

    def disturbed(self):
        self.disturbances += 1

    def lane(self, index):
        return [step for step in self.written if step.lane == index]

    def timeless(self):
        return [step.model_copy(update={"at_s": 0.0, "draft_s": 0.0, "verify_s": 0.0}) for step in self.written]


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def refs(tmp_path_factory) -> tuple[ModelRef, ModelRef]:
    return write_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def garage() -> Garage:
    return Garage()


@pytest.fixture(scope="module")
def foreign(tmp_path_factory) -> ModelRef:
    """A draft with a vocabulary of its own, of another size."""
    folder = tmp_path_factory.mktemp("foreign")
    plain = Tokenizer(models.BPE())
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    plain.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=300, special_tokens=["<end>"], initial_alphabet=alphabet, show_progress=False))
    PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<end>", pad_token="<end>").save_pretrained(folder)
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=plain.get_vocab_size(),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=512,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return ModelRef(source="folder", name="foreign", path=str(folder))


def beside(refs, *lanes, order=None, text=TEXTS[0], **changes) -> RunSpec:
    """A run of plain decoding beside these lanes or policies."""
    chosen = (Lane(policy=Plain()), *(lane if isinstance(lane, Lane) else Lane(policy=lane) for lane in lanes))
    order = tuple(range(len(chosen))) if order is None else order
    changes = {"extent": "side_by_side", "lanes": chosen, "order": order, "prompts": (Prompt(text=text),), "max_new_tokens": BUDGET} | changes
    return spec_of(refs).model_copy(update=changes)


def run(spec, garage) -> Kept:
    kept = Kept()
    side_by_side(spec, kept, garage)
    return kept


def assert_replayed(kept, spec, garage):
    """Every lane against the library's own rounds and against the replay of the trace; and the text against the tokenizer's."""
    pair = garage.get(spec)
    prompt, answer = encode_prompts(pair, spec)[0], kept.traces[0].answer
    for index, lane in enumerate(spec.lanes):
        steps = kept.lane(index)
        timed = run_policy(pair, prompt, lane.policy, spec.max_new_tokens)
        assert tuple(len(step.tokens) for step in steps) == timed.rounds
        tokens = [token for step in steps for token in step.tokens]
        assert tokens == timed.tokens.tolist() == answer.tolist()
        assert "".join(piece for step in steps for piece in step.pieces) == pair.tokenizer.decode(tokens) == "".join(kept.traces[0].pieces)
        assert all(len(step.pieces) == len(step.tokens) == step.accepted + 1 for step in steps)
        if index == 0:
            assert all(step.drafted == 0 and step.rejected == () for step in steps)
            continue
        expected = [(r.drafted, r.accepted, r.rejected) for r in rounds_of(kept.traces[0], lane.policy)]
        assert [(step.drafted, step.accepted, bool(step.rejected)) for step in steps] == expected


@pytest.mark.parametrize("policies", [(FixedGamma(3), TransformersDefault()), (Heuristic(5), PromptLookup(4))], ids=str)
def test_steps_are_the_librarys_rounds_and_the_replays(refs, garage, policies):
    spec = beside(refs, *policies, order=(2, 0, 1))
    kept = run(spec, garage)
    assert_replayed(kept, spec, garage)
    assert [generation.lane for generation, _ in kept.generations] == [2, 0, 1]
    assert [generation.equal for generation, _ in kept.generations] == [None, True, True]
    assert kept.differences == []
    assert [stage for stage in kept.stages if stage[0] == "writing"] == [("writing", done, 3) for done in (0, 1, 1, 2, 2, 3)]


def test_the_record_of_a_lane_comes_after_all_its_steps_and_agrees_with_them(refs, garage):
    kept = run(beside(refs, FixedGamma(3)), garage)
    for generation, written in kept.generations:
        steps = kept.lane(generation.lane)
        assert written == sum(step.lane <= generation.lane for step in kept.written)
        assert generation.tokens == sum(step.accepted + 1 for step in steps) == BUDGET
        assert generation.purpose == "side_by_side"
        assert generation.first_token_s == pytest.approx(steps[0].at_s, abs=0.001)
        assert steps[-1].at_s <= generation.total_s
    plain, drafted = (generation for generation, _ in kept.generations)
    assert (plain.rounds, plain.drafted) == ((), ())
    assert drafted.rounds == tuple(len(step.tokens) for step in kept.lane(1))
    assert drafted.drafted == tuple(step.drafted for step in kept.lane(1))


def test_the_time_of_passes_fits_into_their_rounds(refs, garage):
    kept = run(beside(refs, FixedGamma(3)), garage)
    for index in (0, 1):
        steps = kept.lane(index)
        for before, step in zip([None, *steps], steps, strict=False):
            took_s = step.at_s - (before.at_s if before else 0.0)
            assert 0 < step.draft_s + step.verify_s < took_s
            assert (step.draft_s > 0) == (step.drafted > 0)


def test_colours_are_the_recorded_origins(refs, garage):
    """An accepted token is the draft's own choice in the trace; the first thrown away is what the draft chose there instead."""
    spec = beside(refs, FixedGamma(4))
    kept = run(spec, garage)
    trace, tokenizer = kept.traces[0], garage.get(spec).tokenizer
    at, wrong = 0, 0
    for step in kept.lane(1):
        assert trace.draft_choice[at : at + step.accepted].tolist() == list(step.tokens[: step.accepted])
        at += len(step.tokens)
        if step.rejected:
            wrong += 1
            assert len(step.rejected) == step.drafted - step.accepted
            choice = int(trace.draft_choice[at - 1])
            assert choice != step.tokens[-1]
            before = trace.answer[: at - 1].tolist()
            if not (tokenizer.decode(before) + tokenizer.decode([choice])).count("\ufffd"):
                assert step.rejected[0] == tokenizer.decode([*before, choice])[len(tokenizer.decode(before)) :]
    assert 2 < wrong < len(kept.lane(1))


@pytest.mark.parametrize("place", [0, 25])
def test_an_answer_that_ends_by_itself(tmp_path, garage, place):
    """At once, or in mid-answer, where an end of text that was drafted and accepted counts as the target's own."""
    refs = write_pair(tmp_path)
    spec = beside(refs, FixedGamma(5), PromptLookup(4))
    answer = run(spec, garage).traces[0].answer
    end = next(int(token) for at, token in enumerate(answer) if at >= place and token not in answer[:at])
    (tmp_path / "target" / "generation_config.json").write_text(json.dumps({"eos_token_id": end}))
    kept = run(spec, garage)
    assert kept.traces[0].ended == "eos"
    assert kept.lane(1)[-1].tokens[-1] == end
    assert_replayed(kept, spec, garage)
    if place == 0:
        assert [len(kept.lane(lane)) for lane in range(3)] == [1, 1, 1]


def test_a_budget_of_one_token(refs, garage):
    spec = beside(refs, FixedGamma(5), PromptLookup(4), max_new_tokens=1)
    kept = run(spec, garage)
    assert [(step.lane, step.drafted, step.accepted, step.rejected) for step in kept.written[:2]] == [(0, 0, 0, ()), (1, 0, 0, ())]
    assert kept.lane(2)[0].tokens == kept.lane(0)[0].tokens
    assert [generation.tokens for generation, _ in kept.generations] == [1, 1, 1]


def test_nothing_carries_over_from_lane_to_lane_or_from_run_to_run(refs, garage):
    first, other = beside(refs, Heuristic(5), FixedGamma(2)), beside(refs, FixedGamma(7), Heuristic(12), order=(2, 1, 0))
    before = garage.get(first).draft.generation_config.to_dict()
    a, _, again = (run(spec, garage) for spec in (first, other, first))
    assert again.timeless() == a.timeless()
    assert garage.get(first).draft.generation_config.to_dict() == before


def test_sampling_repeats_with_its_seed_and_claims_nothing(refs, garage):
    spec = beside(refs, FixedGamma(3), decoding=SAMPLED, seed=5)
    kept, again = run(spec, garage), run(spec, garage)
    assert again.timeless() == kept.timeless()
    assert run(spec.model_copy(update={"seed": 6}), garage).timeless() != kept.timeless()
    assert [generation.equal for generation, _ in kept.generations] == [None, None]
    assert kept.differences == []
    assert kept.traces[0].sampled is not None
    assert kept.traces[0].answer.tolist() == [token for step in kept.lane(0) for token in step.tokens]


def test_another_draft_in_a_lane_leaves_the_target_loaded_and_the_trace_to_the_runs_own(refs, tmp_path, monkeypatch):
    other = write_pair(tmp_path, noise=0.1)[1]
    loaded: list[str] = []
    drafts: list[weakref.ref] = []
    load = loading.load_model

    def loads(ref, key, role):
        loaded.append(str(key.place.folder))
        assert all(draft() is None for draft in drafts) or role == "target", "two drafts are in memory"
        model = load(ref, key, role)
        drafts.extend([weakref.ref(model)] if role == "draft" else [])
        return model

    monkeypatch.setattr(loading, "load_model", loads)
    garage = Garage()
    spec = beside(refs, FixedGamma(4), Lane(policy=FixedGamma(4), draft=other), order=(0, 2, 1))
    kept = run(spec, garage)
    assert loaded == [refs[0].path, refs[1].path, other.path, refs[1].path]
    for lane, draft in ((1, refs[1]), (2, other)):
        pair = garage.get(spec.model_copy(update={"draft": draft}))
        prompt = encode_prompts(pair, spec)[0]
        assert [len(step.tokens) for step in kept.lane(lane)] == list(run_policy(pair, prompt, FixedGamma(4), BUDGET).rounds)
        del pair
    assert len(kept.lane(2)) > len(kept.lane(1))
    pair = garage.get(spec)
    expected = trace(pair, encode_prompts(pair, spec)[0], kept.traces[0].answer, BUDGET)
    assert kept.traces[0].draft_choice.tolist() == expected.draft_choice.tolist()


def test_an_accelerators_passes_are_timed_in_a_whole_call_of_their_own_and_only_shared_out(refs, garage, monkeypatch):
    """On the CPU, which can say so too: shares below one whole, the same in every round, nothing of a draft in plain decoding."""
    spec = beside(refs, FixedGamma(3))
    pair = garage.get(spec)
    sink, begun = Kept(), run(spec, garage).environments[-1]
    shown = _SideBySide(spec, sink, garage, begun)
    monkeypatch.setattr(garage, "get", lambda *_: replace(pair, device=Elsewhere()))
    monkeypatch.setattr("core.worker.side_by_side.encode_prompts", lambda *_: encode_prompts(pair, spec))
    for lane in spec.order:
        shown.write(lane)
    for lane in spec.order:
        steps = sink.lane(lane)
        took_s = [step.at_s - before for step, before in zip(steps, [0.0, *(step.at_s for step in steps)], strict=False)]
        shares = {round(step.verify_s / s, 6) for step, s in zip(steps, took_s, strict=True)}
        assert len(shares) == 1
        assert 0 < shares.pop() < 1
        assert all(step.draft_s + step.verify_s < s for step, s in zip(steps, took_s, strict=True))
    assert all(step.draft_s == 0 for step in sink.lane(0))
    assert all(step.draft_s > 0 for step in sink.lane(1))


def test_a_draft_with_other_tokens_writes_as_its_target_does(refs, foreign):
    garage = Garage()
    spec = beside(refs, Lane(policy=FixedGamma(3), draft=foreign))
    kept, again = run(spec, garage), run(spec, garage)
    assert again.timeless() == kept.timeless()
    assert sum(step.drafted for step in kept.lane(1)) > 0
    text = "".join(piece for step in kept.lane(1) for piece in step.pieces)
    assert text == "".join(piece for step in kept.lane(0) for piece in step.pieces)
    assert kept.generations[1][0].equal is True
    assert all(len(step.rejected) in (0, step.drafted - step.accepted) for step in kept.lane(1))
    assert list(kept.traces) == [0]


def test_the_library_confuses_probabilities_when_it_samples_with_other_tokens(refs, foreign):
    """The reason why that is refused. When this fails, the library has been mended, and it can be allowed."""
    target, draft = (AutoTokenizer.from_pretrained(ref.path) for ref in (refs[0], foreign))
    model = LlamaForCausalLM.from_pretrained(foreign.path)
    hidden = torch.randn(1, 1, model.config.hidden_size)
    true = model.lm_head(hidden)[0, 0].detach()
    translator = AssistantToTargetTranslator(target, draft, 384, model, assistant_prune_lm_head=True)
    assert len(translator._suppress_input_ids) > 0
    read = translator.get_target_logits(model.lm_head(hidden))[0, 0].detach()
    ours, theirs = target.get_vocab(), draft.get_vocab()
    shared = ours.keys() & theirs.keys()
    assert sum(abs(float(read[ours[token]] - true[theirs[token]])) > 1e-6 for token in shared) > 0.5 * len(shared)


def test_a_run_whose_own_draft_has_other_tokens_has_no_trace(refs, foreign):
    kept = run(beside((refs[0], foreign), FixedGamma(3), max_new_tokens=8), Garage())
    assert kept.traces == {}
    assert [generation.tokens for generation, _ in kept.generations] == [8, 8]


def test_what_the_library_cannot_do_with_other_tokens_is_said(refs, foreign):
    garage = Garage()
    with pytest.raises(InvalidInput, match="ignore the ensemble weight"):
        run(beside((refs[0], foreign), Lane(policy=FixedGamma(3), ensemble_weight=0.5)), garage)
    with pytest.raises(InvalidInput, match="confuses the draft's probabilities"):
        run(beside((refs[0], foreign), FixedGamma(3), decoding=SAMPLED), garage)


def test_a_lossy_lane_takes_the_drafts_tokens_and_does_not_leak(refs, garage):
    lossy = Lane(policy=FixedGamma(4), ensemble_weight=0.01)
    kept, without = (run(beside(refs, *lanes), garage) for lanes in ((lossy, FixedGamma(4)), (FixedGamma(4), FixedGamma(4))))
    strip = [step.model_copy(update={"lane": 0}) for step in kept.timeless() if step.lane == 2]
    assert strip == [step.model_copy(update={"lane": 0}) for step in without.timeless() if step.lane == 2]
    assert sum(step.accepted for step in kept.lane(1)) > 1.2 * sum(step.accepted for step in kept.lane(2))
    assert kept.generations[1][0].equal is False
    assert kept.differences == []
    assert garage.get(beside(refs, FixedGamma(4))).target.generation_config.assistant_ensemble_weight is None


def test_a_difference_names_its_lane_and_the_margin(refs, garage):
    spec = beside(refs, FixedGamma(2))
    kept, sink = run(spec, garage), Kept()
    shown = _SideBySide(spec, sink, garage, kept.environments[-1])
    plain = kept.traces[0].answer
    other = plain.copy()
    other[7] = (other[7] + 1) % 384
    shown._answers = {0: plain, 1: other}
    shown.compare()
    (found,) = sink.differences
    assert (found.lane, found.token, found.policy) == (1, 7, FixedGamma(2))
    assert found.margin > 0.001
    assert found.near_tie is False


def test_a_conversation_is_put_into_the_chat_template(refs, tmp_path):
    target, draft = write_pair(tmp_path)
    for ref in (target, draft):
        tokenizer = tokenizer_of([*TEXTS, (Path(__file__).parent / "models.py").read_text()])
        tokenizer.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
        tokenizer.save_pretrained(ref.path)
    turns = (Message(role="user", content="one"), Message(role="assistant", content="two"), Message(role="user", content="three"))
    spec = beside((target, draft), FixedGamma(2), prompts=(Prompt(text="three", messages=turns),), chat_template=True, max_new_tokens=4)
    garage = Garage()
    kept = run(spec, garage)
    text = "user: one\nassistant: two\nuser: three\nassistant:"
    assert kept.traces[0].prompt_tokens == len(garage.get(spec).tokenizer(text)["input_ids"])
    with pytest.raises(InvalidInput, match="no chat template"):
        run(beside(refs, FixedGamma(2), chat_template=True), Garage())


def test_a_prompt_that_does_not_fit(refs, garage):
    with pytest.raises(InvalidInput, match="more than the 256 this pair can hold"):
        run(beside(refs, FixedGamma(2), text="z" * 100_000), garage)


def test_out_of_memory_in_mid_answer_keeps_what_was_written(refs):
    """As on an accelerator: the target's pass fails in the second lane."""
    spec, sink = beside(refs, FixedGamma(2)), Kept()
    pair = measuring._garage.get(spec)
    passes = 0

    def fails(*_):
        nonlocal passes
        passes += 1
        if passes > BUDGET + 30:
            raise torch.OutOfMemoryError("Tried to allocate 1 GiB.")

    hook = pair.target.register_forward_pre_hook(fails)
    with pytest.raises(DeviceError, match=r"answers were written side by side: .* What was measured before is kept"):
        measure(spec, sink, Settings(threads=1))
    hook.remove()
    assert [generation.lane for generation, _ in sink.generations] == [0]
    assert len(sink.lane(0)) == BUDGET
    assert 0 < sum(len(step.tokens) for step in sink.lane(1)) < BUDGET
