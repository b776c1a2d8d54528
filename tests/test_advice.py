"""Each rule with a pair that it speaks of and one that it is silent about; what Transformers really does; what users reported."""

import csv
import inspect
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core import advice_cost as cost
from core import advice_runs as runs
from core import demo
from core.advice import Advice, Pair, Side, Traffic, advise
from core.alternatives import DISTILLING, EARLY_EXIT, LOOKUP, OFF, REENCODING, alternatives
from core.devices import gpu
from core.estimate import Load, estimate
from core.memory import CacheProfile, LayerCache
from core.model_info import ModelInfo, Weights
from core.runs import ModelRef
from core.side_ask import fit
from core.vocab import Vocabulary, compare

DATA = Path(__file__).parent / "data"
FULL = LayerCache("full", 2, 64, 64, bytes_per_token=512)
SLIDING = LayerCache("sliding", 2, 64, 64, window=512, bytes_per_token=512)
RUNNING = LayerCache("recurrent", state_bytes=4096)


def profile(layers: Any = 16, parameters=1_000_000_000, active=None, context=8192, model_type="llama"):
    kept = layers if isinstance(layers, tuple) else (FULL,) * layers
    return CacheProfile(
        model_type=model_type,
        architecture="LlamaForCausalLM",
        parameters=parameters,
        active_parameters=active or parameters,
        embedding_parameters=0,
        vocab_size=100,
        hidden_size=64,
        context=context,
        per_layer=kept,
    )


def side(name="target", sizes=None, config=None, device="", **known):
    info = ModelInfo(ref=ModelRef(source="hub", name=name, path=name), read_s=0, config=config or {}, **known)
    return Side(info, sizes, device)


def pair(target=None, draft=None, **known):
    return Pair(target or side("big", profile(32, 8_000_000_000)), draft or side("small", profile(4, 80_000_000)), **known)


def verdict(target, draft, target_size=None, draft_size=None, **known):
    ours, theirs = Vocabulary(target, target_size or len(target), **known), Vocabulary(draft, draft_size or len(draft), **known)
    return compare(ours, theirs)


WORDS = {f"word{i}": i for i in range(1000)}
MOVED = {f"word{i}": (i + 1) % 1000 for i in range(1000)}
OTHER = {f"other{i}": i for i in range(900)}


def test_refusals_come_first_then_warnings_then_notes():
    def says(level):
        return lambda pair: Advice(level, level, "", "")

    said = advise(pair(), [says("note"), lambda pair: None, says("warning"), says("refusal"), says("note")])
    assert [advice.level for advice in said] == ["refusal", "warning", "note", "note"]


def test_every_piece_of_advice_has_a_reason_and_a_source():
    bad = Pair(
        side("a-Instruct", profile(24, 1_000_000_000, active=100_000_000, context=100, model_type="gpt2"), device="cuda:0", chat_template="x"),
        side("b", profile((SLIDING,) * 30, 900_000_000, context=50), device="cpu", weights=Weights(bytes=1, parameters=1, quantisation="gptq")),
        verdict(WORDS, OTHER),
        estimate(Load(24, 1e8, 1e9), Load(30, 1e9, 1e9), gpu("H100", 3350)),
        Traffic(900, 100, batch=8),
    )
    said = advise(bad, runs.RULES + cost.RULES)
    assert len(said) >= 11
    for advice in said:
        assert advice.sentence.endswith((".", "!"))
        assert advice.why.endswith(".")
        assert advice.source


def test_nothing_is_said_of_what_is_not_known():
    silent = advise(Pair(side("a"), side("b")), runs.RULES + cost.RULES)
    assert [advice.level for advice in silent] == ["note"]
    assert "no licence stated" in silent[0].sentence


@pytest.mark.parametrize(
    ("draft", "level", "share"),
    [(1_235_000_000, "warning", "1/6"), (600_000_000, "note", "1/13"), (80_000_000, "note", "1/100"), (5_000_000_000, "warning", "62%")],
)
def test_size_ratio(draft, level, share):
    said = cost.size_ratio(pair(draft=side("small", profile(4, draft))))
    assert said is not None
    assert (said.level, share in said.sentence) == (level, True)


def test_size_ratio_counts_active_parameters():
    experts = side("experts", profile(48, 30_000_000_000, active=3_000_000_000))
    said = cost.size_ratio(pair(experts, side("small", profile(28, 600_000_000))))
    assert said is not None
    assert (said.level, "1/5" in said.sentence) == ("warning", True)


