"""Repositories on the Hub that cannot be used, or only in part: each says why in a sentence."""

import re
import struct

import pytest

from core import hub_client
from core.errors import DraftgaugeError, ModelError
from core.settings import Settings
from tests import hub_server as faults
from tests.hub_models import ID, config, demo_repo, described
from tests.hub_server import COMMIT, HubServer, Repo

UNUSABLE: list[tuple[Repo, str]] = [
    (demo_repo(config__json=None), "has no config.json"),
    (demo_repo(config__json=None, model_index__json=b"{}"), "makes images or video with diffusion"),
    (demo_repo(config__json=None, adapter_config__json=b'{"base_model_name_or_path": "acme/base"}'), "is an adapter.*Its base model is acme/base"),
    (demo_repo(config__json=None, adapter_config__json=b'{"base_model_name_or_path": "<b>"}'), "Merge it with its base model first"),
    (demo_repo(config__json=None, m__gguf=b"GGUF"), "has GGUF files only"),
    (demo_repo(model__safetensors=None, pytorch_model__bin=b"x"), "pickled weights only, which can run code"),
    (demo_repo(model__safetensors=None), "has no weights"),
    (demo_repo(model__safetensors=None, consolidated__safetensors=b"x"), "neither model.safetensors nor its index"),
    (demo_repo(config__json=config(model_type="chatglm", auto_map={"AutoConfig": "x.Y"})), "needs Python code from its own repository"),
    (demo_repo(config__json=config(model_type="qwen2_5_vl", vision_config={"depth": 1})), "also takes in images"),
    (demo_repo(config__json=config(model_type="whisper", num_mel_bins=80)), "turns speech into text"),
    (demo_repo(config__json=config(model_type="bert", architectures=["BertModel"])), r"has no head that writes it \(BertModel\)"),
    (demo_repo(modules__json=b"[]"), "an embedding model"),
    (demo_repo(config__json=config(model_type="sam")), "knows no language model of the type 'sam'"),
    (demo_repo(config__json=config(model_type=None)), "names no model_type"),
    (demo_repo(config__json=config(quantization={"bits": 4, "group_size": 64})), "is packed for MLX"),
]


@pytest.mark.parametrize(("repo", "words"), UNUSABLE, ids=[words for _, words in UNUSABLE])
def test_a_model_that_cannot_be_used_is_refused_with_the_reason(hub: HubServer, settings: Settings, repo: Repo, words: str) -> None:
    hub.repos[ID] = repo
    info = described(hub, settings)
    assert re.search(words, info.refusal), info.refusal
    assert ID in info.refusal
    assert not any(re.search(r"tokenizer|resolve.*safetensors", path) for path in hub.paths()), "nothing is read in vain"


@pytest.mark.parametrize(
    ("repo", "words"),
    [
        (demo_repo(tokenizer__json=None), f"{ID} has no tokenizer"),
        (demo_repo(tokenizer__json=b"{"), "tokenizer.json"),
        (demo_repo(tokenizer_config__json=b"[" * 100_000), "tokenizer_config.json is not readable as JSON"),
    ],
)
def test_a_model_without_a_readable_tokenizer_is_still_described(hub: HubServer, settings: Settings, repo: Repo, words: str) -> None:
    hub.repos[ID] = repo
    info = described(hub, settings)
    assert words in info.vocabulary_problem
    assert str(settings.data) not in info.vocabulary_problem
    assert info.vocabulary == ""
    assert info.weights is not None


@pytest.mark.parametrize("announced", [True, False])
def test_a_tokenizer_far_too_large_is_not_read(hub: HubServer, settings: Settings, announced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hub_client.LARGEST_BYTES["tokenizer.json"] < 100_000_000
    monkeypatch.setitem(hub_client.LARGEST_BYTES, "tokenizer.json", 2_000_000)  # so that the test is quick
    hub.repos[ID].large.clear()
    hub.faults["GET /acme/target/resolve/" + COMMIT + "/tokenizer.json"] = faults.raw(bytes(3_000_000)) if announced else faults.endless
    info = described(hub, settings)
    assert info.vocabulary_problem == "The file tokenizer.json is larger than 2.0 MB, the most that is read. Choose another model."
    assert info.bytes_read < 3_000_000
    assert info.weights is not None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", r"config\.json of acme/target is not readable as JSON"),
        (b"[]", r"config\.json of acme/target does not hold a JSON object"),
        (b'{"a":' * 50_000, r"config\.json of acme/target is not readable as JSON"),
        (b"\xff\xfe", r"config\.json of acme/target is not readable as JSON"),
        (b" " * 1_000_001, r"The file config\.json is larger than 1\.0 MB"),
    ],
)
def test_a_damaged_or_huge_config_is_a_sentence(hub: HubServer, settings: Settings, content: bytes, words: str) -> None:
    hub.repos[ID] = demo_repo(config__json=content)
    with pytest.raises(DraftgaugeError, match=words) as caught:
        described(hub, settings)
    assert str(settings.data) not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"<!DOCTYPE html>" * 99, struct.pack("<Q", 2) + b"[]", struct.pack("<Q", 2**60) + bytes(200), struct.pack("<Q", 16) + b'{"w": {"dtype":1'],
)
def test_damaged_weights_are_a_sentence(hub: HubServer, settings: Settings, content: bytes) -> None:
    hub.repos[ID] = demo_repo(model__safetensors=content)
    with pytest.raises(ModelError, match=rf"model\.safetensors of {ID} has a damaged header"):
        described(hub, settings)


@pytest.mark.parametrize("index", [b"{", b"{}", b'{"weight_map": {"w": "gone.safetensors"}}', b'{"weight_map": {"w": "../../etc/passwd"}}'])
def test_a_damaged_index_is_a_sentence(hub: HubServer, settings: Settings, index: bytes) -> None:
    hub.repos[ID] = demo_repo(model__safetensors=None)
    hub.repos[ID].files["model.safetensors.index.json"] = index
    with pytest.raises(ModelError, match=rf"model\.safetensors\.index\.json of {ID}"):
        described(hub, settings)
