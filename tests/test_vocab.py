"""The verdict on two token maps, its boundaries, and what the worker makes of it."""

import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from core.errors import ModelError
from core.vocab import FEW_IDS, SAMPLES, IdDifference, SpecialDifference, Vocabulary, VocabVerdict, compare
from tests.models import spec_of, write_pair
from tests.pairs import load_pair


def numbered(count: int, start: int = 0) -> dict[str, int]:
    return {f"t{id_}": id_ for id_ in range(start, start + count)}


def renamed(tokens: dict[str, int], ids) -> dict[str, int]:
    """The same map with another token at each of `ids`."""
    ids = set(ids)
    return {f"other {token}" if id_ in ids else token: id_ for token, id_ in tokens.items()}


def verdict(target: dict[str, int], draft: dict[str, int], sizes: tuple[int, int] | None = None) -> VocabVerdict:
    ours, theirs = sizes or (len(target), len(target))
    return compare(Vocabulary(target, ours), Vocabulary(draft, theirs))


def kind_of(target: dict[str, int], draft: dict[str, int], sizes: tuple[int, int] | None = None) -> tuple[str, bool]:
    found, back = verdict(target, draft, sizes), verdict(draft, target, sizes and (sizes[1], sizes[0]))
    assert (back.kind, back.native) == (found.kind, found.native)
    return found.kind, found.native


BASE = numbered(10_000)
QWEN = numbered(151_665)


def test_the_same_map_and_size():
    assert kind_of(QWEN, dict(reversed(QWEN.items())), (151_936, 151_936)) == ("identical", True)
    found = verdict(numbered(49_152), numbered(49_152))
    assert found.sentence == "Same token map, same size: 49,152 of 49,152 tokens."
    assert found.word == "same tokens"
    assert (found.common_ids, found.different_ids, found.differences, found.example) == (49_152, 0, (), "")


def test_the_same_map_in_padded_embeddings():
    assert kind_of(QWEN, QWEN, (151_936, 152_064)) == ("padded", False)
    found = verdict(QWEN, QWEN, (151_936, 152_064))
    expected = "Same token map: 151,665 of 151,665 tokens; 151,936 embedding rows for the target, 152,064 for the draft."
    assert (found.sentence, found.word) == (expected, "padded")


@pytest.mark.parametrize(
    ("draft", "tail"),
    [
        pytest.param(renamed(BASE, [9_999]), (9_999, 1, 0, 0), id="the last renamed"),
        pytest.param(renamed(BASE, range(9_900, 10_000)), (9_900, 100, 0, 0), id="a hundredth renamed, more than few"),
        pytest.param({**BASE, "new": 10_000}, (10_000, 0, 0, 1), id="one more"),
        pytest.param(numbered(9_900), (9_900, 0, 100, 0), id="fewer"),
        pytest.param({**numbered(9_999), "t9999": 10_000}, (9_999, 0, 1, 1), id="the last moved up, a hole left"),
        pytest.param({**numbered(9_998), "t9998": 9_999, "t9999": 9_998}, (9_998, 2, 0, 0), id="the last two exchanged"),
    ],
)
def test_a_tail_differs(draft, tail):
    assert kind_of(BASE, draft, (10_240, 10_240)) == ("tail_differs", True)
    assert kind_of(BASE, draft, (10_240, 10_304)) == ("tail_differs", False)
    found = verdict(BASE, draft)
    assert (found.tail_from, found.different_ids, found.only_target_ids, found.only_draft_ids) == tail
    assert found.sentence.startswith(f"Same tokens below id {tail[0]:,}; only the tail differs, {sum(tail[1:]):,} id")


def test_one_equal_id_above_the_differences_ends_the_tail():
    assert kind_of(BASE, renamed(BASE, range(9_900, 9_999))) == ("same_size_different_map", False)
    assert kind_of(BASE, renamed(BASE, [9_998])) == ("few_differ", True)


@given(st.integers(100, 3_000), st.integers(1, 60), st.sampled_from(["renamed", "fewer", "more"]))
def test_a_tail_is_at_most_a_hundredth_of_the_larger_map(count, tail, how):
    own = numbered(count)
    draft = {"renamed": renamed(own, range(count - tail, count)), "fewer": numbered(count - tail), "more": numbered(count + tail)}[how]
    small = 100 * tail <= max(count, len(draft))
    assert kind_of(own, draft, (4_096, 4_096)) == (("tail_differs", True) if small else ("same_size_different_map", False))
    assert kind_of(own, draft, (4_096, 4_160)) == ("tail_differs" if small else "different", False)


