"""A run made of chosen costs and seeded acceptances, so that tests can assert what the pages compute.

Times follow T = both prefills + sum over rounds (verify(k+1) + k draft passes + h + k e), where the draft's first
pass of a round is dearer by `TWO_WIDE`, and the first round's target pass and first draft pass are the prefills;
every cost is a multiple of `PLAIN_S`. For tests only: the product ships no such numbers.
"""

import dataclasses
from datetime import UTC, datetime, timedelta

import numpy as np

from core.analysis import Analysis, analyse, summary
from core.decoding import Decoding
from core.measured import Environment, Generation, PassTimes, Sample
from core.policies import Drafting, FixedGamma, Plain, Policy, TransformersDefault
from core.replay import rounds_drawn
from core.runs import ModelRef, Progress, Prompt, Run, RunSpec
from core.store import Store
from core.trace import Lookup, PromptTrace, Sampled, Tails

PLAIN_S = 0.010
PREFILL_S, DRAFT_PREFILL_S = 0.030, 0.004
VERIFY_SLOPE, OVERHEAD, PER_DRAFT, TWO_WIDE = 0.02, 0.10, 0.02, 0.03
WIDTHS = (1, 2, 3, 4, 5, 6, 7, 9, 13, 21)
LABELS = {"code": 0.88, "docs": 0.72, "chat": 0.55}
WORDS = ("def ", "x", " = ", "<b>", "$y$", "\n", "    ", "return ", "a", "&amp;")
HARD_PROMPT = "$x$ <b>bold</b> `code` and *stars*"


def trace(alpha: float, tokens: int, seed: int) -> PromptTrace:
    """One prompt's trace with 0/1 acceptances drawn with probability `alpha`."""
    rng = np.random.default_rng(seed)
    accept = (rng.random(tokens) < alpha).astype(np.float32)
    answer = rng.integers(0, len(WORDS), tokens).astype(np.int32)
    wrong = np.flatnonzero(accept == 0).astype(np.int32)
    tails = Tails(wrong, np.full((len(wrong), 20), 0.05, np.float32), np.full(len(wrong), -1, np.int16))
    found = Lookup(np.where(rng.random(tokens) < 0.1, 5, 0).astype(np.int16), rng.integers(0, 4, tokens).astype(np.int16))
    return PromptTrace(
        prompt_tokens=40,
        answer=answer,
        pieces=tuple(WORDS[token] for token in answer),
        ended="length",
        budget=tokens,
        accept=accept,
        confidence=np.where(accept > 0, rng.uniform(0.5, 1.0, tokens), rng.uniform(0.1, 0.7, tokens)).astype(np.float32),
        draft_choice=np.where(accept > 0, answer, (answer + 1) % len(WORDS)).astype(np.int32),
        draft_eos=np.zeros(tokens, dtype=bool),
        tails=tails,
        lookup={2: Lookup(found.candidates, np.minimum(found.matched, found.candidates).astype(np.int16))},
    )


SAMPLING = Decoding(sample=True, temperature=0.7, top_p=0.9)
OVERLAP_LESS, GREEDY_LESS = 0.02, 0.10
"""By how much alpha by overlap, and the share of first choices, lie below the mean acceptance of a sampled trace."""


def sampled_trace(alpha: float, tokens: int, seed: int) -> PromptTrace:
    """The same under sampling: chances of acceptance around `alpha` in place of outcomes."""
    known, rng = trace(alpha, tokens, seed), np.random.default_rng(1000 + seed)
    accept = np.clip(rng.normal(alpha, 0.1, tokens), 0.05, 1.0).astype(np.float32)
    hits = np.zeros(tokens, dtype=bool)
    hits[: round((float(accept.mean()) - GREEDY_LESS) * tokens)] = True
    rejected = {threshold / 10: np.full(tokens, threshold / 10, np.float32) for threshold in range(10)}
    own = Sampled(np.full(tokens, 0.5, np.float32), accept - np.float32(OVERLAP_LESS), rejected, hits)
    sure = rng.uniform(0.3, 1.0, tokens).astype(np.float32)
    return dataclasses.replace(known, accept=accept, confidence=sure, tails=None, sampled=own)


