"""How long a full prediction takes: 64 prompts of 256 tokens under 60 policies, with intervals, on one core.

Run as `python -m benchmarks.replay_speed`. Traces are drawn at random with a fixed seed, tails
included; the prices are made up. Reported: best and median of several repetitions, in seconds. The
goal is under one second. Reading a run from the store is not part of it.
"""

import statistics
import time
from datetime import UTC, datetime

import numpy as np

from core.policies import Confidence, FixedGamma, Heuristic, Oracle, Plain, Policy, PromptLookup
from core.predict import predict, recommend
from core.replay import replay_prompt, rounds_of
from core.runs import Generation, ModelRef, PassTimes, Prompt, Run, RunSpec, Sample
from core.trace import LONGEST_TAIL, Lookup, PromptTrace, Tails

PROMPTS, TOKENS, STEP_S, REPEATS = 64, 256, 0.01, 5


def trace(random: np.random.Generator) -> PromptTrace:
    """One prompt at about alpha 0.7 with a tail after every wrong token."""
    right = random.random(TOKENS) < 0.7
    wrong = np.flatnonzero(~right)
    candidates = random.integers(0, 21, TOKENS)
    return PromptTrace(
        prompt_tokens=150,
        answer=np.arange(TOKENS, dtype=np.int32),
        pieces=("",) * TOKENS,
        ended="length",
        budget=TOKENS,
        accept=right.astype(np.float32),
        confidence=random.random(TOKENS, dtype=np.float32),
        draft_choice=np.zeros(TOKENS, dtype=np.int32),
        draft_eos=np.zeros(TOKENS, dtype=np.bool_),
        tails=Tails(wrong.astype(np.int32), random.random((len(wrong), LONGEST_TAIL), dtype=np.float32), np.full(len(wrong), -1, dtype=np.int16)),
        lookup={2: Lookup(candidates.astype(np.int16), (candidates * random.random(TOKENS)).astype(np.int16))},
    )


def run() -> Run:
    """A run with that many prompts, passes of plausible widths, and one calibration block per gamma."""
    random = np.random.default_rng(0)
    traces = tuple(trace(random) for _ in range(PROMPTS))
    widths = (1, 2, 3, 4, 5, 6, 7, 9, 13, 21)
    passes = PassTimes(
        cache_tokens=280,
        target={n: Sample(median_s=STEP_S * (0.97 + 0.03 * n), iqr_s=0.0, n=9) for n in widths},
        draft={n: Sample(median_s=STEP_S * 0.1, iqr_s=0.0, n=9) for n in (1, 2)},
        target_one_s=dict.fromkeys(widths, STEP_S),
        target_one_beside_draft_s={1: STEP_S, 2: STEP_S},
    )
    model = ModelRef(source="folder", name="none", path="none")
    spec = RunSpec(target=model, draft=model, prompts=tuple(Prompt(text=str(number)) for number in range(PROMPTS)), max_new_tokens=TOKENS)
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
    rounds = replay_prompt(prompt, policy)
    assisted_s = 0.05 + STEP_S * (1.3 * rounds.rounds + 0.15 * rounds.drafted)
    sizes = tuple(r.emitted for r in rounds_of(prompt, policy))

    def call(one: Policy, total_s: float, emitted: tuple[int, ...]) -> Generation:
        return Generation(
            purpose="calibration", block=block, prompt=0, policy=one, tokens=TOKENS, total_s=total_s, first_token_s=0.03, rounds=emitted
        )

    return [call(Plain(), 0.03 + STEP_S * (TOKENS - 1), ()), call(policy, assisted_s, sizes)]


def policies() -> list[Policy]:
    """Sixty ways to draft."""
    chosen: list[Policy] = [Plain(), Oracle(), Heuristic(), Heuristic(persistent=False), PromptLookup(10)]
    chosen += [FixedGamma(gamma) for gamma in range(1, 21)]
    return chosen + [Confidence(threshold, limit) for limit in (4, 8, 12, 16, 20) for threshold in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)]


def main() -> None:
    """Print the times."""
    measured, settings = run(), policies()
    times_s: list[float] = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        recommend(predict(measured, settings))
        times_s.append(time.perf_counter() - began)
    best_s, median_s = min(times_s), statistics.median(times_s)
    print(f"{PROMPTS} prompts x {TOKENS} tokens x {len(settings)} policies: best {best_s:.2f} s, median {median_s:.2f} s of {REPEATS}")


if __name__ == "__main__":
    main()
