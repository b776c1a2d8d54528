"""The settings of a measurement: what the form gives, what it refuses and why, and that nothing typed is lost."""

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from core import demo
from core.address import resolve
from core.decoding import Decoding
from core.measured import DeviceInfo
from core.planner import Planner
from core.runs import ModelRef, Prompt, RunSpec
from core.settings import Settings
from core.typed import LONGEST_STOP, Typed
from core.ui import decoding_box, desk
from tests import pair_models, synthetic
from tests.apps import ok, texts

PROMPTS = (Prompt(text="one"),)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sample": True, "temperature": 0.0}, "Temperature 0 cannot be used: choose above 0 and at most 10. For the likeliest token every time"),
        ({"sample": True, "top_k": -1}, "Top-k -1 cannot be used: choose from 0 to 1,000,000. 0 leaves it off."),
        ({"sample": True, "top_p": 1.5}, "Top-p 1.5 cannot be used: choose above 0 and at most 1."),
        ({"sample": True, "draft_temperature": -2.0}, "Draft temperature -2 cannot be used"),
        ({"repetition_penalty": 0.0}, "Repetition penalty 0 cannot be used: choose from 0.1 to 10."),
        ({"max_new_tokens": 5000}, "5000 new tokens cannot be measured. Choose between 1 and 4,096."),
        ({"seed": -1}, "Seed -1 cannot be used"),
        ({"confirm_s": -5.0}, "Seconds for the confirmation -5 cannot be used"),
        ({"stop": "\n".join(map(str, range(17)))}, "17 stop strings are too many. Keep at most 16."),
        ({"stop": "x" * (LONGEST_STOP + 1)}, "has 201 characters; at most 200"),
        ({"sample": True, "temperature": float("nan")}, "Temperature nan cannot be used"),
    ],
)
def test_each_wrong_value_gets_its_sentence(given: dict[str, Any], said: str):
    [problem] = Typed(**given).problems
    assert said in problem


def test_greedy_does_not_look_at_what_it_does_not_use():
    typed = Typed(temperature=0.0, top_p=3.0, draft_temperature=-1.0, warpers_once=True)
    assert typed.problems == ()
    assert typed.decoding == Decoding()


def test_stop_strings_are_lines_with_their_escapes_each_once():
    assert Typed(stop="\\n\\n\n User:\n\n\\n\\n\na\\tb").stops == ("\n\n", " User:", "a\tb")


def test_a_draft_temperature_like_the_targets_is_none():
    assert Typed(sample=True, temperature=0.7, draft_temperature=0.7).decoding.draft_temperature is None
    assert Typed(sample=True, temperature=0.7, draft_temperature=0.5).decoding.draft_temperature == 0.5


