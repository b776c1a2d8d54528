"""Models from a Hub that is a real server on this machine: what is fetched, cancelled, kept, and refused."""

import contextlib
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from huggingface_hub import constants
from transformers import AutoModelForCausalLM

from core.bench import Bench
from core.child import HUB_OFFLINE_ASKED, ROOT
from core.errors import ModelError
from core.runs import ModelRef, Prompt, RunSpec
from core.settings import Settings
from core.smoke import smoke_result
from core.store import Store
from core.worker import download
from core.worker.cancellation import Cancellation, Cancelled
from core.worker.download import fetch, sweep
from core.worker.models import Garage
from tests.benches import ended, until
from tests.models import spec_of, write_pair
from tests.supplies import small_disk
from tests.weights_server import Hub, Repository, serve

NEEDED = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
MISFITS = {
    "pytorch_model.bin": b"pickled",
    "modeling_trap.py": b"raise SystemExit('this code was run')",
    "original/consolidated.safetensors": b"twice",
    "model.fp16.safetensors": b"another variant",
    "README.md": b"words",
}


class Told:
    """Progress, as a page would show it."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int, int]] = []

    def __call__(self, stage: str, done: int, total: int) -> None:
        self.steps.append((stage, done, total))


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> tuple[ModelRef, ModelRef]:
    return write_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    for name in ("HF_HUB_OFFLINE", "HF_TOKEN", HUB_OFFLINE_ASKED):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    with serve() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield hub


@pytest.fixture
def spec(hub: Hub, models: tuple[ModelRef, ModelRef]) -> RunSpec:
    for name, ref in zip(("tiny/target", "tiny/draft"), models, strict=True):
        hub.repositories[name] = Repository(dict(MISFITS)).of_folder(Path(ref.path))
    return spec_of((hub.ref("tiny/target"), hub.ref("tiny/draft")))


def cached(name: str) -> Path:
    return Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"


def blobs(name: str) -> list[Path]:
    return sorted((cached(name) / "blobs").iterdir())


def children() -> set[str]:
    """Ids of this process's own processes."""
    return {pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()}


def test_a_pair_is_downloaded_and_loaded_and_nothing_else_is_fetched(hub: Hub, spec: RunSpec, models):
    told = Told()
    pair = Garage().get(spec, told)
    assert hub.fetched("tiny/target") == hub.fetched("tiny/draft") == NEEDED
    assert {file.name for file in (cached("tiny/target") / "snapshots" / spec.target.revision).iterdir()} == NEEDED
    local = AutoModelForCausalLM.from_pretrained(models[0].path)
    assert all(a.equal(b) for a, b in zip(pair.target.parameters(), local.parameters(), strict=True))
    total = sum(len(hub.repositories[name].files["model.safetensors"]) for name in ("tiny/target", "tiny/draft"))
    assert told.steps[:2] == [("download", 0, 0), ("download", 0, total)]
    assert told.steps[-2:] == [("download", total, total), ("load", 0, 2)]


def test_what_is_there_is_not_asked_for_again(hub: Hub, spec: RunSpec):
    fetch([spec.target], Told())
    hub.asked.clear()
    told = Told()
    assert fetch([spec.target], told) == [cached("tiny/target") / "snapshots" / spec.target.revision]
    assert (hub.asked, told.steps) == ([], [])


def test_a_branch_is_looked_up_and_without_a_network_the_cache_will_do(hub: Hub, spec: RunSpec, monkeypatch: pytest.MonkeyPatch):
    branch = hub.ref("tiny/target", "main")
    folders = fetch([branch], Told())
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    assert fetch([branch], Told()) == folders
    with pytest.raises(ModelError, match=r"^127\.0\.0\.1 cannot be reached\. Check the network and HF_ENDPOINT.* Files that came whole are kept"):
        fetch([hub.ref("tiny/draft", "main")], Told())


def test_an_index_names_the_shards(hub: Hub, models, tmp_path: Path):
    AutoModelForCausalLM.from_pretrained(models[0].path).save_pretrained(tmp_path / "sharded", max_shard_size="200KB")
    shards = {file.name for file in (tmp_path / "sharded").glob("*.safetensors")}
    assert len(shards) > 1
    hub.repositories["tiny/sharded"] = Repository({"stray.safetensors": b"not in the index"}).of_folder(tmp_path / "sharded")
    (folder,) = fetch([hub.ref("tiny/sharded")], Told())
    assert {file.name for file in folder.glob("*.safetensors")} == shards


def test_cancelling_ends_the_download_and_what_came_whole_is_kept(hub: Hub, spec: RunSpec):
    hub.repositories["tiny/target"].stalls = "model.safetensors"
    cancellation, before = Cancellation(), children()
    threading.Thread(target=lambda: hub.stalled.wait() and cancellation.request("run")).start()
    with pytest.raises(Cancelled), cancellation.during("run"):
        Garage().get(spec)
    assert children() == before
    assert [file for file in blobs("tiny/target") if file.name.endswith(".incomplete")] == []
    assert len(blobs("tiny/target")) == len(NEEDED) - 1
    hub.repositories["tiny/target"].stalls = ""
    hub.asked.clear()
    Garage().get(spec)
    assert hub.fetched("tiny/target") == {"model.safetensors"}


