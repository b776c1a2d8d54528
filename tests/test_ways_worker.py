"""A run in several ways on tiny real models: its rounds are those of unmodified calls, and what the library cannot do is said first."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.generation.candidate_generator import AssistantVocabTranslatorCache, UniversalSpeculativeDecodingGenerator
from transformers.generation.streamers import BaseStreamer

from core import demo
from core.decoding import Decoding
from core.errors import DeviceError, InvalidInput, ModelError
from core.lanes import ways_of
from core.policies import EarlyExit, FixedGamma, OwnHeads, Plain, PromptLookup, TransformersDefault
from core.runs import Lane, ModelRef, RunSpec
from core.settings import Settings
from core.ways import results
from core.worker import measure as measuring
from core.worker.cancellation import Cancelled
from core.worker.fresh import fresh
from core.worker.generate import run_policy
from core.worker.inputs import encode_prompts
from core.worker.measure import measure
from core.worker.models import Garage
from core.worker.recorder import Recorder
from core.worker.ways import block_order, ways
from tests.models import TEXTS, spec_of, write_pair
from tests.own_draft_models import write_dflash, write_mtp, write_tokenizer

BUDGET = 16
SAMPLED = Decoding(sample=True, temperature=0.8)
WARM = Decoding(sample=True, temperature=5.0)
"""So nearly uniform that random heads are often right."""


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _however_busy(monkeypatch):
    """Nothing here depends on a quiet machine, so that no call needs to be repeated."""
    monkeypatch.setattr("core.worker.timing._REPEATS", 0)


@pytest.fixture(scope="module")
def refs(tmp_path_factory) -> tuple[ModelRef, ModelRef]:
    return write_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def garage() -> Garage:
    return Garage()


def written_draft(folder: Path, texts: list[str], size: int, rows: int | None = None) -> ModelRef:
    """A draft of one layer whose tokens were learnt from these texts. rows: of its embedding."""
    plain = Tokenizer(models.BPE())
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    plain.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, special_tokens=["<end>"], initial_alphabet=alphabet, show_progress=False))
    PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<end>", pad_token="<end>").save_pretrained(folder)
    return write_small(folder, rows or plain.get_vocab_size())


def write_small(folder: Path, rows: int) -> ModelRef:
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=rows, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=512
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return ModelRef(source="folder", name=folder.name, path=str(folder))


@pytest.fixture(scope="module")
def foreign(tmp_path_factory) -> ModelRef:
    return written_draft(tmp_path_factory.mktemp("foreign"), list(TEXTS), 300)


def asked(refs: tuple[ModelRef, ModelRef], *lanes: Lane, prompts: int = 2, **changes: object) -> RunSpec:
    """Plain beside these lanes, in one turn unless more time is given."""
    spec = spec_of(refs, prompts=prompts, max_new_tokens=BUDGET).model_copy(update={"confirm_s": 0.0} | changes)
    return ways_of(spec, (Lane(policy=Plain()), *lanes))


class Silent:
    """A sink that keeps what calls and differences it hears of; nothing but the ways may be timed."""

    def __init__(self):
        self.generations, self.differences = [], []

    def stage(self, stage, done, total):
        assert 0 <= done <= total

    def environment(self, environment):
        pass

    def generation(self, generation):
        self.generations.append(generation)

    def difference(self, difference):
        self.differences.append(difference)

    def disturbed(self):
        pass

    def passes(self, passes):
        raise AssertionError("nothing but the ways is timed")

    def draft_prefill(self, seconds):
        raise AssertionError("nothing but the ways is timed")

    def trace(self, index, trace):
        raise AssertionError("nothing is replayed")

    def steps(self, steps):
        raise AssertionError("nobody watches")


def run(spec: RunSpec, garage: Garage) -> Any:
    """The run as it was recorded."""
    sink = Silent()
    recorder = Recorder(spec, sink)
    ways(spec, recorder, garage)
    return recorder.run().model_copy(update={"differences": tuple(sink.differences)})


class Counter(BaseStreamer):
    """Nothing of this program: what the library hands to a streamer."""

    def __init__(self):
        self.counts: list[int] = []

    def put(self, value):
        self.counts.append(value.numel())

    def end(self):
        pass


def unmodified(ref: ModelRef, text: str, **how: object) -> tuple[list[int], list[int]]:
    """The new tokens and each round's count of a plain script's own call."""
    model: Any = AutoModelForCausalLM.from_pretrained(ref.path)
    tokenizer: Any = AutoTokenizer.from_pretrained(ref.path)
    model.generation_config.pad_token_id = 0
    ids = tokenizer(text, return_tensors="pt").input_ids
    counter = Counter()
    out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=BUDGET, streamer=counter, **how)
    return out[0, ids.shape[1] :].tolist(), counter.counts[1:]


def test_rounds_are_those_of_unmodified_calls(refs, garage):
    """A draft model, prompt lookup and early exit, against scripts that load everything anew."""
    draft = AutoModelForCausalLM.from_pretrained(refs[1].path)
    draft.generation_config.update(num_assistant_tokens=3, num_assistant_tokens_schedule="constant", assistant_confidence_threshold=0.0)
    lanes = (Lane(policy=FixedGamma(3)), Lane(policy=PromptLookup(4)), Lane(policy=EarlyExit(2, 20, "constant", 0.4)))
    found = run(asked(refs, *lanes), garage)
    scripts = ({"assistant_model": draft}, {"prompt_lookup_num_tokens": 4}, {"assistant_early_exit": 2})
    for lane, how in enumerate(scripts, 1):
        for prompt, text in enumerate(TEXTS[:2]):
            tokens, counts = unmodified(refs[0], text, **how)
            (call,) = [g for g in found.generations if (g.lane, g.prompt) == (lane, prompt)]
            assert list(call.rounds) == counts
            assert call.tokens == len(tokens)
            assert call.equal is True
    assert [len({g.prompt for g in found.generations if g.lane == lane}) for lane in range(4)] == [2, 2, 2, 2]
    assert any(max(g.rounds) > 2 for g in found.generations if g.lane == 3), "early exit never had two tokens accepted"
    assert found.differences == ()


def test_each_way_has_a_plain_call_beside_it_and_the_order_is_drawn():
    for lanes in range(2, 7):
        order = block_order(lanes, "0 0")
        assert sorted(set(order)) == list(range(lanes))
        assert all(order.count(lane) == 1 for lane in range(1, lanes))
        assert all(0 in (order[at - 1], order[at + 1]) for at, lane in enumerate(order) if lane)
        assert order[0] == order[-1] == 0
    drawn = {tuple(block_order(4, f"0 {block}")) for block in range(30)}
    assert len(drawn) == 6, "every order of three comes up"
    assert block_order(5, "7 3") == block_order(5, "7 3")


def test_what_is_recorded_of_a_call(refs, garage):
    spec = asked(refs, Lane(policy=FixedGamma(3)), Lane(policy=EarlyExit(2, 3, threshold=0.0)), confirm_s=3600.0)
    found = run(spec, garage)
    assert len({g.block for g in found.generations}) == 6, "two prompts in three turns"
    for g in found.generations:
        assert (g.purpose, g.budget, g.policy) == ("way", BUDGET, spec.lanes[g.lane].policy)
        assert g.prompt == next(h.prompt for h in found.generations if h.block == g.block)
        if g.lane == 0:
            assert (g.rounds, g.drafted, g.way) == ((), (), None)
            continue
        assert g.way is not None
        assert g.way.rejected == sum(k >= n for n, k in zip(g.rounds, g.drafted, strict=True))
        assert 0 < g.way.draft_prefill_s < g.total_s
        assert (g.way.prepared_s, g.way.translated) == (0.0, False)
        assert all(0 <= k <= 3 for k in g.drafted)
    assert found.traces == ()
    assert found.passes == ()
    assert found.environment is not None
    assert found.environment.peak_bytes
    ways_ = results(found)
    assert [way.compared for way in ways_] == [2, 2, 2]
    assert [way.equal for way in ways_] == [2, 2, 2]
    assert all(way.decode is not None and way.decode.these is not None and way.decode.traffic is None for way in ways_[1:])
    assert all(way.lossless for way in ways_)


def test_a_drafts_end_of_text_is_no_rejection(tmp_path, garage):
    """The last proposal was right, and the answer ended with it: the library counts it as the target's own."""
    refs = write_pair(tmp_path, noise=0.0)
    spec = asked(refs, Lane(policy=FixedGamma(4)), prompts=1)
    answer = run_policy(garage.get(spec), encode_prompts(garage.get(spec), spec)[0], Plain(), BUDGET).tokens.tolist()
    end = next(token for at, token in enumerate(answer) if at % 5 == 1 and at > 2 and token not in answer[:at])
    for name in ("target", "draft"):
        (tmp_path / name / "generation_config.json").write_text(json.dumps({"eos_token_id": end}))
    drafted = next(g for g in run(spec, Garage()).generations if g.lane == 1)
    assert drafted.tokens == answer.index(end) + 1 < BUDGET
    assert drafted.rounds[-1] <= drafted.drafted[-1]
    assert drafted.way.rejected == 0


