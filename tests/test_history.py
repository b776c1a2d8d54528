"""Lists of runs: every filter and order finds what it should, and nothing that people wrote is lost."""

import dataclasses
import random
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.bench import Bench
from core.errors import InvalidInput, StoreError
from core.history import PAGE, Query, Sort
from core.record import Imported, Summary
from core.runs import Lane, Progress, Run, RunSpec
from core.settings import Settings
from core.store import EXAMPLE, FILE_NAME, Store
from tests import side_runs, synthetic
from tests.supplies import free_bytes, random_trace, small_disk
from tests.test_store import ENVIRONMENT
from tests.test_trace_file import same

SUMMARY = Summary(verdict="use", policy="fixed gamma 4", speedup=1.5, low=1.4, high=1.6, traffic=(1.3, 1.7), confirmed=True, alpha=0.7, c=0.1)


# Lists.


def short(run_id: str, **changes: Any) -> Run:
    """A finished run of little weight. Names, device and dtype go into its spec, the rest are fields of a run."""
    of_spec = {name: changes.pop(name) for name in ("extent", "lanes", "group", "reference", "dtype", "device") if name in changes}
    spec = synthetic.spec(synthetic.run(prompts=1).spec.prompts, name=changes.pop("draft", "small_model")).model_copy(update=of_spec)
    created = changes.pop("created", datetime(2025, 1, 2, tzinfo=UTC))
    return Run(id=run_id, spec=spec, created=created, **{"status": "done", "progress": Progress()} | changes)


def found(store: Store, **asked: Any) -> list[str]:
    return [entry.id for entry in store.history(Query(**asked)).entries]


def summary(speedup: float, alpha: float = 0.5) -> Summary:
    return SUMMARY.model_copy(update={"speedup": speedup, "alpha": alpha})


def test_every_filter_finds_exactly_its_runs(store: Store) -> None:
    day = datetime(2025, 1, 2, tzinfo=UTC)
    store.insert(short("a", tags=("gpu", "50%"), note="Größer als gestern"))
    store.insert(short("b", draft="100%_draft", device="cuda:0", created=day + timedelta(days=1)))
    store.insert(short("c", status="failed", tags=("gpu old",), created=day + timedelta(days=2)))
    store.insert(short("d", extent="side_by_side", lanes=side_runs.run().spec.lanes, created=day + timedelta(days=3)))
    store.insert(short("e", imported=Imported(source="vllm", alpha=0.6), created=day + timedelta(days=4)))
    store.insert(short("f", extent="smoke", created=day + timedelta(days=5)))
    store.insert(short("g", environment=ENVIRONMENT, created=day + timedelta(days=6)))
    assert found(store) == ["g", "e", "d", "c", "b", "a"]
    assert (found(store, search="GRÖSSER BIG_model"), found(store, search="grosser")) == (["a"], [])
    assert (found(store, search="100%_"), found(store, search="_%"), found(store, search="50%")) == (["b"], [], ["a"])
    assert (found(store, tags=("gpu",)), found(store, tags=("gpu", "50%")), found(store, tags=("gpu old",))) == (["a"], ["a"], ["c"])
    assert (found(store, drafts=("100%_draft",)), found(store, targets=("nothing",))) == (["b"], [])
    assert (found(store, devices=("cuda:0", "CPU")), found(store, statuses=("failed",))) == (["g", "b"], ["c"])
    assert found(store, kinds=("side_by_side", "imported")) == ["e", "d"]
    first, last = ((day + timedelta(days=days)).timestamp() for days in (1, 6))
    assert found(store, kinds=("measured",), since_s=first, until_s=last) == ["c", "b"]
    choices = store.choices()
    assert (choices.total, choices.drafts, choices.devices) == (6, ("100%_draft", "small_model"), ("CPU", "cpu", "cuda:0"))
    assert choices.tags == ("50%", "gpu", "gpu old")
    assert [run.id for run in store.recent(9)] == ["g", "c", "b", "a"]