def test_a_broken_connection_is_resumed(hub: Hub):
    """The library writes pieces of 10 MiB; of 24 MB one is whole when the connection breaks at the half."""
    weights = random.Random(0).randbytes(24_000_000)
    hub.repositories["tiny/large"] = Repository({"config.json": b"{}", "model.safetensors": weights}, breaks="model.safetensors")
    told = Told()
    (folder,) = fetch([hub.ref("tiny/large")], told)
    assert (folder / "model.safetensors").read_bytes() == weights
    assert hub.ranges == [f"bytes={10 * 2**20}-"]
    assert ("download", 10 * 2**20, len(weights)) in told.steps
    assert told.steps[-1] == ("download", len(weights), len(weights))


def test_the_process_ends_with_its_worker(hub: Hub, spec: RunSpec):
    hub.repositories["tiny/target"].stalls = "model.safetensors"
    with subprocess.Popen([sys.executable, "-m", "core.worker.download"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=ROOT) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps({"cache": constants.HF_HUB_CACHE, "refs": [spec.target.model_dump()], "weights": True}).encode() + b"\n")
        process.stdin.flush()
        assert hub.stalled.wait(30)
        process.stdin.close()
        assert until(lambda: process.poll() is not None) < 2
    sweep(Path(constants.HF_HUB_CACHE), "tiny/target")
    assert len(blobs("tiny/target")) == len(NEEDED) - 1


def test_sweeping_leaves_what_somebody_else_downloads(hub: Hub):
    folder = cached("tiny/target") / "blobs"
    folder.mkdir(parents=True)
    busy, dead, foreign = (folder / name for name in ("abc.01234567.incomplete", "def.01234567.incomplete", "def.incomplete"))
    for file in (busy, dead, foreign):
        file.write_bytes(b"half")
    with FileLock(folder.parents[1] / ".locks" / folder.parent.name / "abc.lock"):
        sweep(folder.parents[1], "tiny/target")
    assert sorted(folder.iterdir()) == [busy, foreign]


def test_the_token_is_sent(hub: Hub, spec: RunSpec, monkeypatch: pytest.MonkeyPatch):
    hub.repositories["tiny/target"].token = "hf_secret"
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert (fetch([spec.target], Told())[0] / "model.safetensors").is_file()


