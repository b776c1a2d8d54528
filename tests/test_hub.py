"""Models on the Hub, spoken to over HTTP: what is read, what every fault costs, and that nothing takes longer than its limit."""

import gzip
import json
import re
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from core import demo, hub_client
from core.errors import DraftgaugeError, InvalidInput, ModelError
from core.hub_cache import cache_folder, prune
from core.hub_client import HubUnreachable, Limits
from core.model_info import ModelInfo
from core.plan.describe_hub import describe_hub
from core.plan.search import search_hub
from core.runs import ModelRef
from core.settings import Settings
from tests import hub_server as faults
from tests.hub_server import COMMIT, Fault, HubServer, Repo, hub_server

QUICK = Limits(connect_s=1.0, read_s=0.5, total_s=1.5, longest_wait_s=0.5, pause_s=0.05)
SLACK_S = 1.5
ID = "acme/target"
TOKEN = "hf_SecretSecretSecret"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    """A Hub with the demo target as a repository, its large files in the storage."""
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "shared"))
    with hub_server() as server:
        server.repos[ID] = demo_repo()
        yield server


def demo_repo(**changes: bytes | None) -> Repo:
    """The demo target's files, with some replaced or left out (None); `config_json=` means config.json."""
    files: dict[str, bytes | Path] = {file.name: file for file in Path(demo.TARGET.path).iterdir()}
    for name, content in changes.items():
        files.pop(dotted := name.replace("__", "."), None)
        if content is not None:
            files[dotted] = content
    return Repo(files, large={"model.safetensors", "tokenizer.json"})


def config(**changes: Any) -> bytes:
    stated = json.loads((Path(demo.TARGET.path) / "config.json").read_text())
    return json.dumps({key: value for key, value in {**stated, **changes}.items() if value is not None}).encode()


def ref(name: str = ID, revision: str = "") -> ModelRef:
    return ModelRef(source="hub", name=name, path=name, revision=revision)


def described(hub: HubServer, settings: Settings, name: str = ID, limits: Limits = QUICK, revision: str = "") -> ModelInfo:
    return describe_hub(ref(name, revision), settings, limits, hub.url)


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


def safetensors(tensors: dict[str, tuple[str, list[int]]], pad: int = 0) -> bytes:
    """A header alone, as long as the reader needs it: two bytes an element."""
    rows, at = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = 2 * shape[0] * shape[1]
        rows[name], at = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}, at + size
    header = json.dumps(rows).encode() + b" " * pad
    return struct.pack("<Q", len(header)) + header


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
    with pytest.raises(ModelError, match="does not accept the token in HF_TOKEN"):
        described(hub, settings, "acme/nothing")


def test_a_model_at_a_revision_is_asked_for_there(hub: HubServer, settings: Settings) -> None:
    assert described(hub, settings, revision="main").ref.revision == COMMIT
    assert hub.seen[0].path == f"/api/models/{ID}/revision/main"


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
        (b"{", "config.json is not readable as JSON"),
        (b"[]", "config.json does not hold a JSON object"),
        (b'{"a":' * 50_000, "config.json is not readable as JSON"),
        (b"\xff\xfe", "config.json is not readable as JSON"),
        (b" " * 1_000_001, "The file config.json is larger than 1.0 MB"),
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


API, CONFIG, WEIGHTS = "GET /api/models", "GET /acme/target/resolve/" + COMMIT + "/config.json", "GET /storage/acme/target//model.safetensors"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n"
UNREACHABLE: list[tuple[str, str, Fault, str]] = [
    ("silent", API, faults.silence, "sent nothing for 0.5 seconds"),
    ("dripping body", API, faults.drip(HEAD), "did not finish its answer within 1.5 seconds"),
    ("dripping head", API, faults.drip(b"HTTP/1.1 200 OK\r\nX-A: "), "did not finish its answer within 1.5 seconds"),
    ("dripping file", CONFIG, faults.drip(HEAD), "did not finish its answer within 1.5 seconds"),
    ("dripping header of weights", WEIGHTS, faults.drip(b"HTTP/1.1 206 OK\r\nContent-Length: 100001\r\n\r\n"), "did not finish its answer within"),
    ("busy", API, faults.status(429, retry_after="120"), "takes no more requests for now (429). It asks to wait 120 seconds."),
    ("busy in the Hub's words", API, faults.status(429, ratelimit='"api";r=0;t=55'), "It asks to wait 55 seconds."),
    ("busy at a file", CONFIG, faults.status(429, retry_after="120"), "It asks to wait 120 seconds."),
    ("busy again and again", API, faults.status(429, retry_after="0"), "takes no more requests for now (429)"),
    ("broken", API, faults.status(503), "is out of order for the moment (503)"),
    ("broken at a file", CONFIG, faults.status(500), "is out of order for the moment (500)"),
    ("cut off", API, faults.cut, "broke off its answer"),
    ("cut off at a file", CONFIG, faults.cut, "broke off its answer"),
    ("no JSON", API, faults.raw(b"{"), "gave an answer that is damaged or not the Hub's"),
    ("a page to log in", API, faults.raw(b"<html>Welcome to the airport", Content_Type="text/html"), "damaged or not the Hub's"),
    ("a list", API, faults.raw(b"[1]"), "damaged or not the Hub's"),
    ("a deep list", API, faults.raw(b"[" * 100_000), "damaged or not the Hub's"),
    ("no commit", API, faults.raw(b'{"id": "acme/target"}'), "damaged or not the Hub's"),
    ("a path for a name", API, faults.raw(json.dumps({"id": "../../etc", "sha": COMMIT}).encode()), "damaged or not the Hub's"),
    ("a path for a commit", API, faults.raw(b'{"id": "acme/target", "sha": "../../../../etc"}'), "damaged or not the Hub's"),
    ("another server", "HEAD /acme", faults.raw(b""), "could not be fetched from"),
    ("in a circle", API, lambda handler: handler.redirect(302, handler.path), "sent the request in a circle"),
    ("packed", API, faults.raw(gzip.compress(bytes(10_000_000)), Content_Encoding="gzip"), "answered in a packed form"),
    ("no HTTP", API, faults.drip(b"SSH-2.0\r\n\r\n"), "broke off its answer"),
]


