"""The web process stays small: no page imports torch or transformers, and none needs 250 MB."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MOST_MB = 250
SCRIPT = """
import resource, sys
from core.ui import desk
desk.PREWARM = ()  # this process is looked at, not the worker it would start
from streamlit.testing.v1 import AppTest
page = AppTest.from_file(sys.argv[1], default_timeout=60)
for name, value in (pair.split("=") for pair in sys.argv[2:]):
    page.query_params[name] = value
page.run()
assert not page.exception, page.exception
heavy = sorted({"torch", "transformers", "tokenizers"} & set(sys.modules))
assert not heavy, heavy
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.parametrize(
    "page", ["app.py", "pages/start.py", "pages/measure.py", "pages/gamma.py", "pages/gamma.py run=example", "pages/measure.py run=example"]
)
def test_page_runs_without_torch_and_in_little_memory(page: str, tmp_path: Path):
    environment = os.environ | {"DRAFTGAUGE_DATA": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *page.split()], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) < MOST_MB