@pytest.mark.parametrize("sort", ["created", "speedup", "alpha", "c", "target", "draft", "device", "status", "duration"])
@pytest.mark.parametrize("descending", [True, False])
def test_pages_hold_every_run_once_in_order_with_the_unknown_last(store: Store, sort: Sort, descending: bool) -> None:
    rng = random.Random(0)
    for number in range(2 * PAGE + 7):
        known = summary(rng.choice((0.8, 1.2, 2.5)), rng.random()) if number % 5 else None
        created = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(seconds=rng.randrange(60))
        store.insert(short(f"r{number}", draft=rng.choice("bAc"), summary=known, created=created, started=created, finished=created))
    asked = Query(sort=sort, descending=descending)
    pages = [store.history(dataclasses.replace(asked, page=page)) for page in range(3)]
    assert [(page.total, page.pages, len(page.entries)) for page in pages] == [(107, 3, PAGE), (107, 3, PAGE), (107, 3, 7)]
    entries = [entry for page in pages for entry in page.entries]
    assert len({entry.id for entry in entries}) == 107
    fields = {"created": "created", "duration": "duration_s"}
    values = [getattr(entry, fields.get(sort, sort)) for entry in entries]
    known = [value.lower() if isinstance(value, str) else value for value in values if value is not None]
    assert known == sorted(known, reverse=descending)
    assert all(value is None for value in values[len(known) :])
    beyond = store.history(dataclasses.replace(asked, page=99))
    assert (beyond.page, beyond.entries) == (2, pages[2].entries)
    assert store.history(dataclasses.replace(asked, page=-1)).page == 0


def test_a_list_shows_a_run_of_another_version_with_empty_cells(store: Store, settings: Settings) -> None:
    store.insert(short("a", summary=SUMMARY))
    with sqlite3.connect(settings.data / FILE_NAME) as raw:
        raw.execute('UPDATE runs SET summary = \'{"verdict": "perhaps"}\'')
        raw.execute("UPDATE specs SET data = '{'")
    raw.close()
    (entry,) = store.history(Query()).entries
    assert (entry.id, entry.summary, entry.speedup) == ("a", None, 1.5)


def test_what_is_under_way_stands_in_turn_whatever_its_kind(store: Store, spec: RunSpec) -> None:
    ids = [store.add(spec.model_copy(update={"extent": extent})) for extent in ("full", "smoke", "full")]
    store.claim(ids[1], "here", 1)
    store.progress(ids[1], Progress(stage="smoke", done=1, total=2, fraction=0.5))
    assert [(entry.id, entry.status, entry.progress.fraction) for entry in store.alive()] == [
        (ids[1], "running", 0.5), (ids[0], "queued", 0.0), (ids[2], "queued", 0.0),
    ]  # fmt: skip
    assert found(store) == []


# Whole runs.


def test_a_whole_run_comes_back_equal_and_gets_a_new_id_where_its_own_is_taken(store: Store) -> None:
    run = synthetic.run("abc", prompts=2, tokens=16).model_copy(
        update={"tags": ("a", "b"), "note": "n", "summary": SUMMARY, "imported": Imported(source="draftgauge")}
    )
    assert store.insert(run) == "abc"
    back = store.get("abc", traces=True)
    without: dict[str, Any] = {"share_id": "", "traces": ()}
    assert back.model_copy(update=without) == run.model_copy(update=without)
    assert all(map(same, back.traces, run.traces))
    other = store.insert(run)
    assert other != "abc"
    assert store.get(other).model_copy(update=without | {"id": "abc"}) == run.model_copy(update=without)
    assert store.insert(run.model_copy(update={"id": "../x"})).isalnum()
    side = side_runs.run("side")
    store.insert(side)
    assert store.get("side").steps == side.steps
    with pytest.raises(InvalidInput, match="running"):
        store.insert(run.model_copy(update={"status": "running"}))


