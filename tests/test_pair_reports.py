"""What users reported of pairs (tests/data/user_reports_pair.csv), by number, where no single rule answers it."""

import pytest

from core.devices import engine, gpu
from core.engines import engines
from core.estimate import estimate
from core.suggest import find, relatives
from core.vocab import Vocabulary, compare

BASE = {f"t{id_}": id_ for id_ in range(151_643)}
QWEN = BASE | {"<|endoftext|>": 151_643, "<|im_start|>": 151_644, "<|im_end|>": 151_645}
DISTILLED = BASE | {"<eos>": 151_643, "<user>": 151_644, "<assistant>": 151_645, "<bos>": 151_646}


def llama_cpp(target: int, draft: int):
    rows = engines(compare(Vocabulary(QWEN, target), Vocabulary(QWEN, draft)))
    return next(row for row in rows if row.engine == "llama.cpp")


def test_30_a_measured_speedup_in_vllm_is_near_the_estimate():
    """Qwen2.5-Coder has the shapes of Qwen2.5: 15.73 ms to 9.15 ms per token on an RTX 4090."""
    target, draft = find("Qwen/Qwen2.5-7B"), find("Qwen/Qwen2.5-0.5B")
    assert target is not None
    assert draft is not None
    made = estimate(target.load(2), draft.load(2), engine("RTX 4090", 1008))
    assert made.speedup_low <= 15.73 / 9.15 <= made.speedup_high
    assert made.speedup_middle == pytest.approx(15.73 / 9.15, rel=0.15)
    in_transformers = estimate(target.load(2), draft.load(2), gpu("RTX 4090", 1008))
    assert in_transformers.c > 3 * made.c, "24 layers to 28, each started anew"


@pytest.mark.parametrize(("sizes", "native"), [((151_936, 151_936), True), ((152_064, 151_936), False)])
def test_31_other_special_tokens_above_one_base_are_found(sizes: tuple[int, int], native: bool):
    found = compare(Vocabulary(QWEN, sizes[0], {"eos_token": 151_645}), Vocabulary(DISTILLED, sizes[1], {"eos_token": 151_643}))
    assert (found.kind, found.native, found.tail_from) == ("tail_differs", native, 151_643)
    assert (found.different_ids, found.only_draft_ids) == (3, 1)
    assert [(role.role, role.target, role.draft) for role in found.special] == [("eos_token", 151_645, 151_643)]
    assert {row.engine: row.answer for row in engines(found)}["llama.cpp"] == "refuses"


def test_34_llama_cpp_s_limit_is_named_with_the_former_one():
    assert (llama_cpp(152_064, 151_936).answer, llama_cpp(152_065, 151_936).answer) == ("accepts", "refuses")
    assert "Sizes differ by 128 (at most 128, 100 in older builds, which refuse it)" in llama_cpp(152_064, 151_936).reason
    assert "older builds, which refuse" not in llama_cpp(152_036, 151_936).reason
    assert "129 apart, and it takes at most 128" in llama_cpp(152_065, 151_936).reason


def test_76_drafts_are_suggested_for_a_fine_tuned_target_by_its_config():
    found = relatives("somebody/tuned", {"model_type": "qwen2", "vocab_size": 152_064})
    assert "Qwen/Qwen2.5-0.5B" in {row.base_id for row in found}
