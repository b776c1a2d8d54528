"""The page of a run in several ways, in each of its states; over synthetic runs with known costs."""

from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core import way_words, ways
from core.group import rank
from core.policies import EarlyExit, FixedGamma, OwnHeads, PromptLookup, TransformersDefault
from core.runs import Run
from core.store import Store
from tests import synthetic, way_runs
from tests.apps import button, ok, open_page, texts
from tests.test_page_states import check_no_markup

pytestmark = pytest.mark.usefixtures("app_site")
FAST: dict[str, Any] = {"c": 0.10, "alpha": 0.75}
SLOW: dict[str, Any] = {"c": 0.6, "alpha": 0.3, "ways": (TransformersDefault(), FixedGamma(5))}


def opened(store: Store, run: Run) -> AppTest:
    return open_page("measure", run=way_runs.keep(store, run))


def table(app: AppTest, column: str) -> Any:
    return next(frame.value for frame in app.dataframe if column in frame.value)


def links(app: AppTest) -> dict[str, str]:
    return {link.proto.label: link.proto.query_string for link in app.get("page_link")}


def test_the_answer_its_chart_and_its_table(store: Store):
    app = opened(store, way_runs.run(**FAST))
    assert app.title[0].value == "Use small\\_model with the library's default (20, 0.4): :green[2.20x the speed of plain]"
    said = texts(app)
    assert "**[2.19, 2.21]** on these prompts; **[1.97, 2.46]** for traffic like these. End to end **2.06x**." in said
    assert "straighten: measured" in said
    assert "verified: confirmed" not in said
    [chart] = [chart.proto for chart in app.get("plotly_chart")]
    bars = "The library's default (20, 0.4) 2.20x, Fixed gamma 5 1.78x, Fixed gamma 10 1.49x, "
    assert chart.alt.startswith(f"Ways to draft by speedup, break-even at 1x: {bars}")
    assert "break-even 1x" in chart.spec
    shown = table(app, "Equal to plain")
    assert list(shown["Way"]) == ["The library's default (20, 0.4)", "Fixed gamma 5", "Fixed gamma 10", "Prompt lookup of 10, n-gram 2", "Plain"]
    assert list(shown["Speedup"].round(2)) == [2.20, 1.78, 1.49, 1.31, 1.0]
    assert list(shown["Equal to plain"]) == ["12 of 12"] * 4 + ["reference"]
    first = shown.iloc[0]
    assert (round(first["Tokens per round"], 2), round(first["Acceptance examined"], 2), round(first["Utilisation"], 2)) == (3.66, 0.74, 0.66)
    assert first["Traffic"] == "[1.97, 2.46]"
    assert not any("Not to be used" in header.value for header in app.subheader)
    check_no_markup(app)


def test_each_prompt_and_the_way_on(store: Store):
    app = opened(store, way_runs.run(**FAST))
    each = table(app, "Begins")
    assert len(each) == 12
    whole = table(app, "Equal to plain").set_index("Way")["Speedup"]
    for name in ("Fixed gamma 5", "Prompt lookup of 10, n-gram 2"):
        assert each[name].min() < whole[name] < each[name].max()
    assert any("assistant_tokenizer=draft_tokenizer" in code.value and "assistant_confidence_threshold = 0.4" in code.value for code in app.code)
    assert links(app)["**Side by side**"] == "target=folder%3Abig_model&draft=folder%3Asmall_model"
    assert button(app, "Watch it side by side")
    assert button(app, "Measure more prompts")


def test_a_lossy_way_is_never_the_answer_however_fast(store: Store):
    app = opened(store, way_runs.run(**FAST, sampled=True))
    assert app.title[0].value == "Use prompt lookup of 10, n-gram 2: :green[1.31x the speed of plain]"
    assert set(table(app, "Equal to plain")["Way"]) == {"Prompt lookup of 10, n-gram 2", "Plain"}
    assert set(table(app, "Equal to plain")["Equal to plain"]) == {"drawn, not compared", "reference"}
    assert list(table(app, "Timed at, no gain")["Draft"]) == ["small_model"] * 3
    why = "Lossy. The draft has other tokens, and Transformers 5.24 confuses its probabilities"
    assert f"**The library's default (20, 0.4), Fixed gamma 5, Fixed gamma 10.** {why}" in texts(app).replace("\\", "")
    [chart] = [chart.proto for chart in app.get("plotly_chart")]
    assert "Lossy: The library's default (20, 0.4) 2.20x (not to be used)" in chart.alt
    assert "diamond-open" not in chart.spec
    assert "2.20x" not in texts(app), "the lossy speed stands in no sentence"