def test_sizes_fall_back_to_the_files_headers():
    big, small = (side(name, weights=Weights(bytes=1, parameters=count)) for name, count in (("big", 1000), ("small", 50)))
    said = cost.size_ratio(Pair(big, small))
    assert said is not None
    assert "1/20" in said.sentence


def test_same_or_larger():
    same = side("one", profile())
    assert "the same model" in _sentence(cost.same_or_larger(Pair(same, same)))
    larger = cost.same_or_larger(pair(draft=side("larger", profile(40, 9_000_000_000))))
    assert "9.0B" in _sentence(larger)
    assert cost.same_or_larger(pair()) is None


@pytest.mark.parametrize(("layers", "words"), [(30, "deeper than"), (24, "as deep as"), (13, "more than half as deep")])
def test_layer_count(layers, words):
    smol = side("SmolLM-1.7B", profile(24, 1_711_376_384))
    said = cost.layer_count(pair(smol, side("SmolLM-135M", profile(layers, 134_515_008))))
    assert said is not None
    assert said.level == "warning"
    assert words in said.sentence
    assert cost.layer_count(pair(smol, side("shallow", profile(12, 134_515_008)))) is None


def test_expected_c():
    device = gpu("H100", 3350)
    load = {"small": Load(30, 2.7e8, 2.7e8), "target": Load(24, 3.4e9, 3.4e9), "large": Load(80, 140e9, 140e9), "shallow": Load(2, 5e8, 5e8)}
    dear = cost.expected_c(pair(estimate=estimate(load["target"], load["small"], device)))
    assert dear is not None
    assert dear.level == "warning"
    assert "Leave it off" in dear.sentence
    middling = cost.expected_c(pair(estimate=estimate(load["large"], load["small"], device)))
    assert middling is not None
    assert (middling.level, "0.35" in middling.sentence) == ("warning", True)
    cheap = cost.expected_c(pair(estimate=estimate(load["large"], load["shallow"], device)))
    assert cheap is not None
    assert cheap.level == "note"
    assert cost.expected_c(pair()) is None


def test_experts():
    experts = side("experts", profile(60, 397_000_000_000, active=17_000_000_000))
    near = cost.experts_target(pair(experts, side("9B", profile(32, 9_000_000_000))))
    assert near is not None
    assert (near.level, "less than 4 times" in near.sentence) == ("warning", True)
    far = cost.experts_target(pair(experts, side("0.8B", profile(24, 800_000_000))))
    assert far is not None
    assert far.level == "note"
    assert cost.experts_target(pair()) is None
    assert "3.0B of 30.0B" in _sentence(cost.experts_draft(pair(draft=side("d", profile(48, 30_000_000_000, active=3_000_000_000)))))
    assert cost.experts_draft(pair()) is None


def test_quantised():
    packed = Weights(bytes=1, parameters=2, quantisation="gptq")
    target = cost.quantised(pair(side("big", weights=packed)))
    both = cost.quantised(pair(side("big", weights=packed), side("small", weights=packed)))
    assert target is not None
    assert both is not None
    assert (target.level, both.level) == ("warning", "note")
    assert "the target (gptq) and the draft (gptq)" in both.sentence
    assert cost.quantised(pair()) is None


def test_gguf_weights_are_unpacked_by_transformers():
    packed = Weights(bytes=1, parameters=2, quantisation="Q4_K")
    file = ModelInfo(ref=ModelRef(source="gguf", name="big.gguf", path="/big.gguf"), read_s=0, weights=packed)
    said = cost.quantised(pair(Side(file)))
    assert said is not None
    assert (said.level, said.sentence) == ("note", "Quantised: the target (Q4_K). It is measured unpacked.")


def test_vocabulary():
    assert runs.vocabulary(pair(verdict=verdict(WORDS, WORDS))) is None
    silent = runs.vocabulary(pair(verdict=verdict(WORDS, MOVED)))
    padded = runs.vocabulary(pair(verdict=verdict(WORDS, WORDS, 1024, 1000)))
    other = runs.vocabulary(pair(verdict=verdict(WORDS, OTHER)))
    assert silent is not None
    assert padded is not None
    assert other is not None
    assert (silent.level, padded.level, other.level) == ("refusal", "warning", "warning")
    swapped = WORDS | {"word139": 140, "word140": 139}
    few = runs.vocabulary(
        pair(verdict=verdict(WORDS | {f"more{i}": 1000 + i for i in range(4000)}, swapped | {f"more{i}": 1000 + i for i in range(4000)}))
    )
    assert few is not None
    assert few.level == "note"
    assert "139" in few.sentence


