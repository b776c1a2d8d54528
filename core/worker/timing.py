"""Isolated forward passes, and blocks that are timed only while the machine is quiet.

A verify pass over n tokens does not cost the same as one over a single token, and not in
proportion either, so the widths that drafting uses are timed one by one. Each repetition times a
one-token target pass and then the width, so that a slow drift of the machine cancels in the ratio.
On a CPU a block is disturbed by a neighbour if its main thread got less than 95 % of the wall time, or
if the core was taken from it again and again: it is repeated, and if it does not become quiet the
run says so. Times in seconds. Not covered: a neighbour on another core that slows this one's memory
or clock, and involuntary switches outside Linux, which counts them by thread.
"""

import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import torch
from transformers import LogitsProcessorList, PreTrainedModel

from core.measured import PassTimes, Sample
from core.worker.feeding import CAUSAL, Feeding
from core.worker.generate import synchronise
from core.worker.loading import devices_of
from core.worker.models import Pair
from core.worker.processors import Lists

if sys.platform == "linux":
    import resource

Result = TypeVar("Result")
Beside = tuple[float, float]
"""A one-token target pass, and right after it the pass that it is compared with."""

TARGET_WIDTHS = (1, 2, 3, 4, 5, 6, 7, 9, 13, 21)
DRAFT_WIDTHS = (1, 2)
WIDEST = max(TARGET_WIDTHS)
QUIET_SHARE = 0.95
SWITCHES_PER_S, FEW_SWITCHES = 100.0, 5
"""How often the core may be taken from a block: so many times a second, and a few in a short one. Measured on two cores, Linux 6.18:
20 a second (median) to 80 in calm moments (share above 0.995); 500 beside a process that wakes every 2 ms, which the share, 0.967, lets pass."""
_REPEATS = 2
_LEAST_ROUNDS, _MOST_ROUNDS, _DRAFT_ROUNDS = 5, 15, 9
_SECONDS_PER_LENGTH = 3.0
PREFILLS, _PREFILL_S = 3, 0.1
"""Passes over one prompt at most, and the time after which no further one is begun."""


class Load(NamedTuple):
    """What a timed block of `wall_s` had of its core: CPU time / wall time, how often the core was taken from it, and its CPU time."""

    share: float
    switches: int
    wall_s: float
    busy_s: float = 0.0

    @property
    def quiet(self) -> bool:
        """Whether the timings can be trusted."""
        return self.share >= QUIET_SHARE and self.switches <= FEW_SWITCHES + SWITCHES_PER_S * self.wall_s


class Quiet:
    """Runs timed blocks; repeats a disturbed one up to twice while `patience_s` lasts, then calls `on_disturbed`.

    Patience is what repetitions may take in all. A call that stood still for a minute is repeated too: it would take its CPU time.
    """

    def __init__(self, device: torch.device, on_disturbed: Callable[[], None], patience_s: float = 15.0) -> None:
        self._judges = device.type == "cpu"
        self._on_disturbed = on_disturbed
        self._patience_s = patience_s

    def __call__(self, block: Callable[[], Result]) -> tuple[Result, float]:
        """What `block` returned in its quietest attempt, and that attempt's share of CPU time in wall time."""
        best, load = self._attempt(block)
        for _ in range(_REPEATS):
            if load.quiet or self._patience_s < load.busy_s:
                break
            again, again_load = self._attempt(block)
            self._patience_s -= again_load.wall_s
            if (again_load.quiet, again_load.share) > (load.quiet, load.share):
                best, load = again, again_load
        if not load.quiet:
            self._on_disturbed()
        return best, load.share

    def _attempt(self, block: Callable[[], Result]) -> tuple[Result, Load]:
        """The main thread's own CPU time is used: torch's helpers and the heartbeat must not hide a wait."""
        switches, wall, busy = involuntary_switches(), time.perf_counter(), time.thread_time()
        result = block()
        wall_s, busy_s = time.perf_counter() - wall, time.thread_time() - busy
        switches = involuntary_switches() - switches
        return result, Load(min(1.0, busy_s / wall_s), switches, wall_s, busy_s) if self._judges else Load(1.0, 0, wall_s)


