"""The states of a run that are easy to forget: short, lucky, hopeless, stopped anywhere, wrong, hostile."""

import dataclasses

import numpy as np
import pytest
import streamlit as st
from markdown_it import MarkdownIt
from sqlalchemy import update
from streamlit.testing.v1 import AppTest

from core import database
from core.bench import Bench
from core.measured import Generation
from core.policies import Plain
from core.runs import ModelRef, Progress, Prompt, Run, RunSpec
from core.store import Store
from core.trace import Lookup, PromptTrace
from core.ui import desk, numbers, result
from tests import jobs, synthetic
from tests.apps import metric, ok, open_page, texts
from tests.benches import under_way

pytestmark = pytest.mark.usefixtures("app_site")
BOTH = pytest.mark.parametrize("name", ["measure", "gamma"])
GITHUB = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
IMAGE = "![x](http://host/a.png)"
HOSTILE = (f"\n\n{IMAGE}", f"`\n\n{IMAGE}\n\n`", "<img src='http://host/a.png'>", "&lt;b&gt;\n# heading", "    four spaces", "**x** $y$ :red[z]")


def policies(app: AppTest) -> dict[str, dict[str, object]]:
    table = next(frame.value for frame in app.dataframe if "Utilisation" in frame.value)
    return {row["Policy"]: row for row in table.to_dict("records")}


def without_confirmation(run: Run, kept: int = 0) -> Run:
    """A run that was stopped when `kept` of its prompts were confirmed."""
    generations = tuple(g for g in run.generations if g.purpose != "confirmation" or g.prompt < kept)
    return run.model_copy(update={"generations": generations})


@BOTH
def test_one_prompt_says_how_many_more_are_needed(store: Store, name: str):
    app = open_page(name, run=synthetic.keep(store, synthetic.run(prompts=1)))
    assert app.title[0].value == "Not decided yet: about 7 more prompts would tell"
    assert "1 prompt, at most 64 tokens each" in texts(app)
    assert "too few prompts for an interval" in texts(app)


@BOTH
def test_one_token_is_nothing_to_decode(store: Store, name: str):
    shown = texts(open_page(name, run=synthetic.keep(store, synthetic.run(prompts=1, tokens=1))))
    assert "No speedup from this run" in shown
    assert "Measure with more new tokens" in shown


def test_two_tokens_have_a_page_with_what_they_tell(store: Store):
    app = open_page("gamma", run=synthetic.keep(store, synthetic.run(prompts=1, tokens=2)))
    assert app.title[0].value == "Not decided yet: about 7 more prompts would tell"
    assert policies(app)["Fixed gamma 1"]["Tokens per round"] in (1.0, 2.0)


@BOTH
def test_nothing_accepted_is_leave_it_off(store: Store, name: str):
    app = open_page(name, run=synthetic.keep(store, synthetic.run(alpha=0.0, best=1)))
    assert app.title[0].value.startswith("Leave drafting off: the best setting that was run reaches :orange[0.")
    if name == "measure":
        assert metric(app, "alpha, acceptance") == "0.00"
    else:
        assert policies(app)["Fixed gamma 1"]["Utilisation"] == 0


@BOTH
def test_everything_accepted_takes_the_longest_drafts(store: Store, name: str):
    app = open_page(name, run=synthetic.keep(store, synthetic.run(alpha=1.0, best=12)))
    assert "the speed of plain" in app.title[0].value
    if name == "measure":
        assert metric(app, "alpha, acceptance") == "1.00"
    else:
        assert policies(app)["Fixed gamma 12"]["Utilisation"] == 100


def test_a_setting_that_drafts_nothing_has_no_numbers_of_other_tools(store: Store):
    """Where every draft is wrong, the cheapest setting is a prompt lookup that never finds anything."""
    run = without_confirmation(synthetic.run(alpha=0.0))
    silent = tuple(dataclasses.replace(trace, lookup={2: nothing_found(trace)}) for trace in run.traces)
    app = open_page("gamma", run=synthetic.keep(store, run.model_copy(update={"traces": silent})))
    assert "Leave drafting off" in app.title[0].value
    assert "Nothing was drafted under this policy" in texts(app)
    assert "Oracle" in policies(app), "the rest of the page is there"


