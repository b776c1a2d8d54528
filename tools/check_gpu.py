"""Prove the path over a CUDA card in under ten minutes: the whole product, through its bench, its worker and its store, and what only a card has.

    python -m tools.check_gpu                       the first CUDA card
    python -m tools.check_gpu --device cpu --small  every part that means something on a CPU, in tiny shapes

Each part has a time of its own, and one that fails stops no other. Prints a line for each point, and two tables for
`benchmarks/README.md`; the exit code is 1 when a point failed. What needs torch in this process's stead is in
`tools.check_gpu_inside`, run as a process of its own. Times in seconds.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from core import columns as col  # noqa: E402
from core import demo, shapes  # noqa: E402
from core.analysis import Analysis, analyse  # noqa: E402
from core.bench import Bench  # noqa: E402
from core.measured import DeviceInfo  # noqa: E402
from core.policies import FixedGamma, Plain  # noqa: E402
from core.runs import Lane, ModelRef, Run, RunSpec  # noqa: E402
from core.settings import Settings  # noqa: E402
from core.store import FILE_NAME, Store  # noqa: E402

CONFIGS = json.loads((ROOT / "tools" / "gpu_configs.json").read_text(encoding="utf-8"))
FINAL = {"done", "failed", "cancelled", "interrupted"}
CANCEL_S = 2.0
POLL_S = 0.02
TINY: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 512,
}


class Failed(Exception):
    """A point that does not hold; its text says why."""


class Skipped(Exception):
    """A point that means nothing on this device; its text says why."""


@dataclass(frozen=True)
class Point:
    """What came of one part."""

    name: str
    state: str
    said: str
    took_s: float


@dataclass
class Product:
    """The product as a server has it: a store, and a bench that starts the device's worker. configs: where model folders are written."""

    device: str
    small: bool
    store: Store
    bench: Bench
    configs: Path
    facts: dict[str, str] = field(default_factory=dict)
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def run(self, spec: RunSpec, within_s: float) -> Run:
        """The run once it has ended well. Raises Failed with its error, or when it takes too long; it is cancelled then."""
        run_id = self.bench.submit(spec)
        self.until(run_id, FINAL, within_s)
        run = self.store.get(run_id, traces=True)
        if run.status != "done":
            raise Failed(f"the run ended {run.status}: {run.error}")
        return run

    def until(self, run_id: str, states: set[str], within_s: float) -> float:
        """Wait for one of these states; how long it took. Raises Failed when it takes too long."""
        began = time.monotonic()
        while self.store.status(run_id) not in states:
            if time.monotonic() - began > within_s:
                self.bench.cancel(run_id)
                raise Failed(f"it was not {' or '.join(sorted(states))} after {within_s:.0f} s, and was cancelled")
            time.sleep(POLL_S)
        return time.monotonic() - began


