"""A run whose every time follows from stated prices, so that tests know what the timing model must find again.

Prices are multiples of one plain step; the sum over rounds is written out here token by token.
"""

from datetime import UTC, datetime

import numpy as np

from core import columns as col
from core.measured import Generation, PassTimes, Purpose, Sample
from core.policies import FixedGamma, Plain, Policy, TransformersDefault
from core.replay import rounds_of
from core.runs import ModelRef, Prompt, Run, RunSpec
from core.trace import LONGEST_TAIL, Lookup, PromptTrace, Tails

STEP_S, PREFILL_S, DRAFT_PREFILL_S = 0.010, 0.030, 0.004
LOOP = 0.1  # share of a plain step that is the loop's own, not the pass
D1, D2, H, E = 0.08, 0.11, 0.25, 0.03
WIDTHS = (1, 2, 3, 4, 5, 6, 7, 9, 13, 21)


def verify(tokens):
    return 1 + 0.015 * (tokens - 1)


def trace(alpha, tokens, seed, prompt_tokens=100):
    random = np.random.default_rng(seed)
    right = random.random(tokens) < alpha
    wrong = np.flatnonzero(~right)
    candidates = random.integers(0, 11, tokens)
    return PromptTrace(
        prompt_tokens=prompt_tokens,
        answer=np.arange(tokens, dtype=np.int32),
        pieces=("x",) * tokens,
        ended="length",
        budget=tokens,
        accept=right.astype(np.float32),
        confidence=np.where(right, random.uniform(0.4, 1, tokens), random.uniform(0, 0.7, tokens)).astype(np.float32),
        draft_choice=np.zeros(tokens, dtype=np.int32),
        draft_eos=np.zeros(tokens, dtype=np.bool_),
        tails=Tails(wrong.astype(np.int32), random.random((len(wrong), LONGEST_TAIL), dtype=np.float32), np.full(len(wrong), -1, dtype=np.int16)),
        lookup={2: Lookup(candidates.astype(np.int16), (candidates // 2).astype(np.int16))},
    )


def decode_steps(one, policy):
    """Decoding time in plain steps, both prefills left out, one round after the other."""
    if isinstance(policy, Plain):
        return len(one.answer) - 1
    total = 0.0
    for number, each in enumerate(rounds_of(one, policy)):
        total += H
        if number:
            total += verify(each.drafted + 1)
        for token in range(each.drafted):
            total += E
            if token:
                total += D1
            elif number:
                total += D2
    return total


def generation(traces, number, policy: Policy, block, purpose: Purpose, speed):
    one = traces[number]
    assisted = not isinstance(policy, Plain)
    first_s = PREFILL_S * speed
    return Generation(
        purpose=purpose,
        block=block,
        prompt=number,
        policy=policy,
        tokens=len(one.answer),
        total_s=first_s + (DRAFT_PREFILL_S if assisted else 0) + STEP_S * decode_steps(one, policy) * speed,
        first_token_s=first_s,
        rounds=tuple(r.emitted for r in rounds_of(one, policy)) if assisted else (),
        equal=True,
    )


def passes(cache_tokens, factor=1.0):
    """Passes that are shorter than a plain step by the loop's share; `factor` widens verify at this cache length."""

    def sample(steps):
        return Sample(median_s=STEP_S * steps, iqr_s=0.0, n=9)

    one = 1 - LOOP
    return PassTimes(
        cache_tokens=cache_tokens,
        target={n: sample(one + factor * (verify(n) - 1)) for n in WIDTHS},
        draft={1: sample(D1), 2: sample(D2)},
        target_one_s=dict.fromkeys(WIDTHS, STEP_S * one),
        target_one_beside_draft_s=dict.fromkeys((1, 2), STEP_S * one),
    )


def run(traces=None, *, confirmed=(), gammas=(1, 4, 12), noise=0.0, drift=0.0, seed=0, default=False):
    """A run with calibration on four prompts and `confirmed` policies run on all; `drift` slows the machine down over the run."""
    traces = tuple(trace(0.7, 60, s) for s in range(10)) if traces is None else tuple(traces)
    random = np.random.default_rng(seed)
    calls = plan(len(traces), [*map(FixedGamma, gammas), *([TransformersDefault()] if default else [])], confirmed)
    made = []
    for block, (purpose, number, policies) in enumerate(calls):
        for policy in policies:
            speed = (1 + drift * block / len(calls)) * float(np.exp(noise * random.standard_normal()))
            made.append(generation(traces, number, policy, block, purpose, speed))
    model = ModelRef(source="folder", name="m", path="/m")
    prompts = tuple(Prompt(text=f"prompt {n}", label="code" if n % 2 else "prose") for n in range(len(traces)))
    return Run(
        id="priced",
        spec=RunSpec(target=model, draft=model, prompts=prompts, max_new_tokens=60),
        created=datetime(2025, 1, 1, tzinfo=UTC),
        passes=(passes(130),),
        draft_prefill_s=(DRAFT_PREFILL_S,) * len(traces),
        generations=tuple(made),
        traces=traces,
    )


def plan(prompts, calibrated, confirmed):
    """The blocks of a run: purpose, prompt, policies."""
    blocks: list[tuple[Purpose, int, list[Policy]]] = [("answer", n, [Plain()]) for n in range(prompts)]
    for n in range(min(4, prompts)):
        blocks.extend(("calibration", n, [Plain(), policy, Plain()]) for policy in calibrated)
    if confirmed:
        blocks.extend(("confirmation", n, [Plain(), *confirmed]) for n in range(prompts))
    return blocks


def speedup(of, policy):
    """Plain over assisted decoding, from the prices themselves."""
    return sum(len(t.answer) - 1 for t in of.traces) / sum(decode_steps(t, policy) for t in of.traces)


def uneven(**how):
    """Twelve long prompts that differ much in acceptance."""
    return run([trace(a, 200, s) for s, a in enumerate(np.linspace(0.5, 0.9, 12))], **how)


def rows(table):
    """The rows of a table of predictions by policy."""
    return {row[col.POLICY]: row for row in table.to_dict(orient="records")}
