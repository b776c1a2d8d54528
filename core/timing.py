"""What a round costs inside the real loop, from a run's timed passes and its short calibration runs.

    T = prefill_t + prefill_d + sum over rounds ( v(k+1) + [k>0] d2 + max(0, k-1) d1 + h + k e )     k drafted

Everything is divided by one plain target step of the real loop, so that a drifting machine cancels.
v and d come from isolated passes; a plain step also holds the loop's own overhead, hence
v(n) = 1 + (pass_n / pass_1 - 1) pass_1 / plain_step. h and e, what else a round and a drafted token
cost, are fitted (relative least squares, not below 0) to assisted runs between plain ones (`core.calibration`). The first
round's target pass is the prefill and its first draft pass the draft's prefill: neither is counted, but for the k tokens that the
first one checks beside the prompt, each at a prompt token's price; runs that did not note what they drafted are priced without. With a
confidence threshold every drafted token is also compared with it, which is timed by itself.
A wider pass is never priced below a narrower one: where timings say so, both get their mean. A further draft of a group has h and e
from the group's first (`Carried`), and the plain calls and the target's passes beside which they were measured.
Calls that stood still amid their work (`core.stalled`) are left out.
Source: Draftgauge's own trials, 1-3 % median error over gamma 1..12. Not covered: batches above 1, and
that the cache grows during an answer: each prompt has the prices of its answer's middle.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from core.calibration import Row, fit, left_out_error, rounds_run
from core.errors import NotMeasured
from core.measured import Carried, Generation, PassTimes
from core.policies import Drafting, Plain
from core.rounds import Floats, Rounds
from core.runs import Run
from core.stalled import PLAIN_FACTOR, keeps_moving
from core.trace import PromptTrace
from core.widths import at_length, between_widths, ratios, rising


class Parts(NamedTuple):
    """Where decoding time goes, each in plain steps."""

    draft: float
    verify: float
    rest: float


class Prices(NamedTuple):
    """(K+1,) each, of rounds with 0..K drafted tokens, in plain steps: of any round, and of the first one's verify and draft passes."""

    draft: Floats
    rest: Floats
    verify: Floats
    first: Floats
    first_draft: Floats