def test_a_long_tail_is_a_warning():
    words = {f"word{i}": i for i in range(60_000)}
    turned = {word: i if i < 59_500 else 59_500 + (i - 59_499) % 500 for word, i in words.items()}
    found = verdict(words, turned)
    said = runs.vocabulary(pair(verdict=found))
    assert said is not None
    assert (found.kind, found.different_ids, said.level) == ("tail_differs", 500, "warning")


def test_ids_without_an_embedding():
    assert runs.beyond_the_embedding(pair(verdict=verdict(WORDS, WORDS))) is None
    said = runs.beyond_the_embedding(pair(verdict=verdict(WORDS, WORDS, 1000, 990)))
    assert said is not None
    assert said.level == "warning"
    assert "tokenizer has 10 ids at or above its vocab_size of 990." in said.sentence
    cut = verdict(WORDS, WORDS, 1000, 400)
    said = runs.beyond_the_embedding(pair(verdict=cut))
    assert said is not None
    assert said.level == "refusal"
    refused = fit(cut)
    assert (refused.kind, refused.sentence) == ("refused", cut.cut)
    assert cut.cut.startswith("600 of the 1,000 tokens of the draft's tokenizer have no row in its embedding, which was pruned")
    assert fit(verdict(WORDS, WORDS, 1000, 990)).kind == "translated"


def test_length():
    long = Traffic(7000, 2000)
    assert runs.length(pair(traffic=Traffic(7000, 1000))) is None
    assert runs.length(pair()) is None
    short = runs.length(pair(draft=side("short", profile(4, 80_000_000, context=2048)), traffic=Traffic(2000, 100)))
    assert short is not None
    assert (short.level, short.sentence) == ("warning", "The draft was made for 2,048 tokens; your longest prompt and answer take 2,100.")
    target = runs.length(pair(traffic=long))
    assert target is not None
    assert target.sentence.startswith("The target was made for 8,192")
    table = runs.length(pair(draft=side("opt", profile(12, 80_000_000, context=2048, model_type="opt")), traffic=Traffic(3000, 10)))
    assert table is not None
    assert table.level == "refusal"


def test_sliding_window():
    windowed = side("gemma", profile((SLIDING, FULL), 80_000_000))
    said = runs.sliding_window(pair(draft=windowed, traffic=Traffic(500, 100)))
    assert said is not None
    assert (said.level, "512 tokens back" in said.sentence, "static cache is refused" in said.why) == ("note", True, True)
    assert runs.sliding_window(pair(draft=windowed, traffic=Traffic(500, 12))) is None
    assert _sentence(runs.sliding_window(pair(draft=windowed))) == "gemma sees 512 tokens back in some layers; it matters for longer texts."
    assert runs.sliding_window(pair()) is None


@pytest.mark.parametrize(
    "config", [{"model_type": "mamba"}, {"model_type": "qwen3_next"}, {"model_type": "x", "text_config": {"model_type": "qwen3_5_text"}}]
)
def test_a_stateful_target_is_refused_from_its_config_alone(config):
    said = runs.stateful_target(pair(side("stateful", config=config)))
    assert said is not None
    assert said.level == "refusal"


def test_running_states():
    assert runs.stateful_target(pair()) is None
    unknown = side("new", profile((RUNNING, FULL), model_type="brand_new"))
    assert runs.stateful_target(pair(unknown)) is not None
    assert runs.stateful_target(pair(side("lfm2", profile((RUNNING, FULL), model_type="lfm2")))) is None
    mixed = runs.stateful_draft(pair(draft=unknown))
    only = runs.stateful_draft(pair(draft=side("mamba", profile((RUNNING,) * 2, model_type="mamba"))))
    assert mixed is not None
    assert only is not None
    assert (mixed.level, only.level) == ("warning", "refusal")
    assert runs.stateful_draft(pair()) is None


def test_behind_an_encoder_prompt_and_answer_are_judged_apart():
    crossed = (replace(FULL, cross_bytes_per_source_token=8),)
    bart = side("bart", replace(profile(crossed, context=64, model_type="bart"), source_context=128))
    assert runs.length(pair(bart, bart, traffic=Traffic(128, 64))) is None
    prompt, answer = (runs.length(pair(bart, bart, traffic=Traffic(*tokens))) for tokens in ((129, 8), (8, 65)))
    assert _sentence(prompt) == "The target's encoder was made for 128 tokens; your longest prompt takes 129."
    assert _sentence(answer) == "The target's decoder was made for 64 tokens; your longest answer takes 65."
    assert [found.level for found in (prompt, answer) if found] == ["refusal", "refusal"]