def test_a_vocabulary_that_was_extended_is_another_one():
    """As models that learned a further language: every token of the base is there, and half as many again."""
    found = verdict(BASE, numbered(15_000), (10_000, 15_000))
    assert (found.kind, found.native, found.intersection_tokens) == ("different", False, 10_000)
    expected = "Different token maps: 5,000 ids are used on one side alone, so drafts with them are rejected; too many to overlook"
    assert found.sentence == f"{expected}; 10,000 embedding rows for the target, 15,000 for the draft."
    found = verdict(numbered(15_000), renamed(BASE, range(9_000, 10_000)), (15_000, 15_000))
    assert "1,000 of 10,000 common ids stand for other tokens and 5,000 ids are used on one side alone, so" in found.sentence


def test_equal_special_tokens_in_front_do_not_make_a_permutation_a_tail():
    """Tokenizers keep special tokens and bytes at the lowest ids: those 259 agree between families, and the rest is no tail."""
    for front in (1, 17, 259, 4_999):
        mixed = list(range(front, 10_000))
        random.Random(front).shuffle(mixed)
        moved = numbered(front) | {f"t{id_}": place for id_, place in zip(range(front, 10_000), mixed, strict=True)}
        assert kind_of(BASE, moved) == ("same_size_different_map", False)
        assert kind_of(BASE, numbered(front) | {f"x{id_}": id_ for id_ in range(front, 10_000)}) == ("same_size_different_map", False)


@pytest.mark.parametrize(
    ("count", "different", "kind"),
    [
        (10_000, 10, "few_differ"),
        (10_000, 11, "other"),
        (999, 1, "other"),
        (1_000, 1, "few_differ"),
        (300_000, 256, "few_differ"),
        (300_000, 257, "other"),
    ],
)
def test_few_are_at_most_a_thousandth_and_256(count, different, kind):
    tokens = numbered(count)
    draft = renamed(tokens, range(different))
    expected = "same_size_different_map" if kind == "other" else kind
    assert verdict(tokens, draft).kind == expected
    assert verdict(tokens, draft, (count, count + 64)).kind == ("different" if kind == "other" else kind)
    assert not verdict(tokens, draft, (count, count + 64)).native


def test_the_share_is_of_common_ids_and_a_short_tail_beside_the_few_is_not_counted():
    longer = {**BASE, **numbered(90, 10_000)}
    assert verdict(longer, renamed(BASE, range(10))).kind == "few_differ"
    assert verdict(longer, renamed(BASE, range(11)), (10_500, 10_500)).kind == "same_size_different_map"
    assert verdict({**longer, "one more": 10_090}, renamed(BASE, range(10))).kind == "same_size_different_map"


def test_gemma_2s_token_139():
    gemma = numbered(256_000)
    found = verdict(gemma, renamed(gemma, [139]))
    assert (found.kind, found.native, found.word) == ("few_differ", True, "few differ")
    assert found.differences == (IdDifference(id=139, target="t139", draft="other t139"),)
    assert (
        found.sentence
        == "1 of 256,000 common ids stand for other tokens: id 139 is 't139' for the target and 'other t139' for the draft; both sizes are 256,000."
    )


def test_the_treacherous_one():
    backwards = {f"t{id_}": 9_999 - id_ for id_ in range(10_000)}
    assert kind_of(BASE, backwards) == ("same_size_different_map", False)
    found = verdict(BASE, backwards)
    assert (found.different_ids, found.common_ids, found.shared_tokens) == (10_000, 10_000, 10_000)
    assert found.example == "'t0' is 0 for the target and 9999 for the draft"
    assert len(found.differences) == SAMPLES
    assert found.differences[0] == IdDifference(id=0, target="t0", draft="t9999")
    assert "almost nothing would be accepted; both sizes are 10,000." in found.sentence


def test_a_sentence_promises_no_more_than_its_numbers():
    found = verdict(BASE, renamed(BASE, range(11)))
    assert found.kind == "same_size_different_map"
    expected = "Different token maps: 11 of 10,000 common ids stand for other tokens, so drafts with them are rejected; too many to overlook"
    assert found.sentence == f"{expected}; both sizes are 10,000."
    hole = {token: id_ for token, id_ in BASE.items() if id_ != 139}
    assert verdict(BASE, hole).kind == "few_differ"
    expected = "Same tokens, but 1 id is used on one side alone: id 139 is 't139' for the target and nothing for the draft"
    assert verdict(BASE, hole).sentence == f"{expected}; both sizes are 10,000."


def test_other_sizes_and_other_maps():
    other = {f"x{id_}": id_ for id_ in range(5_000)}
    assert kind_of(BASE, other, (10_000, 5_000)) == ("different", False)
    assert verdict(BASE, other, (10_000, 5_000)).shared_tokens == 0