@pytest.fixture
def models(settings: Settings) -> Path:
    """A root with a chatting copy of the embedded draft, whose makers sample, and a silent one."""
    root = settings.model_roots[0]
    pair_models.make(root)
    config = json.loads((root / "padded" / "tokenizer_config.json").read_text())
    template = "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}<assistant>"
    (root / "padded" / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": template}))
    own = {"do_sample": True, "temperature": 0.6, "top_p": 0.95}
    (root / "padded" / "generation_config.json").write_text(json.dumps(own))
    return root


@pytest.fixture
def planner(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Planner]:
    """All that is folded begins open, because AppTest cannot open it."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    expander = st.expander
    monkeypatch.setattr(st, "expander", lambda label, **how: expander(label, expanded=True, **how))
    with contextlib.closing(Planner(settings, light=1)) as made:
        monkeypatch.setattr(desk, "planner", lambda: made)
        yield made


def page() -> None:
    import streamlit as st

    from core.ui import decoding_box

    st.session_state["found"] = decoding_box.settings_box(st.session_state["target"], st.session_state["devices"])


def open_box(target: Any, devices: tuple[DeviceInfo, ...] = (), **address: str) -> AppTest:
    app = AppTest.from_function(page, default_timeout=30)
    for key, value in address.items():
        app.query_params[key] = value
    app.session_state["target"] = target
    app.session_state["devices"] = devices
    return ok(app.run())


def spec_of(app: AppTest) -> RunSpec:
    found: decoding_box.Settings = app.session_state["found"]
    assert found.ready, texts(app)
    return found.spec(app.session_state["target"], app.session_state["target"], PROMPTS)


def until_known(app: AppTest) -> AppTest:
    until_s = time.monotonic() + 60
    while "Looking whether" in texts(app):
        assert not app.session_state["found"].ready, "nothing is measured before it is known what the model reads"
        assert time.monotonic() < until_s, texts(app)
        time.sleep(0.1)
        ok(app.run())
    return app


@pytest.mark.usefixtures("planner")
def test_what_nobody_touched_is_greedy_in_float32_without_a_template():
    app = open_box(demo.TARGET)
    usual = RunSpec(target=demo.TARGET, draft=demo.TARGET, prompts=PROMPTS)
    assert spec_of(app) == usual
    assert app.toggle(key="no_chat_template").disabled
    assert "the target has no chat template" in texts(app)
    assert "Decodes: greedy" in texts(app)


@pytest.mark.usefixtures("planner")
def test_an_address_holds_the_settings_and_no_text():
    app = open_box(demo.TARGET, decoding="Sampling", temperature="0.4", tokens="64", dtype="bfloat16", seed="7", stop="secret")
    spec = spec_of(app)
    assert (spec.decoding.sample, spec.decoding.temperature, spec.max_new_tokens, spec.dtype, spec.seed) == (True, 0.4, 64, "bfloat16", 7)
    assert app.text_area(key="stop").value == "", "stop strings are no part of it"


@pytest.mark.usefixtures("planner")
def test_everything_chosen_is_in_the_run():
    app = open_box(demo.TARGET, (DeviceInfo(id="cpu", name="A CPU"), DeviceInfo(id="cuda:0", name="A GPU")))
    app.segmented_control(key="decoding").set_value("Sampling").run()
    for key, value in (("temperature", 0.5), ("top_k", 40), ("top_p", 0.9), ("repetition_penalty", 1.1), ("draft_temperature", 0.4)):
        ok(app).number_input(key=key).set_value(value)
    app.number_input(key="seed").set_value(7)
    app.number_input(key="tokens").set_value(128)
    app.number_input(key="confirm_s").set_value(0.0)
    app.text_area(key="stop").set_value("\\n\\n\nUser:")
    app.toggle(key="warpers_once").set_value(True)
    app.selectbox(key="device").set_value("cuda:0")
    app.selectbox(key="dtype").set_value("bfloat16")
    spec = spec_of(ok(app.run()))
    sampling = {"temperature": 0.5, "top_k": 40, "top_p": 0.9, "repetition_penalty": 1.1, "draft_temperature": 0.4}
    assert spec.decoding == Decoding(sample=True, warpers_once=True, **sampling)
    assert (spec.stop, spec.seed, spec.max_new_tokens, spec.confirm_s) == (("\n\n", "User:"), 7, 128, 0.0)
    assert (spec.device, spec.dtype) == ("cuda:0", "bfloat16")
    assert "2 stop strings, seed 7, 0 s for the confirmation" in texts(app)


@pytest.mark.usefixtures("planner")
def test_a_wrong_value_stays_where_it_is_and_so_does_all_else():
    app = open_box(demo.TARGET)
    app.segmented_control(key="decoding").set_value("Sampling").run()
    app.number_input(key="top_p").set_value(0.8)
    app.number_input(key="temperature").set_value(-1.0)
    assert "Temperature -1 cannot be used" in ok(app.run()).error[0].value.replace("\\", "")
    assert not app.session_state["found"].ready
    assert app.number_input(key="temperature").value == -1.0
    app.number_input(key="temperature").set_value(1.2)
    assert spec_of(ok(app.run())).decoding == Decoding(sample=True, temperature=1.2, top_p=0.8)
    app.segmented_control(key="decoding").set_value("Greedy").run()
    app.segmented_control(key="decoding").set_value("Sampling").run()
    assert spec_of(ok(app)).decoding.temperature == 1.2, "after greedy in between"


@pytest.mark.usefixtures("planner", "models")
def test_a_template_is_applied_unless_switched_off(settings: Settings):
    target = resolve("folder:padded", settings)
    app = until_known(open_box(target))
    assert spec_of(app).chat_template
    app.toggle(key="chat_template folder:padded").set_value(False)
    assert not spec_of(ok(app.run())).chat_template
    silent = until_known(open_box(resolve("folder:permuted", settings)))
    assert not spec_of(silent).chat_template
    assert silent.toggle(key="no_chat_template").disabled


@pytest.mark.usefixtures("planner", "models")
def test_the_models_own_sampling_is_offered(settings: Settings):
    app = until_known(open_box(resolve("folder:padded", settings)))
    app.segmented_control(key="decoding").set_value("Sampling").run()
    assert app.button(key="own_decoding").label == "Take the model's own: temperature 0.6, top-p 0.95"
    ok(app.button(key="own_decoding").click().run())
    assert spec_of(app).decoding == Decoding(sample=True, temperature=0.6, top_k=50, top_p=0.95), "an unset top-k is the library's 50"


@pytest.mark.usefixtures("planner")
def test_a_target_that_cannot_be_read_says_so(settings: Settings):
    app = until_known(open_box(ModelRef(source="folder", name="gone", path=str(settings.model_roots[0] / "gone"))))
    assert "could not be read" in texts(app)
    assert not spec_of(app).chat_template


def test_words_say_what_changes_the_result():
    spec = synthetic.spec(PROMPTS)
    assert decoding_box.words(spec) == "greedy"
    more = spec.model_copy(update={"decoding": synthetic.SAMPLING, "chat_template": True, "stop": ("\n",)})
    assert decoding_box.words(more) == "temperature 0.7, top-p 0.9, chat template, 1 stop string"