def main(arguments: Sequence[str] | None = None) -> int:
    """Every part, its points and tables; 1 when one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--small", action="store_true", help="tiny shapes and few prompts")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data=Path(folder) / "data", model_roots=[Path(folder) / "configs"])
        settings.data.mkdir()
        store = Store(settings.data / FILE_NAME)
        bench = Bench(settings, store, prewarm=(given.device,))
        product = Product(given.device, given.small, store, bench, settings.model_roots[0])
        try:
            points = [_point(name, budget_s, part, product) for name, budget_s, part in PARTS]
        finally:
            bench.close()
            store.close()
    print("\n".join(report(points, product)))
    return int(any(point.state == "FAIL" for point in points))


def report(points: Sequence[Point], product: Product) -> list[str]:
    """Two Markdown tables, and what they were taken on."""
    where = ", ".join(f"{name} {value}" for name, value in product.facts.items())
    lines = ["", f"Checked with `python -m tools.check_gpu` on {where or product.device}.", "", "| point | result | what was found | took |"]
    lines += ["|---|---|---|---|", *(f"| {each.name} | {each.state} | {each.said} | {each.took_s:.0f} s |" for each in points)]
    if product.rows:
        lines += ["", "| pair | cached tokens | plain step | c (d1) | v(5) | v(9) |", "|---|---|---|---|---|---|"]
        lines += [f"| {' | '.join(row)} |" for row in product.rows]
    return lines


def _point(name: str, budget_s: float, part: Callable[[Product, float], str], product: Product) -> Point:
    """Whatever a part raises is its result: one that fails stops no other."""
    began = time.monotonic()
    try:
        state, said = "PASS", part(product, budget_s)
    except Skipped as error:
        state, said = "SKIP", str(error)
    except Exception as error:
        state, said = "FAIL", f"{'' if isinstance(error, Failed) else type(error).__name__ + ': '}{error}"
    point = Point(name, state, said.replace("|", "/").replace("\n", " "), time.monotonic() - began)
    print(f"{point.state}  {point.name}: {point.said} ({point.took_s:.1f} s)", flush=True)
    return point


def worker_starts(product: Product, budget_s: float) -> str:
    """The worker starts, and finds the device."""
    began = time.monotonic()
    while not (found := product.store.devices()):
        if time.monotonic() - began > budget_s:
            raise Failed(f"the worker of {product.device} has not recorded its devices after {budget_s:.0f} s")
        time.sleep(POLL_S)
    device = next((each for each in found if each.id == product.device), None)
    if device is None:
        raise Failed(f"there is no {product.device} among {', '.join(each.id for each in found)}")
    product.facts |= {"device": device.name}
    return f"{device.name}, {_memory(device)}"


def demo_measured(product: Product, budget_s: float) -> str:
    """The bundled pair measured in full, through the bench."""
    spec = _demo(product, prompts=2 if product.small else 8, tokens=16 if product.small else 40)
    run = product.run(spec.model_copy(update={"confirm_s": 1.0 if product.small else 20.0}), budget_s)
    found = analyse(run)
    if not isinstance(found, Analysis) or run.environment is None:
        raise Failed(f"nothing can be said of it: {found}")
    where, costs = run.environment, found.costs
    product.facts |= {"torch": where.torch, "Transformers": where.transformers, "attention": where.attention}
    different = [g for g in run.generations if g.equal is False]
    if different and not run.differences:
        raise Failed(f"{len(different)} greedy answers differ from plain decoding in float32, and nobody looked into why")
    if any(each.near_tie is False for each in run.differences):
        raise Failed(f"{len(run.differences)} greedy answers differ from plain decoding in float32, not at near ties")
    memory = "" if where.target_peak_bytes is None else f", peak of the target alone {where.target_peak_bytes / 1e6:.0f} MB"
    best = found.row(found.advice.policy)
    return (
        f"plain step {costs.plain_step_s * 1000:.2f} ms ({where.plain}), c {costs.c:.3f}, v(5) {float(costs.verify_up_to(4)[-1]):.2f}, "
        f"h {costs.round_overhead:.2f}, best {best[col.SETTING]} {found.advice.speedup:.2f}x, {len(different)} answers parted{memory}"
    )


def shape(name: str) -> Callable[[Product, float], str]:
    """Passes of one of the public pairs, built from its configurations."""

    def part(product: Product, budget_s: float) -> str:
        entry = next(each for each in CONFIGS["pairs"] if each["name"] == name)
        target, draft = (_folder(product, entry[role], role) for role in ("target", "draft"))
        spec = RunSpec(
            target=target,
            draft=draft,
            prompts=(),
            device=product.device,
            dtype="float32" if product.device == "cpu" else "bfloat16",
            extent="shapes",
            random_weights=True,
            batches=(1,),
            cache_lengths=(32,) if product.small else (512, 1792),
        )
        found = shapes.results(product.run(spec, budget_s))
        for cell in found.timed:
            assert cell.costs is not None
            step, verify = f"{cell.costs.plain_step_s * 1000:.2f} ms", (f"{float(cell.costs.verify[width]):.2f}" for width in (5, 9))
            product.rows.append((name, f"{cell.cache_tokens:,}", step, f"{cell.c:.3f}", *verify))
        missing = [cell.problem for cell in found.cells if cell.costs is None]
        if missing:
            raise Failed(f"not every length was timed: {missing[0]}")
        if not all(cell.c is not None and 0 < cell.c < 2 for cell in found.timed):
            raise Failed("a draft's step costs more than two of its target, so the clock is wrong")
        return f"c {found.base.c:.3f}, v(5) {found.base.verify:.2f}, plain step {found.costs.plain_step_s * 1000:.2f} ms"

    return part


def cancelled(product: Product, budget_s: float) -> str:
    """A run is cancelled inside a pass or between two; the worker goes on."""
    spec = _demo(product, prompts=4, tokens=400).model_copy(update={"seed": 7})
    run_id = product.bench.submit(spec)
    began = time.monotonic()
    while product.store.get(run_id, results=False).progress.stage != "plain":
        if time.monotonic() - began > budget_s or product.store.status(run_id) in FINAL:
            raise Failed("it never came to write answers")
        time.sleep(POLL_S)
    product.bench.cancel(run_id)
    took_s = product.until(run_id, FINAL, CANCEL_S)
    if product.store.status(run_id) != "cancelled":
        raise Failed(f"the run ended {product.store.status(run_id)}")
    return f"{took_s:.2f} s until it was cancelled"


def side_by_side(product: Product, budget_s: float) -> str:
    """Plain and assisted beside each other, streamed."""
    lanes = (Lane(policy=Plain()), Lane(policy=FixedGamma(4)))
    spec = _demo(product, prompts=1, tokens=16 if product.small else 60)
    run = product.run(spec.model_copy(update={"extent": "side_by_side", "lanes": lanes, "order": (1, 0), "confirm_s": 0.0}), budget_s)
    plain, assisted = sorted(run.generations, key=lambda each: each.lane)
    steps = [step for step in run.steps if step.lane == 1]
    if sum(len(step.tokens) for step in steps) != assisted.tokens:
        raise Failed("the streamed rounds do not hold the whole answer")
    shared = sum(step.draft_s + step.verify_s for step in steps) / assisted.total_s
    if not 0.2 < shared <= 1.01:
        raise Failed(f"draft and target together are said to have taken {shared:.0%} of the call")
    return f"plain {plain.total_s:.2f} s, gamma 4 {assisted.total_s:.2f} s in {len(steps)} rounds, {shared:.0%} of it in passes"


def inside(part: str) -> Callable[[Product, float], str]:
    """A part of `tools.check_gpu_inside`, in a process of its own that is ended when its time is over."""

    def run(product: Product, budget_s: float) -> str:
        if product.device == "cpu":
            raise Skipped(ON_A_CARD_ONLY[part])
        command = [sys.executable, "-m", "tools.check_gpu_inside", part, "--device", product.device, *(["--small"] if product.small else [])]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=budget_s)
        said = (done.stdout.strip().splitlines() or [""])[-1]
        if done.returncode != 0:
            raise Failed(said if said.startswith("FAIL ") else (done.stderr.strip().splitlines() or ["it ended without a word"])[-1][:300])
        return said

    return run


def _demo(product: Product, prompts: int, tokens: int) -> RunSpec:
    return RunSpec(target=demo.TARGET, draft=demo.DRAFT, prompts=demo.prompts()[:prompts], max_new_tokens=tokens, device=product.device)


def _folder(product: Product, name: str, role: str) -> ModelRef:
    """A folder with this public model's config.json and nothing else; a tiny one of its kind where small."""
    config = CONFIGS["configs"][name]["config"] | (TINY if product.small else {})
    if product.small and role == "draft":
        config["num_hidden_layers"] = 1
    folder = product.configs / name.rpartition("/")[2]
    folder.mkdir(parents=True, exist_ok=True)
    architecture = {"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM"}[config["model_type"]]
    (folder / "config.json").write_text(json.dumps({**config, "architectures": [architecture]}), encoding="utf-8")
    return ModelRef(source="folder", name=folder.name, path=str(folder))


def _memory(device: DeviceInfo) -> str:
    known = [f"{count / 2**30:.1f} GiB {what}" for count, what in ((device.memory_bytes, "in all"), (device.free_bytes, "free")) if count]
    return ", ".join(known) or "memory not known"


ON_A_CARD_ONLY = {
    "memory": "filling the memory of a CPU would end other programs",
    "clocks": "a CPU has no events, and its calls end when they return",
    "plain": "the library does not compile plain decoding on a CPU",
}
PARTS: tuple[tuple[str, float, Callable[[Product, float], str]], ...] = (
    ("worker starts", 50, worker_starts),
    ("demo pair measured", 100, demo_measured),
    ("cancelled inside a pass", 20, cancelled),
    ("side by side", 40, side_by_side),
    *((f"shapes of {each['name']}", 50, shape(each["name"])) for each in CONFIGS["pairs"]),
    ("out of memory, then measured again", 50, inside("memory")),
    ("events beside synchronised clocks", 40, inside("clocks")),
    ("plain, static and compiled beside dynamic", 100, inside("plain")),
)


if __name__ == "__main__":
    sys.exit(main())
