"""A draft on another device than its target: the library and the worker move what they must, and everything comes out as on one device.

On devices that are not there (`tests.elsewhere`), in a process of its own, because PyTorch does not forget a device.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def came(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.two_devices", str(tmp_path_factory.mktemp("pair"))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_every_way_to_draft_writes_the_same_text_in_the_same_rounds(came):
    assert came["two"]["calls"] == came["one"]["calls"]
    assert len(came["one"]["calls"]["fixed"][1]) < len(came["one"]["calls"]["plain"][1]), "the draft had a part in it"


@pytest.mark.parametrize("how", ["greedy", "sampled"])
def test_a_measurement_finds_the_same_traces(came, how: str):
    one, two = came["one"][how], came["two"][how]
    assert (one["devices"], two["devices"]) == ([["cpu"], ["cpu"]], [["elsewhere:0"], ["elsewhere:1"]])
    assert two["traces"] == one["traces"]
    assert set(two["equal"]) == ({True} if how == "greedy" else {None})


def test_tensors_on_two_devices_never_meet(tmp_path):
    """The proof itself: what is not moved is refused, in words like PyTorch's."""
    code = (
        "import torch\nfrom tests.elsewhere import elsewhere\n"
        "with elsewhere() as (one, two):\n"
        "    assert (torch.ones(2, device=one) + 1).tolist() == [2.0, 2.0]\n"
        "    assert torch.ones(2, device=one).to(two).device == torch.device(two)\n"
        "    torch.ones(2, device=one) + torch.ones(2, device=two)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "same device" in done.stderr
    assert "elsewhere:0 and elsewhere:1" in done.stderr