def test_the_target_alone_is_loaded_once_where_no_way_needs_a_draft(refs):
    spec = asked(refs, Lane(policy=PromptLookup(3)))
    assert spec.draft == spec.target
    garage = Garage()
    found = run(spec, garage)
    assert garage._draft is None
    assert found.environment.draft_parameters == found.environment.target_parameters


def test_nothing_is_left_behind_in_the_models(refs, garage):
    spec = asked(refs, Lane(policy=TransformersDefault()), Lane(policy=EarlyExit(1)))
    pair = garage.get(spec)
    before = [model.generation_config.to_dict() for model in (pair.target, pair.draft)], pair.target.config.to_dict()
    run(spec, garage)
    assert ([model.generation_config.to_dict() for model in (pair.target, pair.draft)], pair.target.config.to_dict()) == before


def test_a_pass_that_is_cut_off_leaves_all_layers_in_place(refs, garage):
    """The library alone would leave a target of one layer behind for every later run."""
    spec = asked(refs, Lane(policy=EarlyExit(1, 4, threshold=0.0)))
    pair = garage.alone(spec)
    seen = 0

    def cancelled(*_):
        nonlocal seen
        seen += 1
        if pair.target.config.num_hidden_layers == 1 and seen > 20:
            raise Cancelled

    hook = pair.target.register_forward_pre_hook(cancelled)
    with pytest.raises(Cancelled):
        run(spec, garage)
    hook.remove()
    assert pair.target.config.num_hidden_layers == 3


