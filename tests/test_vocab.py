"""Equal sizes are not enough: the ids of target and draft must stand for the same tokens."""

import re
from pathlib import Path

import pytest

from core.errors import ModelError
from core.vocab import Difference, difference
from core.worker.models import load_pair
from tests import models
from tests.models import spec_of, tokenizer_of, write_pair

TARGET = {"<s>": 0, "a": 1, "b": 2, "ab": 3, "<pad>": 4}


@pytest.mark.parametrize(
    "draft",
    [
        pytest.param(TARGET, id="the same"),
        pytest.param({"<s>": 0, "a": 1, "b": 2, "ab": 3, "<end>": 4}, id="a special token renamed"),
        pytest.param({"a": 1, "b": 2, "ab": 3, "<pad>": 0, "<s>": 4}, id="special tokens exchanged"),
        pytest.param({"<s>": 0, "a": 1, "b": 2}, id="a shorter tail"),
        pytest.param({**TARGET, "abab": 5}, id="a longer tail"),
    ],
)
def test_maps_that_fit(draft):
    assert difference(TARGET, draft, {"<s>", "<pad>", "<end>"}) is None
    assert difference(draft, TARGET, {"<s>", "<pad>", "<end>"}) is None


def test_a_token_that_moved_is_the_example():
    found = difference(TARGET, {"<s>": 0, "b": 1, "a": 2, "ba": 3}, {"<s>"})
    assert found == Difference(3, 3, "'a' is 1 for the target and 2 for the draft")


def test_an_id_is_the_example_where_no_token_is_in_both():
    found = difference(TARGET, {"<s>": 0, "a": 1, "b": 2, "ba": 3}, {"<s>"})
    assert found == Difference(1, 3, "id 3 is 'ab' for the target and 'ba' for the draft")


def test_special_tokens_count_when_nobody_calls_them_special():
    assert difference(TARGET, {**TARGET, "<s>": 4, "<pad>": 0}) == Difference(2, 5, "'<s>' is 0 for the target and 4 for the draft")


def test_a_draft_with_other_tokens_of_the_same_number_is_refused(tmp_path):
    spec = spec_of(write_pair(tmp_path))
    other = tokenizer_of([Path(__file__).read_text()])
    other.save_pretrained(spec.draft.path)
    own = tokenizer_of([*models.TEXTS, Path(models.__file__).read_text()])
    assert len(other) == len(own) == models.VOCABULARY
    with pytest.raises(ModelError, match="made with the target's tokenizer") as refused:
        load_pair(spec)
    said = re.search(
        r"(\d+) of 383 ids stand for other tokens, for example '(.+)' is (\d+) for the target and (\d+) for the draft", str(refused.value)
    )
    assert said
    different = sum(own.convert_ids_to_tokens(at) != other.convert_ids_to_tokens(at) for at in range(models.VOCABULARY))
    assert int(said[1]) == different > 10
    assert (own.convert_tokens_to_ids(said[2]), other.convert_tokens_to_ids(said[2])) == (int(said[3]), int(said[4]))


def test_a_draft_with_another_end_of_text_is_taken(tmp_path):
    spec = spec_of(write_pair(tmp_path))
    tokenizer_of([*models.TEXTS, Path(models.__file__).read_text()], end="<|im_end|>").save_pretrained(spec.draft.path)
    assert load_pair(spec).tokenizer.eos_token == "<|endoftext|>"


def test_a_draft_without_its_tokenizer_is_refused(tmp_path):
    spec = spec_of(write_pair(tmp_path))
    for file in Path(spec.draft.path).glob("token*"):
        file.unlink()
    with pytest.raises(ModelError, match=r"The tokenizer of draft in .* could not be loaded"):
        load_pair(spec)
