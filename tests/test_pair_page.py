"""The page `pair` in every state, over the real planner, the embedded pair and edited copies of its draft."""

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from core import demo
from core.measured import DeviceInfo, Generation
from core.planner import Planner, Waiting
from core.policies import FixedGamma, Plain, Policy
from core.runs import Run, RunSpec
from core.script import Service, script
from core.settings import Settings
from core.store import Store
from core.ui import desk, pair_device, pair_pick, pair_smoke, pair_why
from core.vocab import Vocabulary, compare
from tests import pair_models, shape_runs, synthetic
from tests.apps import button, metric, ok, texts
from tests.test_page_states import GITHUB

REFUSED = "folder:permuted"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pair")
    pair_models.make(folder / "models")
    return folder


@pytest.fixture(scope="module")
def asked(models: Path) -> Iterator[Planner]:
    with pair_models.offline(models) as made:
        yield made


@pytest.fixture
def planner(asked: Planner, models: Path, app_site: None, monkeypatch: pytest.MonkeyPatch) -> Planner:
    """The pages over this planner and its models; all that is folded begins open, because AppTest cannot open it."""
    expander = st.expander
    monkeypatch.setattr(st, "expander", lambda label, **how: expander(label, expanded=True, **how))
    monkeypatch.setattr(desk, "planner", lambda: asked)
    monkeypatch.setattr(desk, "settings", lambda: Settings(data=models / "data", model_roots=[models / "models"]))
    return asked


def open_pair(planner: Planner | None, target: str | None, *drafts: str, **query: str) -> AppTest:
    """The page with a pair in its address, once the planner (if there is one) knows all about it."""
    if planner and target:
        pair_models.known(planner, target, drafts)
    app = AppTest.from_file("../app.py", default_timeout=30)
    if target:
        app.query_params["target"] = target
    if drafts:
        app.query_params["draft"] = list(drafts)
    for key, value in query.items():
        app.query_params[key] = value
    app.switch_page("pages/pair.py")
    return ok(app.run())


def press(app: AppTest, label: str) -> AppTest:
    next(button for button in app.button if button.label == label).click()
    return ok(app.run())


def figures(app: AppTest) -> dict[str, dict[str, Any]]:
    table = next(frame.value for frame in app.dataframe if "Share of target, %" in frame.value)
    return {row["Model"]: row for row in table.to_dict("records")}


@pytest.mark.usefixtures("planner")
def test_without_a_pair_there_are_pairs_to_begin_with():
    app = open_pair(None, None)
    assert app.title[0].value == "Which drafts fit your target?"
    assert [f"**{name}**" in texts(app) for name in ("Demo pair", "Qwen3 8B", "Llama 3.1 8B")] == [True] * 3
    app = press(app, "See 1 draft")
    assert (app.session_state[pair_pick.TARGET_KEY], app.session_state[pair_pick.DRAFTS_KEY]) == ("demo:target", ["demo:draft"])


def test_the_demo_pair_fits_with_every_figure(planner: Planner):
    app = open_pair(planner, "demo:target", "demo:draft")
    assert app.title[0].value == ":green[Demo draft] fits and looks worth measuring"
    assert "runs natively" in texts(app)
    assert "Same token map, same size: 4,096 of 4,096 tokens" in texts(app).replace("\\", "")
    shown = {label: metric(app, label) for label in ("Parameters", "Layers", "Weights", "Cache, a token")}
    assert shown == {"Parameters": "1.2 M", "Layers": "1", "Weights": "2.4 MB", "Cache, a token": "0.8 KiB"}
    assert {card.label: card.delta for card in app.metric}["Parameters"] == "1/12 of target"
    assert 0.01 < float(metric(app, "Cost ratio c")) < 0.2
    row = figures(app)["demo:draft"]
    assert (row["Verdict"], row["Layers"], row["Cache, KiB per token"], row["Context, tokens"]) == ("same tokens", 1, 0.75, 1024)
    assert figures(app)["demo:target"]["Parameters, M"] == pytest.approx(14.364864)
    assert any("Transformers, native" in str(table.value) for table in app.table)
    assert not next(button for button in app.button if button.label == "Measure 1 draft").disabled


def test_the_four_questions_have_this_pair_s_answers(planner: Planner):
    shown = texts(open_pair(planner, "demo:target", "demo:draft", on="H100 SXM")).replace("\\", "")
    assert "**1. Is there a small model of the same family?**" in shown
    assert shown.count(":green[:material/check_circle:] yes") == 3, "family, vocabulary, memory"
    assert ":material/arrow_forward: **Measure the pair on your own prompts.**" in shown