@BOTH
def test_a_confidence_that_is_no_number_is_a_sentence(store: Store, name: str):
    run = synthetic.run()
    broken = dataclasses.replace(run.traces[0], confidence=np.full_like(run.traces[0].confidence, np.nan))
    app = open_page(name, run=synthetic.keep(store, run.model_copy(update={"traces": (broken, *run.traces[1:])})))
    assert app.title[0].value == "No speedup from this run"
    assert "confidence is nan" in texts(app)


@BOTH
def test_cancelled_before_timing_keeps_alpha(store: Store, name: str):
    early = synthetic.run(status="cancelled").model_copy(update={"generations": (), "passes": (), "draft_prefill_s": ()})
    app = open_page(name, run=synthetic.keep(store, early))
    assert "This run was cancelled" in texts(app)
    assert app.title[0].value == "No speedup from this run"
    assert metric(app, "alpha, acceptance") == "0.72"


@BOTH
def test_cancelled_before_confirmation_is_only_predicted(store: Store, name: str):
    app = open_page(name, run=synthetic.keep(store, without_confirmation(synthetic.run(status="cancelled"))))
    assert app.title[0].value.endswith(", predicted")
    assert "This run was cancelled" in texts(app)
    assert ":green-badge[:material/verified: confirmed]" not in texts(app)


@BOTH
def test_cancelled_during_confirmation_says_so(store: Store, name: str):
    app = open_page(name, run=synthetic.keep(store, without_confirmation(synthetic.run(status="cancelled"), kept=3)))
    assert "cut short after 3 prompts" in texts(app)
    if name == "measure":
        assert "Diamonds rest on the 3 prompts that were really run, the dots and the headline on all 12 prompts." in texts(app)
    assert "This run was cancelled" in texts(app)


@BOTH
@pytest.mark.parametrize("text", HOSTILE)
def test_unknown_run_gets_a_sentence_and_a_way_on(name: str, text: str):
    app = open_page(name, run=text)
    assert app.title[0].value == "There is no such run here"
    check_no_markup(app)


@BOTH
def test_other_texts_in_float32_are_a_warning_above_the_figures(store: Store, name: str):
    app = open_page(name, run=synthetic.keep(store, differing(synthetic.run())))
    [warning] = app.warning
    assert "2 of 42" in warning.value
    assert "token 18 of prompt 3" in warning.value
    if name == "measure":
        assert provenance(app)["Assisted answers equal to plain"] == "40 of 42"


@BOTH
def test_other_texts_in_16_bit_are_expected(store: Store, name: str):
    run = differing(synthetic.run())
    half = run.model_copy(update={"spec": run.spec.model_copy(update={"dtype": "bfloat16"})})
    assert not open_page(name, run=synthetic.keep(store, half)).warning


def test_plain_runs_are_not_counted_as_assisted():
    run = synthetic.run()
    plain = tuple(g.model_copy(update={"equal": isinstance(g.policy, Plain)}) for g in run.generations)
    counted = run.model_copy(update={"generations": plain})
    assert len(result.assisted(counted)) == len(result.differing(counted)) == 42


@BOTH
def test_a_disturbed_run_says_so(store: Store, name: str):
    run_id = synthetic.keep(store, synthetic.run().model_copy(update={"disturbed": True}))
    assert "Something else used the machine" in texts(open_page(name, run=run_id))


@BOTH
def test_reasons_stand_under_the_facts(store: Store, name: str):
    shown = texts(open_page(name, run=synthetic.keep(store, synthetic.run()))).replace("\\", "")
    assert "faster than plain throughout" in shown
    assert "more prompts would narrow it to ±10 %" in shown
    assert "Next best on the same prompts: fixed gamma 4, at 0.79x its speed" in shown


@pytest.mark.parametrize("text", HOSTILE)
def test_labels_and_folder_names_stay_text(store: Store, text: str):
    run = synthetic.run()
    prompts = tuple(Prompt(text=prompt.text, label=text) for prompt in run.spec.prompts)
    spec = run.spec.model_copy(update={"prompts": prompts, "target": ModelRef(source="folder", name=text, path="/models/x")})
    run_id = synthetic.keep(store, run.model_copy(update={"spec": spec}))
    for name in ("start", "measure", "gamma"):
        app = open_page(name, run=run_id)
        check_no_markup(app)
        assert any(" ".join(text.split()) in plain_text(str(block.value)) for block in app.markdown) or name == "start"


