"""Every page in every state, through the router, over a real store and a real bench with trivial jobs."""

import contextlib
import time
from collections.abc import Iterator
from importlib.metadata import version

import pytest
from streamlit.testing.v1 import AppTest

from core.analysis import Analysis, analyse, summary
from core.bench import Bench
from core.errors import StoreError
from core.measured import DeviceInfo
from core.planner import Planner
from core.policies import FixedGamma, Plain, PromptLookup
from core.prompt_draft import Draft
from core.runs import RunSpec
from core.settings import Settings
from core.store import Store, open_store
from core.ui import desk, policies, start_questions
from core.ui.prompt_box import TEXT
from tests import jobs, synthetic
from tests.apps import button, metric, ok, open_page, texts
from tests.benches import under_way

PAGES = ("start", "measure", "gamma")
pytestmark = pytest.mark.usefixtures("app_site")


@pytest.mark.parametrize("name", PAGES)
def test_page_opens_by_itself(name: str):
    """A cold link runs the page without the router; so does this."""
    assert ok(AppTest.from_file(f"../pages/{name}.py", default_timeout=30).run()).title


def test_start_without_runs_says_so_and_shows_the_example():
    app = open_page("start")
    assert "None yet" in texts(app)
    assert "2.12x the speed of plain" in app.header[0].value
    assert metric(app, "Formula says") == "2.07x"


def test_start_lists_runs_with_their_outcome(store: Store):
    measured = synthetic.keep(store, synthetic.run(c=0.6, best=1))
    found = analyse(store.get(measured, traces=True))
    assert isinstance(found, Analysis)
    store.summarise(measured, summary(found))  # as a worker does at the end
    synthetic.keep(store, synthetic.run(status="cancelled"))
    shown = texts(open_page("start"))
    assert "**leave off**: fixed gamma 1, 0.99x" in shown
    assert "cancelled" in shown


def test_start_opens_what_if_without_a_run():
    app = open_page("gamma", run="example")
    ok(app.switch_page("pages/start.py").run())
    next(button for button in app.button if button.label == "Try what-if values").click()
    assert ok(app.run()).title[0].value.startswith("What if")
    assert "run" not in app.query_params


def test_measure_shows_the_form_with_the_bundled_prompts():
    app = open_page("measure")
    assert app.title[0].value == "Measure a pair"
    assert "**12 prompts: 4 code, 4 docs, 4 chat**" in texts(app)
    placed = ["Target's weights", "Draft runs on", "Attention"]
    assert [box.label for box in app.selectbox] == ["Target", "Device", "Number format", *placed]


@pytest.fixture
def planner(settings: Settings, app_site: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Planner]:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with contextlib.closing(Planner(settings, light=1)) as made:
        monkeypatch.setattr(desk, "planner", lambda: made)
        yield made


@pytest.mark.usefixtures("planner")
def test_pasted_prompts_are_counted_saved_and_found_again(store: Store):
    app = open_page("measure", pasted="0123")
    pasted = '{"prompt": "$x$ <b>", "label": "code"}\n{"prompt": "two"}'
    app.text_area(key=TEXT).set_value(pasted).run()
    assert "**2 prompts: 1 code, 1 no label**" in texts(ok(app))
    pasted_id = app.query_params["pasted"]
    assert Draft.read(store.load_prompts(pasted_id)).pasted == pasted
    app.switch_page("pages/start.py").run()
    app.switch_page("pages/measure.py")
    assert ok(app.run()).text_area(key=TEXT).value == pasted, "after a page change"
    assert open_page("measure", pasted=pasted_id).text_area(key=TEXT).value == pasted, "after a reload"


@pytest.mark.usefixtures("planner")
def test_unreadable_paste_gets_a_sentence_and_no_button():
    app = open_page("measure", pasted="0123")
    app.text_area(key=TEXT).set_value('{"prompt": 3}').run()
    assert 'line 1 has a "prompt" that is a number, not text' in ok(app).error[0].value.replace("\\", "")
    assert button(app, "Measure").disabled