def test_a_finished_run_answers_the_third_question(planner: Planner, store: Store):
    run = synthetic.run()
    spec = run.spec.model_copy(update={"target": demo.TARGET, "draft": demo.DRAFT})
    synthetic.keep(store, run.model_copy(update={"spec": spec}))
    shown = texts(open_pair(planner, "demo:target", "demo:draft")).replace("\\", "")
    assert "alpha 0.72, c 0.12" in shown


@pytest.mark.usefixtures("app_site")
def test_what_is_awaited_says_so(models: Path, monkeypatch: pytest.MonkeyPatch):
    """A planner that is held back by a timed measurement never answers."""
    held = Planner(Settings(data=models / "empty"), timing=lambda: True)
    monkeypatch.setattr(desk, "planner", lambda: held)
    app = open_pair(None, "demo:target", "demo:draft", "folder:padded")
    held.close()
    assert app.title[0].value == "Reading demo\\:target and 2 drafts"
    assert texts(app).count("hourglass_empty: reading") == 2
    assert metric(app, "Speedup") == "…"
    assert metric(app, "Parameters") == "…"
    measure = next(button for button in app.button if button.label == "Measure")
    assert measure.disabled


def test_one_dead_model_does_not_block_the_others(planner: Planner):
    app = open_pair(planner, "demo:target", "folder:gone", "demo:draft", "folder:wordless", "folder:mute", "folder:other")
    shown = texts(app).replace("\\", "")
    assert app.title[0].value == "One of five drafts fits; :green[Demo draft] looks worth measuring"
    assert "There is no model folder 'gone'" in shown
    assert "wordless has no tokenizer" in shown
    assert "mute reads text but has no head" in shown
    assert shown.count("cannot be used]") == 3
    assert "other vocabulary" in shown
    assert figures(app)["folder:other"]["Verdict"] == "different"
    assert "other: other tokens, so it is really run and timed, and nothing is replayed. Left out: folder:gone, wordless, mute." in shown
    assert any(button.label == "Measure 1 draft, run 1 for real" and not button.disabled for button in app.button)
    app = press(app, "Remove")
    assert app.session_state[pair_pick.DRAFTS_KEY] == ["demo:draft", "folder:wordless", "folder:mute", "folder:other"]


def test_a_dead_model_that_came_to_life_is_found_by_trying_again(planner: Planner, models: Path):
    app = open_pair(planner, "demo:target", "folder:late")
    assert app.title[0].value == "folder\\:late cannot be compared"
    (models / "models" / "permuted").rename(models / "models" / "late")
    try:
        press(app, "Try again")
        view = pair_models.known(planner, "demo:target", ["folder:late"])
    finally:
        (models / "models" / "late").rename(models / "models" / "permuted")
    assert view.drafts[0].verdict_value is not None
    assert view.drafts[0].verdict_value.kind == "same_size_different_map"


def test_a_refused_pair_cannot_be_measured_and_says_why(planner: Planner):
    app = open_pair(planner, "demo:target", REFUSED)
    shown = texts(app).replace("\\", "")
    assert app.title[0].value == "This draft does not fit as it is"
    assert ":red-badge[:material/block: same size, other tokens]" in texts(app)
    assert metric(app, "Speedup") == "none"
    assert next(button for button in app.button if button.label == "Measure").disabled
    assert "Refused: the sizes are equal but the ids stand for other tokens" in shown
    assert not [chart for chart in app.get("plotly_chart") if "expected" in str(chart.proto)]


def test_a_pair_that_fits_has_its_whole_script_and_one_that_does_not_has_none(planner: Planner):
    fitting, refused = (
        [block.value for block in open_pair(planner, "demo:target", draft).code if "import AutoModelForCausalLM" in block.value]
        for draft in ("demo:draft", REFUSED)
    )
    assert fitting == [script(Service(demo.TARGET, demo.DRAFT, FixedGamma(4))).strip()]
    assert refused == []


def test_a_padded_pair_is_told_its_engines(planner: Planner):
    app = open_pair(planner, "demo:target", "folder:padded")
    engines = next(str(table.value) for table in app.table)
    assert app.title[0].value == "This draft does not fit as it is"
    assert ":orange-badge[:material/width: padded]" in texts(app)
    assert "refuses" in engines.split("Transformers, native")[1].split("\n")[0]
    assert "Universal assisted decoding" in texts(app)


