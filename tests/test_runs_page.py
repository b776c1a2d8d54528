"""The page of runs: what it lists, what can be done with chosen runs, and that two tabs, a shrinking list and hostile names do no harm."""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core import answers
from core.analysis import Analysis, analyse, summary
from core.bench import Bench
from core.history import PAGE, Query
from core.palette import LIGHT
from core.record import Imported
from core.runs import Progress, RunSpec
from core.settings import Settings
from core.store import Store
from core.ui import desk, runs_columns, runs_storage, runs_table
from tests import side_runs, synthetic
from tests.apps import button, ok, open_page, texts
from tests.test_history import SUMMARY, short

pytestmark = pytest.mark.usefixtures("app_site")
HOSTILE = "$x$ <b>bold</b> [a](b) |"


def listed(app: AppTest) -> list[str]:
    """Ids of the rows, which hold every column whether it is shown or not."""
    return list(app.dataframe[0].value["Id"])


def choose(app: AppTest, store: Store, *ids: str, query: Query | None = None) -> AppTest:
    """Tick these runs."""
    entries = store.history(query or Query()).entries
    rows = [at for at, entry in enumerate(entries) if entry.id in ids]
    app.session_state[runs_table.key_of(entries)] = {"selection": {"rows": rows, "columns": [], "cells": []}}
    return ok(app.run())


def test_without_runs_the_page_says_what_to_do():
    app = open_page("runs")
    assert app.title[0].value == "No runs yet"
    assert "Measure another pair" in texts(app)
    assert not [box for box in app.text_input if box.key == "find"]


def test_the_page_opens_by_itself(store: Store):
    """A cold link runs the page without the router; so does this."""
    store.insert(short("a"))
    assert listed(ok(AppTest.from_file("../pages/runs.py", default_timeout=30).run())) == ["a"]


def test_the_list_shows_answers_as_they_were_kept_and_nothing_where_none_was(store: Store):
    store.insert(short("old"))
    store.insert(short("gone", status="cancelled", created=datetime(2025, 1, 3, tzinfo=UTC)))
    store.insert(short("good", summary=SUMMARY, tags=("a", HOSTILE), created=datetime(2025, 1, 4, tzinfo=UTC)))
    store.insert(short("guess", summary=SUMMARY.model_copy(update={"confirmed": False}), created=datetime(2025, 1, 5, tzinfo=UTC)))
    store.insert(short("engine", draft=HOSTILE, imported=Imported(source="vllm", alpha=0.6), created=datetime(2025, 1, 6, tzinfo=UTC)))
    side = side_runs.run("side")
    store.insert(side.model_copy(update={"created": datetime(2025, 1, 7, tzinfo=UTC)}))
    table: Any = open_page("runs").dataframe[0].value  # the stubs know no cell
    assert list(table["Id"]) == ["side", "engine", "guess", "good", "gone", "old"]
    assert list(table["Answer"]) == ["Side by side", "From vLLM", "Use: fixed gamma 4, predicted", "Use: fixed gamma 4", "Cancelled", ""]
    assert table["Draft"][1] == HOSTILE
    assert table["Speedup"][3] == 1.5
    assert (table["These prompts"][3], table["Traffic"][3], list(table["Tags"][3])) == ("[1.40, 1.60]", "[1.30, 1.70]", ["a", HOSTILE])


def test_the_address_filters_orders_and_pages(store: Store):
    for number in range(PAGE + 3):
        created = datetime(2025, 1, 1, 12).astimezone() + timedelta(days=number)
        store.insert(short(f"r{number:02}", draft="other" if number % 2 else "small_model", created=created))
    app = open_page("runs", find="other", sort="Oldest first")
    assert listed(app) == [f"r{number:02}" for number in range(1, PAGE + 3, 2)]
    assert f"26 of {PAGE + 3} runs" in texts(app)
    assert listed(open_page("runs", at="2", sort="Oldest first")) == ["r50", "r51", "r52"]
    assert len(listed(open_page("runs", at="99"))) == PAGE
    assert listed(open_page("runs", draft_is="other", since="2025-02-10", until="2025-02-14")) == ["r43", "r41"]
    app = open_page("runs", at="2")
    app.text_input(key="find").set_value("r07").run()
    assert listed(ok(app)) == ["r07"]
    app.text_input(key="find").set_value("nothing like it").run()
    assert "No run is like that" in texts(ok(app))
    assert listed(ok(button(app, "Show all runs").click().run()))[0] == "r52"
    app = open_page("runs", draft_is="gone", target_is="big_model")
    assert "No run is like that" in texts(app), "a link to runs that were deleted meanwhile does not show all others"
    assert "Filters (2)" in [box.proto.popover.label for box in app.get("popover")]