def involuntary_switches() -> int:
    """How often the system has taken the core from the calling thread so far; 0 where it does not say."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw if sys.platform == "linux" else 0


class Stepper:
    """A model with `cache_tokens` tokens of `text` in its cache, ready for the next few; each pass is undone afterwards."""

    def __init__(
        self,
        model: PreTrainedModel,
        text: torch.Tensor,
        cache_tokens: int,
        processors: LogitsProcessorList,
        every: bool,
        feeding: Feeding = CAUSAL,
        written: int = 1,
    ) -> None:
        """text: (R, at least cache_tokens + 21), of which the first is read; `widen` reads more of them at once.

        processors: applied after a pass as the loop does, to `every` position (the target's) or to the last one (the draft's).
        written: how many of the cached tokens are the answer's, where an encoder reads the rest (`feeding`).
        """
        self.model = model
        self.cache_tokens = cache_tokens
        self._devices = devices_of(model)
        self._text = text.to(model.device)
        self._processors = processors
        self._every = every
        self._reader = feeding.amid(model, self._text[:1], cache_tokens, written)
        self._take(1)

    @property
    def batch(self) -> int:
        """Texts that a pass reads at once."""
        return len(self._next)

    @property
    def cache_bytes(self) -> int:
        """What the cache holds now."""
        return sum(part.nbytes for layer in self._reader.layers for part in vars(layer).values() if isinstance(part, torch.Tensor))

    def widen(self, batch: int) -> None:
        """From here on `batch` texts at once: each with the cache of the first, and next tokens of its own."""
        self._reader.keep(torch.zeros(batch, dtype=torch.long, device=self.model.device))
        self._take(batch)

    def _take(self, batch: int) -> None:
        self._next = self._text[:batch, self.cache_tokens : self.cache_tokens + WIDEST]

    def seconds(self, width: int) -> float:
        """One pass over the next `width` tokens."""
        synchronise(*self._devices)
        began = time.perf_counter()
        self._process(self._reader.read(self._next[:, :width]), width)
        synchronise(*self._devices)
        spent = time.perf_counter() - began
        self._reader.undo(width)
        return spent

    def _process(self, logits: torch.Tensor, width: int) -> None:
        """logits: (B, width, V)."""
        for place in range(0 if self._every else width - 1, width) if len(self._processors) else ():
            known = self._text[: self.batch, : self.cache_tokens + place + 1]
            self._processors(known, logits[:, place].float())  # pyright: ignore[reportArgumentType]


@torch.no_grad()
def pass_times(
    pair: Pair, used: Lists, text: torch.Tensor, cache_tokens: int, quiet: Quiet, known: PassTimes | None = None, written: int = 1
) -> PassTimes:
    """Time all widths after `cache_tokens` tokens of `text` (1, at least cache_tokens + 21); about three seconds at 10 ms per pass.

    used: the processors of the run's decoding, whose work counts as the pass's. known: the target's widths were timed at this length
    already, with another draft; only the draft's are, turn by turn beside a step of the target. written: as for `Stepper`.
    """
    target = Stepper(pair.target, text, cache_tokens, used.target, True, pair.feeding, written)
    return steps_times(target, Stepper(pair.draft, text, cache_tokens, used.draft, False, pair.feeding, written), quiet, known=known)


@torch.no_grad()
def steps_times(target: Stepper, draft: Stepper, quiet: Quiet, widths: Sequence[int] = TARGET_WIDTHS, known: PassTimes | None = None) -> PassTimes:
    """The same for steppers of equal length and batch. widths: those of the target that are timed, at most 21 and 1 among them."""

    def beside(width: int) -> Beside:
        one_s = target.seconds(1)
        return one_s, target.seconds(width)

    def drafted(width: int) -> Beside:
        """The two-token pass follows one of the target's, as it begins a round; the others follow another draft pass, and are a third cheaper."""
        one_s = target.seconds(1)
        if width == 1:
            draft.seconds(1)
        return one_s, draft.seconds(width)

    def one_round() -> list[Beside]:
        return [beside(width) for width in (() if known else widths)] + [drafted(width) for width in DRAFT_WIDTHS]

    with target.model._optimize_model_for_decode(), draft.model._optimize_model_for_decode():  # pyright: ignore[reportCallIssue]
        rounds = _rounds(one_round, quiet, most=_DRAFT_ROUNDS if known else _MOST_ROUNDS)
    beside_target, beside_draft = rounds_by_width(rounds, widths)
    return PassTimes(
        cache_tokens=target.cache_tokens,
        batch=target.batch,
        target=known.target if known else {width: sample([s for _, s in pairs]) for width, pairs in beside_target.items()},
        draft={width: sample([s for _, s in pairs]) for width, pairs in beside_draft.items()},
        target_one_s=known.target_one_s if known else {width: statistics.median(s for s, _ in pairs) for width, pairs in beside_target.items()},
        target_one_beside_draft_s={width: statistics.median(s for s, _ in pairs) for width, pairs in beside_draft.items()},
        reused=known is not None,
    )


def _rounds(one_round: Callable[[], list[Beside]], quiet: Quiet, most: int) -> list[list[Beside]]:
    """A round to warm up, then as many as fit into the time, at least five and at most `most`."""
    one_round()
    began = time.perf_counter()
    first, _ = quiet(one_round)
    spent_s = time.perf_counter() - began
    wanted = min(most, max(_LEAST_ROUNDS, math.floor(_SECONDS_PER_LENGTH / spent_s)))
    return [first, *(quiet(one_round)[0] for _ in range(wanted - 1))]


def rounds_by_width(rounds: list[list[Beside]], widths: Sequence[int] = TARGET_WIDTHS) -> tuple[dict[int, list[Beside]], dict[int, list[Beside]]]:
    """The same timings by the target's widths, none where only the draft's were timed, and by the draft's."""
    columns = [list(column) for column in zip(*rounds, strict=True)]
    split = len(columns) - len(DRAFT_WIDTHS)
    return dict(zip(widths[:split], columns[:split], strict=True)), dict(zip(DRAFT_WIDTHS, columns[split:], strict=True))


@torch.no_grad()
def prefill_seconds(model: PreTrainedModel, prompt: torch.Tensor, quiet: Quiet, most: int = PREFILLS, feeding: Feeding = CAUSAL) -> float:
    """Median of `most` passes over the whole prompt (1, P) with an empty cache, the draft's first pass in the library; long ones run once.

    Where an encoder reads the prompt, its pass and the decoder's first one.
    """
    own, devices = prompt.to(model.device), devices_of(model)

    def once() -> float:
        synchronise(*devices)
        began = time.perf_counter()
        feeding.begin(model, [own]).read(feeding.opening(own), kept=1)
        synchronise(*devices)
        return time.perf_counter() - began

    times = [quiet(once)[0]]
    while len(times) < most and sum(times) < _PREFILL_S:
        times.append(quiet(once)[0])
    return statistics.median(times)


def sample(seconds: list[float]) -> Sample:
    """Median, interquartile range and count of at least two timings."""
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return Sample(median_s=middle, iqr_s=high - low, n=len(seconds))