def test_maps_larger_than_their_embedding_are_counted_and_judged_by_the_map():
    found = verdict(BASE, BASE, (9_990, 9_990))
    assert (found.kind, found.native, found.beyond_target, found.beyond_draft) == ("identical", True, 10, 10)
    assert verdict(BASE, BASE, (10_000, 9_990)).beyond_target == 0


def test_two_spellings_of_one_id():
    twice = {**BASE, "alias": 5}
    assert kind_of(twice, {"alias": 5, **BASE}) == ("identical", True)
    assert kind_of(twice, BASE, (10_000, 10_000)) == ("few_differ", True)
    assert verdict(twice, BASE).differences == (IdDifference(id=5, target="alias = t5", draft="t5"),)


def test_empty_maps():
    assert kind_of({}, {}, (5, 5)) == ("identical", True)
    assert kind_of(BASE, {}, (5, 5)) == ("same_size_different_map", False)
    assert kind_of(BASE, {}, (5, 6)) == ("different", False)
    assert verdict(BASE, {}).example == "id 0 is 't0' for the target and nothing for the draft"


def test_ids_far_apart():
    assert kind_of({"a": 0, "b": 2**32 - 1}, {"a": 0, "b": 2**32 - 1}) == ("identical", True)
    assert kind_of(BASE | {"b": 2**32 - 1}, BASE | {"b": 10_007}) == ("tail_differs", True)


def test_words_are_shared_across_the_two_space_marks():
    byte_level = {"Ġ": 0, "Ġthe": 1, "ing": 2, "Ġword": 3}
    pieces = {"▁": 0, "▁the": 1, "ing": 2, "▁other": 3, "Ġ": 4}
    found = verdict(byte_level, pieces)
    assert (found.shared_tokens, found.translatable_tokens) == (2, 3)
    assert verdict(pieces, byte_level).translatable_tokens == 3
    assert verdict(byte_level, byte_level).translatable_tokens == 4


def test_the_intersection_is_counted_as_vllm_does():
    """Its VocabMapping on these two, by hand: " ", " the" and "ing"; a literal " the" is the same text and keeps the first id."""
    byte_level = {"Ġ": 0, "Ġthe": 1, "ing": 2, "Ġword": 3, " the": 4}
    pieces = {"▁": 0, "▁the": 1, "ing": 5, "▁other": 3, "Ġ": 4}
    found = verdict(byte_level, pieces, (8, 12))
    assert (found.intersection_tokens, found.intersection_of_target, found.intersection_of_draft) == (3, 3 / 8, 3 / 12)
    assert verdict(pieces, byte_level, (12, 8)).intersection_tokens == 3
    assert verdict(byte_level, pieces, (8, 5)).intersection_tokens == 2, "the draft has no row for its id 5"
    assert verdict(byte_level, pieces, (1, 12)).intersection_tokens == 1, "nor the target for 1 and 2"
    assert verdict(QWEN, QWEN, (151_936, 152_064)).intersection_of_draft == 151_665 / 152_064
    assert verdict({}, {}, (0, 0)).intersection_of_target == 0


def test_special_tokens_and_settings():
    target = Vocabulary(BASE, 10_000, {"eos_token": 2, "bos_token": 1}, normaliser="", pre_tokenizer="a", chat_template="{{ x }}")
    draft = Vocabulary(BASE, 10_000, {"eos_token": 2, "bos_token": 0, "pad_token": 2}, normaliser="", pre_tokenizer="b", chat_template="")
    found = compare(target, draft)
    assert found.special == (SpecialDifference(role="bos_token", target=1, draft=0), SpecialDifference(role="pad_token", target=None, draft=2))
    assert (found.normaliser, found.pre_tokenizer, found.chat_template) == ("same", "differs", "differs")
    assert compare(target, Vocabulary(BASE, 10_000)).normaliser == "unknown"


def test_a_verdict_survives_json():
    found = verdict(BASE, renamed(BASE, [5]))
    assert VocabVerdict.model_validate_json(found.model_dump_json()) == found


def test_long_tokens_are_cut_in_samples():
    found = verdict({**BASE, "x" * 5_000: 10_000}, {**BASE, "y": 10_000})
    assert found.differences == (IdDifference(id=10_000, target="x" * 59 + "…", draft="y"),)
    assert len(found.sentence) < 300


def test_two_of_256_000_take_under_a_second():
    tokens = numbered(256_000)
    mixed = list(tokens.values())
    random.Random(0).shuffle(mixed)
    permuted = dict(zip(tokens, mixed, strict=True))
    took_s = []
    for draft in (dict(tokens), permuted):
        start = time.process_time()
        verdict(tokens, draft)
        took_s.append(time.process_time() - start)
    assert max(took_s) < 1.5, "under a second on a machine that does nothing else"


maps = st.dictionaries(st.text("abcĠ▁", max_size=3), st.integers(0, 12), max_size=12)
sizes = st.tuples(st.integers(0, 14), st.integers(0, 14))


