"""A side-by-side run made of chosen costs and a hard text, so that tests can assert what page, player and exports derive from it.

The text has Markdown, HTML, a tab, right-to-left and CJK script, and characters split over several tokens: the pieces of such a
character are empty but for its last one. Times follow `tests.synthetic`: a plain step takes `PLAIN_S`, a drafted token `c` of it.
Trace 0 holds the outcomes that the rounds come from, so a replay must give the same rounds. For tests only.
"""

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from core.decoding import Decoding
from core.measured import Difference, Generation
from core.policies import Drafting, FixedGamma, Plain, Policy, PromptLookup
from core.record import Step
from core.runs import Lane, Progress, Prompt, Run
from core.store import Store
from tests import synthetic
from tests.synthetic import DRAFT_PREFILL_S, OVERHEAD, PER_DRAFT, PLAIN_S, PREFILL_S, TWO_WIDE, VERIFY_SLOPE

TEXT = (
    *("Speculative", " decoding", ":", " the", " draft", " guesses", ",", " the", " target", " checks", ".", "\n\n"),
    *("Literally", " `", "$", "x", "$", " <", "b", ">", "`", " &", "amp", ";", " **", "not", " bold", "**", "\n"),
    *("\tname", "\t=", " 'fox'", "  # ", "", "", "", "🦊", " and ", "", "", "👩‍", "", "💻", "\n"),
    *("مرحبا", " بالعالم", "،", " שלום", "\n", "日本", "語", "の", "文章", "。", "中文", "\n"),
    *("def", " fib", "(n", ":", " int", ")", " ->", " int", ":", "\n   ", " a", ",", " b", " =", " ", "0", ",", " ", "1", "\n   "),
    *(" for", " _", " in", " range", "(n", "):", "\n       ", " a", ",", " b", " =", " b", ",", " a", " +", " b", "\n   ", " return", " a", "\n"),
)
PROMPT = "Explain speculative decoding, with a short function as an example: $x$ <b>"
WRONG = (" oracle", "<i>", "\t", "🦉", "لا", "不", " maybe", "\n")
RATHER = 1000
"""Ids of rejected tokens and of the text after a difference begin here."""


def run(
    run_id: str = "side",
    *,
    gamma: int = 3,
    c: float = 0.10,
    alpha: float = 0.75,
    sampled: bool = False,
    lookup: bool = False,
    differ_at: int | None = None,
    margin: float | None = None,
    status: str = "done",
    reference: str = "",
    steps: int | None = None,
) -> Run:
    """Plain beside fixed `gamma`, and a third column of prompt lookup on request.

    differ_at: token from which the assisted greedy answer is another one, with this `margin`. sampled: both texts drawn, so they differ
    from the sixth token on. steps: only the first so many steps in the order they were run, as a run that is still being written.
    """
    trace = dataclasses.replace(
        synthetic.trace(alpha, len(TEXT), 5), pieces=TEXT, answer=np.arange(len(TEXT), dtype=np.int32), prompt_tokens=17, lookup=None
    )
    policies: list[Policy] = [Plain(), FixedGamma(gamma), *([PromptLookup(5)] if lookup else [])]
    parts_at = [None, 6 if sampled else differ_at, 6 if sampled else None]
    lanes = [_lane(at, policy, _rounds(trace, at, gamma), c, parts_at[at]) for at, policy in enumerate(policies)]
    order = tuple(reversed(range(len(policies))))
    streamed = [step for at in order for step in lanes[at]][:steps]
    finished = [at for at in order if streamed.count(lanes[at][-1])]
    equal = None if sampled else differ_at is None
    created = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
    spec = synthetic.spec((Prompt(text=PROMPT),), tokens=len(TEXT)).model_copy(
        update={
            "extent": "side_by_side",
            "lanes": tuple(Lane(policy=policy) for policy in policies),
            "order": order,
            "reference": reference,
            "decoding": synthetic.SAMPLING if sampled else Decoding(),
        }
    )
    running = status in ("queued", "running")
    return Run(
        id=run_id,
        spec=spec,
        status=status,  # pyright: ignore[reportArgumentType]
        progress=Progress(stage="writing" if running else "done", done=len(finished), total=len(policies), fraction=len(finished) / len(policies)),
        created=created,
        started=created + timedelta(seconds=2),
        finished=None if running else created + timedelta(seconds=9),
        environment=synthetic.environment(),
        differences=() if differ_at is None else (Difference(prompt=0, policy=policies[1], token=differ_at, dtype="float32", margin=margin, lane=1),),
        generations=tuple(_generation(at, policies[at], lanes[at], equal, differ_at) for at in finished),
        steps=tuple(streamed),
        traces=() if sampled or status != "done" else (trace,),
    )