def test_the_same_model_twice_is_not_promised_a_gain(planner: Planner):
    app = open_pair(planner, "demo:target", "demo:target")
    assert app.title[0].value == "Demo target fits, but :orange[it is not likely to pay]"
    assert "Target and draft are the same model: this cannot be faster." in texts(app).replace("\\", "")
    assert metric(app, "Speedup") == "1.00x"


def test_what_tokenizers_differ_in_beside_their_maps():
    same = {f"t{at}": at for at in range(100)}
    other = {f"u{at}" if at > 50 else f"t{at}": at for at in range(100)}
    target = Vocabulary(same, 100, {"eos_token": 1, "pad_token": 2}, normaliser="", pre_tokenizer="a")
    assert pair_why.beside(compare(target, target)) == []
    found = pair_why.beside(compare(target, Vocabulary(other, 128, {"eos_token": 3}, normaliser="NFC", pre_tokenizer="a")))
    assert found[0] == "Special tokens with different ids, target and draft: eos_token (1 and 3), pad_token (2 and none)."
    assert found[1] == "Text is prepared differently before it is cut into tokens: another normaliser."


def test_a_size_that_cannot_be_known_is_not_awaited_for_ever(planner: Planner):
    app = open_pair(planner, "demo:target", "folder:torn")
    assert "The sizes of torn are not known: This config contradicts itself" in texts(app).replace("\\", "")
    assert button(app, "Time this pair from its configs").disabled
    assert "torn is not built, because its sizes are not known: This config contradicts itself" in texts(app).replace("\\", "")
    assert not button(app, "Measure 1 draft").disabled, "Transformers may load it all the same"
    assert [metric(app, label) for label in ("Layers", "Cache, a token", "Cost ratio c", "Speedup")] == ["?"] * 4


def test_a_config_that_makes_no_model_can_neither_be_timed_nor_measured(planner: Planner):
    app = open_pair(planner, "demo:target", "folder:headless")
    why = "headless cannot be made into a model: num_attention_heads is 0 in this config, which no model has. Correct the config."
    assert app.title[0].value == "headless cannot be used"
    assert "No engine is asked about a draft that cannot be used." in texts(app)
    assert texts(app).replace("\\", "").count(why) == 2, "on its card, and beside the button that would time it"
    assert button(app, "Measure").disabled
    assert button(app, "Time this pair from its configs").disabled


def test_the_seventh_draft_is_left_out_and_said(planner: Planner):
    app = open_pair(planner, "demo:target", *[f"folder:none{at}" for at in range(7)])
    assert texts(app).count("cannot be used]") == 6
    assert "The address names 7 drafts; the first 6 are shown." in [toast.value for toast in app.toast]


def test_names_full_of_markup_stay_text(planner: Planner):
    hostile = ("<b>x</b>", "![x](http://host/a.png)", f"folder:{pair_models.HOSTILE}", "`\n# y", "a" * 500)
    app = open_pair(planner, "demo:target", *hostile)
    tokens = [token for block in [*app.markdown, *app.error, *app.title] for token in GITHUB.parse(str(block.value))]
    inner = [child for token in tokens for child in token.children or []]
    assert not {child.type for child in inner} & {"image", "html_inline"}
    assert not {token.type for token in tokens} & {"heading_open", "html_block", "code_block", "fence"}
    links = [str(child.attrGet("href")) for child in inner if child.type == "link_open"]
    assert [link for link in links if not link.startswith("https://github.com/")] == [], "only the engines' own sources"
    assert "'<b>x</b>' is no Hub id" in texts(app).replace("\\", "")
    assert pair_models.HOSTILE in texts(app).replace("\\", "")


def test_a_target_that_cannot_be_used_is_the_headline(planner: Planner):
    app = open_pair(planner, "folder:mute", "demo:draft")
    assert app.title[0].value == "mute cannot be the target"
    assert "has no head that writes it" in texts(app)
    assert not app.metric


def test_without_the_hub_a_known_family_still_has_sizes_and_costs(planner: Planner):
    app = open_pair(planner, "Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B", on="H100 SXM")
    assert app.title[0].value == "Qwen3\\-8B could not be read: sizes and costs only"
    assert "From the table of families that is built in" in texts(app)
    assert (metric(app, "Parameters"), metric(app, "Layers"), metric(app, "Weights")) == ("596.0 M", "28", "?")
    assert next(button for button in app.button if button.label == "Measure").disabled


