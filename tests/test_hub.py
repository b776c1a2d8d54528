"""Models on the Hub, spoken to over HTTP: what is read, with which token, what is kept, and what a search finds."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from huggingface_hub import constants

from core import demo
from core.errors import DraftgaugeError, InvalidInput, ModelError
from core.hub_cache import cache_folder, prune
from core.hub_errors import HubUnreachable
from core.plan.search import search_hub
from core.runs import ModelRef
from core.settings import Settings
from tests import hub_server as faults
from tests.hub_models import ID, QUICK, demo_repo, described, safetensors
from tests.hub_server import COMMIT, HubServer, Repo

ROOT = Path(__file__).parents[1]
TOKEN = "hf_SecretSecretSecret"


def test_a_model_is_described_from_a_few_kilobytes(hub: HubServer, settings: Settings) -> None:
    hub.repos[ID].extra = {"cardData": {"license": "other", "license_name": "acme-1"}, "safetensors": {"parameters": {"BF16": 3}, "total": 333_312}}
    info = described(hub, settings)
    assert info.weights is not None
    assert (info.weights.bytes, info.weights.parameters, info.weights.origin) == (28_729_728, 14_364_864, "headers")
    assert info.ref == ModelRef(source="hub", name=ID, path=ID, revision=COMMIT)
    assert (info.licence, info.downloads, info.gated, info.refusal, info.warnings, info.cached) == ("acme-1", 7, False, "", (), False)
    assert info.config["num_hidden_layers"] == 32
    assert info.generation_config["eos_token_id"] == 0
    assert len(info.vocabulary) == 64
    assert info.vocabulary_problem == ""
    assert 270_000 < info.bytes_read < 450_000, "config, tokenizer and the header, not the 28.8 MB of weights"
    assert abs(info.read_s - time.time()) < 60


def test_large_files_come_over_http_and_without_the_token(hub: HubServer, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    described(hub, settings)
    stored = [request for request in hub.seen if request.path.startswith("/storage/")]
    assert {request.path for request in stored} == {f"/storage/{ID}//tokenizer.json", f"/storage/{ID}//model.safetensors"}
    assert {request.token for request in stored} == {""}, "a storage host must not get the token"
    assert {request.token for request in hub.seen if request not in stored} == {f"Bearer {TOKEN}"}
    assert not any("xet" in path for path in hub.paths())


def test_a_second_look_fetches_no_file_again(hub: HubServer, settings: Settings) -> None:
    first = described(hub, settings)
    hub.seen.clear()
    second = described(hub, settings)
    assert {request.path for request in hub.seen if request.method == "GET"} == {
        f"/api/models/{ID}",
        f"/{ID}/resolve/{COMMIT}/model.safetensors",
        f"/storage/{ID}//model.safetensors",
    }
    assert second.model_copy(update={"read_s": first.read_s, "bytes_read": first.bytes_read}) == first


def test_shards_are_read_by_the_index_and_no_total_is_trusted(hub: HubServer, settings: Settings) -> None:
    header = lambda name: safetensors({name: ("BF16", [4096, 192])})  # noqa: E731
    names = {"model.embed_tokens.weight": "model-00001-of-00002.safetensors", "lm_head.weight": "model-00002-of-00002.safetensors"}
    index = json.dumps({"metadata": {"total_size": 5}, "weight_map": names}).encode()
    hub.repos[ID] = demo_repo(model__safetensors=None)
    hub.repos[ID].files |= {"model.safetensors.index.json": index, **{file: header(name) for name, file in names.items()}}
    info = described(hub, settings)
    assert info.weights is not None
    assert (info.weights.bytes, info.weights.parameters) == (2 * 4096 * 192 * 2, 2 * 4096 * 192)


def test_a_header_longer_than_the_first_request_is_read_whole(hub: HubServer, settings: Settings) -> None:
    hub.repos[ID] = demo_repo(model__safetensors=safetensors({"model.embed_tokens.weight": ("BF16", [4096, 192])}, pad=200_000))
    info = described(hub, settings)
    assert info.weights is not None
    assert info.weights.bytes == 2 * 4096 * 192


def test_a_renamed_repository_is_followed_and_named(hub: HubServer, settings: Settings) -> None:
    hub.renamed["old/name"] = ID
    info = described(hub, settings, "old/name")
    assert (info.ref.path, info.renamed_from, info.warnings) == (ID, "old/name", (f"old/name is called {ID} on the Hub now.",))


def test_gated_files_need_the_right_token(hub: HubServer, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repos[ID].gated, hub.repos[ID].token = "manual", TOKEN
    with pytest.raises(ModelError, match=rf"{ID} is gated\. Ask for access at {hub.url}/{ID}, then set HF_TOKEN"):
        described(hub, settings)
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    with pytest.raises(ModelError, match=rf"the token in HF_TOKEN has no access\. Ask for access at {hub.url}/{ID}"):
        described(hub, settings)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    info = described(hub, settings)
    assert (info.gated, info.ask_access) == (True, f"{hub.url}/{ID}")


def test_the_token_is_in_no_sentence_answer_or_file(hub: HubServer, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert TOKEN not in described(hub, settings).model_dump_json()
    hub.faults["GET /api"] = lambda handler: handler.error(401, "", f"no: {handler.headers['authorization']}")
    with pytest.raises(DraftgaugeError) as caught:
        described(hub, settings)
    assert TOKEN not in str(caught.value)
    for file in settings.data.rglob("*"):
        assert not file.is_file() or TOKEN.encode() not in file.read_bytes()


@pytest.mark.parametrize("bad", ["hf_a b", "hf_a\nb", "hf_é"])
def test_a_token_that_no_header_can_carry_is_not_repeated(hub: HubServer, settings: Settings, monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    monkeypatch.setenv("HF_TOKEN", bad)
    with pytest.raises(InvalidInput, match="HF_TOKEN holds spaces or other characters") as caught:
        described(hub, settings)
    assert bad not in str(caught.value)
    assert hub.seen == []


def test_what_is_no_model_is_said(hub: HubServer, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.datasets.add("acme/texts")
    with pytest.raises(ModelError, match=r"There is no model acme/nothing on the Hub that can be seen here.*a private one needs"):
        described(hub, settings, "acme/nothing")
    with pytest.raises(ModelError, match="acme/texts is a data set, not a model"):
        described(hub, settings, "acme/texts")
    with pytest.raises(ModelError, match=f"{ID} has no revision 'v9'"):
        described(hub, settings, revision="v9")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with pytest.raises(ModelError, match=r"There is no model acme/nothing.*the token in HF_TOKEN may have no access to it"):
        described(hub, settings, "acme/nothing")
    hub.faults["GET /api"] = lambda handler: handler.error(401, "", "Invalid credentials in Authorization header")
    with pytest.raises(ModelError, match="does not accept the token in HF_TOKEN"):
        described(hub, settings)


def test_a_model_at_a_revision_is_asked_for_there(hub: HubServer, settings: Settings) -> None:
    assert described(hub, settings, revision="main").ref.revision == COMMIT
    assert hub.seen[0].path == f"/api/models/{ID}/revision/main"


def test_what_is_kept_works_without_the_hub(hub: HubServer, settings: Settings) -> None:
    online = described(hub, settings)
    hub.faults[""] = faults.status(503)
    info = described(hub, settings)
    assert (info.cached, info.config, info.vocabulary) == (True, online.config, online.vocabulary)
    assert info.weights is None, "its weights are not kept"
    assert info.ref == online.ref
    assert abs(info.read_s - online.read_s) < 5
    assert "is out of order for the moment (503)" in info.warnings[0]
    assert "What is shown was read earlier and is kept on this machine. Its weights are not here" in info.warnings[0]


def test_offline_by_choice_asks_nobody_and_reads_the_shared_cache(hub: HubServer, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubUnreachable, match=rf"HF_HUB_OFFLINE is set\. Unset it to ask the Hub\. Nothing of {ID} is kept"):
        described(hub, settings)
    whole = Path(constants.HF_HUB_CACHE) / "models--acme--target"
    (whole / "refs").mkdir(parents=True)
    (whole / "refs" / "main").write_text(COMMIT)
    (whole / "snapshots").mkdir()
    (whole / "snapshots" / COMMIT).symlink_to(demo.TARGET.path)
    info = described(hub, settings)
    assert info.weights is not None
    assert (info.cached, info.weights.bytes) == (True, 28_729_728)
    assert hub.seen == []


def test_the_cache_drops_what_was_used_longest_ago(hub: HubServer, settings: Settings) -> None:
    tokenizer = (Path(demo.TARGET.path) / "tokenizer.json").read_bytes()
    for at, name in enumerate(("acme/a", "acme/b", "acme/c")):
        hub.repos[name] = demo_repo(tokenizer__json=tokenizer + b" " * at)  # 260 kB each, no two alike
        described(hub, settings, name)
        time.sleep(0.02)
    prune(settings, 600_000)
    kept = {folder.name for folder in cache_folder(settings).glob("models--*")}
    assert kept == {"models--acme--b", "models--acme--c"}


def test_models_are_found_by_name_most_downloaded_first(hub: HubServer, settings: Settings) -> None:
    row = {"pipeline_tag": "text-generation", "tags": ["safetensors", "llama"], "lastModified": "2026-10-01T12:00:00.000Z"}
    for at in range(25):
        hub.repos[f"acme/small-{at:02}"] = Repo({}, gated="auto" if at == 24 else False, extra=row | {"downloads": at})
    hub.repos["acme/small-pickle"] = Repo({}, extra=row | {"tags": [], "downloads": 99})
    hub.repos["acme/small-image"] = Repo({}, extra=row | {"pipeline_tag": "text-to-image", "downloads": 99})
    hub.repos["acme/small-24"].extra |= {"safetensors": {"parameters": {"BF16": 100, "F32": 20}, "total": 5}}
    found = search_hub(" Small ", settings, QUICK, hub.url)
    assert [model.id for model in found] == [f"acme/small-{at:02}" for at in range(24, 4, -1)]
    first = found[0]
    assert (first.downloads, first.gated, first.updated, first.tags, first.parameters) == (24, True, "2026-10-01", ("safetensors", "llama"), 120)
    assert found[1].parameters is None
    assert len(search_hub("", settings, QUICK, hub.url)) == 20
    assert search_hub("zzz", settings, QUICK, hub.url) == []


@pytest.mark.parametrize("text", ["x" * 97, "a\x00b", "a\nb"])
def test_a_search_that_cannot_be_one_is_not_sent(hub: HubServer, settings: Settings, text: str) -> None:
    with pytest.raises(InvalidInput, match="A search has at most 96 characters"):
        search_hub(text, settings, QUICK, hub.url)
    assert hub.seen == []


@pytest.mark.parametrize("offline", ["", "1"])
def test_the_job_obeys_the_environment(hub: HubServer, settings: Settings, offline: str) -> None:
    """In a process of its own, as the planner runs it, with the address pasted from a browser."""
    code = """
import sys
from core.errors import DraftgaugeError
from core.plan.describe import describe
from core.settings import Settings
try:
    print(describe({"model": sys.argv[2]}, Settings.model_validate_json(sys.argv[1]))["weights"]["bytes"])
except DraftgaugeError as error:
    print(error)
"""
    environment = os.environ | {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": offline, "HF_HOME": str(settings.data)}
    command = [sys.executable, "-c", code, settings.model_dump_json(), f"{hub.url}/{ID}/tree/main"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True, text=True)
    assert done.stdout.startswith("Working offline, because HF_HUB_OFFLINE is set." if offline else "28729728")
    assert bool(hub.seen) is not bool(offline)