def test_sampling_repeats_with_its_seed_and_compares_no_texts(refs, garage):
    spec = asked(refs, Lane(policy=FixedGamma(3)), Lane(policy=EarlyExit(2)), decoding=SAMPLED, seed=5)
    first, again = run(spec, garage), run(spec, garage)
    assert [g.rounds for g in first.generations] == [g.rounds for g in again.generations]
    other = run(spec.model_copy(update={"seed": 6}), garage)
    assert [g.rounds for g in first.generations] != [g.rounds for g in other.generations]
    assert {g.equal for g in first.generations} == {None}
    assert [way.lossless for way in results(first)] == [True, True, True]


def test_a_draft_with_other_tokens_writes_what_the_target_writes_when_greedy(refs, foreign, garage):
    found = run(asked(refs, Lane(policy=FixedGamma(3)), Lane(policy=FixedGamma(3), draft=foreign)), garage)
    native, other = results(found)[1:]
    assert (native.translated, other.translated) == (False, True)
    assert (native.draft, other.draft) == ("draft", foreign.name)
    assert other.lossless
    assert (other.equal, other.compared, other.prepared_s) == (2, 2, 0.0)
    assert other.drafted > 0


def test_a_draft_whose_embedding_was_pruned_is_refused_before_anything_is_written(refs, tmp_path, garage):
    cut = written_draft(tmp_path / "cut", list(TEXTS), 300, rows=100)
    with pytest.raises(InvalidInput, match=r"cut has other tokens than the target, and its embedding, pruned to 100 rows, lacks the prompt"):
        run(asked(refs, Lane(policy=FixedGamma(3), draft=cut)), garage)


def test_sampling_with_other_tokens_is_measured_with_a_fresh_draft_each_time_and_never_recommended(refs, foreign, monkeypatch):
    used: list[int] = []
    begin = UniversalSpeculativeDecodingGenerator.__init__

    def begins(self, *given, **named):
        begin(self, *given, **named)
        used.append(id(self._atm_translator))
        assert self.assistant_model.get_output_embeddings().pruned_lm_head.out_features < 300

    monkeypatch.setattr(UniversalSpeculativeDecodingGenerator, "__init__", begins)
    garage = Garage()
    spec = asked(refs, Lane(policy=FixedGamma(3), draft=foreign), decoding=SAMPLED)
    found = run(spec, garage)
    assert len(used) == 3, "one to warm up, and one for each prompt"
    pair: Any = garage.get(spec)
    assert pair.draft.get_output_embeddings().out_features == 300, "the draft that is kept was cut"
    assert pair.tokenizer not in AssistantVocabTranslatorCache._cache or not AssistantVocabTranslatorCache._cache[pair.tokenizer]
    way = results(found)[1]
    assert (way.lossless, way.verdict, way.translated) == (False, "lossy", True)
    assert "not drawn from the target's distribution" in way.lossless_reason
    assert way.drafted > 0
    assert all(g.way.prepared_s > 0 for g in found.generations if g.lane == 1)
    assert way.prepared_s > 0
    assert way.notes[0].startswith("Each call had a fresh copy of the draft")