def test_a_losing_label_is_named_as_it_was_written(store: Store):
    run = synthetic.run(c=0.6, best=1)
    prompts = tuple(
        prompt.model_copy(update={"label": {"code": "SQL", "docs": "eBay"}.get(prompt.label, prompt.label)}) for prompt in run.spec.prompts
    )
    losing = run.model_copy(update={"spec": run.spec.model_copy(update={"prompts": prompts})})
    shown = texts(open_page("measure", run=synthetic.keep(store, losing)))
    assert "Slower than plain: eBay, chat" in shown
    assert "Predicted for fixed gamma 1 :gray-badge" in shown


def test_progress_never_jumps_back_and_counts_in_the_words_of_its_stage(store: Store):
    run = synthetic.run(status="running")
    run_id = synthetic.keep(store, run)
    store.progress(run_id, Progress(stage="confirming", done=23, total=24, fraction=0.9))
    app = open_page("measure", run=run_id)
    assert "comparison 24 of 24" in app.get("progress")[0].proto.text
    store.progress(run_id, Progress(stage="confirming", done=0, total=24, fraction=0.65))
    [bar] = ok(app.run()).get("progress")
    assert "comparison 1 of 24" in bar.proto.text
    assert bar.proto.value == 90
    store.progress(run_id, Progress(stage="plain", done=2, total=24, fraction=0.1))
    assert "prompt 3 of 24" in ok(app.run()).get("progress")[0].proto.text


def test_an_error_while_watching_is_a_sentence(store: Store, cold_bench: Bench, spec: RunSpec, monkeypatch: pytest.MonkeyPatch):
    run_id = cold_bench.submit(spec.model_copy(update={"seed": jobs.SLEEP}))
    under_way(store, run_id)
    app = open_page("measure", run=run_id)

    def broken(*_: object) -> None:
        raise desk.StoreError("The data folder is gone.")

    monkeypatch.setattr(cold_bench, "cancel", broken)
    next(button for button in app.button if button.label == "Cancel").click()
    assert "data folder is gone" in ok(app.run()).error[0].value.replace("\\", "")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.97, "reaches :orange[0.97x the speed of plain]"),
        (1.0, "reaches only 1.00x the speed of plain"),
        (0.999, "reaches only 1.00x the speed of plain"),
    ],
)
def test_leaving_it_off_is_said_as_a_ratio(value: float, said: str):
    found = desk.analyse(synthetic.run(c=0.8, best=1))
    assert isinstance(found, desk.Analysis)
    advice = dataclasses.replace(found.advice, speedup=value)
    assert result.sentence(advice) == f"Leave drafting off: the best setting that was run {said}"


def test_other_runs_stand_on_the_map_and_in_the_address(store: Store):
    first, second = synthetic.keep(store, synthetic.run()), synthetic.keep(store, synthetic.run(c=0.3))
    synthetic.keep(store, synthetic.run(status="cancelled"))
    app = open_page("gamma", run=first, **{"with": f"{second},gone"})
    [choice] = [box for box in app.multiselect if box.label == "Other runs on the map"]
    assert len(choice.options) == 1, "neither this run nor the cancelled one"
    assert choice.value == [second]
    assert app.query_params["with"] == second
    assert "1: big\\_model with small\\_model" in texts(app)
    assert "alpha 0.72, c 0.32" in texts(app)
    choice.set_value([]).run()
    assert "with" not in ok(app).query_params
    assert "c 0.32" not in texts(app)


@BOTH
def test_the_example_is_named_as_one(name: str):
    assert "Example run. Test CPU" in texts(open_page(name, run="example")).replace("\\", "")


def test_folded_parts_are_drawn(store: Store, monkeypatch: pytest.MonkeyPatch):
    """AppTest cannot open an expander; here they all begin open."""
    expander = st.expander
    monkeypatch.setattr(st, "expander", lambda label, **how: expander(label, expanded=True, **how))
    app = open_page("gamma", run=synthetic.keep(store, synthetic.run()))
    charts = [chart.proto.alt for chart in app.get("plotly_chart")]
    assert any(alt.startswith("Replayed speedup for every limit and confidence threshold, best 2.") for alt in charts)
    assert any(alt.startswith("Mean acceptance in blocks of eight") for alt in charts)
    assert "Framed: up to" in texts(app) or "Framed: the library's default" in texts(app)