def test_zero_new_tokens_gets_a_sentence_and_no_button():
    app = open_page("measure")
    app.number_input(key="tokens").set_value(0).run()
    assert "0 new tokens cannot be measured" in ok(app).error[0].value
    assert button(app, "Measure").disabled
    app.number_input(key="tokens").set_value(8).run()
    assert not ok(app).error
    assert not button(app, "Measure").disabled


def test_measuring_shows_the_live_state_and_can_be_cancelled(store: Store, cold_bench: Bench, spec: RunSpec):
    run_id = cold_bench.submit(spec.model_copy(update={"seed": jobs.SLEEP}))
    under_way(store, run_id)
    app = open_page("measure", run=run_id)
    assert app.title[0].value == "Measuring"
    assert "The target writes its answers" in texts(app)
    assert "so far" in texts(app)
    waiting = cold_bench.submit(spec.model_copy(update={"seed": jobs.QUICK}))
    assert open_page("measure", run=waiting).title[0].value == "Waiting to be measured"
    next(button for button in app.button if button.label == "Cancel").click().run()
    ended = time.monotonic() + 10
    while store.status(run_id) == "running" and time.monotonic() < ended:
        time.sleep(0.05)
    assert store.status(run_id) == "cancelled"
    again = open_page("measure", run=run_id)
    assert "This run was cancelled" in texts(again)
    assert [button.label for button in again.button] == ["Measure again", "New measurement"]


@pytest.mark.parametrize("status", ["failed", "cancelled", "interrupted"])
@pytest.mark.parametrize("name", ["measure", "gamma"])
def test_a_run_that_ended_early_says_what_is_kept(store: Store, name: str, status: str):
    whole = synthetic.run(status=status)
    part = whole.model_copy(update={"generations": (), "passes": (), "traces": whole.traces[:9], "error": "It broke."})
    shown = texts(open_page(name, run=synthetic.keep(store, part)))
    assert "No speedup from this run" in shown
    assert f"This run {'failed' if status == 'failed' else 'was ' + status}" in shown
    assert "traces of 9 of 12 prompts" in shown
    assert "It broke" in shown


def test_a_run_with_nothing_at_all_has_pages(store: Store):
    run = synthetic.run(status="failed")
    empty = run.model_copy(update={"generations": (), "passes": (), "traces": (), "environment": None, "draft_prefill_s": ()})
    run_id = synthetic.keep(store, empty)
    for name in ("measure", "gamma"):
        shown = texts(open_page(name, run=run_id))
        assert "**This run failed.** Nothing had been measured by then." in shown
        assert "The draft has read no answer" not in shown, "that is no reason of its own"


def test_result_shows_the_six_figures_that_were_put_in(store: Store):
    app = open_page("measure", run=synthetic.keep(store, synthetic.run()))
    assert metric(app, "c, drafted token") == "0.12", "the draft's pass 0.10 and the loop's 0.02"
    assert metric(app, "v(4), verify") == "1.06"
    assert metric(app, "h, rest of a round") == "0.13", "the loop's 0.10 and the first pass of a round, which is 0.03 dearer"
    assert metric(app, "e, part of c") == "0.02"
    assert metric(app, "plain step") == "10.0 ms"
    assert metric(app, "alpha, acceptance") == "0.72"
    assert "2.12x the speed of plain" in app.title[0].value
    assert "confirmed" in texts(app)


def test_prompt_and_answer_appear_verbatim(store: Store):
    app = open_page("measure", run=synthetic.keep(store, synthetic.run()))
    assert synthetic.HARD_PROMPT in [block.value for block in app.code]
    spans = "".join(str(block.value) for block in app.html)
    assert "&lt;b&gt;" in spans
    assert "$y$" in spans


def test_leave_it_off_is_said_on_every_page(store: Store):
    run_id = synthetic.keep(store, synthetic.run(c=0.8, best=1))
    for name in ("measure", "gamma"):
        app = open_page(name, run=run_id)
        assert app.title[0].value == "Leave drafting off: the best setting that was run reaches :orange[0.89x the speed of plain]"


