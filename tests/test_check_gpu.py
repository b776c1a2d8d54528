"""`tools.check_gpu` on a CPU, in tiny shapes: every part that means something there passes, and a part that fails is told and stops no other."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools import check_gpu

ROOT = Path(__file__).resolve().parents[1]
ON_A_CARD = {"out of memory, then measured again", "events beside synchronised clocks", "plain, static and compiled beside dynamic"}


def test_every_part_passes_on_a_cpu_or_says_why_it_means_nothing_there():
    command = [sys.executable, "-m", "tools.check_gpu", "--device", "cpu", "--small"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    states = {name: line[:4] for line in done.stdout.splitlines() for name, _, _ in check_gpu.PARTS if line[6:].startswith(f"{name}: ")}
    assert states == {name: "SKIP" if name in ON_A_CARD else "PASS" for name, _, _ in check_gpu.PARTS}
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ") and " ms |" in line and line.count("|") == 7]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [each["name"] for each in check_gpu.CONFIGS["pairs"]]


def test_all_parts_together_stay_below_ten_minutes():
    assert sum(budget_s for _, budget_s, _ in check_gpu.PARTS) < 600


@pytest.mark.parametrize("error", [check_gpu.Failed("it is wrong"), ValueError("a | b\nc")])
def test_a_part_that_fails_is_a_point_with_its_reason(error: Exception, capsys: pytest.CaptureFixture[str]):
    def part(_product: object, _budget_s: float) -> str:
        raise error

    point = check_gpu._point("this", 1, part, None)  # pyright: ignore[reportArgumentType]
    assert (point.state, point.said) == ("FAIL", "it is wrong" if isinstance(error, check_gpu.Failed) else "ValueError: a / b c")
    assert capsys.readouterr().out.startswith("FAIL  this: ")


def test_the_public_configs_build_what_their_names_say():
    """Parameters by hand from the fields: embeddings, attention, feed-forward, norms left out (well below a thousandth)."""
    billions = {"SmolLM-1.7B": 1.71, "SmolLM-135M": 0.1345, "Llama-3.1-8B": 8.03, "Llama-3.2-1B": 1.236, "Qwen3-8B": 8.19, "Qwen3-0.6B": 0.596}
    for name, entry in check_gpu.CONFIGS["configs"].items():
        config = entry["config"]
        width, head = config["hidden_size"], config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
        attention = 2 * width * head * (config["num_attention_heads"] + config["num_key_value_heads"])
        layer = attention + 3 * width * config["intermediate_size"]
        embedding = config["vocab_size"] * width * (1 if config["tie_word_embeddings"] else 2)
        counted = config["num_hidden_layers"] * layer + embedding
        assert counted / 1e9 == pytest.approx(billions[name.rpartition("/")[2]], rel=0.003), name