def test_where_only_lossy_ways_were_run_nothing_is_recommended(store: Store):
    app = opened(store, way_runs.run(ways=(FixedGamma(5),), sampled=True))
    assert app.title[0].value == "No way to draft can be recommended"
    assert list(table(app, "Timed at, no gain")["Way"]) == ["Fixed gamma 5"]
    assert "Next.** Look for a draft that fits the target better." in texts(app)


def test_differences_decide_what_may_be_used(store: Store):
    app = opened(store, way_runs.run(**FAST, parted={1: None, 2: 5.0, 3: 1e-5}))
    assert app.title[0].value.startswith("Use small\\_model with fixed gamma 10: :green[1.49x")
    shown = table(app, "Equal to plain").set_index("Way")
    assert shown.loc["Fixed gamma 10", "Equal to plain"] == "11 of 12, 1 near tie"
    said = texts(app).replace("\\", "")
    assert "**The library's default (20, 0.4).** Not proven. 1 answer of 12 differs from plain, and why was not found out." in said
    assert "**Fixed gamma 5.** Lossy. 1 answer of 12 really differs from plain." in said


def test_in_16_bits_rounding_may_part_answers(store: Store):
    run = way_runs.run(**FAST, parted={1: None})
    app = opened(store, run.model_copy(update={"spec": run.spec.model_copy(update={"dtype": "bfloat16"})}))
    assert app.title[0].value.startswith("Use small\\_model with the library's default")
    assert table(app, "Equal to plain")["Equal to plain"].iloc[0] == "11 of 12, 1 unexplained"


def test_where_all_lose_it_is_left_off(store: Store):
    app = opened(store, way_runs.run(**SLOW))
    assert app.title[0].value == "Leave drafting off: the best way reaches :orange[0.60x the speed of plain]"
    assert "The library's default (20, 0.4) gives **0.60x**;" in texts(app).replace("\\", "")
    assert not any("generate" in code.value for code in app.code), "no call is offered"
    assert table(app, "Equal to plain")["Way"].iloc[-1] == "Plain"


def test_few_prompts_decide_nothing(store: Store):
    app = opened(store, way_runs.run(**FAST, prompts=4, turns=1))
    assert app.title[0].value.startswith(
        "Not decided yet: small\\_model with the library's default (20, 0.4) leads with 2.30x; about 4 more prompts would tell"
    )
    assert "Each prompt was run once, so no interval on these prompts; too few prompts for an interval for other traffic." in texts(app)


def test_what_is_slower_so_far_does_not_lead(store: Store):
    app = opened(store, way_runs.run(c=0.4, alpha=0.6, prompts=4, ways=(FixedGamma(2),), tokens=48))
    words = "Leave drafting off unless about 4 more prompts say otherwise: small\\_model with fixed gamma 2 reaches :orange[0.94x the speed of plain]"
    assert app.title[0].value == words
    assert "leads" not in texts(app)


def test_an_interval_around_break_even_says_that_it_is_too_wide(store: Store):
    app = opened(store, way_runs.run(c=0.4, alpha=0.55, prompts=8, ways=(FixedGamma(2),), tokens=24))
    words = "Leave drafting off unless about 1 more prompt says otherwise: small\\_model with fixed gamma 2 reaches :orange[0.94x the speed of plain]"
    assert app.title[0].value == words
    assert "**[0.85, 1.04]** for traffic like these, too wide to decide." in texts(app)


@pytest.mark.parametrize(("status", "words"), [("failed", "This run failed"), ("cancelled", "This run was cancelled")])
def test_what_was_kept_of_a_run_that_ended_early(store: Store, status: str, words: str):
    run = way_runs.run(**FAST, calls=30, status=status, parted={2: None}).model_copy(
        update={"error": "The draft <b>broke</b>." if status == "failed" else ""}
    )
    app = opened(store, run)
    [warning] = app.warning
    assert warning.value.startswith(f"**{words}.**")
    assert "Kept: 30 timed calls. Differences from plain are looked into at the end" in warning.value
    assert button(app, "Run again")
    assert "Fixed gamma 5" not in list(table(app, "Equal to plain")["Way"]), "its difference was not looked into"
    check_no_markup(app)


def test_a_run_that_failed_before_anything_was_timed(store: Store):
    app = opened(store, way_runs.run(calls=0, status="failed").model_copy(update={"error": "The head was made for another target."}))
    assert app.title[0].value == "Nothing was measured"
    assert "The head was made for another target. Kept: 0 timed calls." in app.warning[0].value.replace("\\", "")
    assert not app.get("plotly_chart")