def test_deleting_is_taken_back_after_other_clicks(store: Store):
    for name in "abc":
        store.insert(short(name))
    app = choose(open_page("runs"), store, "a", "b")
    button(app, "Delete").click().run()
    assert listed(ok(app)) == ["c"]
    app.text_input(key="find").set_value("small").run()
    assert "Deleted 2 runs" in texts(app)
    button(app, "Undo").click().run()
    assert sorted(listed(ok(app))) == ["a", "b", "c"]
    assert "Deleted" not in texts(app)


def test_a_run_that_runs_again_meanwhile_is_not_deleted(store: Store, spec: RunSpec):
    """The page may be older than the store: a run it lists as ended cannot be alive, but the store decides, and says why."""
    store.insert(short("a"))
    app = choose(open_page("runs"), store, "a")
    with store._begin() as connection:
        connection.exec_driver_sql("UPDATE runs SET status = 'running' WHERE id = 'a'")
    button(app, "Delete").click().run()
    assert "Cancel it first" in ok(app).error[0].value
    assert store.status("a") == "running"


def test_two_to_six_runs_go_on_to_the_comparison_and_lost_ids_are_named(store: Store):
    for number in range(2):
        store.insert(synthetic.run(f"run{number}", c=0.1 + number / 2, prompts=8, tokens=24))
    app = open_page("runs")
    assert button(app, "Compare").disabled
    assert not button(choose(app, store, "run0", "run1"), "Compare").disabled
    app = open_page("runs", compare="run0,run1,nowhere", baseline="run1")
    assert "gains" in app.title[0].value
    assert "no run nowhere" in texts(app).replace("\\", "")
    app = open_page("runs", compare="x,<b>", baseline="")
    assert app.title[0].value == "Choose at least two runs to compare"


def test_a_note_is_saved_and_a_second_tab_loses_nothing(store: Store):
    store.insert(short("a", note="before"))
    mine, other = (choose(open_page("runs"), store, "a") for _ in range(2))
    other.text_area(key="note_a").set_value("theirs").run()
    button(other, "Save").click().run()
    assert "Saved" in texts(ok(other))
    assert (store.get("a").note, store.get("a").edition) == ("theirs", 1)

    mine.text_area(key="note_a").set_value(f"mine {HOSTILE}").run()
    assert store.get("a").note == "theirs"
    assert "another tab" in mine.warning[0].value
    assert [shown.value for shown in mine.text] == ["theirs"]
    assert mine.text_area(key="note_a").value == f"mine {HOSTILE}"
    button(mine, "Save mine").click().run()
    assert store.get("a").note == f"mine {HOSTILE}"

    button(other, "Save").click().run()
    assert (store.get("a").note, "another tab" in ok(other).warning[0].value) == (f"mine {HOSTILE}", True)
    button(other, "Take theirs").click().run()
    assert ok(other).text_area(key="note_a").value == f"mine {HOSTILE}"
    assert not other.warning


def test_runs_under_way_stand_on_top_and_can_be_cancelled(store: Store, spec: RunSpec, cold_bench: Bench):
    first, second = (store.add(spec.model_copy(update={"device": "cuda:7", "extent": extent})) for extent in ("smoke", "full"))
    store.claim(first, "here", 1)
    store.progress(first, Progress(stage="confirming", done=1, total=4, fraction=0.6))
    app = open_page("runs")
    assert app.subheader[0].value == "2 runs under way"
    assert [link.proto.label for link in app.get("page_link")][:2] == ["**target** with **draft**, eight tokens", "**target** with **draft**"]
    app.button(key=f"cancel_{second}").click().run()
    assert store.status(second) == "cancelled"
    assert listed(ok(app)) == [second]
    assert app.subheader[0].value == "1 run under way"


