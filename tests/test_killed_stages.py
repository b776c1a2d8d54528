"""A worker killed in every stage of every kind of run, with a real pair: what it had reported is kept, and the next run works."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from core import demo
from core.bench import Bench
from core.child import HUB_OFFLINE_ASKED, Entry
from core.policies import FixedGamma, Plain
from core.runs import Extent, Lane, Run, RunSpec, Stage
from core.settings import Settings
from core.store import Store, open_store
from tests.benches import alive, ended, until, worker_pid
from tests.killed import STAGES
from tests.models import spec_of, write_pair
from tests.weights_server import Repository, serve

MURDER = Entry("tests.killed:measure", "tests.jobs:devices")
KINDS: dict[Stage, Extent] = {"smoke": "smoke", "writing": "side_by_side", "ways": "ways", "shapes": "shapes"}
LANES = (Lane(policy=Plain()), Lane(policy=FixedGamma(3)))
MORE: dict[Extent, dict[str, object]] = {
    "full": {},
    "smoke": {},
    "side_by_side": {"prompts": 1, "lanes": LANES, "order": (0, 1)},
    "ways": {"lanes": LANES, "order": (0, 1)},
    "shapes": {"batches": (1,), "cache_lengths": (32,)},
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Settings, Store, Bench, RunSpec]]:
    """One bench for all stages: each run starts a worker anew, because the one before killed its own."""
    folder = tmp_path_factory.mktemp("killed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        settings = Settings(data=folder / "data", model_roots=[folder / "models"], threads=1)
        spec = spec_of(write_pair(settings.model_roots[0]), max_new_tokens=8).model_copy(update={"confirm_s": 3.0})
        store = open_store(settings)
        with contextlib.closing(store), contextlib.closing(Bench(settings, store, entry=MURDER)) as bench:
            yield settings, store, bench, spec


def asked(spec: RunSpec, stage: Stage) -> RunSpec:
    extent = KINDS.get(stage, "full")
    change = {**MORE[extent], "extent": extent, "seed": STAGES.index(stage)}
    if "prompts" in change:
        change["prompts"] = spec.prompts[:1]
    return spec.model_copy(update=change)


def reported(run: Run) -> set[str]:
    """What a run holds of what the stages before the last one report."""
    purposes = {generation.purpose for generation in run.generations}
    return {*purposes, *(["traces"] if len(run.traces) == len(run.spec.prompts) else []), *(["passes"] if run.passes else [])}


BEFORE: dict[Stage, set[str]] = {
    "load": set(),
    "plain": set(),
    "draft": {"answer"},
    "timing": {"answer", "traces"},
    "calibrating": {"answer", "traces", "passes"},
    "confirming": {"answer", "traces", "passes", "calibration"},
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_worker_killed_in_a_stage_leaves_what_was_reported_before(site: tuple[Settings, Store, Bench, RunSpec], stage: Stage) -> None:
    _, store, bench, spec = site
    run_id = bench.submit(asked(spec, stage))
    ended(store, run_id, within_s=120)
    run = store.get(run_id, traces=True)
    assert (run.status, run.progress.stage) == ("interrupted", stage)
    assert run.error.startswith("The worker was killed from outside (SIGKILL), most likely because this machine ran out of memory; what was")
    assert (run.environment is not None) == (stage != "load")
    assert reported(run) == BEFORE.get(stage, set())
    assert run.finished is not None
    assert bench.trouble() == ""


def test_a_worker_killed_in_a_download_takes_it_along_and_the_next_one_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The models are not loaded: that is what the other stages are for."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for name in ("HF_HUB_OFFLINE", "HF_TOKEN", HUB_OFFLINE_ASKED):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    settings = Settings(data=tmp_path / "data", threads=1)
    store = open_store(settings)
    with serve() as hub, contextlib.closing(store):
        for name in ("tiny/target", "tiny/draft"):
            hub.repositories[name] = Repository({"config.json": b"{}", "model.safetensors": bytes(1000)})
        hub.repositories["tiny/draft"].stalls = "model.safetensors"
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        spec = spec_of((hub.ref("tiny/target"), hub.ref("tiny/draft")))
        with contextlib.closing(Bench(settings, store, entry=Entry("tests.killed:fetch", "tests.jobs:devices"))) as bench:
            run_id = bench.submit(spec)
            assert hub.stalled.wait(60)
            pid = worker_pid(settings, run_id)
            [download] = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
            os.kill(pid, signal.SIGKILL)
            assert ended(store, run_id).progress.stage == "download"
            until(lambda: not alive(download), within_s=5)
            hub.repositories["tiny/draft"].stalls = ""
            hub.asked.clear()
            assert ended(store, bench.submit(spec)).status == "done"
            assert hub.fetched("tiny/target") == set()
            assert hub.fetched("tiny/draft") == {"model.safetensors"}


def test_a_model_that_does_not_fit_into_memory_is_a_sentence_and_the_worker_goes_on(
    settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bundled pair takes 58 MB in this format, and the system refuses them."""
    spec = RunSpec(target=demo.TARGET, draft=demo.DRAFT, prompts=demo.prompts()[:1], max_new_tokens=8, extent="smoke")
    with contextlib.closing(Bench(settings, store, entry=Entry("tests.killed:short_of_memory", "tests.jobs:devices"))) as bench:
        run_id = bench.submit(spec)
        run = ended(store, run_id, within_s=120)
        assert run.status == "failed"
        assert run.error.startswith("The pair does not fit into the memory of cpu: ")
        assert run.error.endswith("Use a smaller dtype, shorter prompts, fewer new tokens, or another device.")
        again = ended(store, bench.submit(spec.model_copy(update={"seed": 1})), within_s=120)
        assert (again.status, again.error) == ("done", "")
        assert worker_pid(settings, again.id) == worker_pid(settings, run_id)