def walk(prompt: PromptTrace, policy: Drafting) -> list[tuple[int, int]]:
    """(emitted, drafted) of every greedy round; after a confident wrong token the draft adds one more and is unsure."""
    rounds, at = [], 0
    tokens = len(prompt.answer)
    while at < tokens:
        room = min(policy.limit, prompt.budget - at - 1)
        run = 0
        while run < room and prompt.accept[at + run] > 0 and prompt.confidence[at + run] >= policy.threshold:
            run += 1
        stopped_right = run < room and prompt.accept[at + run] > 0
        accepted = run + stopped_right
        drafted = accepted
        if accepted < room and not stopped_right:
            sure = prompt.confidence[at + run] >= policy.threshold
            drafted = room if not policy.threshold else min(room, run + 1 + sure)
        rounds.append((accepted + 1, drafted))
        at += accepted + 1
    return rounds


def generation(prompt: PromptTrace, number: int, policy: Policy, block: int, purpose: str, c: float, noise: float) -> Generation:
    """One timed call with the chosen costs; `noise` is a factor on the whole."""
    drafted: tuple[int, ...] = ()
    if isinstance(policy, Drafting):
        rounds = walk(prompt, policy) if prompt.sampled is None else _drawn(prompt, policy, block)
        drafted = () if prompt.sampled is None else tuple(k for _, k in rounds)
        steps = [1 + VERIFY_SLOPE * k + OVERHEAD + (TWO_WIDE if k else 0) + k * (c + PER_DRAFT) for _, k in rounds]
        prefills = PREFILL_S + DRAFT_PREFILL_S
        opening = steps[0] - 1 - VERIFY_SLOPE * rounds[0][1] - (c + TWO_WIDE if rounds[0][1] else 0)
        total, first = prefills + PLAIN_S * (opening + sum(steps[1:])), prefills + PLAIN_S * opening
        emitted = tuple(n for n, _ in rounds)
    else:
        total, first, emitted = PREFILL_S + PLAIN_S * (len(prompt.answer) - 1), PREFILL_S, ()
    return Generation(
        purpose=purpose,  # pyright: ignore[reportArgumentType]
        block=block,
        prompt=number,
        policy=policy,
        tokens=len(prompt.answer),
        total_s=total * noise,
        first_token_s=first * noise,
        rounds=emitted,
        drafted=drafted,
        equal=True if emitted and prompt.sampled is None else None,
    )


def _drawn(prompt: PromptTrace, policy: Drafting, seed: int) -> list[tuple[int, int]]:
    return [(each.emitted, each.drafted) for each in rounds_drawn(prompt, policy, seed)]


def _generations(traces: tuple[PromptTrace, ...], c: float, best: int) -> tuple[Generation, ...]:
    rng = np.random.default_rng(7)
    out: list[Generation] = []
    block = 0
    for number, prompt in enumerate(traces[:6]):
        for gamma in (1, 4, 12):
            policies = (Plain(), FixedGamma(gamma), Plain())
            out += [generation(prompt, number, policy, block, "calibration", c, rng.normal(1, 0.004)) for policy in policies]
            block += 1
    for number, prompt in enumerate(traces):
        policies = (Plain(), FixedGamma(best), TransformersDefault())
        out += [generation(prompt, number, policy, block, "confirmation", c, rng.normal(1, 0.004)) for policy in policies]
        block += 1
    return tuple(out)