def test_a_target_alone_gets_drafts_worth_trying(planner: Planner):
    app = open_pair(planner, "demo:target")
    assert app.title[0].value == "Which draft for Demo target?"
    assert "**demo:draft** 1.2 M" in texts(app).replace("\\", "")
    assert press(app, "Add").session_state[pair_pick.DRAFTS_KEY] == ["demo:draft"]


def test_measuring_goes_on_with_the_drafts_that_fit(planner: Planner, store: Store):
    app = press(open_pair(planner, "demo:target", "demo:draft", REFUSED, "demo:target"), "Measure 2 drafts")
    assert app.title[0].value == "Measure a pair"
    assert (app.session_state[pair_pick.TARGET_KEY], app.session_state[pair_pick.DRAFTS_KEY]) == ("demo:target", ["demo:draft", "demo:target"])
    app.switch_page("pages/measure.py")
    press(ok(app.run()), "Measure 2 drafts")
    queued = [(run.spec.target, run.spec.draft) for run in store.recent(5)]
    assert queued == [(demo.TARGET, demo.TARGET), (demo.TARGET, demo.DRAFT)]


def test_a_context_too_short_is_a_warning_once_the_lengths_are_stated(planner: Planner):
    assert "was made for 1,024 tokens" not in texts(open_pair(planner, "demo:target", "demo:draft")).replace("\\", "")
    app = open_pair(planner, "demo:target", "demo:draft", prompt_tokens="900", answer_tokens="300")
    assert "The target was made for 1,024 tokens; your longest prompt and answer take 1,200." in texts(app).replace("\\", "")


def test_two_devices_and_batches_are_warned_of_once_they_are_stated(planner: Planner):
    app = open_pair(planner, "demo:target", "demo:draft", on="H100 SXM", draft_on="CPU, one thread", batch="8")
    shown = texts(app).replace("\\", "")
    assert "on H100 SXM, draft on CPU, one thread" in shown
    assert "The target runs on H100 SXM, the draft on CPU, one thread." in shown
    assert "You serve batches of 8; measurements here are of one request at a time." in shown
    assert "draft on" not in texts(open_pair(planner, "demo:target", "demo:draft", on="H100 SXM", draft_on="H100 SXM"))


def test_a_smoke_test_is_queued_and_waits_on_its_card(planner: Planner, store: Store):
    app = press(open_pair(planner, "demo:target", "demo:draft"), "Try eight tokens")
    run_id = app.session_state[pair_smoke.KEPT]["demo:target", "demo:draft"]
    spec = store.get(run_id).spec
    assert (spec.extent, spec.target, spec.draft, len(spec.prompts)) == ("smoke", demo.TARGET, demo.DRAFT, 1)
    assert "Waiting for the device" in texts(app)


@pytest.mark.parametrize(
    ("rounds", "equal", "said"),
    [((5, 3), True, "Eight tokens came out equal, plain and assisted; 6 of 8 were drafted."), ((1,) * 8, False, "Token 1 differs")],
)
def test_a_smoke_test_s_result_stands_on_the_card(planner: Planner, store: Store, rounds: tuple[int, ...], equal: bool, said: str):
    run_id = synthetic.keep(store, smoke_run(rounds, equal))
    pair_models.known(planner, "demo:target", ["demo:draft"])
    app = AppTest.from_file("../app.py", default_timeout=30)
    app.query_params["target"], app.query_params["draft"] = "demo:target", "demo:draft"
    app.session_state[pair_smoke.KEPT] = {("demo:target", "demo:draft"): run_id}
    app.switch_page("pages/pair.py")
    assert said in texts(ok(app.run())).replace("\\", "")


@pytest.mark.parametrize(
    ("device", "kind"),
    [
        (DeviceInfo(id="cpu", name="AMD EPYC"), "CPU, one thread"),
        (DeviceInfo(id="cuda:0", name="NVIDIA GeForce RTX 4090"), "RTX 4090"),
        (DeviceInfo(id="cuda:0", name="NVIDIA L4"), "L4"),
        (DeviceInfo(id="cuda:0", name="Unheard Of 9000"), "CPU, one thread"),
    ],
)
def test_the_estimate_begins_with_this_machine(device: DeviceInfo, kind: str):
    assert pair_device.beginning([device], ["T4", "L4", "RTX 3090", "RTX 4090", "L40S", "H100 SXM", "CPU, one thread"]) == kind


