"""The comparison page over synthetic runs with known costs: what it says, what it warns of, and what it does with odd runs."""

from typing import Any

import pytest
from pandas import DataFrame
from streamlit.testing.v1 import AppTest

from core.analysis import analyse
from core.imports import to_run
from core.policies import Plain
from core.record import Imported
from core.runs import Lane, Prompt, Run
from core.settings import Settings
from core.situations import SITUATIONS
from core.store import Store
from tests import apps, synthetic
from tests.apps import ok
from tests.test_page_states import check_no_markup

pytestmark = pytest.mark.usefixtures("app_site")

PAGE = """
import streamlit as st
from core.ui import compare_page, frame
frame._navigation()
compare_page.show(st.query_params.get("compare", "").split(","), st.query_params.get("baseline", ""))
"""


def page(*ids: str, baseline: str = "") -> AppTest:
    app = AppTest.from_string(PAGE, default_timeout=30)
    app.query_params["compare"] = ",".join(ids)
    if baseline:
        app.query_params["baseline"] = baseline
    return ok(app.run())


def texts(app: AppTest) -> str:
    """What a reader sees: without the signs that keep text from being Markdown."""
    return apps.texts(app).replace("\\", "")


def table(app: AppTest, column: str) -> DataFrame:
    return next(frame.value for frame in app.dataframe if column in frame.value)


def spec(run: Run, **changes: Any) -> Run:
    return run.model_copy(update={"spec": run.spec.model_copy(update=changes)})


def environment(run: Run, **changes: Any) -> Run:
    assert run.environment
    return run.model_copy(update={"environment": run.environment.model_copy(update=changes)})


@pytest.fixture
def cheap(store: Store) -> str:
    return synthetic.keep(store, synthetic.run(c=0.1, draft="cheap_draft"))


@pytest.fixture
def dear(store: Store) -> str:
    return synthetic.keep(store, synthetic.run(c=0.3, best=2, draft="dear_draft"))


def test_two_runs_stand_side_by_side_with_their_differences(cheap: str, dear: str):
    app = page(cheap, dear, baseline=cheap)
    assert app.title[0].value == "A, cheap\\_draft, gains most: :green[2.12x the speed of plain]"
    assert not app.warning
    shown = table(app, "B beside A").set_index("")
    assert shown.loc["Speedup of its best setting, these prompts", "A, baseline"].startswith("2.12x [2.1")
    assert shown.loc["Speedup of its best setting, these prompts", "B beside A"] == "0.68x"
    assert shown.loc["c, a drafted token in the loop", "B beside A"] == "+0.20"
    assert shown.loc["alpha, acceptance", "B beside A"] == "0.00"
    tested = table(app, "Paired interval")
    assert list(tested["Paired interval"]) == ["[0.64, 0.72]"]
    assert list(tested["Says"]) == ["gains less"]
    assert list(tested["Prompts of both"]) == [12]
    assert list(table(app, "Setting")["Setting"]) == ["Draft", "Draft, place"]
    assert {chart.proto.id.split("-")[-1] for chart in app.get("plotly_chart")} >= {"compare_curves", "compare_quadrant", "compare_labels"}


def test_the_baseline_is_chosen_on_the_page_and_stands_in_the_address(cheap: str, dear: str):
    app = page(cheap, dear)
    assert app.query_params["baseline"] == cheap
    app.selectbox(key="compare_baseline").set_value(dear).run()
    assert app.query_params["baseline"] == dear
    shown = table(ok(app), "A beside B").set_index("")
    assert shown.loc["Speedup of its best setting, these prompts", "A beside B"] == "1.47x"
    assert "of the speedup of B on 12 prompts of both; gains more" in texts(app)
    app.query_params["baseline"] = cheap
    assert ok(app.run()).selectbox(key="compare_baseline").value == cheap, "an address that was changed counts"