def test_devices_batch_encoder_refused():
    apart = pair(side("big", device="cuda:0"), side("small", device="cuda:1"))
    assert "cuda:0, the draft on cuda:1" in _sentence(runs.devices(apart))
    assert runs.devices(pair(side("big", device="cpu"), side("small", device="cpu"))) is None
    together = runs.batch(pair(traffic=Traffic(1, 1, batch=8)))
    assert "batches of 8" in _sentence(together)
    assert together is not None
    assert "all accept it: 0.058 at alpha 0.7 (0.7^8)." in together.why
    assert runs.batch(pair(traffic=Traffic(1, 1))) is None
    encoder = side("t5", config={"is_encoder_decoder": True, "model_type": "t5"})
    mixed, both = runs.encoder_decoder(pair(draft=encoder)), runs.encoder_decoder(pair(encoder, encoder))
    assert "t5 is an encoder-decoder, " in _sentence(mixed)
    assert "Each reads the prompt with its own encoder" in _sentence(both)
    unknown = runs.encoder_decoder(pair(encoder, side("switch", config={"is_encoder_decoder": True, "model_type": "switch_transformers"})))
    assert "switch is an encoder-decoder of a type that is not measured here" in _sentence(unknown)
    assert [found.level for found in (mixed, both, unknown) if found] == ["refusal", "note", "refusal"]
    assert runs.encoder_decoder(pair()) is None
    assert "only pickles" in _sentence(runs.refused(pair(draft=side("old", refusal="only pickles."))))
    assert runs.refused(pair()) is None


def test_tuning_and_templates():
    tuned, base = side("Llama-8B-Instruct", chat_template="a"), side("Llama-1B")
    said = runs.base_against_instruct(pair(tuned, base))
    assert "target is tuned for chat and the draft is a base model" in _sentence(said)
    assert runs.base_against_instruct(pair(tuned, side("gemma-3-1b-it"))) is None
    assert _sentence(runs.chat_template(pair(tuned, base))).startswith("Llama-1B has no chat template")
    assert _sentence(runs.chat_template(pair(base, tuned))).startswith("Llama-1B has no chat template")
    both = pair(tuned, side("x", chat_template="b"), verdict=verdict(WORDS, WORDS))
    assert runs.chat_template(both) is None
    unlike = compare(Vocabulary(WORDS, 1000, chat_template="a"), Vocabulary(WORDS, 1000, chat_template="b"))
    assert "templates differ" in _sentence(runs.chat_template(pair(tuned, side("x", chat_template="b"), verdict=unlike)))


def test_licences():
    said = runs.licences(pair(side("big", licence="llama3.1", gated=True), side("small", licence="apache-2.0")))
    assert _sentence(said) == "Licences: big: llama3.1, access on request; small: apache-2.0."


def test_alternatives():
    assert alternatives(pair()) == (LOOKUP, EARLY_EXIT, DISTILLING, OFF)
    assert alternatives(pair(verdict=verdict(WORDS, OTHER)))[0] is REENCODING
    assert alternatives(pair(verdict=verdict(WORDS, WORDS, 1024, 1000)))[0] is REENCODING
    assert REENCODING not in alternatives(pair(verdict=verdict(WORDS, MOVED)))


def test_the_library_marks_the_same_models_stateful():
    import transformers

    models = Path(transformers.__file__).parent / "models"
    marked, kept = set(), set()
    for file in models.glob("*/modeling_*.py"):
        text = file.read_text(encoding="utf-8")
        types = {
            name
            for config in file.parent.glob("configuration_*.py")
            for name in re.findall(r'model_type = "(\w+)"', config.read_text(encoding="utf-8"))
        }
        decoders = {name for name in types if not re.search("vision|audio|timestamp", name)}
        if re.search(r"_is_stateful(: bool)? = True", text):
            marked |= decoders
        elif "update_conv_state" in text and "recurrent_state" not in text:
            kept |= decoders
    assert marked == runs.STATEFUL
    assert kept == runs.CONVOLUTIONS