def keep(store: Store, run: Run) -> str:
    """Write it into a store as the worker would, and end it with its own status; its new id."""
    run_id = store.add(run.spec)
    if run.status == "queued":
        return run_id
    store.claim(run_id, "testhost", 1)
    if run.environment:
        store.environment(run_id, run.environment)
    store.steps(run_id, run.steps)
    store.generations(run_id, run.generations)
    for difference in run.differences:
        store.difference(run_id, difference)
    for index, trace in enumerate(run.traces):
        store.trace(run_id, index, trace)
    store.progress(run_id, run.progress)
    if run.status != "running":
        store.finish(run_id, run.status, run.error)
    return run_id


def _rounds(trace: synthetic.PromptTrace, lane: int, gamma: int) -> list[tuple[int, int]]:
    """(emitted, drafted) of every round of a lane: plain, the trace's own rounds, or now and then two copied tokens."""
    if lane == 0:
        return [(1, 0)] * len(TEXT)
    if lane == 1:
        return synthetic.walk(trace, FixedGamma(gamma))
    copied = [(1, 0), (3, 5), (1, 0), (1, 2)]
    rounds, left = [], len(TEXT)
    while left:
        emitted, drafted = copied[len(rounds) % len(copied)]
        rounds.append((emitted, drafted) if emitted <= left else (left, left - 1))
        left -= rounds[-1][0]
    return rounds


def _lane(lane: int, policy: Policy, rounds: Sequence[tuple[int, int]], c: float, parts_at: int | None) -> list[Step]:
    drafting = isinstance(policy, Drafting)
    pieces = [piece if parts_at is None or at < parts_at else WRONG[at % len(WRONG)] for at, piece in enumerate(TEXT)]
    ids = [at if parts_at is None or at < parts_at else RATHER + at for at in range(len(TEXT))]
    out: list[Step] = []
    at, now_s = 0, 0.0
    for number, (emitted, drafted) in enumerate(rounds):
        passes = (c * drafted + (TWO_WIDE if drafted else 0)) * PLAIN_S if drafting else 0.0
        first = DRAFT_PREFILL_S - (c + TWO_WIDE) * PLAIN_S if drafting and drafted else 0.0
        draft_s = passes + (first if number == 0 else 0.0)
        verify_s = PREFILL_S if number == 0 else PLAIN_S * (1 + VERIFY_SLOPE * drafted)
        now_s += draft_s + verify_s + (0.0 if lane == 0 else PLAIN_S * (OVERHEAD + PER_DRAFT * drafted))
        accepted = emitted - 1
        rejected = tuple(WRONG[(at + place) % len(WRONG)] for place in range(drafted - accepted))
        tokens, texts = tuple(ids[at : at + emitted]), tuple(pieces[at : at + emitted])
        out.append(
            Step(
                lane=lane,
                at_s=now_s,
                tokens=tokens,
                pieces=texts,
                drafted=drafted,
                accepted=accepted,
                rejected=rejected,
                draft_s=draft_s,
                verify_s=verify_s,
            )
        )
        at += emitted
    return out


def _generation(lane: int, policy: Policy, steps: Sequence[Step], equal: bool | None, differ_at: int | None) -> Generation:
    return Generation(
        purpose="side_by_side",
        block=0,
        prompt=0,
        policy=policy,
        tokens=sum(len(step.tokens) for step in steps),
        total_s=steps[-1].at_s,
        first_token_s=steps[0].at_s,
        rounds=tuple(len(step.tokens) for step in steps) if lane else (),
        drafted=tuple(step.drafted for step in steps) if lane else (),
        equal=equal if lane == 1 else (None if equal is None or not lane else True),
        first_difference=differ_at if lane == 1 else None,
        lane=lane,
    )