def test_storage_removes_for_good_in_the_background_and_restores(store: Store, settings: Settings):
    folder = settings.data / "plan" / "answers"
    answers.keep(folder, answers.key("report", {"run": "a"}), answers.Made("what was said", 0.0))
    for name in "abc":
        store.insert(short(name))
    store.delete(["a", "b"])
    app = open_page("runs")
    assert "2 deleted runs" in texts(app)
    button(app, "Restore all deleted").click().run()
    assert len(listed(ok(app))) == 3
    store.delete(["a"])
    ok(app.run())
    button(app, "Remove and compact").click().run()
    deadline = time.monotonic() + 20
    while app.session_state[runs_storage._TASK] is not None and time.monotonic() < deadline:
        time.sleep(0.1)
        app.run()
    assert "Removed 1 run" in texts(ok(app))
    assert (store.deleted().runs, store.status("a")) == (0, None)
    assert not list(folder.glob("report-*")), "a report repeats what the run said"


def test_where_runs_are_only_shown_nothing_can_be_changed(store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch):
    shown = settings.model_copy(update={"read_only": True})
    monkeypatch.setattr(desk, "settings", lambda: shown)
    store.insert(short("a", note=HOSTILE))
    app = choose(open_page("runs"), store, "a")
    assert "read-only" in texts(app)
    assert not {"Delete", "Save", "Remove and compact"} & {shown.label for shown in app.button}
    assert [shown.value for shown in app.text] == [HOSTILE]
    assert button(open_page("start"), "Measure the demo pair").disabled
    assert button(open_page("measure"), "Measure").disabled
    assert "read-only" in texts(open_page("gamma", run="example"))
    old = synthetic.keep(store, synthetic.run(prompts=8, tokens=24))
    open_page("gamma", run=old)
    assert store.get(old).summary is None, "looking at a run writes nothing"


def test_an_old_run_gets_its_answer_when_it_is_opened_and_the_start_page_computes_none(store: Store, monkeypatch: pytest.MonkeyPatch):
    run = synthetic.run("old", prompts=8, tokens=24)
    store.insert(run)
    assert "done" in texts(open_page("start"))
    assert store.get("old").summary is None
    open_page("measure", run="old")
    found = analyse(run)
    assert isinstance(found, Analysis)
    assert store.get("old").summary == summary(found)
    assert found.advice.on_these_prompts is not None
    kept = summary(found)
    assert (kept.speedup, (kept.low, kept.high), kept.alpha, kept.c) == (
        found.advice.speedup, tuple(found.advice.on_these_prompts), found.alpha.value, found.costs.c,
    )  # fmt: skip
    desk._analysis.clear()
    monkeypatch.setattr(desk, "analyse", lambda run: analyse(run) if run.id == "example" else pytest.fail("computed"))
    assert runs_columns.VERDICTS[kept.verdict] in texts(open_page("start"))


def test_the_drawing_of_an_interval_keeps_its_proportions():
    scale = runs_columns.Scale.of([SUMMARY, SUMMARY.model_copy(update={"low": 0.5, "speedup": 0.6, "high": 0.7, "traffic": None})])
    assert scale.low < 0.5 < 1.7 < scale.high
    left, one, double = (scale.x(speedup) for speedup in (0.75, 1.0, 4 / 3))
    assert double - one == pytest.approx(one - left)
    drawing = runs_columns.picture(SUMMARY, LIGHT, scale)
    assert drawing.startswith("data:image/svg+xml;utf8,%3Csvg")
    assert "#" not in drawing


def test_ten_thousand_runs_are_a_page_of_fifty(store: Store):
    """Straight into the tables, so that the test does not take as long as the page must not."""
    run = short("r", summary=SUMMARY)
    store.insert(run)
    began = datetime(2025, 1, 1, tzinfo=UTC)
    with store._begin() as connection:
        columns = [name for name in connection.exec_driver_sql("SELECT * FROM runs").keys() if name not in ("number", "id", "share_id", "created_s")]  # noqa: SIM118
        names = ", ".join(columns)
        for number in range(9_999):
            values = f"'r{number}', 's{number}', {(began + timedelta(minutes=number)).timestamp()}"
            connection.exec_driver_sql(f"INSERT INTO runs (id, share_id, created_s, {names}) SELECT {values}, {names} FROM runs WHERE id = 'r'")
        spec = json.dumps(run.spec.model_dump(mode="json"))
        connection.exec_driver_sql("INSERT INTO specs (run_id, data) SELECT id, ? FROM runs WHERE id <> 'r'", (spec,))
    app = open_page("runs")
    assert len(listed(app)) == PAGE
    assert "10,000 runs" in texts(app)
    began_s = time.process_time()
    store.history(Query(sort="speedup", page=150))
    assert time.process_time() - began_s < 0.2