def test_a_fresh_draft_is_a_copy(refs, foreign):
    pair: Any = Garage().get(asked((refs[0], foreign), Lane(policy=FixedGamma(3))))
    with fresh(pair, SAMPLED) as (own, took_s):
        assert took_s > 0
        assert own.draft is not pair.draft
        embedding: Any = own.draft.get_input_embeddings()
        embedding.original_embedding.weight.data.zero_()
    assert pair.draft.get_input_embeddings().weight.abs().sum() > 0
    with fresh(pair, Decoding()) as (same, took_s):
        assert (same, took_s) == (pair, 0.0)


def test_sampling_is_refused_where_no_token_is_shared_or_all_are(refs, tmp_path, garage):
    """The second is the library's own fault, which this proves: it asks for a list that it never made."""
    folder = tmp_path / "apart"
    words = Tokenizer(models.WordLevel({"<end>": 0, **{f"zz{n}": n for n in range(1, 50)}}, unk_token="<end>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>", unk_token="<end>").save_pretrained(folder)
    apart = write_small(folder, 50)
    with pytest.raises(InvalidInput, match="shares none with it"):
        run(asked((refs[0], apart), Lane(policy=FixedGamma(2)), decoding=SAMPLED), garage)
    padded = tmp_path / "padded"
    write_tokenizer(padded)
    same = write_small(padded, 400)
    spec = asked((refs[0], same), Lane(policy=FixedGamma(2)), decoding=SAMPLED)
    with pytest.raises(InvalidInput, match=r"every one of its 384 is the target's"):
        run(spec, garage)
    pair = garage.get(spec)
    with pytest.raises(AttributeError, match="assistant_overlap_token_ids"):
        run_policy(
            pair,
            encode_prompts(pair, spec)[0],
            FixedGamma(2),
            8,
            SAMPLED,
            tokenizer=pair.tokenizer,
            assistant_tokenizer=pair.draft_tokenizer or pair.tokenizer,
        )


def test_a_draft_whose_output_layer_was_cut_is_refused(refs, tmp_path, garage):
    cut = write_pair(tmp_path)[1]
    config = json.loads((Path(cut.path) / "config.json").read_text())
    (Path(cut.path) / "config.json").write_text(json.dumps(config | {"vocab_size": 390}))
    with pytest.raises(ModelError, match=r"The draft draft .* could not be loaded: .* Check its files"):
        run(asked((refs[0], cut), Lane(policy=FixedGamma(2))), garage)


def test_early_exit_on_the_bundled_target(garage):
    """A trained model of 32 layers: the text is its own, and so it is with a pair that says so in advance."""
    spec = RunSpec(target=demo.TARGET, draft=demo.DRAFT, prompts=demo.prompts()[:1], max_new_tokens=16, confirm_s=0.0)
    found = run(ways_of(spec, (Lane(policy=Plain()), Lane(policy=EarlyExit(24, 4, threshold=0.0)))), Garage())
    call = next(g for g in found.generations if g.lane == 1)
    assert call.equal is True
    assert sum(call.rounds) == call.tokens
    assert call.drafted[0] == 4


@pytest.mark.parametrize(("layers", "says"), [(3, r"Early exit after 3 layers is all of target, which has 3"), (4, "Early exit after 4")])
def test_early_exit_after_all_layers_is_refused(refs, garage, layers, says):
    with pytest.raises(InvalidInput, match=says):
        run(asked(refs, Lane(policy=EarlyExit(layers))), garage)


def test_early_exit_is_refused_where_the_models_loop_takes_no_notice(tmp_path):
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=384, n_positions=256, n_embd=32, n_layer=3, n_head=2, eos_token_id=0, bos_token_id=0)
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2")
    write_tokenizer(tmp_path / "gpt2")
    ref = ModelRef(source="folder", name="gpt2", path=str(tmp_path / "gpt2"))
    with pytest.raises(ModelError, match=r"gpt2 \(gpt2\) cannot leave its layers early: .*Choose another way"):
        run(asked((ref, ref), Lane(policy=EarlyExit(1))), Garage())


