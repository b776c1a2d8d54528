"""How many GPUs a day's traffic needs with and without the draft, and the load at which drafting stops paying.

A GPU holds B requests at once. One request takes of its time

    g(B) = prompt / prompt speed (1 + draft's share)  +  output step P(B, 1) / (B S(B))        seconds

with P and S from `core.batch` (S = 1 without a draft), so it serves 1 / g(B) requests a second. B is
searched: the number, within memory and the speed each reader must get, that serves the most. A day's
mean rate times the peak factor, over that rate times the share of time a GPU may be busy, rounded up,
is the number of GPUs. Times in seconds, rates per second, traffic per day. Not covered: queues and
their waiting times, prompts shared through a prefix cache, speed of the network.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core import cost
from core.batch import Drafting, Serving, checked, pass_price, speedup_at
from core.errors import InvalidInput
from core.intervals import Interval

Floats = NDArray[np.float64]
DAY_S = 86_400


@dataclass(frozen=True)
class Traffic:
    """What must be served. peak_factor: the busiest rate / the day's mean. busy_share: most that a GPU may be busy at the peak.

    least_tokens_per_s: speed that each reader must get while the answer is written; 0 for no demand.
    """

    requests_per_day: float
    prompt_tokens: float
    output_tokens: float
    peak_factor: float = 2.0
    busy_share: float = 0.8
    least_tokens_per_s: float = 0.0

    def __post_init__(self) -> None:
        checked("requests_per_day", self.requests_per_day, high=1e12)
        checked("prompt_tokens", self.prompt_tokens, low=0.0, high=1e8)
        checked("output_tokens", self.output_tokens, low=1.0, high=1e8)
        checked("peak_factor", self.peak_factor, low=1.0, high=1e4)
        checked("busy_share", self.busy_share, low=0.01, high=1.0)
        checked("least_tokens_per_s", self.least_tokens_per_s, low=0.0, high=1e6)

    @property
    def peak_requests_per_s(self) -> float:
        """Requests a second in the busiest time."""
        return self.requests_per_day / DAY_S * self.peak_factor


@dataclass(frozen=True)
class Need:
    """GPUs for the traffic. exact: before rounding up. sequences: requests at once per GPU where it serves the most.

    speedup: of decoding at that number (1 without a draft). reader_tokens_per_s: speed of each answer then.
    """

    gpus: int
    exact: float
    sequences: int
    speedup: float
    requests_per_s_per_gpu: float
    reader_tokens_per_s: float


class Crossover(NamedTuple):
    """Where drafting stops paying on one GPU, as load rises.

    slower: from `sequences` at once on, a request takes as much GPU time with the draft as without. memory: it is faster throughout, but
    plain decoding goes on to hold more requests. always, never: there is no such load, and both numbers are None.
    """

    kind: Literal["slower", "memory", "always", "never"]
    sequences: int | None = None
    requests_per_day: float | None = None


@dataclass(frozen=True)
class Fleet:
    """GPUs without and with the draft; None where even one request at a time is slower than readers must get.

    gpus_interval: GPUs with the draft at the upper and lower end of the speedup's interval, so low <= gpus <= high;
    None without an interval, or where an end is too slow for the readers.
    """

    plain: Need | None
    drafted: Need | None
    gpus_interval: tuple[int, int] | None
    crossover: Crossover


class Money(NamedTuple):
    """USD a month for the fleet; the saving is negative where the draft costs more, its interval None where GPUs have none."""

    plain_usd: float
    drafted_usd: float
    saving_usd: float
    saving_interval: Interval | None


class Assumption(NamedTuple):
    """One number behind the result, or, with value None, one simplification."""

    name: str
    value: float | None
    unit: str
    why: str


def plan(traffic: Traffic, serving: Serving, drafting: Drafting) -> Fleet:
    """The GPUs needed without and with the draft. Raises InvalidInput when the draft would let more requests fit than fit without it."""
    if drafting.sequences > serving.sequences:
        raise InvalidInput(
            f"{drafting.sequences} sequences with the draft are more than the {serving.sequences} without it. The draft takes memory: correct one."
        )
    return Fleet(
        plain=_need(traffic, serving, None),
        drafted=_need(traffic, serving, drafting),
        gpus_interval=_gpus_interval(traffic, serving, drafting),
        crossover=crossover(traffic, serving, drafting),
    )


def crossover(traffic: Traffic, serving: Serving, drafting: Drafting) -> Crossover:
    """The smallest load of one GPU at which drafting stops paying, by search over the requests held at once."""
    plain, drafted = _rates(traffic, serving, None), _rates(traffic, serving, drafting)
    losing = np.flatnonzero(drafted <= plain[: len(drafted)])
    if losing.size and losing[0] == 0:
        return Crossover("never")
    if losing.size:
        return _at("slower", int(losing[0]) + 1, float(plain[losing[0]]), traffic)
    if plain.max() > drafted.max():
        return _at("memory", int(drafted.argmax()) + 1, float(drafted.max()), traffic)
    return Crossover("always")


def monthly(fleet: Fleet, usd_per_hour: float, gpus_per_instance: int = 1, hours: float = cost.HOURS_PER_MONTH) -> Money | None:
    """What whole instances for the fleet cost a month; None where one of the two cannot serve the readers.

    usd_per_hour: of the instance. Raises InvalidInput as `cost.monthly_cost` does.
    """
    checked("gpus_per_instance", gpus_per_instance, low=1, high=1024)
    each = cost.monthly_cost(usd_per_hour, hours)
    if fleet.plain is None or fleet.drafted is None:
        return None
    plain = each * math.ceil(fleet.plain.gpus / gpus_per_instance)
    drafted = each * math.ceil(fleet.drafted.gpus / gpus_per_instance)
    interval = None
    if fleet.gpus_interval is not None:
        fewest, most = (each * math.ceil(gpus / gpus_per_instance) for gpus in fleet.gpus_interval)
        interval = Interval(plain - most, plain - fewest)
    return Money(plain, drafted, plain - drafted, interval)


def gains(traffic: Traffic, serving: Serving, drafting: Drafting) -> tuple[NDArray[np.int64], Floats, Floats]:
    """For 1, 2, ... requests at once, as many as fit with the draft: their number, the speedup of decoding, and of the whole request."""
    held = _held(drafting.sequences)
    whole_request = _rates(traffic, serving, drafting) / _rates(traffic, serving, None)[: drafting.sequences]
    return held.astype(np.int64), speedup_at(serving, drafting, held), whole_request


def assumptions(traffic: Traffic, serving: Serving, drafting: Drafting) -> tuple[Assumption, ...]:
    """Every number and simplification that the result rests on, to be written out beside it."""
    measured = ", ".join(f"{at:g}" for at, _ in sorted(drafting.batch_curve))
    curve = f"measured at 1, {measured} sequences, modelled beyond" if measured else "measured at 1 sequence at most, modelled from 2 on"
    return (
        Assumption("Requests", traffic.requests_per_day, "a day", "Spread over the day up to the peak factor."),
        Assumption("Prompt", traffic.prompt_tokens, "tokens", "Mean of the traffic; every prompt is read in full, none from a prefix cache."),
        Assumption("Answer", traffic.output_tokens, "tokens", "Mean of the traffic."),
        Assumption("Peak factor", traffic.peak_factor, "x the mean rate", "GPUs are counted for the busiest time and rented all month."),
        Assumption(
            "Busy share", traffic.busy_share, "of the time", "A GPU that is always busy lets requests wait without end; the rest is headroom."
        ),
        Assumption("Reader's speed", traffic.least_tokens_per_s, "tokens/s at least", "0 demands none; a demand limits the requests held at once."),
        Assumption("Plain speed", serving.tokens_per_s, "tokens/s", "One sequence alone, on this GPU and in the engine that will serve."),
        Assumption("Prompt speed", serving.prompt_tokens_per_s, "tokens/s", "Decoding pauses while a prompt is read."),
        Assumption("Requests at once, plain", serving.sequences, "sequences", "What fits into memory."),
        Assumption("Requests at once, with the draft", drafting.sequences, "sequences", "What fits beside the draft's weights and cache."),
        Assumption(
            "Knee",
            serving.knee_tokens,
            "tokens in a pass",
            "Up to here reading weights takes the time, beyond it arithmetic; half the vendor's peak is assumed where it was not measured.",
        ),
        Assumption("Cache share", serving.cache_share, "of a plain step", "Reading the cache of one more sequence; it is read once per pass."),
        Assumption("Speedup", drafting.speedup, "x", f"Of decoding; {curve}. The interval is carried to larger batches in proportion."),
        Assumption(
            "Drafted per round", drafting.drafted_per_round, "tokens", "The target checks one more in a pass; a mean where the length varies."
        ),
        Assumption("Tokens per round", drafting.tokens_per_round, "tokens", "As on the measured prompts; it does not depend on the batch."),
        Assumption("Draft's prompt pass", drafting.prompt_share, "of the target's", "The draft reads every prompt too."),
        Assumption("Draft and loop", None, "", "Their share of a round grows with the batch as a plain step does."),
        Assumption("One copy", None, "", "A GPU stands for one copy of the target: a model spread over several counts them as one."),
        Assumption("Dense model", None, "", "A mixture of experts reads more weights in a batch: left out unless passes were measured."),
    )


def _need(traffic: Traffic, serving: Serving, drafting: Drafting | None, factor: float = 1.0) -> Need | None:
    """GPUs needed; None where readers cannot be served. factor: moves the speedup at every batch, for the ends of its interval."""
    rates = _rates(traffic, serving, drafting, factor)
    held = _held(len(rates))
    readers = traffic.output_tokens / (held / rates - _prompt_s(traffic, serving, drafting))
    quick = readers >= traffic.least_tokens_per_s
    if not quick.any():
        return None
    best = int(np.where(quick, rates, 0.0).argmax())
    exact = traffic.peak_requests_per_s / (float(rates[best]) * traffic.busy_share)
    speedup = 1.0 if drafting is None else factor * float(speedup_at(serving, drafting, held[best : best + 1])[0])
    return Need(math.ceil(exact), exact, best + 1, speedup, float(rates[best]), float(readers[best]))


def _rates(traffic: Traffic, serving: Serving, drafting: Drafting | None, factor: float = 1.0) -> Floats:
    """Requests a second that one GPU serves while it holds 1, 2, ... as many as fit."""
    held = _held(serving.sequences if drafting is None else drafting.sequences)
    speedup = np.ones_like(held) if drafting is None else factor * speedup_at(serving, drafting, held)
    decode_s = traffic.output_tokens * serving.step_s * pass_price(serving, held, 1) / (held * speedup)
    return 1 / (_prompt_s(traffic, serving, drafting) + decode_s)


def _prompt_s(traffic: Traffic, serving: Serving, drafting: Drafting | None) -> float:
    share = 0.0 if drafting is None else drafting.prompt_share
    return traffic.prompt_tokens / serving.prompt_tokens_per_s * (1 + share)


def _held(most: int) -> Floats:
    return np.arange(1, most + 1, dtype=np.float64)


def _gpus_interval(traffic: Traffic, serving: Serving, drafting: Drafting) -> tuple[int, int] | None:
    if drafting.interval is None:
        return None
    slow, quick = (_need(traffic, serving, drafting, end / drafting.speedup) for end in drafting.interval)
    return None if slow is None or quick is None else (quick.gpus, slow.gpus)


def _at(kind: Literal["slower", "memory"], sequences: int, requests_per_s: float, traffic: Traffic) -> Crossover:
    return Crossover(kind, sequences, requests_per_s * DAY_S / traffic.peak_factor)