def test_while_it_runs_rows_come_without_an_answer(store: Store):
    app = opened(store, way_runs.run(**FAST, calls=23, status="running"))
    assert app.title[0].value == "Measuring in several ways"
    shown = table(app, "Speedup so far")
    assert list(shown["Prompts"]) == [4, 4, 3, 3, 3]
    assert shown["Speedup so far"].iloc[1] == pytest.approx(2.2, abs=0.2)
    assert "Not an answer yet" in texts(app)
    assert "Use " not in texts(app)
    assert button(app, "Cancel")


def test_nothing_is_shown_of_a_run_that_waits(store: Store):
    run_id = store.add(way_runs.run().spec)
    app = open_page("measure", run=run_id)
    assert app.title[0].value == "Waiting to be measured"
    assert not app.dataframe


def test_ways_without_a_draft_model_name_none(store: Store):
    run = way_runs.run(ways=(EarlyExit(2), OwnHeads("mtp"), PromptLookup(5)))
    app = opened(store, run)
    assert "draft" not in next(element.value for element in app.markdown if "target big" in element.value)
    shown = table(app, "Equal to plain")
    assert set(shown["Way"]) == {
        "Early exit after 2 layers, the library's default (20, 0.4)",
        "The model's own heads (MTP)",
        "Prompt lookup of 5, n-gram 2",
        "Plain",
    }
    assert set(shown["Draft"]) == {""}


GROUP = "0123456789ab"


def test_ways_stand_beside_the_draft_models_of_their_group(store: Store):
    full = synthetic.run("full", c=0.1, best=4, group=GROUP)
    real = way_runs.run(ways=(EarlyExit(2), FixedGamma(5), FixedGamma(10)), alpha=0.9, draft="other_model", group=GROUP)
    prompts = full.spec.prompts
    real = real.model_copy(update={"spec": real.spec.model_copy(update={"prompts": prompts})})
    ids = [synthetic.keep(store, full), way_runs.keep(store, real)]
    app = open_page("measure", group=GROUP)
    shown = table(app, "Paired interval")
    known = dict(zip(shown["Draft"], shown["Known by"], strict=True))
    assert known == {
        "small_model": "confirmed",
        "other_model": "measured only",
        "Early exit": "measured only",
        "Prompt lookup": "replayed",
        "No draft": "reference",
    }
    assert shown.set_index("Draft")["Setting"]["other_model"] == "fixed gamma 10"
    whole = {way.name: way.decode.value for way in ways.results(real) if way.decode}
    assert shown.set_index("Draft")["Speedup"]["other_model"] == pytest.approx(whole["fixed gamma 10"])
    assert shown.set_index("Draft")["Speedup"]["Early exit"] == pytest.approx(whole["early exit after 2 layers, the library's default (20, 0.4)"])
    assert pd.isna(shown.set_index("Draft")["alpha"]["other_model"]), "nothing was replayed for it"
    assert [links(app)[name] for name in ("**small\\_model**", "**other\\_model**, several ways, really run")] == [f"run={run_id}" for run_id in ids]


def test_lossy_ways_are_no_rows_but_sentences():
    found = rank([way_runs.run(sampled=True, group=GROUP)])
    assert [row.name for row in found.contenders] == ["Prompt lookup", "No draft"]
    assert len(found.left_out) == 3
    assert found.left_out[1].startswith("small_model with fixed gamma 5: Lossy. The draft has other tokens")


def test_a_group_of_ways_alone_has_a_page(store: Store):
    way_runs.keep(store, way_runs.run(group=GROUP))
    way_runs.keep(store, way_runs.run(draft="other_model", alpha=0.4, group=GROUP))
    app = open_page("measure", group=GROUP)
    assert app.title[0].value.startswith("Use small\\_model with the library's default (20, 0.4): :green[2.20x")
    assert "straighten: measured" in texts(app)
    assert table(app, "Paired interval")["Draft"].iloc[0] == "small_model"
    ok(button(app, "New measurement").click().run())


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (FixedGamma(5), "target.generate(**inputs, assistant_model=draft)"),
        (PromptLookup(10, 3), "target.generate(**inputs, prompt_lookup_num_tokens=10, max_matching_ngram_size=3)"),
        (EarlyExit(4), "target.generate(**inputs, assistant_early_exit=4)"),
        (OwnHeads("mtp"), "target.generate(**inputs, use_mtp=True)"),
        (OwnHeads("dflash"), 'target.generate(**inputs, assistant_model=head, speculation_type="dflash")'),
    ],
)
def test_the_call_of_each_way(policy, expected):
    assert way_words.call(policy).splitlines()[-1] == expected
    compile(way_words.call(policy, translated=True), "call", "exec")