@dataclass(frozen=True, eq=False)
class LoopCosts:
    """Prices in plain target steps. `plain_step_s` is one of them in seconds.

    verify: (W+1,) v(n) for a target pass over n tokens, v(1) = 1; entry 0 is unused. draft_first: d2,
    the draft's two-token pass that begins a round; draft_next: d1, the others. round_overhead: h;
    token_overhead: e. calibration_error: relative error (one standard deviation) of predicting one
    calibration gamma from the others; None with fewer than two. first_token: one token more in the first round's target pass;
    check_overhead: comparing a drafted token's confidence with a threshold. mismatched: calibration runs whose
    rounds differ from the replay, as can happen in 16-bit precision; they count with their own rounds. carried_from: the draft whose
    calibration says h and e; "" for this one's own. encoded: whether an encoder reads the prompt.
    """

    plain_step_s: float
    verify: Floats
    draft_first: float
    draft_next: float
    round_overhead: float = 0.0
    token_overhead: float = 0.0
    calibration_error: float | None = None
    mismatched: int = 0
    first_token: float = 0.0
    check_overhead: float = 0.0
    carried_from: str = ""
    encoded: bool = False

    @property
    def c(self) -> float:
        """One drafted token, loop included: the c of `core.theory`."""
        return self.draft_next + self.token_overhead

    @property
    def overhead(self) -> float:
        """The rest of a round beside verify and c per token: the overhead of `core.theory`."""
        return self.round_overhead + self.draft_first - self.draft_next

    def verify_up_to(self, longest: int) -> Floats:
        """(longest+1,) v(k+1) for k = 0..longest drafted tokens; beyond the measured widths the last slope goes on."""
        known = self.verify[1:]
        if longest < len(known):
            return known[: longest + 1]
        slope = max(0.0, float(known[-1] - known[0]) / max(1, len(known) - 1))
        more = float(known[-1]) + slope * np.arange(1, longest + 2 - len(known), dtype=np.float64)
        return np.concatenate([known, more]).astype(np.float64)

    def draft_passes(self, longest: int) -> Floats:
        """(longest+1,) the draft's passes of a round with k = 0..longest drafted tokens."""
        drafted = np.arange(longest + 1, dtype=np.float64)
        return np.sign(drafted) * self.draft_first + np.maximum(0, drafted - 1) * self.draft_next

    def rest(self, longest: int) -> Floats:
        """(longest+1,) h + k e."""
        return self.round_overhead + self.token_overhead * np.arange(longest + 1, dtype=np.float64)

    def round(self, longest: int) -> Floats:
        """(longest+1,) the price of a round with k = 0..longest drafted tokens."""
        return self.verify_up_to(longest) + self.draft_passes(longest) + self.rest(longest)

    def first(self, longest: int) -> Floats:
        """(longest+1,) what the first round's k = 0..longest drafted tokens add to the target's prefill.

        Where an encoder reads the prompt, they are not read beside it but in the decoder's first pass, which is then as wide as any check.
        """
        if self.encoded:
            return self.verify_up_to(longest) - 1
        return self.first_token * np.arange(longest + 1, dtype=np.float64)

    def parts(self, rounds: Rounds, *, drafts: bool = True, checks: bool = False) -> Parts:
        """Decoding time of one prompt in plain steps; `drafts` False for prompt lookup, whose tokens cost no pass.

        checks: whether the policy has a confidence threshold.
        """
        prices = self._prices(len(rounds.rounds_by_drafted) - 1)
        later = rounds.rounds_by_drafted - rounds.first_by_drafted
        draft = later @ prices.draft + rounds.first_by_drafted @ prices.first_draft
        rest = rounds.rounds_by_drafted @ prices.rest if drafts else rounds.rounds_by_drafted.sum() * self.round_overhead
        verify = later @ prices.verify + rounds.first_by_drafted @ prices.first
        compared = self.check_overhead * rounds.drafted if checks else 0.0
        return Parts(float(draft) if drafts else 0.0, float(verify), float(rest) + compared)

    def _prices(self, longest: int) -> "Prices":
        """Kept, because hundreds of settings of a prompt ask for the same."""
        if longest not in self._priced:
            first_draft = np.maximum(0, np.arange(longest + 1) - 1) * self.draft_next
            later = (self.draft_passes(longest), self.rest(longest), self.verify_up_to(longest))
            self._priced[longest] = Prices(*later, self.first(longest), first_draft)
        return self._priced[longest]

    @cached_property
    def _priced(self) -> "dict[int, Prices]":
        return {}

    @staticmethod
    def from_run(run: Run) -> "LoopCosts":
        """The prices of a measured run. Raises NotMeasured saying which part is missing."""
        passes = passes_of(run, median_cache(run))
        if run.environment is not None and run.environment.carried is not None:
            return passes._with(run.environment.carried)
        rows, mismatched = calibration_rows(run)
        if not rows:
            raise NotMeasured("This run has no usable calibration: it was stopped before it, or its answers have one token. Measure it again.")
        h, e = fit(rows)
        return replace(passes, round_overhead=h, token_overhead=e, calibration_error=left_out_error(rows), mismatched=mismatched)

    def _with(self, carried: Carried) -> "LoopCosts":
        return replace(
            self,
            round_overhead=carried.round_overhead,
            token_overhead=carried.token_overhead,
            calibration_error=carried.calibration_error,
            carried_from=carried.draft,
        )

    def by_prompt(self, run: Run) -> list["LoopCosts"]:
        """The same h and e with the passes at each traced prompt's own cache length."""
        each = [passes_of(run, middle_cache(trace), self) for trace in run.traces]
        return [replace(self, verify=one.verify, draft_first=one.draft_first, draft_next=one.draft_next) for one in each]


def plain_step(run: Run) -> float:
    """Seconds per plain step over all calls that tell it; over those beside which reused passes were timed, where there are any.

    Raises NotMeasured without one of two tokens.
    """
    alone = [g for g in run.generations if isinstance(g.policy, Plain) and g.tells_speed]
    if not alone and any(g.tokens > 1 for g in run.generations):
        raise NotMeasured("This run was stopped before plain decoding was timed, so there is nothing to compare with. Measure it again.")
    return per_step(moving([g for g in alone if g.reused] or alone))


def moving(generations: list[Generation]) -> list[Generation]:
    """The plain calls of two or more tokens that did not stand still."""
    plain = [g for g in generations if g.tokens > 1]
    steps = np.array([(g.total_s - g.first_token_s) / (g.tokens - 1) for g in plain])
    return [g for g, moved in zip(plain, keeps_moving(steps, PLAIN_FACTOR), strict=True) if moved]


def per_step(generations: list[Generation]) -> float:
    """Seconds per plain step after the first token, as a ratio of sums. Raises NotMeasured without a plain run of two tokens."""
    plain = [g for g in generations if isinstance(g.policy, Plain) and g.tokens > 1]
    if not plain:
        raise NotMeasured(
            "This run has no plain generation of two or more tokens, so there is nothing to compare with. Measure with more new tokens."
        )
    return sum(g.total_s - g.first_token_s for g in plain) / sum(g.tokens - 1 for g in plain)