def test_a_ban_on_the_network_is_kept(hub: Hub, spec: RunSpec, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # as every worker has it, for loading
    monkeypatch.setenv(HUB_OFFLINE_ASKED, "1")
    with pytest.raises(ModelError, match=r"HF_HUB_OFFLINE is set\. Unset it to ask the Hub\. tiny/target is not whole on this machine"):
        fetch([spec.target], Told())
    assert hub.asked == []
    monkeypatch.setenv(HUB_OFFLINE_ASKED, "")
    assert (fetch([spec.target], Told())[0] / "config.json").is_file()


def with_weights(**faults: Any) -> Repository:
    return Repository({"config.json": b"{}", "model.safetensors": bytes(100_000)}, **faults)


def test_what_arrived_damaged_is_fetched_anew(hub: Hub, spec: RunSpec):
    """Only that: what came whole stays."""
    hub.repositories["tiny/target"].spoils = "model.safetensors"
    with pytest.raises(ModelError, match=r"model\.safetensors of tiny/target arrived damaged"):
        fetch([spec.target], Told())
    hub.repositories["tiny/target"].spoils = ""
    hub.asked.clear()
    (folder,) = fetch([spec.target], Told())
    assert hub.fetched("tiny/target") == {"model.safetensors"}
    assert (folder / "model.safetensors").read_bytes() == hub.repositories["tiny/target"].files["model.safetensors"]


@pytest.mark.parametrize(
    ("repository", "says"),
    [
        (None, "There is no model a/b on the Hub that can be seen here. Check the spelling; a private one needs a token"),
        (Repository({}, token="hf_other"), "There is no model a/b on the Hub that can be seen here"),
        (Repository({"config.json": b"{}"}, gated=True), r"a/b is gated. Ask for access at http://127.0.0.1:\d+/a/b, then set HF_TOKEN"),
        (Repository({}, status=429, headers={"Retry-After": "17"}), r"for now \(429\)\. It asks to wait 17 seconds"),
        (Repository({}, status=503), r"is out of order for the moment \(503\)\. Try again later"),
        (with_weights(refuses="model.safetensors"), r"is out of order for the moment \(503\)\..* Files that came whole are kept"),
        (
            with_weights(refuses="model.safetensors", refusal=404, headers={"X-Error-Code": "EntryNotFound"}),
            "A file that the Hub lists for a/b is not there",
        ),
        (with_weights(cuts="model.safetensors"), "gave an answer that is damaged or not the Hub's. Try again.* Files that came whole are kept"),
        (with_weights(spoils="model.safetensors"), "model.safetensors of a/b arrived damaged: its checksum is not the Hub's. It was removed"),
        (with_weights(spoils="config.json"), "config.json of a/b arrived damaged: its checksum is not the Hub's"),
        (Repository({"README.md": b""}), "a/b has no config.json"),
        (Repository({"config.json": b"{}", "pytorch_model.bin": b""}), "only pickled ones, which can run code and are refused"),
        (Repository({"config.json": b"{}"}), "neither model.safetensors nor its index"),
        (Repository({"config.json": b"{}", "model.safetensors.index.json": b"[]"}), "model.safetensors.index.json of a/b is damaged"),
        (
            Repository({"config.json": b"{}", "model.safetensors.index.json": b'{"weight_map": {"x": "../../evil.safetensors"}}'}),
            r"names '../../evil.safetensors', which is no safetensors file beside it",
        ),
        (
            Repository({"config.json": b"{}", "model.safetensors": b""}, claimed_bytes={"model.safetensors": 10**18}),
            r"need 1,000,000,000\.0 GB more in .*, where [\d,.]+ GB are free",
        ),
    ],
)
def test_what_cannot_be_downloaded_is_said_in_a_sentence(hub: Hub, repository: Repository | None, says: str):
    if repository is not None:
        hub.repositories["a/b"] = repository
    with pytest.raises(ModelError, match=says):
        fetch([hub.ref("a/b", "main")], Told())


def test_a_revision_that_is_gone(hub: Hub, spec: RunSpec):
    with pytest.raises(ModelError, match="tiny/target has no revision '0123456789"):
        fetch([hub.ref("tiny/target", "0123456789" * 4)], Told())


def test_a_full_disk(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    hub.repositories["a/b"] = Repository({"config.json": b"{}", "tokenizer.json": bytes(2_000_000)})
    with small_disk(tmp_path / "disk") as disk:
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(disk / "cache"))
        with pytest.raises(ModelError, match=r"^The disk that holds .* is full, so the files of a/b cannot be kept\. Free some space, or set HF"):
            fetch([hub.ref("a/b")], Told())


def test_a_process_that_dies_is_noticed(hub: Hub, spec: RunSpec, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(download, "_environment", lambda: {"PYTHONPATH": "/nowhere", "HF_HUB_ETAG_TIMEOUT": "no number"})
    with pytest.raises(ModelError, match="The download stopped unexpectedly"):
        fetch([spec.target], Told())


def test_code_that_comes_with_a_model_is_not_run(hub: Hub, spec: RunSpec):
    """Neither is the person asked on the worker's standard input, as the library would."""
    config = {"model_type": "trap", "auto_map": {"AutoConfig": "modeling_trap.TrapConfig", "AutoModelForCausalLM": "modeling_trap.Trap"}}
    hub.repositories["tiny/target"].files["config.json"] = json.dumps(config).encode()
    began = time.monotonic()
    with pytest.raises(ModelError, match="could not be loaded"):
        Garage().get(spec)
    assert time.monotonic() - began < 10


def test_a_worker_of_the_bench_downloads_and_can_be_cancelled_meanwhile(
    hub: Hub, spec: RunSpec, settings: Settings, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A worker is forbidden the network; its downloads are not."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    hub.repositories["tiny/draft"].stalls = "model.safetensors"
    smoke = spec.model_copy(update={"extent": "smoke"})
    with contextlib.closing(Bench(settings, store)) as bench:
        first = bench.submit(smoke)
        assert hub.stalled.wait(60)
        until(lambda: store.get(first).progress.stage == "download")
        bench.cancel(first)
        assert until(lambda: store.status(first) == "cancelled") < 2
        hub.repositories["tiny/draft"].stalls = ""
        run = ended(store, bench.submit(smoke))
    assert (run.status, run.error) == ("done", "")
    assert smoke_result(run).passed
    assert run.progress.stage == "smoke"
    assert run.progress.download_s > 0


@pytest.mark.parametrize(("installed", "says"), [(True, "file .*tiny.gguf does not exist"), (False, "pip install gguf accelerate")])
def test_a_gguf_file_that_cannot_be_read(tmp_path: Path, installed: bool, says: str, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "tiny.gguf"
    if not installed:
        file.write_bytes(b"GGUF")
        for package in ("gguf", "accelerate"):
            monkeypatch.setitem(sys.modules, package, None)
    ref = ModelRef(source="gguf", name="tiny.gguf", path=str(file))
    with pytest.raises(ModelError, match=says):
        Garage().get(RunSpec(target=ref, draft=ref, prompts=(Prompt(text="x"),)))
