"""Walks one known text round by round, by the rules of Transformers 5.24's assisted decoding.

"Known" means that for every answer position it is settled whether the draft's token would be
accepted: greedy decoding, or one draw of the outcomes under sampling. The rules are those of
`_assisted_decoding` and `candidate_generator.py`:

* a round at position i drafts at most min(limit, budget - i - 1) tokens;
* drafting stops after a token below the confidence threshold and after the draft's own end of text;
* an accepted end of text is cropped, so it counts as the target's token;
* both heuristics add 2 when accepted after the crop == drafted (0 == 0 included), else take 1 off, never below 1;
* prompt lookup's candidates are not capped by the budget, and there are none at the last position.

An answer cut at a stop string (which the library itself cannot do with a draft) follows the rules of a server that looks
at the text after each round: the round in which the string is completed is the last one, its draft ran on behind the cut, up to
the limit or to a token it was unsure of (bounds), and, as with an end of text, the last token counts as the target's.

Not covered: the threshold that moves when scikit-learn is installed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.policies import Drafting
from core.rounds import Floats, Ints, Walk
from core.trace import Lookup, Tails

FAR = 1 << 30
_LONG_RUN = 24
"""From here on comparing prices in an array is faster than one by one."""


@dataclass(frozen=True)
class Path:
    """A known text, prepared for one confidence threshold, or several one after the other (`join`). All arrays have N entries, all answers' lengths.

    run: accepted drafts in a row from each position on.
    stop: the first position at or after each one at which drafting stops by itself.
    reach: accepted drafts of a round from each position on, if its limit allows.
    tail_low, tail_high: least and most tokens the draft adds after a wrong token at that position.
    room: tokens that a round from each position on may draft within the call's max_new_tokens.
    last: the last position of the text that each position belongs to.
    """

    run: Ints
    stop: Ints
    reach: Ints
    tail_low: Ints
    tail_high: Ints
    room: Ints
    last: Ints


def prepare(accepted: NDArray[np.bool_], stops: NDArray[np.bool_], tails: tuple[Ints, Ints], budget: int) -> Path:
    """A Path from the outcome and the draft's wish to stop at each of the N positions."""
    place, (low, high) = np.arange(len(accepted)), tails
    run, stop = _next(~accepted) - place, _next(stops, FAR)
    reach = np.minimum(np.minimum(run, stop - place + 1), place[::-1])
    if accepted[-1] and low[-1] != FAR:  # what is drafted behind a cut text may end with its first token
        low = np.append(low[:-1], 0)
    return Path(run, stop, reach, low, high, budget - 1 - place, np.full(len(place), len(place) - 1))


def join(paths: Sequence[Path]) -> tuple[Path, Ints]:
    """Several texts as one for `walk_constant`, in which numpy's calls take longer than their work; and where each text begins, (T,)."""
    sizes = [len(path.run) for path in paths]
    begins = np.cumsum([0, *sizes[:-1]])
    shift = np.repeat(begins, sizes)
    run, stop, reach, low, high, room, last = (
        np.concatenate([getattr(path, name) for path in paths]) for name in ("run", "stop", "reach", "tail_low", "tail_high", "room", "last")
    )
    return Path(run, stop + shift, reach, low, high, room, last + shift), begins


def _next(here: NDArray[np.bool_], otherwise: int | None = None) -> Ints:
    """For each position the first one at or after it where `here` holds; else `otherwise`, or the length."""
    length = len(here)
    places = np.where(here, np.arange(length), length if otherwise is None else otherwise)
    return np.minimum.accumulate(places[::-1])[::-1]


def tail_lengths(length: int, tails: Tails | None, threshold: float) -> tuple[Ints, Ints]:
    """Least and most tokens drafted after a wrong token at each of the `length` positions: (N,), (N,).

    Where no tail was recorded anything from 1 on is possible; where it is shorter than the round, from its end on. A tail may have
    been followed only while the draft was as sure as the least threshold offered. At threshold 0 only the draft's own end of text
    could stop an unrecorded tail, which is neglected.
    """
    low, high = np.full(length, 1 if threshold else FAR), np.full(length, FAR)
    if tails is None or len(tails.position) == 0:
        return low, high
    columns = tails.confidence.shape[1]
    stops = tails.confidence < threshold  # (M, T)
    ends = tails.eos_at >= 0
    stops[ends, tails.eos_at[ends]] = True
    known = stops.any(axis=1)
    recorded = (~np.isnan(tails.confidence)).sum(axis=1) if threshold else columns  # fewer where the draft became unsure
    low[tails.position] = np.where(known, stops.argmax(axis=1) + 1, recorded)
    high[tails.position] = np.where(known, stops.argmax(axis=1) + 1, FAR)
    return low, high


