"""Sharing, exporting and importing on the pages, over a real store and planner."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.export_json import to_json
from core.imports import to_run
from core.imports_json import EDITED
from core.planner import Planner
from core.privacy import without_texts
from core.record import Imported
from core.settings import Settings
from core.store import Store
from core.ui import desk, link_box
from tests import synthetic
from tests.apps import button, metric, ok, open_page, texts

pytestmark = pytest.mark.usefixtures("app_site")
RECORD = Imported(source="vllm_prometheus", alpha=0.652, gamma=3, accepted=1500, drafted=3000, rounds=1000, definition="As <b>vLLM</b> counts.")
COUNTERS = "\n".join(
    f'vllm:spec_decode_num_{name}_total{{model_name="big"}} {value}' for name, value in (("drafts", 10), ("draft_tokens", 20), ("accepted_tokens", 8))
)


@pytest.fixture
def planner(settings: Settings, app_site: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Planner]:
    with contextlib.closing(Planner(settings, light=1)) as made:
        monkeypatch.setattr(desk, "planner", lambda: made)
        yield made


def box() -> None:
    """The box on a page of its own, from which the other pages can be reached."""
    import streamlit as st

    from core.ui import import_box
    from core.ui.frame import PAGES, page_path

    here = st.Page(import_box.show, title="Import", url_path="import", default=True)
    st.navigation([here, *(st.Page(page_path(name)) for name in PAGES)], position="hidden").run()


def until(app: AppTest, done: Callable[[AppTest], Any], within_s: float = 60) -> AppTest:
    """Look again until the planner has answered."""
    ends = time.monotonic() + within_s
    while not done(ok(app.run())):
        assert time.monotonic() < ends, texts(app)
        time.sleep(0.1)
    return app


def downloads(app: AppTest) -> list[str]:
    return [shown.proto.label for shown in app.get("download_button")]


def links(app: AppTest) -> list[str]:
    return [code.value for code in app.code if "run=" in code.value]


def imported(app: AppTest) -> AppTest:
    """Import what was described: the page that opens."""
    until(app, lambda app: any(shown.label == "Import" for shown in app.button))
    button(app, "Import").click().run()
    return until(app, lambda app: app.title)


def run_id(app: AppTest) -> str:
    found = app.query_params["run"]
    return found if isinstance(found, str) else found[0]


def test_a_run_offers_everything_without_texts_unless_asked(store: Store):
    run_id = synthetic.keep(store, synthetic.run())
    app = open_page("measure", run=run_id)
    assert downloads(app) == ["Whole run (JSON)", "Per prompt (CSV)", "Per token (CSV)", "Per policy (CSV)", "Summary (Markdown)"]
    assert links(app) == [f"/measure?run={store.get(run_id).share_id}"]
    assert "without its prompts and answers" in texts(app)
    app.toggle(key="export_texts").set_value(True).run()
    assert links(ok(app)) == [f"/measure?run={run_id}"]
    assert "with its prompts and answers" in texts(app)


def test_a_shared_run_looks_as_any_other_and_hides_its_texts(store: Store):
    run_id = synthetic.keep(store, synthetic.run())
    whole, shared = open_page("measure", run=run_id), open_page("measure", run=store.get(run_id).share_id)
    assert shared.title[0].value == whole.title[0].value
    assert metric(shared, "alpha, acceptance") == metric(whole, "alpha, acceptance")
    assert synthetic.HARD_PROMPT in [code.value for code in whole.code]
    assert synthetic.HARD_PROMPT not in str([element.value for element in [*shared.code, *shared.markdown]])
    assert not [shown for shown in shared.toggle if shown.key == "export_texts"]
    assert "Measure more prompts" not in [shown.label for shown in shared.button]


def test_where_runs_are_only_shown_texts_stay_and_nothing_comes_in(store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch):
    shown = settings.model_copy(update={"read_only": True})
    monkeypatch.setattr(desk, "settings", lambda: shown)
    app = open_page("measure", run=synthetic.keep(store, synthetic.run()))
    assert "Whole run (JSON)" in downloads(app)
    assert not [toggle for toggle in app.toggle if toggle.key == "export_texts"]
    assert not ok(AppTest.from_function(box).run()).expander


def test_an_early_ended_run_offers_what_it_has(store: Store):
    run = synthetic.run(status="cancelled").model_copy(update={"passes": (), "traces": ()})
    assert downloads(open_page("measure", run=synthetic.keep(store, run))) == ["Whole run (JSON)"]


def test_a_record_says_what_is_known_and_what_is_not(store: Store):
    run_id = store.insert(to_run(RECORD, "big $x$", "small"))
    app = open_page("measure", run=run_id)
    assert app.title[0].value == "Imported: alpha 0.65"
    assert metric(app, "alpha, acceptance") == "0.652"
    assert metric(app, "accepted / drafted") == "0.500"
    assert metric(app, "c, drafted token") == "not known"
    assert "\\<b\\>vLLM\\</b\\>" in texts(app)
    assert "float32" not in texts(app), "nobody knows the number format"
    assert "nothing can be replayed" in texts(app)
    button(app, "Try what-if values").click().run()
    assert app.slider(key="alpha").value == 0.65
    assert app.slider(key="c").value == 0.1
    assert "only a beginning: c 0.1, v 1, h 0" in texts(app).replace("\\", "")


def test_a_record_without_alpha_says_so(store: Store):
    run_id = store.insert(to_run(Imported(source="llama_cpp", accepted=1, drafted=2, definition="x"), "", ""))
    app = open_page("measure", run=run_id)
    assert app.title[0].value == "Imported: alpha is not known"
    assert links(app) == [f"/measure?run={run_id}"]
    assert "Not in this record: alpha and c" in texts(app)


@pytest.mark.usefixtures("planner")
def test_a_whole_run_is_imported_and_looks_as_there(store: Store):
    run = synthetic.run()
    there = open_page("measure", run=synthetic.keep(store, run))
    app = AppTest.from_function(box, default_timeout=30).run()
    app.file_uploader[0].upload("run.json", to_json(run, texts=True)).run()
    shown = imported(app)
    here = store.get(run_id(app), traces=True)
    assert here.imported == Imported(source="draftgauge", reference="run.json")
    assert here.generations == run.generations
    assert shown.title[0].value == there.title[0].value
    assert "imported" in texts(shown)
    assert "Measure more prompts" not in [each.label for each in shown.button]


@pytest.mark.usefixtures("planner")
def test_pasted_counters_are_described_before_they_are_imported(store: Store):
    app = AppTest.from_function(box, default_timeout=30).run()
    app.text_area(key="import_text").set_value(COUNTERS).run()
    until(app, lambda app: any(shown.label == "Import" for shown in app.button))
    assert "**This is vLLM's /metrics page**: big with unknown draft" in texts(app)
    assert "alpha: 0\\.525" in texts(app)
    assert "c: not known" in texts(app)
    app.text_input(key="import_draft").set_value("small").run()
    assert imported(app).title[0].value == "Imported: alpha 0.52"
    run = store.get(run_id(app))
    assert (run.spec.target.name, run.spec.draft.name, run.spec.device) == ("big", "small", "unknown")
    assert run.imported is not None
    assert (run.imported.gamma, run.imported.reference) == (2, "pasted text")


@pytest.mark.usefixtures("planner")
def test_refusals_and_edited_files_are_said():
    document = json.loads(to_json(without_texts(synthetic.run(prompts=1, tokens=8))))
    app = AppTest.from_function(box, default_timeout=30).run()
    app.file_uploader[0].upload("a.json", json.dumps(document | {"version": 9}).encode()).run()
    until(app, lambda app: app.error)
    assert "version 9" in app.error[0].value.replace("\\", "")
    document["run"]["spec"]["seed"] = 5
    app.file_uploader[0].upload("b.json", json.dumps(document).encode()).run()
    until(app, lambda app: app.warning)
    assert EDITED in app.warning[0].value.replace("\\", "")


def test_links_keep_the_server_and_page_and_nothing_else():
    assert link_box.link("https://gauge.example/base/measure?run=x&label=secret#y", "ab c") == "https://gauge.example/base/measure?run=ab+c"
    assert link_box.link(None, "x") == "/measure?run=x"
