"""The checks of style, types and architecture: part of the one test command."""

import subprocess
import sys
from pathlib import Path

import pytest

import core

ROOT = Path(__file__).resolve().parents[1]
PYTHON = sys.executable
CHECKS = {
    "ruff check": [PYTHON, "-m", "ruff", "check", "--no-cache"],
    "ruff format": [PYTHON, "-m", "ruff", "format", "--check", "--no-cache"],
    "pyright": [PYTHON, "-m", "pyright", "--pythonpath", PYTHON, "--warnings"],
    "import-linter": [str(Path(PYTHON).with_name("lint-imports")), "--no-cache"],
}


@pytest.mark.parametrize("name", CHECKS)
def test_check_passes(name: str):
    done = subprocess.run(CHECKS[name], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_module_of_core_has_one_place_on_its_map():
    _, _, places = (core.__doc__ or "").partition("Where to look:")
    named = [word for line in places.splitlines() for word in line[24:].split()]
    there = [each.stem for each in (ROOT / "core").iterdir() if each.suffix == ".py" or each.is_dir()]
    assert sorted(named) == sorted(name for name in there if not name.startswith("__"))