@given(maps, maps, sizes)
def test_any_two_maps(target, draft, both):
    found, back = verdict(target, draft, both), verdict(draft, target, (both[1], both[0]))
    assert (found.kind, found.native, found.different_ids, found.tail_from) == (back.kind, back.native, back.different_ids, back.tail_from)
    assert (found.kind in ("identical", "padded")) == (target == draft)
    assert (found.kind == "identical") == (target == draft and both[0] == both[1])
    assert found.native == (both[0] == both[1] and found.kind in ("identical", "tail_differs", "few_differ"))
    assert found.intersection_tokens <= min(len(target), len(draft), both[1])
    assert found.different_ids <= found.common_ids <= min(len(set(target.values())), len(set(draft.values())))
    assert found.sentence.endswith(".")
    if found.kind == "tail_differs":
        assert {t: i for t, i in target.items() if i < found.tail_from} == {t: i for t, i in draft.items() if i < found.tail_from}
    if found.kind == "few_differ":
        assert found.different_ids <= min(FEW_IDS, found.common_ids / 1000)


@settings(max_examples=30)
@given(st.integers(1_500, 3_000), st.integers(0, 500), st.integers(0, 2**32))
def test_any_renumbering_of_many_tokens_is_found(count, front, seed):
    places = list(range(front, count))
    random.Random(seed).shuffle(places)
    permuted = numbered(front) | {f"t{id_}": place for id_, place in zip(range(front, count), places, strict=True)}
    found = verdict(numbered(count), permuted)
    moved = sum(place != id_ for id_, place in enumerate(places, front))
    assert found.different_ids == moved
    assert (found.shared_tokens, found.kind, found.native) == (count, "same_size_different_map", False)


def test_a_draft_with_other_tokens_of_the_same_number_is_refused(tmp_path):
    spec = spec_of(write_pair(tmp_path))
    file = Path(spec.draft.path) / "tokenizer.json"
    stored = json.loads(file.read_text())
    own: dict[str, int] = stored["model"]["vocab"]
    other = own | {token: id_ + 40 if id_ < 340 else id_ - 40 for token, id_ in own.items() if 310 <= id_ < 370 and not 330 <= id_ < 350}
    stored["model"]["vocab"] = other
    file.write_text(json.dumps(stored))
    example = compare(Vocabulary(own, 384), Vocabulary(other, 384)).example
    with pytest.raises(ModelError) as refused:
        load_pair(spec)
    assert str(refused.value) == (
        "The target target and the draft draft number their tokens differently: 40 of 384 ids stand for other tokens, "
        f"for example {example}. Choose a draft that was made with the target's tokenizer."
    )


def test_a_draft_with_a_token_more_is_taken(tmp_path):
    spec = spec_of(write_pair(tmp_path))
    tokenizer = AutoTokenizer.from_pretrained(spec.draft.path)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_end|>"]})
    tokenizer.save_pretrained(spec.draft.path)
    assert len(AutoTokenizer.from_pretrained(spec.draft.path)) == 385
    assert load_pair(spec).tokenizer.eos_token == "<|endoftext|>"


def test_a_draft_without_its_tokenizer_is_refused(tmp_path):
    spec = spec_of(write_pair(tmp_path))
    for file in Path(spec.draft.path).glob("token*"):
        file.unlink()
    with pytest.raises(ModelError, match=r"The tokenizer of draft in .* could not be loaded"):
        load_pair(spec)


@pytest.mark.parametrize(
    ("target", "draft", "foreign"),
    [
        ("a b c", "д ж", True),
        ("a b c", "ab bc", False),  # no token is in both, and yet the target can write what the draft does
        ("a b c", "A B", False),  # it may lower the case of what it reads
        ("a b ▁", "д ж ▁", True),
        ("a b Ġ", "д ж", False),  # made of bytes, it can write anything
        ("a b", "д ж <0x0A>", False),
    ],
)
def test_vocabularies_in_which_no_text_can_be_written_twice(target: str, draft: str, foreign: bool):
    ours, theirs = ({token: id_ for id_, token in enumerate(tokens.split())} for tokens in (target, draft))
    found = verdict(ours, theirs, (9, 8))
    assert (found.foreign, bool(found.hopeless)) == (foreign, foreign)
    assert verdict(theirs, ours, (8, 9)).foreign == foreign


def test_special_tokens_do_not_make_vocabularies_alike():
    target = Vocabulary({"a": 0, "<s>": 1, "<eos>": 2}, 3, added=frozenset({"<s>", "<eos>"}))
    draft = Vocabulary({"д": 0, "<pad>": 1}, 2, added=frozenset({"<pad>"}))
    assert compare(target, draft).foreign