def _passes(cache_tokens: int, c: float) -> PassTimes:
    def sample(ratio: float) -> Sample:
        return Sample(median_s=PLAIN_S * ratio, iqr_s=PLAIN_S * ratio * 0.02, n=30)

    return PassTimes(
        cache_tokens=cache_tokens,
        target={width: sample(1 + VERIFY_SLOPE * (width - 1)) for width in WIDTHS},
        draft={1: sample(c), 2: sample(c + TWO_WIDE)},
        target_one_s=dict.fromkeys(WIDTHS, PLAIN_S),
        target_one_beside_draft_s={1: PLAIN_S, 2: PLAIN_S},
    )


def run(
    run_id: str = "synthetic",
    *,
    c: float = 0.10,
    prompts: int = 12,
    tokens: int = 64,
    best: int = 4,
    status: str = "done",
    alpha: float | None = None,
    sampled: bool = False,
    draft: str = "small_model",
    group: str = "",
) -> Run:
    """A finished run whose draft step costs `c` plain steps. `best` is the fixed gamma that was confirmed; `alpha` is for all labels.

    sampled: with `SAMPLING` in place of greedy decoding. draft, group: for runs that belong together.
    """
    labels = [list(LABELS)[number % 3] for number in range(prompts)]
    make = sampled_trace if sampled else trace
    traces = tuple(make(LABELS[label] if alpha is None else alpha, tokens, seed) for seed, label in enumerate(labels))
    texts = [HARD_PROMPT if number == 0 else f"prompt number {number}" for number in range(prompts)]
    created = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
    return Run(
        id=run_id,
        spec=spec(tuple(Prompt(text=text, label=label) for text, label in zip(texts, labels, strict=True)), tokens, draft).model_copy(
            update={"group": group, "decoding": SAMPLING if sampled else Decoding()}
        ),
        status=status,  # pyright: ignore[reportArgumentType]
        progress=Progress(stage="done", done=1, total=1, fraction=1.0),
        created=created,
        started=created + timedelta(seconds=2),
        finished=created + timedelta(seconds=83),
        environment=environment(),
        passes=(_passes(64, c), _passes(256, c)),
        draft_prefill_s=(DRAFT_PREFILL_S,) * prompts,
        generations=_generations(traces, c, best),
        traces=traces,
    )


def spec(prompts: tuple[Prompt, ...], tokens: int = 64, name: str = "small_model") -> RunSpec:
    target = ModelRef(source="folder", name="big_model", path="/models/big_model")
    draft = ModelRef(source="folder", name=name, path=f"/models/{name}")
    return RunSpec(target=target, draft=draft, prompts=prompts, max_new_tokens=tokens)


def environment() -> Environment:
    return Environment(
        host="testhost",
        device="cpu",
        device_name="Test CPU",
        platform="Linux",
        python="3.11.0",
        torch="2.0",
        transformers="5.24.0",
        dtype="float32",
        attention="sdpa",
        threads=1,
        scikit_learn=False,
        target_parameters=13_700_000,
        draft_parameters=1_200_000,
        target_layers=32,
        draft_layers=1,
    )


def keep(store: Store, run: Run) -> str:
    """Write a run into a store as a worker would, and end it with its own status; its new id."""
    run_id = store.add(run.spec)
    store.claim(run_id, "testhost", 1)
    if run.environment:
        store.environment(run_id, run.environment)
    for passes in run.passes:
        store.passes(run_id, passes)
    store.draft_prefill(run_id, run.draft_prefill_s)
    store.generations(run_id, run.generations)
    for difference in run.differences:
        store.difference(run_id, difference)
    for index, prompt in enumerate(run.traces):
        store.trace(run_id, index, prompt)
    store.progress(run_id, run.progress)
    if run.disturbed:
        store.disturbed(run_id)
    if run.status != "running":
        store.finish(run_id, run.status, run.error)
    return run_id


def keep_answered(store: Store, run: Run) -> str:
    """The same for a whole measurement, with its answer beside it, as a worker leaves it."""
    run_id = keep(store, run)
    found = analyse(run)
    assert isinstance(found, Analysis), found.missing
    store.summarise(run_id, summary(found))
    return run_id
