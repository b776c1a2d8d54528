"""The bench with real worker processes: the queue, how runs end, and what a person reads then."""

import contextlib
import json
import os
import signal
import time
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from core import bench as bench_module
from core import database
from core.bench import Bench
from core.child import Entry, log_file
from core.errors import InvalidInput, ModelError, QueueFull, StoreError
from core.policies import EarlyExit, OwnHeads, Plain
from core.runs import Lane, ModelRef, Placement, Prompt, RunSpec
from core.settings import Settings
from core.store import FILE_NAME, Store, open_store
from tests import jobs
from tests.benches import ENTRY, ended, job, partial, under_way, until, worker_pid
from tests.supplies import free_bytes, small_disk


def test_a_run_is_measured_and_the_devices_are_known(bench: Bench, store: Store, spec: RunSpec) -> None:
    run = ended(store, bench.submit(job(spec, jobs.QUICK)))
    assert partial(run, "done")
    assert run.error == ""
    assert store.devices() == jobs.devices()


def test_the_worker_stays_for_the_next_run(bench: Bench, store: Store, settings: Settings, spec: RunSpec) -> None:
    ids = [bench.submit(job(spec, jobs.QUICK)) for _ in range(3)]
    assert all(ended(store, run_id).status == "done" for run_id in ids)
    assert len({worker_pid(settings, run_id) for run_id in ids}) == 1


def test_positions_count_up_and_the_queue_is_bounded(settings: Settings, store: Store, spec: RunSpec) -> None:
    short = settings.model_copy(update={"queue_length": 2})
    with contextlib.closing(Bench(short, store, entry=ENTRY)) as bench:
        first = bench.submit(job(spec, jobs.SLEEP))
        under_way(store, first)
        ids = [bench.submit(job(spec, jobs.QUICK)) for _ in range(2)]
        assert [bench.position(run_id) for run_id in (first, *ids)] == [0, 1, 2]
        with pytest.raises(QueueFull, match="2 runs are waiting"):
            bench.submit(spec)
        bench.cancel(ids[0])
        assert bench.position(ids[1]) == 1
        bench.submit(spec)
        assert bench.position("nonsense") is None


def test_nobody_fills_the_queue_alone(settings: Settings, store: Store, spec: RunSpec) -> None:
    short = settings.model_copy(update={"queue_length": 3, "queue_each": 2})
    with contextlib.closing(Bench(short, store, entry=ENTRY)) as bench:
        first = bench.submit(job(spec, jobs.SLEEP), "ada")
        under_way(store, first)
        own = [bench.submit(job(spec, seed), "ada") for seed in (100, 101)]
        with pytest.raises(QueueFull, match="2 of your runs are waiting already"):
            bench.submit(job(spec, 102), "ada")
        other = bench.submit(job(spec, 100), "bob")
        assert bench.before(other) == [first], "ada was served last, so bob is next"
        assert bench.before(own[1]) == [first, other, own[0]]
        assert [bench.position(run_id) for run_id in (other, *own)] == [1, 2, 3]
        assert bench.before(first) == bench.before("nonsense") == []
        everybody = "3 runs are waiting already, the most for everybody together. Try again when one has begun"
        for person, way_out in (("bob", ", or cancel one of yours."), ("eve", ".")):
            with pytest.raises(QueueFull) as refused:
                bench.submit(job(spec, 101), person)
            assert str(refused.value) == f"{everybody}{way_out}", "nobody is told to cancel what they have not got"