@pytest.mark.parametrize(("where", "fault", "words"), [row[1:] for row in UNREACHABLE], ids=[row[0] for row in UNREACHABLE])
def test_a_hub_in_trouble_is_a_sentence_in_time(hub: HubServer, settings: Settings, where: str, fault: Fault, words: str) -> None:
    hub.faults[where] = fault
    begun = time.monotonic()
    with pytest.raises(HubUnreachable) as caught:
        described(hub, settings)
    assert time.monotonic() - begun < QUICK.total_s + SLACK_S
    assert words in str(caught.value)
    assert str(caught.value).endswith(f"Nothing of {ID} is kept on this machine.")


@pytest.mark.parametrize("where", [API, CONFIG, WEIGHTS])
@pytest.mark.parametrize("fault", [faults.status(503), faults.status(429, retry_after="0"), faults.cut])
def test_a_fault_that_passes_is_waited_out(hub: HubServer, settings: Settings, where: str, fault: Fault) -> None:
    hub.faults[where] = faults.once(fault)
    assert described(hub, settings, limits=Limits(pause_s=0.05, total_s=5)).weights is not None


@pytest.mark.parametrize("where", [API, WEIGHTS])
def test_an_endless_answer_is_cut_off(hub: HubServer, settings: Settings, where: str) -> None:
    hub.faults[where] = faults.endless
    with pytest.raises(DraftgaugeError, match=r"The Hub's answer is larger than (8\.0|0\.1) MB, the most that is read"):
        described(hub, settings, limits=Limits(total_s=10))


def test_a_closed_port_an_unknown_name_and_a_foreign_certificate(hub: HubServer, settings: Settings, tmp_path: Path) -> None:
    for url, words in [
        ("http://127.0.0.1:9", "127.0.0.1 cannot be reached"),
        ("http://no-such-host.invalid", "The name no-such-host.invalid cannot be looked up"),
        (hub.url.replace("http:", "https:"), "does not answer over TLS"),
    ]:
        with pytest.raises(HubUnreachable, match=words):
            describe_hub(ref(), settings, QUICK, url)
    with hub_server(certificate(tmp_path)) as secure, pytest.raises(HubUnreachable, match=r"The certificate of 127\.0\.0\.1 is not trusted here"):
        described(secure, settings)


def certificate(folder: Path) -> Path:
    """A certificate that nobody vouches for."""
    key, own = folder / "key.pem", folder / "own.pem"
    options = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"]
    subprocess.run(["openssl", "req", *options, "-keyout", str(key), "-out", str(own)], check=True, capture_output=True)
    own.write_text(own.read_text() + key.read_text())
    return own


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


@pytest.mark.parametrize(
    ("fault", "words"),
    [(faults.status(503), "out of order"), (faults.raw(b'[{"no": "id"}]'), "damaged or not the Hub's"), (faults.drip(HEAD), "did not finish")],
)
def test_a_search_in_trouble_is_a_sentence_in_time(hub: HubServer, settings: Settings, fault: Fault, words: str) -> None:
    hub.faults[API] = fault
    begun = time.monotonic()
    with pytest.raises(HubUnreachable, match=words):
        search_hub("x", settings, QUICK, hub.url)
    assert time.monotonic() - begun < QUICK.total_s + SLACK_S