def test_an_imported_number_sorts_beside_measured_ones(store: Store) -> None:
    store.insert(short("a", summary=summary(1.2)))
    store.insert(short("b", imported=Imported(source="published", speedup=1.9, alpha=0.8, c=0.05)))
    assert found(store, sort="speedup") == ["b", "a"]
    assert [(entry.kind, entry.alpha, entry.c) for entry in store.history(Query(kinds=("imported",))).entries] == [("imported", 0.8, 0.05)]


def test_a_summary_is_kept_and_shown(store: Store) -> None:
    store.insert(short("a"))
    store.summarise("a", SUMMARY)
    store.summarise("nothing", SUMMARY)
    (entry,) = store.history(Query()).entries
    assert (entry.summary, entry.speedup, entry.alpha, entry.c, store.get("a").summary) == (SUMMARY, 1.5, 0.7, 0.1, SUMMARY)


def test_a_share_id_shows_a_run_without_texts_or_any_way_to_them(store: Store) -> None:
    store.insert(short("measured"))
    side = side_runs.run("side")
    spec = side.spec.model_copy(update={"reference": "measured", "group": "abc"})
    store.insert(side.model_copy(update={"spec": spec, "note": "secret words"}))
    run = store.get("side")
    shared = store.get(run.share_id, traces=True)
    said = shared.model_dump_json() + repr(shared.traces)
    assert not any(secret in said for secret in (side_runs.PROMPT, "Speculative", "secret words", '"side"', '"abc"', '"measured"'))
    assert (shared.id, shared.spec.reference) == (run.share_id, store.get("measured").share_id)
    assert store.status(run.share_id) is None
    with pytest.raises(InvalidInput, match="no run"):
        store.edit(run.share_id, 0, tags=(), note="by a guest")
    assert store.delete([run.share_id]) == []


def test_an_imported_run_never_stands_in_the_way_of_a_link(store: Store) -> None:
    store.insert(short("mine"))
    link = store.get("mine").share_id
    shared = store.get(link)
    assert store.insert(shared) not in ("mine", link), "exported from the shared link and imported where it came from"
    assert store.get(link) == shared
    assert store.insert(short(EXAMPLE)) != EXAMPLE, "the address of the bundled runs"
    assert store.insert(short("\u0663\u00c4")).isascii()


# What people write, and deleting.


def test_two_tabs_that_edit_one_note_do_not_overwrite_each_other(store: Store) -> None:
    store.insert(short("a"))
    assert store.edit("a", 0, tags=["x", " y  z ", "x", ""], note=" first\n") == 1
    with pytest.raises(InvalidInput, match="another tab"):
        store.edit("a", 0, tags=[], note="second")
    run = store.get("a")
    assert (run.tags, run.note, run.edition) == (("x", "y z"), "first", 1)
    assert store.edit("a", 1, tags=[], note="$x$ <b>") == 2
    assert (found(store, search="first"), found(store, search="<B>"), found(store, search="small_model")) == ([], ["a"], ["a"])


@pytest.mark.parametrize(
    ("tags", "note", "says"),
    [(["t" * 41], "", "41 characters"), ([str(n) for n in range(21)], "", "21 tags"), ([], "n" * 10_001, "10,001 characters")],
)
def test_what_is_too_long_is_refused_and_changes_nothing(store: Store, tags: list[str], note: str, says: str) -> None:
    store.insert(short("a", note="kept"))
    with pytest.raises(InvalidInput, match=says):
        store.edit("a", 0, tags=tags, note=note)
    assert (store.get("a").note, store.get("a").edition) == ("kept", 0)


def test_deleting_can_be_undone_and_leaves_no_list_untouched(store: Store) -> None:
    for name in "abc":
        store.insert(short(name, group="g1"))
    assert store.delete(["a", "b", "nothing"]) == ["a", "b"]
    assert store.delete(["a"]) == []
    assert (found(store), store.choices().total, [run.id for run in store.recent(9)], [run.id for run in store.group("g1")]) == (
        ["c"], 1, ["c"], ["c"],
    )  # fmt: skip
    assert (store.deleted().runs, store.get("a").id) == (2, "a")
    with pytest.raises(InvalidInput, match="no run"):
        store.get(store.get("a").share_id)
    assert store.restore(["a", "c"]) == 1
    assert found(store) == ["c", "a"]
    assert (store.restore(), found(store)) == (1, ["c", "b", "a"])


