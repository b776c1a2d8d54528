"""The store: what goes in comes out, late writers change nothing, and a bad place gives a sentence."""

import os
import sqlite3
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from core import database, demo
from core.errors import InvalidInput, StoreError
from core.measured import DeviceInfo, Environment, Generation, PassTimes, Sample
from core.policies import FixedGamma, Plain
from core.runs import Progress, Prompt, RunSpec
from core.settings import Settings
from core.sink import StoreSink, fraction
from core.store import FILE_NAME, Store, open_store
from core.trace_file import pack_traces
from tests.supplies import free_bytes, random_trace, small_disk
from tests.test_trace_file import same

ENVIRONMENT = Environment(
    host="here", device="cpu", device_name="CPU", platform="Linux", python="3.11", torch="2", transformers="5", dtype="float32",
    attention="sdpa", threads=1, scikit_learn=False, target_parameters=10, draft_parameters=1, target_layers=2, draft_layers=1,
)  # fmt: skip
PASSES = PassTimes(
    cache_tokens=128,
    target={1: Sample(median_s=0.01, iqr_s=0.001, n=9)},
    draft={2: Sample(median_s=0.001, iqr_s=0.0, n=9)},
    target_one_s={1: 0.01},
    target_one_beside_draft_s={2: 0.01},
)
PLAIN = Generation(purpose="answer", block=0, prompt=0, policy=Plain(), tokens=8, total_s=0.5, first_token_s=0.1)
ASSISTED = Generation(
    purpose="confirmation", block=1, prompt=0, policy=FixedGamma(3), tokens=8, total_s=0.4, first_token_s=0.1, rounds=(4, 4), equal=True
)


def running(store: Store, spec: RunSpec) -> str:
    run_id = store.add(spec)
    assert store.claim(run_id, "here", 1)
    return run_id


def test_a_new_data_folder_is_its_owners_alone(tmp_path: Path) -> None:
    """It holds prompts, and other people may have accounts on the machine; a folder that was there keeps its rights."""
    new, shared = tmp_path / "new", tmp_path / "shared"
    shared.mkdir(mode=0o755)
    before = os.umask(0o022)
    try:
        for folder in (new, shared):
            open_store(Settings(data=folder)).close()
    finally:
        os.umask(before)
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (new, shared)] == [0o700, 0o755]


def test_a_run_comes_back_as_it_was_reported(store: Store, spec: RunSpec) -> None:
    run_id = running(store, spec)
    traces = [random_trace(0), random_trace(1, rich=False)]
    sink = StoreSink(store, run_id)
    sink.environment(ENVIRONMENT)
    for index, trace in enumerate(traces):
        sink.trace(index, trace)
    sink.passes(PASSES)
    sink.draft_prefill((0.25, 0.5))
    sink.generation(PLAIN)
    sink.generation(ASSISTED)
    sink.disturbed()
    sink.stage("confirming", 1, 4)
    sink.flush()
    assert store.finish(run_id, "done")

    run = store.get(run_id, traces=True)
    assert (run.spec, run.status, run.environment, run.disturbed) == (spec, "done", ENVIRONMENT, True)
    assert (run.passes, run.draft_prefill_s, run.generations) == ((PASSES,), (0.25, 0.5), (PLAIN, ASSISTED))
    assert run.progress == Progress(stage="confirming", done=1, total=4, fraction=fraction("confirming", 1, 4))
    assert run.started is not None
    assert run.finished is not None
    assert run.created <= run.started <= run.finished
    assert len(run.traces) == 2
    assert all(map(same, run.traces, traces))
    assert store.get(run_id).traces == ()


def test_a_second_trace_replaces_the_first_and_a_gap_ends_the_list(store: Store, spec: RunSpec) -> None:
    run_id = running(store, spec)
    store.trace(run_id, 0, random_trace(0, rich=False))
    store.trace(run_id, 0, random_trace(1))
    store.trace(run_id, 2, random_trace(2))
    (only,) = store.get(run_id, traces=True).traces
    assert same(only, random_trace(1))


@pytest.mark.parametrize("status", ["interrupted", "cancelled", "failed", "done"])
def test_a_late_writer_cannot_revive_a_run(store: Store, spec: RunSpec, status) -> None:
    run_id = running(store, spec)
    assert store.finish(run_id, status, "why")
    before = store.get(run_id)
    writes = [
        lambda: store.progress(run_id, Progress(stage="timing")),
        lambda: store.heartbeat(run_id),
        lambda: store.environment(run_id, ENVIRONMENT),
        lambda: store.disturbed(run_id),
        lambda: store.passes(run_id, PASSES),
        lambda: store.draft_prefill(run_id, [1.0]),
        lambda: store.generations(run_id, [PLAIN]),
        lambda: store.trace(run_id, 0, random_trace(0)),
    ]
    for write in writes:
        with pytest.raises(StoreError, match="not running any more"):
            write()
    assert not store.finish(run_id, "done")
    assert not store.claim(run_id, "here", 2)
    assert not store.cancel_queued(run_id)
    assert store.get(run_id, traces=True) == before


