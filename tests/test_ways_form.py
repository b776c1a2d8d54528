"""The form of the page `measure` for what is only really run: what is offered, what is refused and why, and which runs are queued."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core import demo, encoders
from core.candidates import Known, Model, View
from core.estimate_time import LOAD_S, Speed
from core.lanes import ways_of
from core.memory import CacheProfile, LayerCache
from core.model_info import ModelInfo
from core.own_heads import Heads, block_tokens
from core.plan.own_heads import own_heads
from core.planner import Planner, Ready
from core.policies import EarlyExit, FixedGamma, Plain, PromptLookup, TransformersDefault
from core.runs import Lane, ModelRef, Prompt, Run, RunSpec
from core.settings import Settings
from core.store import Store
from core.ui import begin_note, desk, numbers
from core.ui.model_cautions import cautions
from core.vocab import Vocabulary, compare
from core.ways_ask import ALL_SHARED, NO_MTP, Suit, exit_refused, mtp_refused, seconds, suit, usual_exits
from tests import pair_models
from tests.apps import button, ok, texts
from tests.benches import until

SPEED = Speed(0.010, 0.001, 0.0, "measured")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ways_form")
    pair_models.make(folder / "models")
    return folder


@pytest.fixture(scope="module")
def asked(models: Path) -> Iterator[Planner]:
    with pair_models.offline(models) as made:
        yield made


@pytest.fixture
def planner(asked: Planner, models: Path, app_site: None, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Planner:
    """The pages over this planner and its models, which the bench knows too."""
    monkeypatch.setattr(desk, "planner", lambda: asked)
    settings.model_roots[:] = [models / "models"]
    return asked


def form(planner: Planner, *drafts: str, **query: str) -> AppTest:
    pair_models.known(planner, "demo:target", drafts)
    app = AppTest.from_file("../app.py", default_timeout=30)
    app.query_params["target"] = "demo:target"
    app.query_params["draft"] = list(drafts)
    for key, value in query.items():
        app.query_params[key] = value
    app.switch_page("pages/measure.py")
    return ok(app.run())


def primary(app: AppTest) -> str:
    return next(shown.label for shown in app.button if shown.icon == ":material/timer:")


def queued(app: AppTest, store: Store) -> list[Run]:
    """What the button begins, in the order it was queued."""
    button(app, primary(app)).click()
    ok(app.run())
    group, chosen = ("".join(app.query_params.get(name, "")) for name in ("group", "run"))
    return store.group(group) if group else [store.get(chosen)]


def checked(app: AppTest, label: str) -> AppTest:
    next(box for box in app.checkbox if box.label == label).check()
    return ok(app.run())


def test_other_tokens_are_run_for_real(planner: Planner, store: Store):
    app = form(planner, "folder:other")
    said = texts(app)
    assert "translate: other tokens] **other**" in said
    assert "Transformers does not take its tokens as they are, so nothing can be replayed" in said
    assert "would draft from 4,096 tokens: 100.0 % of the target's 4,096 rows, 97.0 % of the draft's 4,224." in said.replace("\\", "")
    assert "Plain decoding and 4 ways really write every prompt. About " in said
    assert primary(app) == "Run 4 ways for real"
    [run] = queued(app, store)
    assert run.spec.extent == "ways"
    assert run.spec.draft.name == "other"
    policies = (Plain(), TransformersDefault(), FixedGamma(5), FixedGamma(10), PromptLookup(10))
    assert run.spec.lanes == tuple(Lane(policy=policy) for policy in policies)
    assert (run.spec.group, run.spec.stop) == ("", ())


def test_settings_can_be_chosen_and_stand_in_the_address(planner: Planner):
    app = form(planner, "folder:padded", way_settings="fixed gamma 3")
    assert app.multiselect(key="way_settings").value == ["3"]
    assert "translate: padded] **padded**" in texts(app)
    assert primary(app) == "Run 2 ways for real"
    app.multiselect(key="way_settings").set_value([])
    assert "Choose at least one setting." in texts(ok(app.run()))
    assert button(app, primary(app)).disabled
    app.multiselect(key="way_settings").set_value(["1", "2", "3", "4", "5"])
    assert "6 ways are chosen; a run has at most 5 beside plain decoding." in texts(ok(app.run()))
    assert button(app, primary(app)).disabled


def test_sampling_with_other_tokens_is_called_lossy_beforehand(planner: Planner):
    app = form(planner, "folder:other", decoding="Sampling")
    assert "Every token of the draft is the target's as well, and there Transformers 5.24 cannot sample" in texts(app).replace("\\", "")
    assert button(app, primary(app)).disabled


def test_a_refused_draft_says_why_and_other_ways_are_left(planner: Planner, store: Store):
    app = form(planner, "folder:permuted")
    assert app.error[0].value.replace("\\", "").startswith("permuted: Different token maps: 4,095 of 4,096 common ids stand for other tokens")
    assert button(app, "Measure").disabled
    [run] = queued(checked(app, "Prompt lookup"), store)
    assert (run.spec.draft, run.spec.lanes[1:]) == (demo.TARGET, (Lane(policy=PromptLookup(10)),))


def test_ways_without_a_draft_go_beside_a_measurement(planner: Planner, store: Store):
    app = form(planner, "demo:draft", way_exit="true")
    assert button(app, primary(app)).disabled, "what the address has ticked is awaited"
    target = pair_models.known(planner, "demo:target", []).target.usable
    assert target is not None
    until(lambda: isinstance(planner.ask("heads", {"config": target.config}), Ready), 60.0)
    app = checked(ok(app.run()), "Prompt lookup")
    assert app.multiselect(key="way_layers_32").value == ["8", "16"]
    assert next(box for box in app.checkbox if "MTP" in box.label).disabled
    assert NO_MTP in texts(app).replace("\\", "")
    assert primary(app) == "Measure, and run 3 ways for real"
    full, real = queued(app, store)
    assert (full.spec.extent, full.spec.draft, full.spec.lanes) == ("full", demo.DRAFT, ())
    assert (real.spec.extent, real.spec.draft) == ("ways", demo.TARGET)
    assert [lane.policy for lane in real.spec.lanes] == [Plain(), PromptLookup(10), EarlyExit(8), EarlyExit(16)]
    assert full.spec.group == real.spec.group != ""


def test_the_bundled_pair_is_measured_as_ever(planner: Planner, store: Store):
    app = form(planner, "demo:draft")
    assert primary(app) == "Measure"
    assert [run.spec.extent for run in queued(app, store)] == ["full"]


def verdict(target: dict[str, int], draft: dict[str, int], sizes: tuple[int, int]):
    return compare(Vocabulary(target, sizes[0]), Vocabulary(draft, sizes[1]))


BASE = {f"t{id_}": id_ for id_ in range(1_000)}
PART = {f"t{id_ + 500}" if id_ < 300 else f"x{id_}": id_ for id_ in range(600)}


def test_how_a_draft_can_be_measured():
    assert suit(verdict(BASE, BASE, (1_000, 1_000)), sample=False).kind == "replayed"
    greedy, sampled = (suit(verdict(BASE, PART, (1_000, 600)), sample=sample) for sample in (False, True))
    assert (greedy.kind, greedy.lossy) == ("real", "")
    assert sampled.kind == "real"
    assert "marked as lossy, and never recommended" in sampled.lossy
    inside = suit(verdict(BASE, {f"t{id_ + 1}": id_ for id_ in range(600)}, (1_000, 600)), sample=True)
    assert inside.kind == "refused"
    assert inside.sentence.endswith(ALL_SHARED)
    none = suit(verdict(BASE, {f"x{id_}": id_ for id_ in range(600)}, (1_000, 600)), sample=True)
    assert (none.kind, none.sentence[:23]) == ("refused", "Both share no token, so")


@pytest.mark.parametrize("sample", [False, True])
def test_a_draft_of_another_script_is_refused_because_nothing_could_be_accepted(sample: bool):
    found = verdict({"a": 0, "b": 1, "c": 2}, {"д": 0, "ж": 1}, (3, 2))
    assert suit(found, sample=sample) == Suit("refused", found.hopeless)
    assert found.hopeless.startswith("Both vocabularies have no character in common: the target has no tokens for anything that the draft writes")


def test_heads_are_read_off_the_config(settings: Settings):
    llama = {"model_type": "llama", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 300}
    plain = Heads.model_validate(own_heads({"config": llama}, settings))
    assert (plain, mtp_refused(plain)) == (Heads(layers=3), NO_MTP)
    experts = {"num_key_value_heads": 2, "moe_intermediate_size": 32, "n_routed_experts": 4}
    glm = llama | experts | {"model_type": "glm4_moe", "num_nextn_predict_layers": 1}
    found = Heads.model_validate(own_heads({"config": glm}, settings))
    assert (found.layers, found.mtp_layers) == (3, 1)
    assert mtp_refused(found) == found.problem
    assert block_tokens({"target_layer_ids": [1, 2], "block_size": 16}) == 15
    assert block_tokens({"block_size": 16}) == 0
    assert (usual_exits(32), usual_exits(2), usual_exits(1)) == ((8, 16), (1,), ())


def test_a_loop_that_takes_no_notice_of_the_number_of_layers_is_found_from_the_config(settings: Settings):
    gpt2 = {"model_type": "gpt2", "n_layer": 3, "n_embd": 32, "n_head": 2, "n_positions": 64, "vocab_size": 300}
    found = Heads.model_validate(own_heads({"config": gpt2}, settings))
    assert exit_refused(found).startswith("In Transformers 5.24 'gpt2' cannot leave its layers early: asked for 1 layer it runs 3 of 3.")
    assert mtp_refused(found) == NO_MTP


def test_an_encoder_decoder_drafts_nothing_by_itself(settings: Settings):
    t5 = {"model_type": "t5", "d_model": 32, "num_layers": 2, "num_heads": 4, "d_kv": 8, "d_ff": 64, "vocab_size": 300, "is_encoder_decoder": True}
    found = Heads.model_validate(own_heads({"config": t5}, settings))
    assert found.refusal == encoders.drafts_itself("The target", "t5")
    assert exit_refused(found) == mtp_refused(found) == found.refusal
    assert exit_refused(Heads(layers=1)).startswith("The target has one layer only")
    assert exit_refused(Heads(layers=2)) == ""


def test_the_estimate_counts_every_way_and_the_turns(spec: RunSpec):
    lanes = tuple(Lane(policy=policy) for policy in (Plain(), PromptLookup(10), PromptLookup(5)))
    ways = ways_of(spec.model_copy(update={"max_new_tokens": 100}), lanes)
    one = seconds(ways.model_copy(update={"confirm_s": 0.0}), [12, 12], SPEED) - LOAD_S
    assert one == pytest.approx(4 * (2 * 100 + 2) * 0.010), "two prompts, plain before and after two ways"
    assert seconds(ways, [12, 12], SPEED) - LOAD_S == pytest.approx(3 * one), "time for three turns"


def test_one_estimate_stands_beside_the_button_and_in_the_queue(planner: Planner, store: Store):
    """A run in several ways that waits is said to take what the form said that it would."""
    app = form(planner, "folder:other")
    said = texts(app)
    [run] = queued(app, store)
    assert f"About {numbers.duration(sum((begin_note.run_stages(run.spec) or {}).values()))} " in said
    assert sum((begin_note.run_stages(run.spec) or {}).values()) > 4 * 2 * run.spec.max_new_tokens * 0.001


def test_a_model_that_its_files_refuse_is_not_begun(planner: Planner):
    app = form(planner, "folder:mute")
    assert app.error[0].value.replace("\\", "").startswith("mute reads text but has no head that writes it")
    assert button(app, "Measure").disabled


def test_a_refused_target_is_not_begun_in_any_way(planner: Planner):
    pair_models.known(planner, "folder:mute", ["demo:draft"])
    app = AppTest.from_file("../app.py", default_timeout=30)
    app.query_params["target"], app.query_params["draft"] = "folder:mute", ["demo:draft"]
    app.switch_page("pages/measure.py")
    ok(app.run())
    assert app.error[0].value.replace("\\", "").startswith("mute reads text but has no head that writes it")
    assert button(app, "Measure").disabled
    assert not [box for box in app.checkbox if box.label == "Prompt lookup"]


def test_a_config_that_makes_no_model_is_not_measured(planner: Planner):
    app = form(planner, "folder:headless")
    why = "headless cannot be made into a model: num_attention_heads is 0 in this config, which no model has. Correct the config."
    assert app.error[0].value.replace("\\", "") == why
    assert button(app, "Measure").disabled
    pair_models.known(planner, "folder:headless", ["demo:draft"])
    app = AppTest.from_file("../app.py", default_timeout=30)
    app.query_params["target"], app.query_params["draft"] = "folder:headless", ["demo:draft"]
    app.switch_page("pages/measure.py")
    assert [shown.value.replace("\\", "") for shown in ok(app.run()).error] == [why]
    assert button(app, "Measure").disabled


def test_sizes_that_could_not_be_computed_are_said_and_no_hindrance(planner: Planner):
    app = form(planner, "folder:torn")
    said = "Whether torn can be loaded is not known, because its sizes are not: This config contradicts itself"
    assert said in texts(app).replace("\\", "")
    assert not button(app, "Measure").disabled


def test_a_window_shorter_than_the_longest_text():
    layers = (LayerCache("sliding", window=128), LayerCache("full"))
    sizes = CacheProfile("made", "Made", 1, 1, 0, 10, 8, 4096, layers)
    ref = ModelRef(source="folder", name="slider", path="slider")
    target = Model("folder:slider", Known(ModelInfo(ref=ref, read_s=0), 0), Known(sizes, 0))
    view = View(target, ())
    assert cautions(view, [Prompt(text="x" * 35 * 10)], 28) == []
    [said] = cautions(view, [Prompt(text="x" * 35 * 10)], 29)
    assert said.startswith("1 layer of slider sees only the last 128 tokens, fewer than your longest prompt with its answer (about 129).")
    [said] = cautions(view, [Prompt(text="x"), Prompt(text="x" * 35 * 20)], 8)
    assert "fewer than your longest prompt alone (about 200)." in said
    assert cautions(view, [], 8) == []


def test_bundled_prompts_that_the_pair_cannot_hold_are_left_out_before_it_begins(planner: Planner, models: Path):
    prompts = [prompt.model_dump(mode="json", exclude={"label"}) for prompt in demo.prompts()]
    asked = {"model": "demo:target", "prompts": prompts, "chat_template": False}
    until(lambda: isinstance(planner.ask("prompt_tokens", asked), Ready), 90.0)
    answer = planner.ask("prompt_tokens", asked)
    assert isinstance(answer, Ready)
    tokens: list[int] = answer.data["tokens"]
    room = sorted(tokens)[len(tokens) // 2] + 40
    short = models / "models" / "short"
    shutil.copytree(demo.DRAFT.path, short)
    config = json.loads((short / "config.json").read_text())
    (short / "config.json").write_text(json.dumps(config | {"max_position_embeddings": room}))
    app = form(planner, "folder:short")
    long = [(number, count + 40) for number, count in enumerate(tokens, 1) if count + 40 > room]
    number, need = long[0]
    assert f"{len(long)} of {len(tokens)} prompts left out. Prompt {number}: with 40 new tokens it needs {need}, and the pair holds {room}." in texts(
        app
    )
    assert next(field for field in app.number_input if field.label == "Number of prompts").max == len(tokens) - len(long)
