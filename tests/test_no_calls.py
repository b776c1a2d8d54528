"""The program calls no other machine by itself: the fence around every test's server notices, and a real run inside it calls nobody."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.server import FENCE

ROOT = Path(__file__).resolve().parents[1]
CALLS = """
import socket, urllib.request
for call in (
    lambda: urllib.request.urlopen("http://example.com", timeout=2),
    lambda: socket.create_connection(("93.184.216.34", 80), timeout=2),
    lambda: socket.create_connection(("huggingface.co", 443), timeout=2),
):
    try:
        call()
    except OSError:
        pass
    else:
        raise SystemExit("it was let through")
"""
RUN = """
import sys
from pathlib import Path
from core import demo
from core.runs import Prompt, RunSpec
from core.settings import Settings
from core.plan.describe import describe
from core.sink import StoreSink
from core.store import open_store
from core.worker.measure import measure

settings = Settings(data=Path(sys.argv[1]), threads=1)
describe({"model": "demo:target"}, settings)
store = open_store(settings)
spec = RunSpec(target=demo.TARGET, draft=demo.DRAFT, prompts=(Prompt(text="def add(a, b):"),), max_new_tokens=4, extent="smoke")
run_id = store.add(spec)
store.claim(run_id, "here", 1)
sink = StoreSink(store, run_id)
measure(spec, sink, settings)
sink.flush()
print(len(store.get(run_id).generations))
"""


def inside(code: str, log: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python inside the fence; calls go into `log`."""
    environment = os.environ | {"DRAFTGAUGE_TEST_FENCE": str(log), "PYTHONPATH": os.pathsep.join((FENCE, str(ROOT)))}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_the_fence_refuses_and_remembers(tmp_path: Path):
    done = inside(CALLS, tmp_path / "calls")
    assert done.returncode == 0, done.stderr + done.stdout
    assert (tmp_path / "calls").read_text().split() == ["example.com", "93.184.216.34"]


def test_reading_and_running_a_pair_calls_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    done = inside(RUN, tmp_path / "calls", str(tmp_path / "data"))
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) > 0
    assert not (tmp_path / "calls").exists()
