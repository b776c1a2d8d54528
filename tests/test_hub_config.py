"""Of a Hub model that is timed from its configuration, config.json is downloaded and nothing else."""

import json
from pathlib import Path

import pytest
from huggingface_hub import constants

from core.child import HUB_OFFLINE_ASKED
from core.errors import ModelError
from core.runs import ModelRef
from core.worker import architectures
from core.worker.download import fetch
from tests.hub_server import COMMIT, HubServer, Repo
from tests.test_download import Told
from tests.test_shapes_worker import LLAMA, asked

FILES: dict[str, bytes | Path] = {"config.json": json.dumps(LLAMA).encode(), "model.safetensors": b"weights", "tokenizer.json": b"{}"}


@pytest.fixture
def online(hub: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> HubServer:
    """A Hub with two models, which the process that downloads asks."""
    for name in ("HF_HUB_OFFLINE", "HF_TOKEN", HUB_OFFLINE_ASKED):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    hub.repos["acme/big"] = Repo(dict(FILES), large={"model.safetensors"})
    hub.repos["acme/bare"] = Repo({"README.md": b"words"})
    return hub


def ref(name: str, revision: str = COMMIT) -> ModelRef:
    return ModelRef(source="hub", name=name, path=name, revision=revision)


def test_a_pair_is_built_from_two_small_files(online: HubServer):
    spec = asked((ref("acme/big", "main"), ref("acme/big", "main")), random_weights=True, batches=(1,), cache_lengths=(16,))
    told = Told()
    pair, _ = architectures.build(spec, told)
    assert pair.target.num_parameters() > 0
    assert {path.rpartition("/")[2] for path in online.paths() if "/resolve/" in path} == {"config.json"}
    assert [step[0] for step in told.steps] == ["download", "load", "load", "load"]
    assert [file.name for file in (Path(constants.HF_HUB_CACHE) / "models--acme--big" / "snapshots" / COMMIT).iterdir()] == ["config.json"]


def test_what_is_in_the_cache_is_not_asked_for_again(online: HubServer):
    folders = fetch([ref("acme/big")], Told(), weights=False)
    asked_for = len(online.seen)
    told = Told()
    assert fetch([ref("acme/big")], told, weights=False) == folders
    assert (len(online.seen), told.steps) == (asked_for, [])


@pytest.mark.usefixtures("online")
def test_a_repository_without_a_config_gets_a_sentence():
    with pytest.raises(ModelError, match=r"^acme/bare has no config\.json, so it is no model that can be built\. Choose another model\.$"):
        fetch([ref("acme/bare")], Told(), weights=False)
    with pytest.raises(ModelError, match="There is no model acme/none on the Hub that can be seen here"):
        fetch([ref("acme/none")], Told(), weights=False)