def test_only_one_claim_succeeds(store: Store, spec: RunSpec) -> None:
    run_id = store.add(spec)
    won: list[bool] = []
    threads = [threading.Thread(target=lambda pid=pid: won.append(store.claim(run_id, "here", pid))) for pid in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [False] * 7 + [True]


def test_a_server_that_starts_interrupts_what_was_running_only(store: Store, spec: RunSpec) -> None:
    ran, waits = running(store, spec), store.add(spec)
    store.generations(ran, [PLAIN])
    assert store.interrupt_running() == 1
    run = store.get(ran)
    assert (run.status, run.generations) == ("interrupted", (PLAIN,))
    assert "stopped" in run.error
    assert store.queued() == [waits]


def test_queued_runs_keep_their_order_by_device(store: Store, spec: RunSpec) -> None:
    elsewhere = spec.model_copy(update={"device": "cuda:0"})
    ids = [store.add(each) for each in (spec, elsewhere, spec)]
    assert store.queued() == ids
    assert store.queued("cpu") == [ids[0], ids[2]]
    assert sorted(store.waiting_devices()) == ["cpu", "cuda:0"]
    assert store.cancel_queued(ids[0])
    assert store.queued("cpu") == [ids[2]]


def test_recent_is_newest_first_and_light(store: Store, spec: RunSpec) -> None:
    ids = [running(store, spec) for _ in range(3)]
    store.generations(ids[2], [PLAIN])
    assert [run.id for run in store.recent(2)] == [ids[2], ids[1]]
    assert store.recent(1)[0].generations == ()


def test_a_run_that_is_watched_is_read_without_its_results(store: Store, spec: RunSpec) -> None:
    run_id = running(store, spec)
    store.generations(run_id, [PLAIN])
    store.progress(run_id, Progress(stage="plain", done=1, total=2))
    light = store.get(run_id, results=False)
    assert (light.generations, light.progress.done, light.spec) == ((), 1, spec)
    assert store.get(run_id).generations == (PLAIN,)


def test_one_unreadable_run_does_not_hide_the_others(store: Store, settings: Settings, spec: RunSpec) -> None:
    ids = [store.add(spec) for _ in range(3)]
    with sqlite3.connect(settings.data / FILE_NAME) as raw:
        raw.execute("update specs set data = '{}' where run_id = ?", (ids[1],))
    raw.close()
    assert [run.id for run in store.recent(3)] == [ids[2], ids[0]]
    assert (store.unreadable(3), store.unreadable(1)) == (1, 0)
    with pytest.raises(StoreError, match=ids[1]):
        store.get(ids[1])


def test_an_unknown_run_is_named(store: Store) -> None:
    with pytest.raises(InvalidInput, match="no run nonsense"):
        store.get("nonsense")
    assert store.status("nonsense") is None


def test_devices_are_replaced(store: Store) -> None:
    assert store.devices() == []
    gpu = DeviceInfo(id="cuda:0", name="A GPU", memory_bytes=2**37)
    store.set_devices([DeviceInfo(id="cpu", name="A CPU")])
    store.set_devices([DeviceInfo(id="cpu", name="A CPU"), gpu])
    assert store.devices() == [DeviceInfo(id="cpu", name="A CPU"), gpu]


def test_pasted_prompts_are_kept_and_the_oldest_go(store: Store) -> None:
    assert store.load_prompts("me") is None
    for number in range(102):
        store.save_prompts(f"other {number}", "x")
    store.save_prompts("me", "first")
    store.save_prompts("me", "$x$ <b>\n---\né")
    assert store.load_prompts("me") == "$x$ <b>\n---\né"
    assert store.load_prompts("other 0") is None
    assert store.load_prompts("other 101") == "x"


def test_a_sink_holds_back_frequent_reports_and_loses_none(store: Store, spec: RunSpec) -> None:
    run_id = running(store, spec)
    sink = StoreSink(store, run_id)
    sink.stage("calibrating", 0, 100)
    for done in range(1, 51):
        sink.generation(PLAIN)
        sink.stage("calibrating", done, 100)
    assert store.get(run_id).progress.done == 0
    sink.flush()
    run = store.get(run_id)
    assert (run.progress.done, len(run.generations)) == (50, 50)


def test_the_fraction_grows_from_0_to_1() -> None:
    steps = [fraction(stage, done, 4) for stage in ("load", "plain", "draft", "timing", "calibrating", "confirming") for done in range(5)]
    assert steps == sorted(steps)
    assert (fraction("queued", 0, 0), fraction("done", 0, 0)) == (0.0, 1.0)
    assert steps[-1] == pytest.approx(1.0)


def test_a_store_is_found_again(settings: Settings, spec: RunSpec) -> None:
    first = open_store(settings)
    run_id = first.add(spec)
    first.close()
    second = open_store(settings)
    assert second.get(run_id).spec == spec
    second.close()


# Bad places.


def refused(place: Path, words: str) -> None:
    with pytest.raises(StoreError, match=words):
        Store(place)


def test_a_newer_schema_is_refused_and_untouched(store: Store, settings: Settings) -> None:
    with sqlite3.connect(settings.data / FILE_NAME) as raw:
        raw.execute("UPDATE draftgauge SET schema_version = 99")
    raw.close()
    refused(settings.data / FILE_NAME, "newer Draftgauge.*schema 99")


def test_a_run_of_a_newer_program_is_refused(store: Store, settings: Settings, spec: RunSpec) -> None:
    run_id = store.add(spec)
    raw = sqlite3.connect(settings.data / FILE_NAME)
    raw.execute("UPDATE specs SET data = json_set(data, '$.invented', 1)")
    raw.commit()
    raw.close()
    with pytest.raises(StoreError, match=f"Run {run_id} cannot be read"):
        store.get(run_id)


def test_a_foreign_database_and_a_foreign_file_are_refused(tmp_path: Path) -> None:
    raw = sqlite3.connect(tmp_path / "other.sqlite")
    raw.execute("CREATE TABLE songs (title)")
    raw.close()
    refused(tmp_path / "other.sqlite", "another program")
    (tmp_path / "letter.sqlite").write_text("Dear reader, this is not a database. " * 200)
    refused(tmp_path / "letter.sqlite", "not a Draftgauge store")
    assert (tmp_path / "letter.sqlite").read_text().startswith("Dear reader")


def test_a_truncated_store_is_refused(store: Store, settings: Settings, tmp_path: Path) -> None:
    store.close()
    whole = (settings.data / FILE_NAME).read_bytes()
    (tmp_path / "half.sqlite").write_bytes(whole[: len(whole) // 2])
    refused(tmp_path / "half.sqlite", "damaged")


def test_a_locked_store_gives_a_sentence_and_then_goes_on(settings: Settings, spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "WAIT_FOR_LOCK_S", 0.1)
    store = open_store(settings)
    other = sqlite3.connect(settings.data / FILE_NAME)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked by another program"):
        store.add(spec)
    other.rollback()
    other.close()
    assert store.get(store.add(spec)).status == "queued"
    store.close()


def test_a_data_folder_that_is_a_file_gives_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    refused(tmp_path / "data" / FILE_NAME, "data folder .* cannot be made")


def fill(file: Path) -> None:
    """Take all the room that is left."""
    file.write_bytes(bytes(free_bytes(file.parent)))


def test_a_full_disk_gives_a_sentence_and_loses_nothing(tmp_path: Path, spec: RunSpec) -> None:
    with small_disk(tmp_path / "disk") as disk:
        store = Store(disk / FILE_NAME)
        saved = running(store, spec)
        store.generations(saved, [PLAIN])
        large = spec.model_copy(update={"prompts": (Prompt(text="x" * 900_000),)})
        with pytest.raises(StoreError, match="is full"):
            store.add(large)
        fill(disk / "filler")
        with pytest.raises(StoreError, match="is full"):
            store.generations(saved, [PLAIN] * 9000)
        kept = store.get(saved)
        assert kept.generations[0] == PLAIN
        (disk / "filler").unlink()
        store.generations(saved, [ASSISTED])
        assert store.get(saved).generations == (*kept.generations, ASSISTED)
        store.close()


def test_a_new_store_on_a_full_disk_gives_a_sentence(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        fill(disk / "filler")
        refused(disk / FILE_NAME, "full")


def test_a_read_only_disk_gives_a_sentence(tmp_path: Path, spec: RunSpec) -> None:
    with small_disk(tmp_path / "disk") as disk:
        Store(disk / FILE_NAME).close()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        refused(disk / FILE_NAME, "cannot be (written|opened)")
        refused(disk / "new" / FILE_NAME, "cannot be made")


def test_the_bundled_example_reads_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, spec: RunSpec) -> None:
    run_id = running(store, spec)
    store.trace(run_id, 0, random_trace(0))
    run = store.get(run_id, traces=True)
    (tmp_path / "example").mkdir()
    (tmp_path / "example" / "run.json").write_text(run.model_dump_json())
    (tmp_path / "example" / "traces.npz").write_bytes(pack_traces(run.traces))
    (tmp_path / "prompts.json").write_text('[{"text": "def f():", "label": "code"}]')
    monkeypatch.setattr(demo, "FOLDER", tmp_path)
    example = demo.example_run()
    assert (example.id, example.spec.target, example.spec.draft) == (run_id, demo.TARGET, demo.DRAFT)
    assert same(example.traces[0], random_trace(0))
    assert demo.prompts() == (Prompt(text="def f():", label="code"),)
    monkeypatch.setattr(demo, "FOLDER", tmp_path / "nowhere")
    with pytest.raises(StoreError, match="nowhere"):
        demo.prompts()
