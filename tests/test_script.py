"""The script for a pair runs as it stands, and names never become code."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from core import demo
from core.runs import ModelRef
from core.script import script

RUN = "\nprint(len(output[0]) - inputs['input_ids'].shape[1], draft.generation_config.num_assistant_tokens)\n"


def test_it_runs_as_it_stands(tmp_path: Path):
    file = tmp_path / "pair.py"
    file.write_text(script(demo.TARGET, demo.DRAFT, 3) + RUN)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("def add(a, b):")
    tokens, gamma = map(int, done.stdout.splitlines()[-1].split())
    assert 1 <= tokens <= 40
    assert gamma == 3


@pytest.mark.parametrize("path", ['a"); import os; os._exit(1) #', "it's", "a\nb", "ä/ö"])
def test_names_stay_names(path: str):
    ref = ModelRef(source="hub", name=path, path=path, revision="abc")
    tree = ast.parse(script(ref, ref, 4))
    assert [node.names[0].name for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)] == ["AutoModelForCausalLM"]
    assert sum(isinstance(node, ast.Constant) and node.value == path for node in ast.walk(tree)) == 3
    assert sum(isinstance(node, ast.keyword) and node.arg == "revision" for node in ast.walk(tree)) == 3