def test_a_run_that_waits_or_is_measured_is_not_deleted_nor_are_its_neighbours(store: Store, spec: RunSpec) -> None:
    store.insert(short("a"))
    run_id = store.add(spec)
    for _ in range(2):
        with pytest.raises(InvalidInput, match=rf"{run_id} .*Cancel it first"):
            store.delete(["a", run_id])
        store.claim(run_id, "here", 1)
    assert found(store) == ["a"]
    store.finish(run_id, "cancelled")
    assert sorted(store.delete(["a", run_id])) == sorted(["a", run_id])


def test_a_purge_removes_all_of_a_run_and_compacting_gives_the_room_back(store: Store, settings: Settings) -> None:
    large = short("large", note="n").model_copy(update={"traces": tuple(random_trace(seed, 4000) for seed in range(8))})
    store.insert(large)
    store.insert(short("small"))
    sizes = store.sizes(["large", "small"])
    assert sizes["large"] > 500_000 > 5_000 > sizes["small"] > 100
    store.delete(["large"])
    assert store.deleted().size_bytes == sizes["large"]
    assert store.purge(0.0) == 0
    before = store.size_bytes() or 0
    assert store.purge(datetime.now(UTC).timestamp() + 1) == 1
    store.compact()
    assert (store.size_bytes() or 0) < before - 400_000
    with pytest.raises(InvalidInput):
        store.get("large")
    raw = sqlite3.connect(settings.data / FILE_NAME)
    left = [raw.execute(f"SELECT count(*) FROM {table} WHERE run_id = 'large'").fetchone() for table in ("results", "traces", "specs")]
    raw.close()
    assert left == [(0,)] * 3
    assert found(store) == ["small"]


def write_until_it_fails(store: Store) -> None:
    """The file has some room inside itself, so the first notes may still fit on a full disk."""
    for edition in range(50):
        store.edit("a", edition, tags=(), note="n" * 9_000)


def test_a_full_disk_keeps_the_old_note_and_no_half_of_an_imported_run(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        store = Store(disk / FILE_NAME)
        store.insert(short("a", note="kept"))
        (disk / "filler").write_bytes(bytes(max(0, free_bytes(disk) - 60_000)))
        with pytest.raises(StoreError, match="is full"):
            store.insert(short("big").model_copy(update={"traces": tuple(random_trace(seed, 2000) for seed in range(8))}))
        (disk / "rest").write_bytes(bytes(free_bytes(disk)))
        with pytest.raises(StoreError, match="is full"):
            write_until_it_fails(store)
        (disk / "filler").unlink()
        assert [entry.id for entry in store.history(Query()).entries] == ["a"]
        assert store.get("a").note in ("kept", "n" * 9_000)
        store.edit("a", store.get("a").edition, tags=("x",), note="later")
        assert store.get("a").note == "later"
        store.close()


# Where runs are only shown.


def test_a_bench_that_only_shows_runs_refuses_starts_nothing_and_disturbs_nobody(
    settings: Settings, store: Store, bench: Bench, spec: RunSpec
) -> None:
    run_id = store.add(spec.model_copy(update={"device": "cuda:9"}))
    store.claim(run_id, "here", 1)
    watching = Bench(settings.model_copy(update={"read_only": True}), store)
    for refused in (lambda: watching.submit(spec), lambda: watching.cancel(run_id)):
        with pytest.raises(InvalidInput, match="only shows runs"):
            refused()
    assert watching.position(run_id) == 0
    watching.close()
    assert store.status(run_id) == "running"
    assert bench.submit(spec)


def test_lanes_are_part_of_a_kept_side_by_side_run(store: Store) -> None:
    side = side_runs.run("side")
    store.insert(side)
    assert [type(lane) for lane in store.get("side").spec.lanes] == [Lane] * len(side.spec.lanes)
    assert store.recent(5) == []
