"""The README's commands and settings are the real ones."""

import json
import os
import re
from pathlib import Path

from core.settings import Settings
from core.ui.frame import PAGES

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_setting_is_in_the_readme_and_no_other():
    documented = set(re.findall(r"`DRAFTGAUGE_([A-Z_]+)` \|", README))
    assert documented == {name.upper() for name in Settings.model_fields}


def test_the_defaults_in_the_readme_are_the_real_ones():
    written = dict(re.findall(r"^\| `DRAFTGAUGE_([A-Z_]+)` \| (.*?) \|", README, re.MULTILINE))
    defaults = {name.upper(): field.default for name, field in Settings.model_fields.items() if name not in ("data", "threads")}
    assert {name: written[name].strip("`") for name in defaults} == {name: json.dumps(value) for name, value in defaults.items()}
    assert written["DATA"] == "the user's data folder"
    assert written["THREADS"] == "cores - 1"
    assert Settings.model_fields["threads"].default == max(1, len(os.sched_getaffinity(0)) - 1)


def test_ci_runs_exactly_the_test_command_of_the_readme():
    command = README.split("## Develop")[1].split("```")[1].strip()
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").rstrip().endswith(command)


def test_every_page_is_in_the_readme_under_its_address_and_no_other():
    documented = re.findall(r"^\| \*\*([^*]+)\*\* `(/\w*)` \|", README, re.MULTILINE)
    assert documented == [(title, "/" if name == "start" else f"/{name}") for name, (title, _icon) in PAGES.items()]


def test_every_file_that_the_readme_links_or_names_exists():
    named = set(re.findall(r"\]\((?!https?:)([^)#]+)\)", README)) | set(re.findall(r"`((?:core|tools|benchmarks)/[\w./-]+\.\w+)`", README))
    assert {"tools/pictures/gamma.png", "core/schema/run-v1.json", "core/schema/tables.md"} <= named
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_the_start_command_names_files_that_exist():
    command = README.split("## Start")[1].split("```")[1].strip()
    names = re.findall(r"[\w-]+\.(?:txt|py)", command)
    assert names == ["requirements.txt", "app.py"]
    assert all((ROOT / name).is_file() for name in names)


def test_requirements_are_pinned():
    for name in ("requirements.txt", "requirements-dev.txt"):
        for line in (ROOT / name).read_text(encoding="utf-8").split():
            assert "==" in line or line in {"-r", "requirements.txt"}, line
