"""Names never become code in a pair's script, and it says what its service does. That it runs as it stands is in `test_deploy`."""

import ast

import pytest

from core.decoding import Decoding
from core.policies import FixedGamma
from core.runs import ModelRef
from core.script import Service, script


@pytest.mark.parametrize("path", ['a"); import os; os._exit(1) #', "it's", "a\nb", "ä/ö"])
def test_names_stay_names(path: str):
    ref = ModelRef(source="hub", name=path, path=path, revision="abc")
    tree = ast.parse(script(Service(ref, ref, FixedGamma(4), device=path, stop=(path,))))
    imports = [node.names[0].name for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert imports == ["sys", "AutoModelForCausalLM"]
    assert sum(isinstance(node, ast.Constant) and node.value == path for node in ast.walk(tree)) == 6
    assert sum(isinstance(node, ast.keyword) and node.arg == "revision" for node in ast.walk(tree)) == 3


def options(**how: object) -> dict[str, str]:
    """The arguments of `generate` in the script, as they are written there."""
    ref = ModelRef(source="gguf", name="x.gguf", path="/models/x.gguf")
    code = script(Service(ref, ref, FixedGamma(2), **how))  # pyright: ignore[reportArgumentType]
    assert code.count('from_pretrained("/models", gguf_file="x.gguf"') == 3
    tree = next(node.value for node in ast.parse(code).body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "options")
    assert isinstance(tree, ast.Dict)
    return {ast.unparse(key).strip("'"): ast.unparse(value) for key, value in zip(tree.keys, tree.values, strict=True) if key}


def test_greedy_says_so_and_sampling_names_every_setting():
    assert options(max_new_tokens=7)["do_sample"] == "False"
    sampled = options(decoding=Decoding(sample=True, temperature=0.5, repetition_penalty=1.1))
    assert {name: sampled[name] for name in ("do_sample", "temperature", "top_k", "top_p", "repetition_penalty")} == {
        "do_sample": "True",
        "temperature": "0.5",
        "top_k": "0",
        "top_p": "1.0",
        "repetition_penalty": "1.1",
    }


def test_warpers_that_act_once_are_given_from_outside_in_the_library_s_order():
    once = options(decoding=Decoding(sample=True, temperature=0.5, top_k=9, top_p=0.8, warpers_once=True))
    assert once["logits_processor"] == "LogitsProcessorList([TemperatureLogitsWarper(0.5), TopKLogitsWarper(9), TopPLogitsWarper(0.8)])"
    assert (once["temperature"], once["top_k"], once["top_p"]) == ("1.0", "0", "1.0")
