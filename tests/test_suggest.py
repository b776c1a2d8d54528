"""The table of families against the demo's own files and against arithmetic; suggestions by family, tuning and cost."""

import json
from pathlib import Path

import pytest

from core import demo
from core.address import is_hub_id
from core.devices import CPU, gpu
from core.estimate import Load
from core.suggest import MOST, STARTS, find, known, relatives, suggest

H100 = gpu("H100 SXM", 3350)


def addresses(target, **known_of_it):
    return [one.address for one in suggest(target, H100, **known_of_it)]


def test_the_table_is_plausible():
    for row in known():
        assert 0 < row.multiplied_parameters <= row.active_parameters <= row.parameters, row
        assert row.source
        for address in filter(None, (row.base_id, row.tuned_id)):
            assert is_hub_id(address) or address.startswith("demo:")
            assert find(address) is row
    groups = [row.group for row in known()]
    assert all(groups.count(group) > 1 for group in groups)


@pytest.mark.parametrize(
    ("address", "parameters", "layers"),
    [
        ("HuggingFaceTB/SmolLM2-135M", 134_515_008, 30),
        ("meta-llama/Llama-3.1-8B", 8_030_261_248, 32),
        ("Qwen/Qwen3-0.6B", 596_049_920, 28),
        ("Qwen/Qwen2.5-7B-Instruct", 7_615_616_512, 28),
        ("facebook/opt-125m", 125_239_296, 12),
        ("EleutherAI/pythia-70m@main", 70_426_624, 6),
    ],
)
def test_published_sizes(address, parameters, layers):
    row = find(address)
    assert row is not None
    assert (row.parameters, row.layers) == (parameters, layers)


def test_an_untied_embedding_is_not_multiplied():
    row = find("meta-llama/Llama-3.1-8B")
    assert row is not None
    assert row.parameters - row.multiplied_parameters == 128_256 * 4096


def test_the_demo_pair_s_rows_match_its_files_and_its_run():
    there = demo.example_run().environment
    assert there is not None
    for role, ref, parameters in (("target", demo.TARGET, there.target_parameters), ("draft", demo.DRAFT, there.draft_parameters)):
        row, config = find(f"demo:{role}"), json.loads((Path(ref.path) / "config.json").read_text())
        assert row is not None
        assert (row.layers, row.vocab_size, row.parameters) == (config["num_hidden_layers"], config["vocab_size"], parameters)
        assert row.bytes_per_token == 2 * 2 * row.layers * config["num_key_value_heads"] * config["head_dim"]


def test_a_tuned_target_gets_tuned_drafts_cheapest_first():
    assert addresses("meta-llama/Llama-3.1-8B-Instruct") == ["meta-llama/Llama-3.2-1B-Instruct", "meta-llama/Llama-3.2-3B-Instruct"]
    assert addresses("meta-llama/Llama-3.1-8B")[0] == "meta-llama/Llama-3.2-1B"
    assert addresses("Qwen/Qwen3-8B@main")[0] == "Qwen/Qwen3-0.6B"
    assert addresses("Qwen/Qwen3-8B-Base")[0] == "Qwen/Qwen3-0.6B-Base"


def test_depth_ranks_above_size_on_a_gpu():
    order = addresses("EleutherAI/pythia-2.8b")
    assert order[:2] == ["EleutherAI/pythia-70m", "EleutherAI/pythia-160m"]
    assert order.index("EleutherAI/pythia-1b") < order.index("EleutherAI/pythia-410m")
    costs = [one.estimate.c for one in suggest("EleutherAI/pythia-2.8b", H100)]
    assert costs == sorted(costs)


def test_reasons_say_what_decides():
    (draft, _) = suggest("HuggingFaceTB/SmolLM2-1.7B-Instruct", H100)
    assert draft.reason == "SmolLM2: c about 1.24, 30 layers to the target's 24, same tokenizer, too dear to gain anything."
    (one,) = suggest("demo:target", CPU)
    assert one.address == "demo:draft"
    assert "1 layer to the target's 32" in one.reason


def test_padded_embeddings_come_after_those_that_run_as_they_are():
    padded = suggest("Qwen/Qwen2.5-32B-Instruct", H100)
    assert [one.same_size for one in padded] == sorted((one.same_size for one in padded), reverse=True)
    by_address = {one.address: one for one in padded}
    assert not by_address["Qwen/Qwen2.5-0.5B-Instruct"].same_size
    assert "padded" in by_address["Qwen/Qwen2.5-0.5B-Instruct"].reason
    assert by_address["Qwen/Qwen2.5-7B-Instruct"].same_size


def test_a_mixture_counts_by_what_it_moves():
    assert addresses("Qwen/Qwen3-30B-A3B") == ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B"]
    assert "Qwen/Qwen3-30B-A3B" in addresses("Qwen/Qwen3-14B")


def test_a_fine_tuned_target_is_recognised_by_its_config():
    config = {"model_type": "llama", "vocab_size": 128_256}
    mine = Load(32, 15e9, 15e9)
    assert addresses("somebody/Llama-Chat-Instruct", load=mine, config=config)[0] == "meta-llama/Llama-3.2-1B-Instruct"
    assert addresses("somebody/model", load=mine, config=config)[0] == "meta-llama/Llama-3.2-1B"
    assert {row.group for row in relatives("somebody/model", {"model_type": "llama", "vocab_size": 49152})} == {"smollm", "smollm2"}
    assert (
        relatives("somebody/model", {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "vocab_size": 262_208}})[0].group
        == "gemma-3"
    )


def test_nothing_is_suggested_without_ground():
    assert addresses("somebody/model") == []
    assert addresses("somebody/model", load=Load(32, 15e9, 15e9), config={"model_type": "new", "vocab_size": 7}) == []
    assert addresses("HuggingFaceTB/SmolLM2-135M") == []
    assert find("") is None


def test_starts_are_pairs_of_one_tokenizer_and_size():
    assert STARTS[0].target == "demo:target"
    for start in STARTS:
        target = find(start.target)
        assert target is not None
        for address in start.drafts:
            draft = find(address)
            assert draft is not None
            assert (draft.group, draft.vocab_size) == (target.group, target.vocab_size)
            assert draft.parameters < target.parameters
    assert len(suggest("Qwen/Qwen2.5-72B", H100)) == MOST