def test_few_prompts_are_not_a_verdict(store: Store):
    app = open_page("gamma", run=synthetic.keep(store, synthetic.run(prompts=5)))
    assert app.title[0].value.startswith("Not decided yet: about")
    assert "too few prompts" in texts(app)


def test_gamma_shows_measured_beside_predicted_and_a_setting_to_copy(store: Store):
    app = open_page("gamma", run=synthetic.keep(store, synthetic.run()))
    table = next(frame.value for frame in app.dataframe if "Policy" in frame.value)
    row = table[table["Policy"] == "Fixed gamma 4"].iloc[0]
    assert row["Predicted"] == pytest.approx(row["Measured"], rel=0.01)
    assert table["Policy"].iloc[-1] == "Oracle"
    assert table["Note"].iloc[0] == "use"
    assert "num_assistant_tokens = 20" in app.code[0].value


def test_what_if_follows_the_address_and_the_sliders():
    app = open_page("gamma", alpha="0.9", c="0.05")
    assert app.title[0].value == "What if: draft 13 tokens at a time, :green[4.67x the speed of plain]"
    app.slider(key="c").set_value(1.2).run()
    assert "nothing beats plain" in ok(app).title[0].value


def test_sliders_start_at_the_run_and_again_at_the_next_one(store: Store):
    first, second = synthetic.keep(store, synthetic.run(c=0.1)), synthetic.keep(store, synthetic.run(c=0.6, best=1))
    app = open_page("gamma", run=first)
    assert app.slider(key="c").value == pytest.approx(0.12, abs=0.002)
    app.switch_page("pages/gamma.py")
    app.query_params["run"] = second
    assert ok(app.run()).slider(key="c").value == pytest.approx(0.62, abs=0.005)


@pytest.mark.parametrize("name", PAGES)
def test_unusable_store_is_a_sentence(monkeypatch: pytest.MonkeyPatch, name: str):
    def refuse() -> None:
        raise StoreError("Another Draftgauge uses the data folder /x.")

    monkeypatch.setattr(desk, "_open", refuse)
    app = open_page(name)
    assert app.title[0].value == "The data folder cannot be used"
    assert "Another Draftgauge" in app.error[0].value


def test_second_server_on_the_same_folder_is_refused_and_leaves_the_store_open(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    monkeypatch.setattr(desk, "settings", lambda: settings)
    desk._open.clear()
    with pytest.raises(StoreError, match="Another Draftgauge"):
        desk.desk()
    assert open_store(settings).recent(1) == []


def test_snippets_are_what_the_library_reads():
    assert policies.snippet(FixedGamma(3)).startswith("draft.generation_config.num_assistant_tokens = 3\n")
    assert "assistant_model" not in policies.snippet(Plain()).split("#")[0]
    assert policies.snippet(PromptLookup(5)) == "target.generate(**inputs, prompt_lookup_num_tokens=5, max_matching_ngram_size=2)"


def test_start_places_the_newest_pair_and_answers_questions(store: Store, settings: Settings):
    run_id = synthetic.keep(store, synthetic.run())
    found = analyse(store.get(run_id, traces=True))
    assert isinstance(found, Analysis)
    store.summarise(run_id, summary(found))
    store.set_devices([DeviceInfo(id="cpu", name="Some CPU", memory_bytes=8 * 2**30, free_bytes=3 * 2**30)])
    app = ok(open_page("start"))
    table = next(frame.value for frame in app.dataframe if "Situation" in frame.value)
    assert list(table["Your pair"]).count("here") == 1
    shown = texts(app)
    assert "8.0 GiB, 3.0 GiB of it free when the worker started" in shown
    assert f"transformers {version('transformers')}" in shown.replace("\\", "")
    assert [each.label for each in app.expander if each.label.endswith("?")] == [asked.question for asked in start_questions.QUESTIONS]