def test_the_formula_map_shows_the_passes_alone(store: Store):
    app = open_page("gamma", run=synthetic.keep(store, synthetic.run()), costs="formula")
    assert "with c 0.10, the draft's pass alone" in texts(app)
    chart = next(chart for chart in app.get("plotly_chart") if "Best gamma for every" in chart.proto.alt)
    assert "this run, passes alone: alpha 0.72, c 0.10" in chart.proto.alt


PASTED = {
    "SpecDecoding metrics: Mean acceptance length: 2.2, Per-position acceptance rate: 0.8, 0.4": 1.2 / 1.8,
    'vllm:spec_decode_num_drafts_total{engine="0"} 10\nvllm:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 8\n'
    'vllm:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 4': 1.2 / 1.8,
    "draft acceptance rate = 0.60000 (   60 accepted /   100 generated)": 0.704,
}


@pytest.mark.parametrize("text", PASTED)
def test_alpha_from_another_tool_goes_to_the_slider_on_a_click(text: str):
    app = open_page("gamma")
    app.number_input(key="pasted_gamma").set_value(2)
    app.text_area(key="pasted_output").set_value(text).run()
    assert f"**alpha {PASTED[text]:.2f}**" in texts(ok(app))
    assert app.slider(key="alpha").value == 0.70
    next(button for button in app.button if button.label == "Use it as what-if").click()
    assert ok(app.run()).slider(key="alpha").value == pytest.approx(PASTED[text], abs=0.005)


def test_unknown_output_of_a_tool_is_a_sentence_and_stays_text():
    app = open_page("gamma")
    app.text_area(key="pasted_output").set_value(HOSTILE[0]).run()
    assert "is not the output of a tool known here" in ok(app).error[0].value
    check_no_markup(app)


def test_a_run_that_cannot_be_read_is_counted(store: Store):
    run_id = synthetic.keep(store, synthetic.run())
    with store._begin() as connection:
        connection.execute(update(database.specs).where(database.specs.c.run_id == run_id).values(data="{"))
    assert "1 run cannot be read" in texts(open_page("start"))


def test_numbers_are_written_with_their_words():
    assert numbers.counted(1, "prompt") == "1 prompt"
    assert numbers.counted(1200, "prompt") == "1,200 prompts"
    assert [numbers.cost(value) for value in (0.0, 0.0071, 0.11)] == ["0.00", "0.007", "0.11"]


def nothing_found(trace: PromptTrace) -> Lookup:
    zeros = np.zeros(len(trace.answer), np.int16)
    return Lookup(zeros, zeros)


def differing(run: Run) -> Run:
    """Two assisted answers differ, the first one in the calibration of prompt 3."""
    assisted = [g for g in run.generations if not isinstance(g.policy, Plain)]
    wrong = [assisted[6], assisted[-1]]

    def change(g: Generation) -> Generation:
        return g.model_copy(update={"equal": False, "first_difference": 17}) if any(g is one for one in wrong) else g

    return run.model_copy(update={"generations": tuple(change(g) for g in run.generations)})


def provenance(app: AppTest) -> dict[str, str]:
    table = next(frame.value for frame in app.dataframe if list(frame.value.columns) == ["What", "Value"])
    return dict(zip(table["What"], table["Value"], strict=True))


def plain_text(markdown: str) -> str:
    return "".join(child.content for token in GITHUB.parse(markdown) if token.children for child in token.children)


def check_no_markup(app: AppTest) -> None:
    """Nothing that foreign text could have drawn: images, links, headings, HTML, code blocks."""
    for block in [*app.markdown, *app.error, *app.warning, *app.title]:
        tokens = GITHUB.parse(str(block.value))
        inner = {child.type for token in tokens for child in token.children or []}
        assert not inner & {"image", "link_open", "html_inline"}, block.value
        assert not {token.type for token in tokens} & {"heading_open", "html_block", "code_block", "fence"}, block.value