def smoke_run(rounds: tuple[int, ...], equal: bool) -> Run:
    def written(policy: Policy, rounds: tuple[int, ...] = ()) -> Generation:
        difference = None if equal or not rounds else 0
        return Generation(
            purpose="smoke", block=0, prompt=0, policy=policy, tokens=8, total_s=1.0, first_token_s=0.5,
            rounds=rounds, equal=equal or not rounds, first_difference=difference,
        )  # fmt: skip

    spec = RunSpec(target=demo.TARGET, draft=demo.DRAFT, prompts=synthetic.run().spec.prompts[:1], extent="smoke")
    generations = (written(Plain()), written(FixedGamma(4), rounds))
    return Run(id="", spec=spec, status="done", created=datetime.datetime.now(datetime.UTC), generations=generations)


def test_the_table_promises_no_speedup_where_the_card_does_not(planner: Planner):
    rows = figures(open_pair(planner, "demo:target", "demo:draft", REFUSED))
    assert rows["demo:draft"]["Speedup"] > 1
    assert rows[REFUSED]["Speedup"] != rows[REFUSED]["Speedup"], "empty"
    assert rows[REFUSED]["c"] == pytest.approx(rows["demo:draft"]["c"])


def test_alternatives_stand_there_without_any_comparison(planner: Planner):
    shown = texts(open_pair(planner, "demo:target", "folder:gone"))
    assert [name in shown for name in ("**Prompt lookup.**", "**Early exit.**", "**Distil a draft.**", "**Leave it off.**")] == [True] * 4
    assert "**Universal assisted decoding.**" not in shown


def test_sizes_still_awaited_are_not_called_a_bad_fit(planner: Planner, monkeypatch: pytest.MonkeyPatch):
    pair_models.known(planner, "demo:target", ["demo:draft"])
    monkeypatch.setattr(planner, "ask", lambda task, arguments, ask=planner.ask: Waiting("Reading") if task == "profile" else ask(task, arguments))
    app = open_pair(None, "demo:target", "demo:draft")
    assert app.title[0].value == "Demo draft fits"
    assert (metric(app, "Speedup"), metric(app, "Layers"), metric(app, "Parameters")) == ("…", "…", "1.2 M")
    assert not next(button for button in app.button if button.label == "Measure 1 draft").disabled


def test_a_pair_is_timed_from_its_configs(planner: Planner, store: Store):
    app = open_pair(planner, "demo:target", "demo:draft")
    assert "nothing but config.json is downloaded" in texts(app)
    press(app, "Time this pair from its configs")
    asked_for = store.get(store.queued()[0]).spec
    assert (asked_for.target, asked_for.draft, asked_for.extent, asked_for.random_weights) == (demo.TARGET, demo.DRAFT, "shapes", True)
    assert (asked_for.batches, asked_for.cache_lengths, asked_for.device, asked_for.dtype, asked_for.prompts) == (
        (1,),
        (128, 512),
        "cpu",
        "float32",
        (),
    )


def test_what_was_timed_stands_beside_the_estimate(planner: Planner, store: Store):
    synthetic.keep(store, shape_runs.run(target=demo.TARGET, draft=demo.DRAFT))
    shown = texts(open_pair(planner, "demo:target", "demo:draft")).replace("\\", "")
    assert "c **0.15**, v(5) **1.25** :gray-badge[:material/straighten: measured]; 1.2x needs alpha 0." in shown
    assert "c was estimated from the configs as **0.0" in shown
    assert "and timed as **0.15**" in shown
    assert "outside that range" in shown


def test_a_folder_with_only_a_config_can_be_timed_and_not_measured(planner: Planner):
    app = open_pair(planner, "demo:target", "folder:bare")
    assert next(button for button in app.button if button.label == "Measure").disabled
    assert not next(button for button in app.button if button.label == "Time this pair from its configs").disabled
    assert "bare has no weights in its folder: it can be timed from its config, and measured once they are there." in texts(app).replace("\\", "")


def test_a_pair_that_would_not_fit_cannot_be_timed(planner: Planner, store: Store):
    store.set_devices([DeviceInfo(id="cpu", name="Test CPU", memory_bytes=10**9, free_bytes=10**7)])
    app = open_pair(planner, "demo:target", "demo:draft")
    assert "The weights would take 62.3 MB in float32, and cpu has 10.0 MB free." in texts(app).replace("\\", "")
    assert next(button for button in app.button if button.label == "Time this pair from its configs").disabled
