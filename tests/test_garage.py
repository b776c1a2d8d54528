"""The worker's models: a target stays while its drafts change, what is not needed is let go first, and who may translate tokens."""

import weakref

import pytest
from transformers import LlamaForCausalLM

from core.errors import ModelError
from core.runs import ModelRef, RunSpec
from core.worker import models
from core.worker.models import Garage
from tests.models import spec_of, write_pair


@pytest.fixture(scope="module")
def spec(tmp_path_factory) -> RunSpec:
    return spec_of(write_pair(tmp_path_factory.mktemp("pair")))


@pytest.fixture(scope="module")
def other(tmp_path_factory) -> ModelRef:
    """Another draft for the same target."""
    return write_pair(tmp_path_factory.mktemp("other"), noise=0.1)[1]


@pytest.fixture(scope="module")
def wide(tmp_path_factory) -> ModelRef:
    """A draft whose model has more ids than the target's."""
    ref = write_pair(tmp_path_factory.mktemp("wide"))[1]
    draft = LlamaForCausalLM.from_pretrained(ref.path)
    draft.resize_token_embeddings(400)
    draft.save_pretrained(ref.path)
    return ref


def test_the_target_is_loaded_once_for_several_drafts_and_the_old_draft_goes_first(spec, other, monkeypatch):
    loaded: list[str] = []
    load = models.load_model

    def loading(ref, key, role):
        assert role == "target" or old is None or old() is None, "the old draft is still in memory"
        loaded.append(key.place.folder.as_posix())
        return load(ref, key, role)

    old = None
    monkeypatch.setattr(models, "load_model", loading)
    garage = Garage()
    first = garage.get(spec)
    target, old = first.target, weakref.ref(first.draft)
    del first
    second = garage.get(spec.model_copy(update={"draft": other}))
    assert second.target is target
    assert loaded == [spec.target.path, spec.draft.path, other.path]


def test_a_draft_stays_while_the_target_changes(spec, other, tmp_path):
    elsewhere = write_pair(tmp_path)[0]
    garage = Garage()
    draft = garage.get(spec).draft
    assert garage.get(spec.model_copy(update={"target": elsewhere})).draft is draft


def test_a_refused_draft_leaves_the_target_loaded(spec, wide):
    garage = Garage()
    target = garage.get(spec).target
    with pytest.raises(ModelError, match=r"384 tokens .* 400"):
        garage.get(spec.model_copy(update={"draft": wide}))
    assert garage.get(spec).target is target


def test_only_side_by_side_runs_may_load_a_draft_with_other_tokens(spec, wide):
    garage = Garage()
    assert garage.get(spec).draft_tokenizer is None
    measured = spec.model_copy(update={"draft": wide})
    watched = measured.model_copy(update={"extent": "side_by_side"})
    pair = garage.get(watched)
    assert pair.draft_tokenizer is not None
    assert garage.get(watched) is pair
    with pytest.raises(ModelError, match=r"384 tokens .* 400"):
        garage.get(measured)
    assert garage.get(watched).draft is pair.draft


def test_equal_sizes_with_other_tokens_cannot_be_translated(spec, tmp_path):
    draft = write_pair(tmp_path)[1]
    file = tmp_path / "draft" / "tokenizer.json"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('"A":', '"swap":').replace('"B":', '"A":').replace('"swap":', '"B":'), encoding="utf-8")
    with pytest.raises(ModelError, match="vocabularies of equal size"):
        Garage().get(spec.model_copy(update={"draft": draft, "extent": "side_by_side"}))