@pytest.mark.parametrize("decoding", [Decoding(), WARM], ids=["greedy", "sampled"])
def test_a_models_own_head_drafts_one_token_a_round(tmp_path, decoding):
    ref = write_mtp(tmp_path / "mellum")
    found = run(asked((ref, ref), Lane(policy=OwnHeads("mtp")), decoding=decoding), Garage())
    calls = [g for g in found.generations if g.lane == 1]
    assert len(calls) == 2
    for call in calls:
        assert call.drafted[0] == 0, "it needs the target's states of the prompt first"
        assert set(call.drafted[1:]) == {1}
        assert sum(call.rounds) == call.tokens
        assert call.way.draft_prefill_s == 0
    assert (max(n for call in calls for n in call.rounds) == 2) == decoding.sample
    way = results(found)[1]
    assert way.lossless
    assert (way.compared, way.equal) == ((0, 0) if decoding.sample else (2, 2))
    assert (way.draft, way.name) == ("", "the model's own heads (MTP)")


def test_a_model_without_heads_is_refused_and_so_is_one_that_lost_them(refs, tmp_path, garage):
    with pytest.raises(InvalidInput, match=r"target \(llama\) ships no heads for multi-token prediction"):
        run(asked(refs, Lane(policy=OwnHeads("mtp"))), garage)
    bare = write_mtp(tmp_path / "bare", heads=False)
    with pytest.raises(ModelError, match=r"could not draft for bare with the model's own heads \(MTP\): .* weights are missing"):
        run(asked((bare, bare), Lane(policy=OwnHeads("mtp"))), Garage())


@pytest.mark.parametrize("decoding", [Decoding(), WARM], ids=["greedy", "sampled"])
def test_a_dflash_head_drafts_a_block_a_round(refs, tmp_path, garage, decoding):
    head = write_dflash(tmp_path / "head")
    found = run(asked(refs, Lane(policy=OwnHeads("dflash"), draft=head), decoding=decoding), garage)
    calls = [g for g in found.generations if g.lane == 1]
    for call in calls:
        assert call.drafted[0] == 0
        assert set(call.drafted[1:-1]) == {3}
        assert sum(call.rounds) == call.tokens
    assert (max(n for call in calls for n in call.rounds) > 1) == decoding.sample
    way = results(found)[1]
    assert way.lossless
    assert (way.compared, way.equal) == ((0, 0) if decoding.sample else (2, 2))
    assert way.draft == "head"


def test_what_is_no_head_of_this_target_is_refused(refs, tmp_path, garage):
    for name, changes in (("wide", {"width": 128}), ("deep", {"deepest": 3})):
        head = write_dflash(tmp_path / name, **changes)
        with pytest.raises(ModelError, match="was made for another target"):
            run(asked(refs, Lane(policy=OwnHeads("dflash"), draft=head)), garage)
    with pytest.raises(ModelError, match=r"draft \(llama\) is no DFlash head: its config lacks block_size"):
        run(asked(refs, Lane(policy=OwnHeads("dflash"), draft=refs[1])), garage)


def test_a_lane_that_cannot_run_is_refused_before_anything_is_timed(refs, garage):
    spec = asked(refs, Lane(policy=FixedGamma(2)), Lane(policy=OwnHeads("mtp")))
    recorder = Recorder(spec, Silent())
    with pytest.raises(InvalidInput):
        ways(spec, recorder, garage)
    assert recorder.run().generations == ()


def test_out_of_memory_keeps_what_was_written(refs):
    spec, sink = asked(refs, Lane(policy=FixedGamma(2))), Silent()
    pair = measuring._garage.get(spec)

    def fails(*_):
        if len(sink.generations) == 3:
            raise torch.OutOfMemoryError("Tried to allocate 1 GiB.")

    hook = pair.target.register_forward_pre_hook(fails)
    with pytest.raises(DeviceError, match=r"prompts were written in several ways: .* What was measured before is kept"):
        measure(spec, sink, Settings(threads=1))
    hook.remove()
    assert [g.lane for g in sink.generations] == [0, 1, 0]
    assert measuring._garage._target is None