def test_what_cannot_be_compared_is_said_and_nothing_else(store: Store, cheap: str):
    other = environment(spec(synthetic.run(c=0.3, best=2), dtype="bfloat16"), dtype="bfloat16", device_name="Fast <b>GPU</b>", torch="2.9")
    app = page(cheap, synthetic.keep(store, other), baseline=cheap)
    [warning] = app.warning
    said = warning.value.replace("\\", "")
    assert "Device name: other in B." in said
    assert list(table(app, "Says")["Says"]) == ["gains less; settings differ too"]
    assert "Number format: other in B." in said
    assert "PyTorch: other in B." in said
    for other_topic in ("Prompts", "Decoding", "Temperature", "Target", "Seed"):
        assert f"{other_topic}: other" not in said
    assert set(table(app, "Setting")["Setting"]) == {"Draft", "Draft, place", "Device name", "Number format", "PyTorch"}
    check_no_markup(app)


def test_other_prompts_are_not_tested_against_each_other(store: Store, cheap: str):
    run = synthetic.run(c=0.3, best=2)
    strange = tuple(Prompt(text=f"strange {at}", label=prompt.label) for at, prompt in enumerate(run.spec.prompts))
    app = page(cheap, synthetic.keep(store, spec(run, prompts=strange)), baseline=cheap)
    assert list(table(app, "Says")["Says"]) == ["cannot be tested: no prompt is in both"]
    assert "Prompts: other in B." in texts(app)
    assert "shows the largest gain" in app.title[0].value
    assert "Not tested against it, for want of common prompts: B." in texts(app)


def test_each_setting_is_named_with_the_runs_it_differs_in_and_a_deleted_or_broken_run_is_said_to_be_one(store: Store, cheap: str):
    run = synthetic.run(c=0.1, draft="cheap_draft", status="interrupted")
    other = synthetic.keep(store, environment(run, torch="2.9"))
    third = synthetic.keep(store, environment(run.model_copy(update={"status": "done"}), torch="2.9", transformers="5.1"))
    store.delete([third])
    app = page(cheap, other, third, baseline=cheap)
    assert "PyTorch: other in B, C; Transformers: other in C." in texts(app)
    assert "This run was interrupted; what it had measured is compared." in texts(app)
    assert f"Run {third}, big_model with cheap_draft, was deleted" in texts(app)
    assert app.title[0].value.startswith("A, cheap\\_draft, shows the largest gain"), "the others gain as much"
    assert "Not told apart from it by the paired test: B, C." in texts(app)


def test_more_speed_on_other_prompts_is_no_gain_over_the_baseline(store: Store, cheap: str):
    """The same run, but only its easy prompts: the larger number comes from them."""
    run = synthetic.run(c=0.1, draft="cheap_draft")
    easy = [at for at, prompt in enumerate(run.spec.prompts) if prompt.label != "chat"]
    place = {at: number for number, at in enumerate(easy)}
    kept = run.model_copy(
        update={
            "traces": tuple(run.traces[at] for at in easy),
            "draft_prefill_s": tuple(run.draft_prefill_s[at] for at in easy),
            "generations": tuple(g.model_copy(update={"prompt": place[g.prompt]}) for g in run.generations if g.prompt in place),
        }
    )
    app = page(cheap, synthetic.keep(store, spec(kept, prompts=tuple(run.spec.prompts[at] for at in easy))), baseline=cheap)
    assert app.title[0].value.startswith("B, cheap\\_draft, shows the largest gain: :green[2.")
    assert app.title[0].value.endswith(", not more than A")
    assert "8 prompts of both; gains as much" in texts(app)


def test_runs_without_a_speedup_show_what_they_have(store: Store, cheap: str):
    run = synthetic.run()
    nothing = {"generations": (), "passes": (), "traces": ()}
    failed = synthetic.keep(store, synthetic.run(status="failed").model_copy(update={**nothing, "error": "The draft broke."}))
    half = synthetic.keep(store, run.model_copy(update={"generations": (), "passes": ()}))
    lanes = (Lane(policy=Plain()), Lane(policy=Plain()))
    beside = synthetic.keep(store, spec(run, extent="side_by_side", lanes=lanes, order=(0, 1)).model_copy(update=nothing))
    waiting = store.add(run.spec)
    app = page(cheap, failed, half, beside, waiting, baseline=failed)
    shown = texts(app)
    assert "This run has failed, so there is no speedup. The draft broke." in shown
    half_seen = analyse(store.get(half, traces=True))
    assert half_seen.alpha
    assert f"alpha {half_seen.alpha.value:.2f}." in shown
    assert "A side-by-side run of one prompt: it has no curve." in shown
    assert "Still being measured" in shown
    assert "Not known in E: Target, parameters" in shown
    assert "The baseline B has no speedup, so nothing is tested against it." in shown
    assert list(table(app, "").columns) == ["", "A"]


