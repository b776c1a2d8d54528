"""What a person sees when the disk is full or the store cannot be used: one sentence, a way on, and nothing of theirs lost."""

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.bench import Bench
from core.errors import StoreError
from core.export_json import to_json
from core.planner import Planner, Ready, Task, Waiting
from core.privacy import installation_key
from core.runs import RunSpec
from core.settings import Settings
from core.store import FILE_NAME, Store, open_store
from core.ui import desk
from tests import jobs, synthetic
from tests.apps import button, ok, open_page, texts
from tests.benches import ENTRY, ended, job, under_way, until
from tests.supplies import free_bytes, small_disk

TEXT = "def mine(x):\n---\nOnce upon a time"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk") as folder:
        yield folder


@pytest.fixture
def settings(disk: Path, settings: Settings) -> Settings:
    """The data folder on a disk that can be filled."""
    return settings.model_copy(update={"data": disk / "data"})


def said(markdown: str) -> str:
    """As it is read, without the signs that keep it text."""
    return markdown.replace("\\", "")


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    filler.write_bytes(bytes(free_bytes(disk)))
    return filler


@pytest.mark.usefixtures("app_site")
def test_prompts_pasted_on_a_full_disk_stay_and_can_be_measured_once_there_is_room(store: Store, disk: Path):
    app = open_page("measure", pasted="abc")
    filler = fill(disk)
    large = "x" * 60_000
    app.text_area(key="pasted_prompts").set_value(f"{TEXT}\n---\n{large}").run()
    assert "is full. Free some space and try again" in said(ok(app).toast[0].value)
    assert str(app.text_area(key="pasted_prompts").value).startswith(TEXT)
    assert "3 prompts" in texts(app)
    button(app, "Measure").click().run()
    assert "is full. Free some space and try again" in said(ok(app).error[0].value)
    assert str(app.text_area(key="pasted_prompts").value).startswith(TEXT), "what was typed stays on the page"
    assert store.recent(9) == []
    filler.unlink()
    button(app, "Measure").click().run()
    [run] = store.recent(9)
    assert [prompt.text for prompt in run.spec.prompts][2] == large


@pytest.mark.usefixtures("app_site")
def test_a_run_is_shown_and_exported_on_a_full_disk(store: Store, settings: Settings, disk: Path):
    run_id = synthetic.keep(store, synthetic.run(prompts=4))
    installation_key(settings.data)
    fill(disk)
    app = open_page("measure", run=run_id)
    assert not app.error
    assert {"Whole run (JSON)", "Per token (CSV)"} <= {shown.proto.label for shown in app.get("download_button")}
    whole = json.loads(to_json(store.get(run_id, traces=True), texts=False, key=installation_key(settings.data)))
    assert len(whole["run"]["spec"]["prompts"]) == 4


def test_a_key_that_cannot_be_kept_is_a_sentence_and_leaves_nothing(settings: Settings, disk: Path):
    settings.data.mkdir()
    filler = fill(disk)
    with pytest.raises(StoreError, match="cannot be read or written"):
        installation_key(settings.data)
    assert list(settings.data.iterdir()) == []
    filler.unlink()
    assert installation_key(settings.data) == installation_key(settings.data)


def test_jobs_answer_on_a_full_disk(settings: Settings, disk: Path):
    """Reports among them: the copy for later is lost, not the answer."""
    settings.data.mkdir()
    (settings.data / "plan.log").touch()
    fill(disk)
    with contextlib.closing(Planner(settings, tasks={"big": Task("tests.plan_jobs:big", 20)}, light=1)) as planner:
        planner.ask("big", {"bytes": 300_000})
        until(lambda: not isinstance(planner.ask("big", {"bytes": 300_000}), Waiting))
        answer = planner.ask("big", {"bytes": 300_000})
    assert isinstance(answer, Ready)
    assert len(answer.data) == 300_000


def test_a_run_that_ends_on_a_full_disk_says_so_while_it_is_watched(
    store: Store, settings: Settings, disk: Path, spec: RunSpec, monkeypatch: pytest.MonkeyPatch
):
    """Its end cannot be recorded, so it still counts as running; the page says why, and goes on when there is room."""
    with contextlib.closing(Bench(settings, store, entry=ENTRY)) as bench:
        monkeypatch.setattr(desk, "_open", lambda: (store, bench))
        monkeypatch.setattr(desk, "settings", lambda: settings)
        run_id = bench.submit(job(spec, jobs.SLEEP))
        under_way(store, run_id)
        filler = fill(disk)
        until(lambda: bench.trouble() != "", within_s=15)
        assert "is full. Free some space" in bench.trouble()
        app = open_page("measure", run=run_id)
        assert "is full. Free some space" in said(app.error[0].value)
        filler.unlink()
        until(lambda: bench.trouble() == "", within_s=15)
        assert not ok(app.run()).error
        bench.cancel(run_id)
        assert ended(store, run_id).status == "cancelled"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda place: place.write_bytes(b"no database" * 1000), "is damaged or not a Draftgauge store. Move it away"),
        (lambda place: newer(place), "was written by a newer Draftgauge"),
    ],
    ids=["damaged", "newer"],
)
def test_a_store_that_cannot_be_used_is_a_sentence_on_every_page_and_the_next_try_works(settings: Settings, monkeypatch, spoil, words: str):
    store = open_store(settings)
    store.close()
    place = settings.data / FILE_NAME
    good = place.read_bytes()
    spoil(place)
    spoiled = place.read_bytes()
    monkeypatch.setattr(desk, "settings", lambda: settings)
    monkeypatch.setattr(desk, "PREWARM", ())
    desk._open.clear()
    app = open_page("runs")
    assert app.title[0].value == "The data folder cannot be used"
    assert words in said(app.error[0].value)
    assert place.read_bytes() == spoiled, "left as it was found"
    for rest in settings.data.glob(f"{FILE_NAME}-*"):
        rest.unlink()
    place.write_bytes(good)
    button(app, "Try again").click().run()
    assert ok(app).title[0].value != "The data folder cannot be used"
    opened, bench = desk.desk()
    bench.close()
    opened.close()
    desk._open.clear()


def newer(place: Path) -> None:
    raw = sqlite3.connect(place)
    raw.execute("UPDATE draftgauge SET schema_version = 99")
    raw.commit()
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw.close()