def test_a_second_click_means_the_run_of_the_first(bench: Bench, store: Store, spec: RunSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the page draws by chance at each click; by another person, later, or once it has ended, it is another run."""
    asked = job(spec, jobs.SLEEP)
    first = bench.submit(asked.model_copy(update={"group": "g1", "order": (0, 1)}), "ada")
    assert bench.submit(asked.model_copy(update={"group": "g2", "order": (1, 0)}), "ada") == first
    under_way(store, first)
    assert bench.submit(asked, "ada") == first
    assert store.get(first).spec.group == "g1"
    others = [bench.submit(asked, "bob"), bench.submit(asked), bench.submit(asked), bench.submit(job(spec, jobs.QUICK), "ada")]
    now_s = time.time()
    monkeypatch.setattr("time.time", lambda: now_s + bench_module.CLICKED_TWICE_S + 1)
    others.append(bench.submit(asked, "ada"))
    monkeypatch.undo()
    for run_id in (first, *others):
        bench.cancel(run_id)
    ended(store, first)
    others.append(bench.submit(asked, "ada"))
    assert len({first, *others}) == 7


def test_an_error_with_a_sentence_is_shown_as_it_is(bench: Bench, store: Store, spec: RunSpec) -> None:
    run = ended(store, bench.submit(job(spec, jobs.REFUSED)))
    assert partial(run, "failed")
    assert run.error == "The model is made of wood. Choose another one."


def test_an_unexpected_error_names_the_log_which_has_the_traceback(bench: Bench, store: Store, settings: Settings, spec: RunSpec) -> None:
    run = ended(store, bench.submit(job(spec, jobs.BROKEN)))
    assert partial(run, "failed")
    assert "ZeroDivisionError: the reason" in run.error
    log = log_file(settings, "cpu")
    assert str(log) in run.error
    assert "Traceback" in log.read_text()
    assert ended(store, bench.submit(job(spec, jobs.QUICK))).status == "done"


def test_what_libraries_print_goes_to_the_log(bench: Bench, store: Store, settings: Settings, spec: RunSpec) -> None:
    assert ended(store, bench.submit(job(spec, jobs.SHOUT))).status == "done"
    lines = log_file(settings, "cpu").read_text().split("\n")
    assert [line for line in lines if line.startswith(("not", "neither"))] == ["not a message", "neither am I"]


@pytest.mark.parametrize("entry", [Entry("tests.no_such_module:measure", ENTRY.devices), Entry(ENTRY.measure, "tests.jobs:no_devices")])
def test_a_worker_that_cannot_start_fails_each_run_with_the_log(settings: Settings, store: Store, spec: RunSpec, entry: Entry) -> None:
    with contextlib.closing(Bench(settings, store, entry=entry)) as bench:
        for _ in range(2):
            run = ended(store, bench.submit(spec))
            assert run.status == "failed"
            assert str(log_file(settings, "cpu")) in run.error
    assert "Traceback" in log_file(settings, "cpu").read_text()


def test_a_second_server_is_refused_until_the_first_has_gone(bench: Bench, settings: Settings, store: Store) -> None:
    with pytest.raises(StoreError, match=f"Another Draftgauge uses the data folder {settings.data}"):
        Bench(settings, store)
    bench.close()
    Bench(settings, store, entry=ENTRY).close()


def test_each_device_has_its_own_worker(bench: Bench, store: Store, settings: Settings, spec: RunSpec) -> None:
    ended(store, bench.submit(job(spec, jobs.QUICK)))
    ids = [bench.submit(job(spec, jobs.SLEEP).model_copy(update={"device": device})) for device in ("cpu", "cuda:7")]
    for run_id in ids:
        under_way(store, run_id)
    assert worker_pid(settings, ids[0]) != worker_pid(settings, ids[1])
    assert [bench.position(run_id) for run_id in ids] == [0, 0]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server, unlike its worker, waits for a lock for half a second only."""
    monkeypatch.setattr(database, "WAIT_FOR_LOCK_S", 0.5)


@pytest.mark.usefixtures("impatient")
def test_the_end_of_a_run_is_recorded_when_the_store_can_be_written_again(bench: Bench, store: Store, settings: Settings, spec: RunSpec) -> None:
    run_id = bench.submit(job(spec, jobs.SLEEP))
    under_way(store, run_id)
    lock = create_engine(f"sqlite:///{settings.data / FILE_NAME}")
    with lock.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        os.kill(worker_pid(settings, run_id), signal.SIGKILL)
        time.sleep(database.WAIT_FOR_LOCK_S + 0.5)
        assert store.status(run_id) == "running"
    lock.dispose()
    assert partial(ended(store, run_id), "interrupted")


def test_a_full_disk_fails_the_run_with_a_sentence_and_the_bench_goes_on(settings: Settings, spec: RunSpec, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        settings = settings.model_copy(update={"data": disk / "data"})
        store = open_store(settings)
        with contextlib.closing(store), contextlib.closing(Bench(settings, store, entry=ENTRY)) as bench:
            ended(store, bench.submit(job(spec, jobs.QUICK)))
            (disk / "filler").write_bytes(bytes(300_000))
            run_id = bench.submit(job(spec, jobs.FLOOD))
            until(lambda: free_bytes(disk) < 8192)
            time.sleep(0.5)
            (disk / "filler").unlink()
            run = ended(store, run_id)
            assert partial(run, "failed")
            assert "is full" in run.error
            assert len(store.get(run_id, traces=True).traces) > 3
            assert ended(store, bench.submit(job(spec, jobs.QUICK))).status == "done"


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"prompts": ()}, InvalidInput, "no prompts"),
        ({"prompts": (Prompt(text="a"), Prompt(text=" "))}, InvalidInput, "Prompt 2 is empty"),
        ({"max_new_tokens": 0}, InvalidInput, "0 new tokens"),
        ({"max_new_tokens": 5000}, InvalidInput, "5000 new tokens"),
        ({"device": "cuda:9"}, InvalidInput, 'no device "cuda:9"'),
        ({"draft": ModelRef(source="folder", name="etc", path="/etc")}, InvalidInput, "/etc is not below a configured root"),
    ],
)
def test_bad_input_is_refused_before_it_is_queued(bench: Bench, store: Store, spec: RunSpec, change, error, words) -> None:
    with pytest.raises(error, match=words):
        bench.submit(spec.model_copy(update=change))
    assert store.recent(1) == []


