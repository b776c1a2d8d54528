"""How long a full prediction takes: 64 prompts of 256 tokens under 60 policies, with intervals, on one core.

    python -m benchmarks.replay_speed [--cpu-clock]

Once for greedy answers and once for sampled ones, whose rounds are expected values or draws. Traces are drawn at random with a fixed
seed, tails included; the prices are made up. Reported: best and median of several repetitions, in seconds. The goal is under one
second. Reading a run from the store is not part of it.
"""

import statistics
import sys
import time
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from benchmarks.cpu_clock import count_cpu_time
from core.decoding import Decoding
from core.measured import Generation, PassTimes, Sample
from core.policies import Confidence, FixedGamma, Heuristic, Oracle, Plain, Policy, PromptLookup
from core.predict import THRESHOLDS, predict, recommend
from core.replay import rounds_drawn
from core.runs import ModelRef, Prompt, Run, RunSpec
from core.trace import LONGEST_TAIL, Lookup, PromptTrace, Sampled, Tails

PROMPTS, TOKENS, STEP_S, REPEATS = 64, 256, 0.01, 5


def trace(random: np.random.Generator, *, sampled: bool) -> PromptTrace:
    """One prompt at about alpha 0.7; greedy with a tail after every wrong token."""
    right = random.random(TOKENS) < 0.7
    wrong = np.flatnonzero(~right)
    candidates = random.integers(0, 21, TOKENS)
    chance = np.clip(random.beta(1.4, 0.6, TOKENS), 0, 1).astype(np.float32)
    return PromptTrace(
        prompt_tokens=150,
        answer=np.arange(TOKENS, dtype=np.int32),
        pieces=("",) * TOKENS,
        ended="length",
        budget=TOKENS,
        accept=chance if sampled else right.astype(np.float32),
        confidence=random.random(TOKENS, dtype=np.float32),
        draft_choice=np.zeros(TOKENS, dtype=np.int32),
        draft_eos=np.zeros(TOKENS, dtype=np.bool_),
        tails=None
        if sampled
        else Tails(wrong.astype(np.int32), random.random((len(wrong), LONGEST_TAIL), dtype=np.float32), np.full(len(wrong), -1, dtype=np.int16)),
        lookup={2: Lookup(candidates.astype(np.int16), (candidates * random.random(TOKENS)).astype(np.int16))},
        sampled=drawn(random, chance) if sampled else None,
    )


def drawn(random: np.random.Generator, chance: NDArray[np.float32]) -> Sampled:
    """What sampling needs besides."""
    stops = {threshold: (threshold * random.random(TOKENS)).astype(np.float32) for threshold in THRESHOLDS}
    return Sampled(p=chance, overlap=chance, stop_rejected=stops, greedy_hit=chance > 0.5)


def run(*, sampled: bool) -> Run:
    """A run with that many prompts, passes of plausible widths, and one calibration block per gamma."""
    random = np.random.default_rng(0)
    traces = tuple(trace(random, sampled=sampled) for _ in range(PROMPTS))
    widths = (1, 2, 3, 4, 5, 6, 7, 9, 13, 21)
    passes = PassTimes(
        cache_tokens=280,
        target={n: Sample(median_s=STEP_S * (0.97 + 0.03 * n), iqr_s=0.0, n=9) for n in widths},
        draft={n: Sample(median_s=STEP_S * 0.1, iqr_s=0.0, n=9) for n in (1, 2)},
        target_one_s=dict.fromkeys(widths, STEP_S),
        target_one_beside_draft_s={1: STEP_S, 2: STEP_S},
    )
    model = ModelRef(source="folder", name="none", path="none")
    prompts = tuple(Prompt(text=str(number)) for number in range(PROMPTS))
    spec = RunSpec(target=model, draft=model, prompts=prompts, max_new_tokens=TOKENS, decoding=Decoding(sample=sampled))
    generations = [g for block, gamma in enumerate((1, 4, 12)) for g in block_of(traces[0], gamma, block)]
    return Run(
        id="benchmark",
        spec=spec,
        created=datetime.now(UTC),
        passes=(passes,),
        draft_prefill_s=(0.002,) * PROMPTS,
        generations=tuple(generations),
        traces=traces,
    )


def block_of(prompt: PromptTrace, gamma: int, block: int) -> list[Generation]:
    """A plain and an assisted call on the first prompt; the assisted one takes 1.3 steps per round and 0.15 per drafted token."""
    policy = FixedGamma(gamma)
    rounds = rounds_drawn(prompt, policy)
    emitted, drafted = tuple(r.emitted for r in rounds), tuple(r.drafted for r in rounds)
    assisted_s = 0.05 + STEP_S * (1.3 * len(rounds) + 0.15 * sum(drafted))
    call = Generation(
        purpose="calibration", block=block, prompt=0, policy=Plain(), tokens=TOKENS, total_s=0.03 + STEP_S * (TOKENS - 1), first_token_s=0.03
    )
    return [call, call.model_copy(update={"policy": policy, "total_s": assisted_s, "rounds": emitted, "drafted": drafted})]


def policies() -> list[Policy]:
    """Sixty ways to draft."""
    chosen: list[Policy] = [Plain(), Oracle(), Heuristic(), Heuristic(persistent=False), PromptLookup(10)]
    chosen += [FixedGamma(gamma) for gamma in range(1, 21)]
    return chosen + [Confidence(threshold, limit) for limit in (4, 8, 12, 16, 20) for threshold in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)]


def main() -> None:
    """Print the times."""
    if "--cpu-clock" in sys.argv:
        count_cpu_time()
    settings = policies()
    for sampled in (False, True):
        measured, times_s = run(sampled=sampled), list[float]()
        for _ in range(REPEATS):
            began = time.perf_counter()
            recommend(predict(measured, settings))
            times_s.append(time.perf_counter() - began)
        best_s, median_s = min(times_s), statistics.median(times_s)
        kind = "sampled" if sampled else "greedy"
        print(f"{kind}: {PROMPTS} prompts x {TOKENS} tokens x {len(settings)} policies: best {best_s:.2f} s, median {median_s:.2f} s of {REPEATS}")


if __name__ == "__main__":
    main()
