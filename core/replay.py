"""From a recorded trace to the rounds of any policy, without running a model again.

The text is given; what differs between policies is only how it is cut into rounds. Greedy
decoding (every `accept` is 0 or 1) is replayed exactly, round by round, by the rules of
Transformers 5.24 (`core.walk`); under sampling the expected rounds are computed (`core.expected`).
Units: tokens and rounds. Not covered: time (`core.timing`), and the moving threshold that
Transformers uses when scikit-learn is installed.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import InvalidInput
from core.expected import Chances, average, draw, expected_constant, expected_together
from core.policies import Drafting, Oracle, Plain, Policy, PromptLookup, is_persistent
from core.rounds import Floats, Ints, Round, Rounds, Walk, mean, total, totals
from core.trace import Ended, Lookup, PromptTrace, Tails
from core.walk import Path, join, prepare, tail_lengths, walk_constant, walk_drafting, walk_lookup, walk_oracle, walk_plain

_SAMPLES, _LEAST_SAMPLES = 400, 25

__all__ = ["Round", "Rounds", "carried_limit", "replay", "replay_all", "replay_prompt", "rounds_drawn", "rounds_of"]


def replay(
    accept: ArrayLike,
    policy: Policy,
    *,
    budget: int | None = None,
    ended: Ended = "length",
    confidence: ArrayLike | None = None,
    draft_eos: ArrayLike | None = None,
    tails: Tails | None = None,
    lookup: Lookup | None = None,
    stop_rejected: ArrayLike | None = None,
    round_cost: ArrayLike | None = None,
    start: int | None = None,
    samples: int = _SAMPLES,
    seed: int = 0,
) -> Rounds:
    """The rounds of `policy` on one prompt, expected ones where chance decides.

    accept: (N,) probability that the draft's token is accepted at each answer position; 0/1 when greedy.
    budget: max_new_tokens, by default N; ended: how the answer ended. confidence: (N,) the draft's
    probability of the token it chose (under sampling: of the answer's token). draft_eos: (N,) whether
    the token it chose ends the text (greedy). tails, lookup: as recorded. stop_rejected: (N,) under sampling,
    probability that drafting stops at a token that gets rejected; where it is given nothing is certain. round_cost: for the oracle, (K+1,)
    price of a round with 0, 1, ... drafts, or (2, K+1) with those of the first round in row 1 (default:
    all 1); it drafts K tokens at most. start: the limit carried over from the call before. samples,
    seed: of the Monte Carlo that schedules with a moving limit need under sampling.
    Raises InvalidInput naming what does not fit.
    """
    chance = _probabilities("accept", accept)
    limit = len(chance) if budget is None else budget
    _check_length(len(chance), limit, ended)
    match policy:
        case Plain():
            return total(walk_plain(len(chance)))
        case PromptLookup():
            return total(walk_lookup(_lookup(lookup, len(chance)), policy.tokens, limit))
        case Drafting() | Oracle():
            pass
    threshold = policy.threshold if isinstance(policy, Drafting) else 0.0
    stops = _stops(chance, confidence, draft_eos, threshold, ended)
    walk = _walker(policy, start, round_cost)
    if stop_rejected is None and np.isin(chance, (0.0, 1.0)).all():
        return total(walk(prepare(chance == 1, stops, tail_lengths(len(chance), tails, threshold), limit)))
    chances = Chances(chance, stops, _stop_rejected(stop_rejected, len(chance), threshold), limit, unsure=threshold > 0)
    if isinstance(policy, Drafting) and policy.schedule == "constant":
        return expected_constant(chances, policy.limit)
    return average(chances, walk, samples, seed)


def replay_prompt(trace: PromptTrace, policy: Policy, *, start: int | None = None, round_cost: ArrayLike | None = None, beside: int = 1) -> Rounds:
    """`replay` of a recorded prompt. beside: prompts whose rounds will be added up with these, itself among them, as for `replay_all`.

    Raises InvalidInput when the trace lacks what the policy needs.
    """
    return replay_all([trace], [policy], start=start, round_cost=round_cost, beside=beside)[0][0]


def replay_all(
    traces: Sequence[PromptTrace], policies: Sequence[Policy], *, start: int | None = None, round_cost: ArrayLike | None = None, beside: int = 1
) -> list[list[Rounds]]:
    """For each policy the rounds of each prompt, in order; a persistent heuristic carries its limit from prompt to prompt.

    Sampled prompts give expected rounds, each from draws of its own where it takes a Monte Carlo: the fewer the more prompts there
    are, because what counts is their sum. There a persistent heuristic carries the limits of all its draws.
    """
    samples = max(_LEAST_SAMPLES, _SAMPLES // max(1, len(traces), beside))
    paths: dict[tuple[int, float], Path] = {}
    joined: dict[float, tuple[Path, Ints]] = {}
    chances: dict[float, list[Chances]] = {}
    known = [_is_known(trace) for trace in traces]
    result: list[list[Rounds]] = []
    for policy in policies:
        if isinstance(policy, Drafting) and is_persistent(policy) and not all(known):
            result.append(_carried_by_chance(traces, policy, start, samples))
            continue
        if isinstance(policy, Drafting) and policy.schedule == "constant" and all(known):
            if policy.threshold not in joined:
                joined[policy.threshold] = join([_path(trace, policy.threshold) for trace in traces])
            path, begins = joined[policy.threshold]
            result.append(totals(walk_constant(path, policy.limit), begins))
            continue
        if isinstance(policy, Drafting) and policy.schedule == "constant" and not any(known):
            if policy.threshold not in chances:
                chances[policy.threshold] = [_chances(trace, policy.threshold) for trace in traces]
            result.append(expected_together(chances[policy.threshold], policy.limit))
            continue
        carried, row = start, list[Rounds]()
        for index, trace in enumerate(traces):
            if known[index]:
                walk = _walk(trace, policy, carried, round_cost, paths, index)
                row.append(total(walk))
                carried = walk.carried if is_persistent(policy) else start
            else:
                row.append(_replay_chance(trace, policy, start, round_cost, samples, index))
        result.append(row)
    return result


def rounds_of(trace: PromptTrace, policy: Policy, *, start: int | None = None) -> list[Round]:
    """The very rounds that `generate` runs on a greedy prompt, in order.

    start: the limit that a persistent heuristic brings from the call before. Raises InvalidInput for a
    sampled trace, where the rounds are chance.
    """
    return _one_by_one(_known_walk(trace, policy, start))


def rounds_drawn(trace: PromptTrace, policy: Drafting, seed: int = 0) -> list[Round]:
    """The rounds of a prompt in order; for a sampled one, one way that they may go: whether a draft is accepted is drawn with its chance."""
    if _is_known(trace):
        return rounds_of(trace, policy)
    [walk] = draw(_chances(trace, policy.threshold), [partial(walk_drafting, policy=policy, limit=policy.limit)], seed)
    return _one_by_one(walk)


def _one_by_one(walk: Walk) -> list[Round]:
    columns = (walk.start, walk.drafted, walk.accepted, walk.accepted + 1, walk.rejected, walk.drafted_low)
    return [Round(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def carried_limit(trace: PromptTrace, policy: Drafting, *, start: int | None = None) -> int:
    """The draft length with which the next call begins after this greedy prompt."""
    return _known_walk(trace, policy, start).carried


def _known_walk(trace: PromptTrace, policy: Policy, start: int | None) -> Walk:
    if not _is_known(trace):
        raise InvalidInput("This answer was sampled, so its rounds are chance; ask for expected rounds instead.")
    return _walk(trace, policy, start, None, {}, 0)


def _walk(
    trace: PromptTrace, policy: Policy, start: int | None, round_cost: ArrayLike | None, paths: dict[tuple[int, float], Path], index: int
) -> Walk:
    match policy:
        case Plain():
            return walk_plain(len(trace.answer))
        case PromptLookup():
            return walk_lookup(_lookup((trace.lookup or {}).get(policy.ngram), len(trace.answer)), policy.tokens, trace.budget)
        case Drafting() | Oracle():
            key = (index, policy.threshold if isinstance(policy, Drafting) else 0.0)
            if key not in paths:
                paths[key] = _path(trace, key[1])
            return _walker(policy, start, round_cost)(paths[key])


def _path(trace: PromptTrace, threshold: float) -> Path:
    length = len(trace.answer)
    accept = _probabilities("accept", trace.accept)
    _check_length(length, trace.budget, trace.ended)
    stops = _stops(accept, trace.confidence, trace.draft_eos, threshold, trace.ended)
    return prepare(accept == 1, stops, tail_lengths(length, trace.tails, threshold), trace.budget)


def _walker(policy: Drafting | Oracle, start: int | None, round_cost: ArrayLike | None) -> "partial[Walk]":
    if isinstance(policy, Drafting):
        limit = start if start is not None and is_persistent(policy) else policy.limit
        return partial(walk_drafting, policy=policy, limit=limit)
    return partial(_oracle, policy=policy, round_cost=round_cost)


def _oracle(path: Path, policy: Oracle, round_cost: ArrayLike | None) -> Walk:
    longest = len(path.run) if policy.limit is None else policy.limit
    cost = np.ones(longest + 1) if round_cost is None else np.asarray(round_cost, dtype=np.float64)[..., : longest + 1]
    later, first = np.broadcast_to(cost, (2, cost.shape[-1]))
    return walk_oracle(path.run, later, first)


def _replay_chance(trace: PromptTrace, policy: Policy, start: int | None, round_cost: ArrayLike | None, samples: int, seed: int) -> Rounds:
    lookup = (trace.lookup or {}).get(policy.ngram) if isinstance(policy, PromptLookup) else None
    threshold = policy.threshold if isinstance(policy, Drafting) else 0.0
    return replay(
        trace.accept,
        policy,
        budget=trace.budget,
        ended=trace.ended,
        confidence=trace.confidence,
        lookup=lookup,
        stop_rejected=trace.sampled.stop_rejected.get(threshold) if trace.sampled else None,
        start=start,
        round_cost=round_cost,
        samples=samples,
        seed=seed,
    )


def _carried_by_chance(traces: Sequence[PromptTrace], policy: Drafting, start: int | None, samples: int) -> list[Rounds]:
    """A persistent heuristic over sampled prompts: each draw goes through all of them and takes its limit along."""
    limits, result = [policy.limit if start is None else start] * samples, list[Rounds]()
    for index, trace in enumerate(traces):
        walks = draw(_chances(trace, policy.threshold), [partial(walk_drafting, policy=policy, limit=limit) for limit in limits], index)
        limits = [walk.carried for walk in walks]
        result.append(mean([total(walk) for walk in walks]))
    return result


def _chances(trace: PromptTrace, threshold: float) -> Chances:
    accept = _probabilities("accept", trace.accept)
    _check_length(len(accept), trace.budget, trace.ended)
    stops = _stops(accept, trace.confidence, None, threshold, trace.ended)
    stored = trace.sampled.stop_rejected.get(threshold) if trace.sampled else None
    return Chances(accept, stops, _stop_rejected(stored, len(accept), threshold), trace.budget, unsure=threshold > 0)


def _is_known(trace: PromptTrace) -> bool:
    return trace.sampled is None and bool(np.isin(trace.accept, (0.0, 1.0)).all())


def _probabilities(name: str, values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise InvalidInput(f"{name} has shape {array.shape}; it needs one value per answer token, and at least one.")
    wrong = ~((array >= 0) & (array <= 1))
    if wrong.any():
        raise InvalidInput(
            f"{name} is {array[wrong][0]} at answer token {int(wrong.argmax()) + 1}; it must be from 0 to 1. Measure this prompt again."
        )
    return array


def _check_length(length: int, budget: int, ended: Ended) -> None:
    if budget < length or (ended == "length" and budget != length):
        raise InvalidInput(f"An answer of {length} tokens that ended by '{ended}' does not fit a budget of {budget}; measure this prompt again.")


def _stops(accept: Floats, confidence: ArrayLike | None, draft_eos: ArrayLike | None, threshold: float, ended: Ended) -> NDArray[np.bool_]:
    """(N,) whether drafting stops after the draft's token at each position (under sampling: after the answer's token)."""
    stops = np.zeros(len(accept), dtype=np.bool_) if draft_eos is None else np.array(draft_eos, dtype=np.bool_)
    if ended == "eos" and accept[-1] > 0:
        stops[-1] = True
    if not threshold:
        return stops
    if confidence is None:
        raise InvalidInput(f"A confidence threshold of {threshold:g} cannot be replayed: this trace has no confidence. Measure it again.")
    sure = _probabilities("confidence", confidence)
    if len(sure) != len(accept) or len(stops) != len(accept):
        raise InvalidInput(f"confidence has {len(sure)} values for {len(accept)} answer tokens; measure this prompt again.")
    return stops | (sure < threshold)


def _stop_rejected(values: ArrayLike | None, length: int, threshold: float) -> Floats | None:
    if values is not None:
        return _probabilities("stop_rejected", values)
    return None if threshold else np.zeros(length)


def _lookup(lookup: Lookup | None, length: int) -> Lookup:
    if lookup is None:
        raise InvalidInput("Prompt lookup with this n-gram size was not recorded; measure again, or leave it out.")
    if len(lookup.candidates) != length:
        raise InvalidInput(f"Prompt lookup was recorded for {len(lookup.candidates)} of {length} answer tokens; measure this prompt again.")
    return lookup
