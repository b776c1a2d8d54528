"""The settings to deploy on a run's page: one engine at a time, in the address, and the way to switch it off."""

import pytest

from core.store import Store
from tests import synthetic
from tests.apps import ok, open_page, texts

pytestmark = pytest.mark.usefixtures("app_site")


def test_every_engine_has_its_settings():
    app = open_page("measure", run="example")
    script = next(code.value for code in app.code if "AutoModelForCausalLM" in code.value)
    assert "draft.generation_config.num_assistant_tokens = 20" in script
    assert "draft.generation_config.assistant_confidence_threshold = 0.4" in script
    assert "Draftgauge's tests run such scripts on the demo pair as they stand" in texts(app)
    assert "To switch it off, leave out assistant" in texts(app)
    app = open_page("measure", run="example", engine_to_deploy="vLLM")
    assert any(code.value.startswith("vllm serve /models/big_model --dtype float32 --speculative-config") for code in app.code)
    assert "no setting for the library's default" in texts(app)
    assert "Read, not run here" in texts(app)
    app = open_page("measure", run="example", engine_to_deploy="TGI")
    assert "It has no option for a draft model" in texts(app)
    assert not any("text-generation-launcher" in code.value for code in app.code)


def test_an_engine_nobody_knows_falls_back_to_the_first():
    app = ok(open_page("measure", run="example", engine_to_deploy="<b>"))
    assert any("AutoModelForCausalLM" in code.value for code in app.code)


def test_leave_it_off_gives_plain_settings(store: Store):
    app = open_page("measure", run=synthetic.keep(store, synthetic.run(c=0.60, best=1)))
    assert "These settings leave drafting off, as recommended" in texts(app)
    script = next(code.value for code in app.code if "AutoModelForCausalLM" in code.value)
    assert "assistant_model" not in script
    assert "To switch it off" not in texts(app)
