"""A run in several ways made of chosen costs and seeded acceptances, so that tests can assert what its page shows.

Costs follow `tests.synthetic`: a plain step takes `PLAIN_S`, a drafted token `c` of it. In each block plain decoding stands before and after
every two other calls, as the worker makes them. For tests only.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from core.decoding import Decoding
from core.measured import AnyPolicy, Difference, Generation, WayCall
from core.policies import Drafting, FixedGamma, Plain, PromptLookup, TransformersDefault
from core.runs import Lane, ModelRef, Progress, Prompt, Run
from core.store import Store
from core.trace import PromptTrace
from tests import synthetic
from tests.synthetic import DRAFT_PREFILL_S, OVERHEAD, PER_DRAFT, PLAIN_S, PREFILL_S, TWO_WIDE, VERIFY_SLOPE

WAYS: tuple[AnyPolicy, ...] = (TransformersDefault(), FixedGamma(5), FixedGamma(10), PromptLookup(10))
UNLUCKY = [(1, 0), (3, 10), (1, 0), (1, 4)]
"""Tokens written and proposed by the rounds of any way that is not a draft model."""


def run(
    run_id: str = "ways",
    *,
    ways: Sequence[AnyPolicy] = WAYS,
    c: float = 0.10,
    alpha: float = 0.75,
    prompts: int = 12,
    turns: int = 2,
    tokens: int = 64,
    sampled: bool = False,
    translated: bool = True,
    parted: dict[int, float | None] | None = None,
    status: str = "done",
    calls: int | None = None,
    group: str = "",
    draft: str = "small_model",
) -> Run:
    """Plain beside `ways`. parted: lane -> margin of its first prompt's difference, None for one that was never looked into.

    calls: only the first so many, as a run that is still being written or was cancelled.
    """
    lanes = tuple(Lane(policy=policy) for policy in (Plain(), *ways))
    traces = [synthetic.trace(alpha, tokens, seed) for seed in range(prompts)]
    rng = np.random.default_rng(11)
    made: list[Generation] = []
    for block in range(turns * prompts):
        prompt = block % prompts
        for lane in _order(len(lanes)):
            equal = None if sampled else not (prompt == 0 and lane in (parted or {}))
            made.append(_call(traces[prompt], block, prompt, lane, lanes[lane].policy, c, float(rng.normal(1, 0.004)), equal, translated))
    asked = tuple(Prompt(text=synthetic.HARD_PROMPT if at == 0 else f"prompt number {at}", label="") for at in range(prompts))
    spec = synthetic.spec(asked, tokens, draft).model_copy(
        update={"extent": "ways", "lanes": lanes, "decoding": synthetic.SAMPLING if sampled else Decoding(), "group": group}
    )
    if not any(isinstance(policy, Drafting) for policy in ways):
        spec = spec.model_copy(update={"draft": ModelRef(**spec.target.model_dump())})
    created, running = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC), status in ("queued", "running")
    written = made[:calls]
    done = written[-1].block if calls is not None and written else turns * prompts
    return Run(
        id=run_id,
        spec=spec,
        status=status,  # pyright: ignore[reportArgumentType]
        progress=Progress(stage="ways" if running else "done", done=done, total=turns * prompts, fraction=done / (turns * prompts)),
        created=created,
        started=created + timedelta(seconds=2),
        finished=None if running else created + timedelta(seconds=83),
        environment=synthetic.environment(),
        generations=tuple(written),
        differences=tuple(
            Difference(prompt=0, policy=lanes[lane].policy, token=3, dtype="float32", margin=margin, lane=lane)
            for lane, margin in (parted or {}).items()
            if margin is not None
        ),
    )


def keep(store: Store, run: Run) -> str:
    """Write it into a store as the worker would, and end it with its own status; its new id."""
    return synthetic.keep(store, run)


def _order(lanes: int) -> list[int]:
    order = [0]
    for start in range(1, lanes, 2):
        order += [*range(start, min(start + 2, lanes)), 0]
    return order


def _call(
    trace: PromptTrace, block: int, prompt: int, lane: int, policy: AnyPolicy, c: float, noise: float, equal: bool | None, translated: bool
) -> Generation:
    tokens = len(trace.answer)
    known = {"purpose": "way", "block": block, "prompt": prompt, "policy": policy, "tokens": tokens, "lane": lane, "budget": tokens}
    if isinstance(policy, Plain):
        return Generation(**known, total_s=noise * (PREFILL_S + PLAIN_S * (tokens - 1)), first_token_s=noise * PREFILL_S, equal=equal)
    drafts = isinstance(policy, Drafting)
    rounds = synthetic.walk(trace, policy) if drafts else _copied(tokens)
    prefill_s, each = (DRAFT_PREFILL_S, c + PER_DRAFT) if drafts else (0.0, 0.0)
    steps = [1 + VERIFY_SLOPE * k + OVERHEAD + (TWO_WIDE if k and drafts else 0) + k * each for _, k in rounds]
    first_s = PREFILL_S + prefill_s + PLAIN_S * (steps[0] - 1 - VERIFY_SLOPE * rounds[0][1])
    rejected = sum(k >= n for n, k in rounds[:-1])
    return Generation(
        **known,
        total_s=noise * (first_s + PLAIN_S * sum(steps[1:])),
        first_token_s=noise * first_s,
        rounds=tuple(n for n, _ in rounds),
        drafted=tuple(k for _, k in rounds),
        equal=equal,
        first_difference=None if equal is not False else 3,
        way=WayCall(rejected=rejected, draft_prefill_s=prefill_s, translated=translated and drafts),
    )


def _copied(tokens: int) -> list[tuple[int, int]]:
    rounds: list[tuple[int, int]] = []
    left = tokens
    while left:
        emitted, drafted = UNLUCKY[len(rounds) % len(UNLUCKY)]
        rounds.append((min(emitted, left), drafted))
        left -= rounds[-1][0]
    return rounds