def test_imported_numbers_are_a_ring_on_the_chart_and_a_sentence(store: Store, cheap: str):
    given = store.insert(to_run(Imported(source="alpha_c", alpha=0.66, c=0.08, gamma=4), "big_model", "other"))
    app = page(cheap, given, baseline=cheap)
    shown = texts(app)
    assert "Imported, alpha and c: no curve. alpha 0.66. c 0.08, gamma 4." in shown
    assert "Rings: imported numbers." in shown
    assert "Source: other in B." in shown
    assert "Not known in" not in shown, "that of a record nothing is known is said once"
    assert list(table(app, "Setting")["Setting"]) == ["Source", "Draft"]
    chart = next(chart.proto for chart in app.get("plotly_chart") if "Acceptance alpha" in chart.proto.alt)
    assert "B: alpha 0.66, c 0.08" in chart.alt


@pytest.mark.parametrize("ids", [[], ["gone"], ["gone", "![x](http://host/a.png)"]])
def test_fewer_than_two_runs_get_a_sentence(ids: list[str]):
    app = page(*ids)
    assert app.title[0].value == "Choose at least two runs to compare"
    check_no_markup(app)


def test_what_is_not_there_is_named_doubles_count_once_and_six_are_the_most(store: Store, cheap: str, dear: str):
    app = page(cheap, cheap, "gone", dear)
    assert "There is no run gone" in app.warning[0].value
    assert app.selectbox(key="compare_baseline").options[1].startswith("B: big_model with dear_draft")
    many = [synthetic.keep(store, synthetic.run(c=0.1 + at / 10, prompts=8, tokens=24)) for at in range(7)]
    app = page(*many)
    assert len(app.selectbox(key="compare_baseline").options) == 6
    assert "1 further run left out" in texts(app)


def test_labels_by_alpha_and_costs_by_the_formula_stand_in_the_address(cheap: str, dear: str):
    app = AppTest.from_string(PAGE, default_timeout=30)
    for name, value in {"compare": f"{cheap},{dear}", "labels_by": "alpha", "costs": "formula", "published": "true"}.items():
        app.query_params[name] = value
    alts = " ".join(chart.proto.alt for chart in ok(app.run()).get("plotly_chart"))
    assert "Acceptance by label. code: A 0.89, B 0.89" in alts
    assert "by Theorem 3.8" in alts
    assert "published, not measured here" in texts(app)


def test_published_rows_say_that_they_are_and_how_far_off_the_formula_is(settings: Settings):
    app = ok(AppTest.from_string("from core.ui import published_list\npublished_list.show()", default_timeout=30).run())
    shown = table(app, "Formula off by")
    assert len(shown) == 28
    large = shown.to_dict("records")[2]
    assert (large["Draft"], large["Published"]) == ("T5-large", 1.7)
    assert large["Formula"] == pytest.approx(2.497, abs=0.001)
    assert large["Formula off by"] == pytest.approx(46.9, abs=0.1)
    assert large["What if"] == "/gamma?alpha=0.82&c=0.11&published=true"
    assert int(shown["Formula"].isna().to_numpy().sum()) == 16, "dynamic speculation has no alpha and c"
    assert app.expander[0].label == "Published pairs, not measured here"
    assert "8 October 2024" in texts(app)


def test_the_situation_of_the_measured_pair_is_marked():
    shown = """
from core.analysis import summary
from core.ui import desk, situations_table
run = desk.example()
situations_table.show({})
"""
    with_answer = shown.format('run.model_copy(update={"summary": summary(desk.analysis(run))})')
    app = ok(AppTest.from_string(with_answer, default_timeout=30).run())
    rows = table(app, "Your pair")
    assert list(rows["Your pair"]) == ["", "here", "", "", "", ""]
    assert "alpha 0.72, c 0.12" in texts(app)
    assert "measured was: **use**" in texts(app)
    assert "2.12x" in texts(app)
    for missing in ("run", "None"):
        without = table(ok(AppTest.from_string(shown.format(missing), default_timeout=30).run()), "Situation")
        assert "Your pair" not in without
        assert len(without) == len(SITUATIONS)