def walk_constant(path: Path, limit: int) -> Walk:
    """The rounds when at most `limit` tokens are drafted in each."""
    accepted = np.minimum(path.reach, np.minimum(limit, path.room))
    starts = _follow(np.arange(len(path.run)) + accepted + 1)
    room, run, stop, last = np.minimum(limit, path.room[starts]), path.run[starts], path.stop[starts], path.last[starts]
    wrong = np.minimum(starts + run, last)
    unstopped = stop > starts + run  # drafting goes on after the wrong token
    low = np.minimum(room, np.where(unstopped, run + 1 + path.tail_low[wrong], stop - starts + 1))
    high = np.minimum(room, np.where(unstopped, run + 1 + path.tail_high[wrong], stop - starts + 1))
    return Walk(starts, high, accepted[starts], (high > run) & (starts + run <= last), low, limit)


def _follow(following: Ints) -> Ints:
    """The positions visited from 0 on when `following` tells the next one."""
    steps: list[int] = following.tolist()
    starts: list[int] = []
    at = 0
    while at < len(steps):
        starts.append(at)
        at = steps[at]
    return np.array(starts)


def walk_heuristic(path: Path, limit: int) -> Walk:
    """The rounds when the limit moves after each; `carried` is where it ends."""
    length, place = len(path.run), np.arange(len(path.run))
    wrong, stopped = np.minimum(place + path.run, length - 1), path.stop <= place + path.run
    least, most = (np.where(stopped, path.stop - place + 1, path.run + 1 + tail[wrong]) for tail in (path.tail_low, path.tail_high))
    accepts = np.minimum(path.run, length - 1 - place).tolist()
    drafts: list[int] = np.minimum(most, path.room).tolist()
    starts, limits, at = list[int](), list[int](), 0
    while at < length:
        starts.append(at)
        limits.append(limit)
        drafted = drafts[at] if drafts[at] < limit else limit
        accepted = accepts[at] if accepts[at] < drafted else drafted
        limit = limit + 2 if accepted == drafted else limit - 1 if limit > 1 else 1
        at += accepted + 1
    begun = np.array(starts)
    room, run = np.minimum(limits, path.room[begun]), path.run[begun]
    high = np.minimum(room, most[begun])
    accepted_all = np.minimum(np.minimum(run, high), length - 1 - begun)
    return Walk(begun, high, accepted_all, (high > run) & (run < length - begun), np.minimum(room, least[begun]), limit)


def walk_drafting(path: Path, policy: Drafting, limit: int) -> Walk:
    """The rounds of a drafting policy that begins the call with `limit`."""
    if policy.schedule == "constant":
        return walk_constant(path, limit)
    moved = walk_heuristic(path, limit)
    return moved if policy.schedule == "heuristic" else moved._replace(carried=policy.limit)


def walk_lookup(lookup: Lookup, tokens: int, budget: int) -> Walk:
    """The rounds of prompt lookup with at most `tokens` candidates."""
    length = len(lookup.candidates)
    place = np.arange(length)
    drafted = np.where(place == budget - 1, 0, np.minimum(lookup.candidates, tokens)).astype(np.int64)
    matched = np.minimum(lookup.matched, drafted)
    accepted = np.minimum(matched, length - 1 - place)
    starts = _follow(place + accepted + 1)
    rejected = (matched < drafted) & (place + matched < length)
    return Walk(starts, drafted[starts], accepted[starts], rejected[starts], drafted[starts], tokens)


def walk_plain(length: int) -> Walk:
    """One token at a time."""
    place, none = np.arange(length), np.zeros(length, dtype=np.int64)
    return Walk(place, none, none, none.astype(np.bool_), none, 0)


def walk_oracle(run: Ints, later: Floats, first: Floats) -> Walk:
    """The cheapest rounds for outcomes known beforehand.

    later, first: (limit+1,) price of a round that drafts 0, 1, ... tokens, and of the first one.
    C(i) = min over k <= run(i) of price(k) + C(i+k+1); the fewest drafts where several are equally cheap.
    """
    length = len(run)
    rest, known = [0.0] * (length + 1), np.zeros(length + 1)
    choice = [0] * length
    runs, costs = run.tolist(), (first.tolist(), later.tolist())
    for at in range(length - 1, -1, -1):
        cost = costs[at > 0]
        most = min(runs[at], len(cost) - 1, length - 1 - at)
        if most == 0:
            rest[at] = cost[0] + rest[at + 1]
        elif most < _LONG_RUN:
            prices = [cost[drafted] + rest[at + drafted + 1] for drafted in range(most + 1)]
            rest[at] = min(prices)
            choice[at] = prices.index(rest[at])
        else:
            price = (later if at else first)[: most + 1] + known[at + 1 : at + most + 2]
            choice[at] = int(price.argmin())
            rest[at] = float(price[choice[at]])
        known[at] = rest[at]
    starts = _follow(np.arange(length) + np.array(choice) + 1)
    drafted = np.array(choice)[starts]
    return Walk(starts, drafted, drafted, np.zeros(len(starts), dtype=np.bool_), drafted, len(later) - 1)