def test_the_library_leaves_running_states_of_a_draft_as_they_are():
    import torch
    from transformers import DynamicCache, Qwen3NextConfig, Qwen3NextForCausalLM

    torch.set_num_threads(1)
    config = Qwen3NextConfig(
        hidden_size=32, intermediate_size=64, moe_intermediate_size=16, shared_expert_intermediate_size=16, num_experts=4, num_experts_per_tok=2,
        num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=8, linear_num_value_heads=4, linear_num_key_heads=2,
        linear_key_head_dim=8, linear_value_head_dim=8, vocab_size=50,
    )  # fmt: skip
    model, cache = Qwen3NextForCausalLM(config).eval(), DynamicCache(config=config)
    mixed: Any = cache.layers[0]
    cache.activate_past_recording()
    with torch.inference_mode():
        model(torch.arange(5)[None], cache=cache)
        cache.crop(0)
        before = mixed.recurrent_states[0].clone()
        model(torch.arange(3)[None], cache=cache)
        cache.crop(-3)
    assert cache.get_seq_length() == 5
    assert not torch.equal(mixed.recurrent_states[0], before)


def test_what_the_library_does_with_states_and_windows():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, MambaConfig, MambaForCausalLM, MistralConfig, MistralForCausalLM

    torch.set_num_threads(1)
    ends: dict[str, Any] = {
        "eos_token_id": None,
        "bos_token_id": None,
        "pad_token_id": None,
        "vocab_size": 50,
        "hidden_size": 32,
        "num_hidden_layers": 2,
    }
    heads: dict[str, Any] = {"intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    llama: Any = LlamaForCausalLM(LlamaConfig(**ends, **heads)).eval()
    mamba: Any = MambaForCausalLM(MambaConfig(**ends)).eval()
    windowed: Any = MistralForCausalLM(MistralConfig(**ends, **heads, sliding_window=8)).eval()
    ids = torch.arange(2, 14)[None]
    call = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 12, "do_sample": False}
    with pytest.raises(ValueError, match="not supported with stateful models"):
        mamba.generate(ids, assistant_model=llama, **call)
    with pytest.raises(ValueError, match="get_seq_length"):
        llama.generate(ids, assistant_model=mamba, **call)
    with pytest.raises(ValueError, match="requires a cache that can be cropped"):
        windowed.generate(ids, assistant_model=llama, cache_implementation="static", **call)
    assert windowed.generate(ids, assistant_model=llama, **call).tolist() == windowed.generate(ids, **call).tolist()


def test_the_calls_run_in_the_library():
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    target: Any = AutoModelForCausalLM.from_pretrained(demo.TARGET.path, dtype="float32")
    tokenizer: Any = AutoTokenizer.from_pretrained(demo.TARGET.path)
    inputs = tokenizer("def add(a, b):\n    return", return_tensors="pt").data
    inputs = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    target.generation_config.max_new_tokens = 8
    plain, *others = (eval(one.call, {"target": target, "inputs": inputs}).tolist() for one in (OFF, LOOKUP, EARLY_EXIT))
    assert others == [plain, plain]
    wanted = inspect.signature(target.generate).parameters
    assert "assistant_model" in wanted
    draft: Any = AutoModelForCausalLM.from_pretrained(demo.DRAFT.path, dtype="float32")
    names = {"target": target, "inputs": inputs, "draft": draft, "target_tokenizer": tokenizer, "draft_tokenizer": tokenizer}
    with pytest.raises(ValueError, match="`assistant_tokenizer` is not required"):
        eval(REENCODING.call, names)
    draft.resize_token_embeddings(draft.config.vocab_size + 8)
    assert eval(REENCODING.call, names).tolist() == plain


ELSEWHERE = {"30", "31", "34", "38", "40", "54", "74", "76", "77"}
"""Reports that other tests answer: tests/test_pair_reports.py, the page's, the alternatives above, measuring, exports."""
RULE_OF = {
    "5": cost.expected_c,
    "26": runs.vocabulary,
    "28": runs.vocabulary,
    "33": runs.vocabulary,
    "36": runs.vocabulary,
    "37": runs.vocabulary,
    "41": runs.vocabulary,
    "42": runs.beyond_the_embedding,
    "55": runs.sliding_window,
    "56": runs.sliding_window,
    "57": runs.batch,
    "60": runs.batch,
    "61": runs.stateful_target,
    "62": runs.encoder_decoder,
    "63": cost.experts_target,
    "64": cost.experts_target,
    "67": cost.quantised,
    "68": runs.devices,
    "69": runs.devices,
    "79": runs.sliding_window,
}


def test_every_report_about_pairs_has_its_rule():
    with (DATA / "user_reports_pair.csv").open(encoding="utf-8") as file:
        reports = {row["n"]: row["url"] for row in csv.DictReader(file)}
    assert RULE_OF.keys() | ELSEWHERE == reports.keys()
    assert set(RULE_OF.values()) <= set(runs.RULES + cost.RULES)


def _sentence(advice):
    assert advice is not None
    return advice.sentence