def as_t5(spec: RunSpec) -> RunSpec:
    """The same models with an encoder, by their config.json."""
    for ref in (spec.target, spec.draft):
        file = Path(ref.path) / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"model_type": "t5", "is_encoder_decoder": True}))
    return spec


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"extent": "ways", "lanes": (Lane(policy=Plain()), Lane(policy=EarlyExit(1)))},
            r"target is an encoder-decoder \(t5\), .* lets decoders",
        ),
        ({"extent": "ways", "lanes": (Lane(policy=Plain()), Lane(policy=OwnHeads("mtp")))}, "lets decoders alone draft for themselves"),
        ({"extent": "shapes", "batches": (1,), "cache_lengths": (64,)}, "passes behind encoded prompts are not timed here"),
    ],
)
def test_what_an_encoder_decoder_cannot_do_is_refused_before_it_is_queued(bench: Bench, store: Store, spec: RunSpec, change, words) -> None:
    asked = as_t5(spec).model_copy(update=change)
    alone = asked.model_copy(update={"draft": asked.target}) if asked.extent == "ways" else asked
    with pytest.raises(ModelError, match=words):
        bench.submit(alone)
    assert store.recent(1) == []


def test_a_placement_that_this_server_lacks_is_refused_before_it_is_queued(bench: Bench, store: Store, spec: RunSpec) -> None:
    with pytest.raises(InvalidInput, match="FlashAttention 2 runs on CUDA GPUs only"):
        bench.submit(spec.model_copy(update={"placement": Placement(attention="flash_attention_2")}))
    assert store.recent(1) == []


def test_a_damaged_model_is_refused_before_it_is_queued(bench: Bench, store: Store, spec: RunSpec) -> None:
    (Path(spec.target.path) / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match="cut off"):
        bench.submit(spec)
    assert store.recent(1) == []


def test_a_data_folder_that_cannot_be_written_gives_a_sentence(settings: Settings, store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        Bench(settings.model_copy(update={"data": tmp_path / "file"}), store, entry=ENTRY)


def test_a_device_may_be_added_while_a_run_is_cancelled(bench: Bench) -> None:
    """Another page may submit to a new device at that moment."""

    class Slow:
        def cancel(self, run_id: str) -> None:
            bench._stations[run_id] = bench._stations["cpu"]

    bench._stations["slow"] = Slow()  # pyright: ignore[reportArgumentType]
    bench.cancel("another")
    del bench._stations["slow"], bench._stations["another"]