def passes_of(run: Run, cached: float, known: LoopCosts | None = None) -> LoopCosts:
    """Prices of the passes alone, with `cached` tokens in the cache; h and e are 0. Raises NotMeasured without timed passes.
    known: of the same run at another length; what does not depend on the length, and takes all its calls to tell, is taken from there.
    """
    if not run.passes:
        raise NotMeasured("This run has no timed passes: it was stopped before them. Measure again to predict speedups.")
    step_s = known.plain_step_s if known else plain_step(run)
    verify, draft = (at_length(cached, run.passes, [ratios(p, step_s)[part] for p in run.passes]) for part in range(2))
    one, two = rising(draft)
    widths = between_widths(sorted(run.passes[0].target), np.maximum(1, rising(verify)))
    check = (run.passes[0].check_s or 0.0) / step_s
    encoded = run.environment is not None and run.environment.encoder_decoder
    first_token = known.first_token if known else _first_token(run, step_s)
    return LoopCosts(step_s, widths, float(two), float(one), first_token=first_token, check_overhead=check, encoded=encoded)


def passes_alone(passes: PassTimes) -> LoopCosts:
    """Prices where no loop was run: a plain step is the target's one-token pass, v, d1 and d2 are as timed, h and e are 0."""
    step_s = passes.target[1].median_s
    verify, draft = ratios(passes, step_s)
    one, two = rising(draft)
    return LoopCosts(step_s, between_widths(sorted(passes.target), np.maximum(1, rising(verify))), float(two), float(one))


def _first_token(run: Run, step_s: float) -> float:
    """Reading one prompt token more in the target's prefill, in plain steps."""
    plain = [g for g in run.generations if isinstance(g.policy, Plain) and g.tells_speed and g.prompt < len(run.traces)]
    if not plain or not any(g.drafted for g in run.generations):
        return 0.0
    reading_s = sum(g.first_token_s - step_s for g in plain)
    return max(0.0, reading_s / sum(run.traces[g.prompt].prompt_tokens for g in plain) / step_s)


def median_cache(run: Run) -> float:
    """Tokens in the cache in the middle of the median prompt's answer. Raises NotMeasured without traces."""
    if not run.traces:
        raise NotMeasured("The draft has read no answer of this run, so nothing can be said of it. Measure again, or wait while it is measured.")
    return float(np.median([middle_cache(trace) for trace in run.traces]))


def middle_cache(trace: PromptTrace) -> float:
    """Tokens in the cache in the middle of a prompt's answer."""
    return trace.prompt_tokens + len(trace.answer) / 2


def calibration_rows(run: Run) -> tuple[list[Row], int]:
    """The calibration's assisted runs against the plain ones beside them, and how many had other rounds than the replay."""
    rows: list[Row] = []
    mismatched, passes = 0, None
    for block in blocks(run, "calibration"):
        for at, g in enumerate(block):
            plain = beside(block, at)
            if not isinstance(g.policy, Drafting) or g.policy.threshold:  # earlier versions ran the library's default too
                continue
            if not plain or g.tokens < 2 or g.prompt >= min(len(run.traces), len(run.draft_prefill_s)):
                continue
            measured = assisted_decode_s(g, plain, run.draft_prefill_s[g.prompt]) / per_step(plain)
            if measured <= 0:  # a call of a few tokens, shorter than its prefills by timing noise: it says nothing
                continue
            rounds, same = rounds_run(g, g.policy, run.traces[g.prompt])
            mismatched += not same
            passes = passes_of(run, run.traces[g.prompt].prompt_tokens + g.tokens / 2, passes)
            parts = passes.parts(rounds)
            rows.append(Row(g.policy.limit, measured, parts.draft + parts.verify, rounds.rounds, rounds.drafted))
    moved = keeps_moving(np.array([row.measured / (row.passes + row.rounds) for row in rows]))
    return [row for row, kept in zip(rows, moved, strict=True) if kept], mismatched


def beside(block: list[Generation], at: int) -> list[Generation]:
    """The plain runs directly before and after number `at` of a block; all plain runs of the block where neither neighbour is one."""
    neighbours = [g for g in block[max(0, at - 1) : at + 2] if isinstance(g.policy, Plain)]
    return neighbours or [g for g in block if isinstance(g.policy, Plain)]


def blocks(run: Run, purpose: str) -> list[list[Generation]]:
    """The generations of one purpose, grouped by block, in order."""
    grouped: dict[int, list[Generation]] = {}
    for g in run.generations:
        if g.purpose == purpose:
            grouped.setdefault(g.block, []).append(g)
    return list(grouped.values())


def assisted_decode_s(g: Generation, plain: list[Generation], draft_prefill_s: float) -> float:
    """Decoding time of an assisted run: the whole less both prefills, the target's taken from the plain runs beside it."""
    prefill_s = sum(p.first_token_s for p in plain) / len(plain)
    return g.total_s - prefill_s - (draft_prefill_s if isinstance(g.policy, Drafting) else 0.0)
