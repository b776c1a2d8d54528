"""The measurement: from a `RunSpec` to everything that predictions need, reported to a `Sink` as it comes.

Stages: load both models; let the target answer every prompt, in batches (`core.worker.batch`); run the draft once over each
answer; time isolated passes at the median cache length; calibrate the loop's overhead with short assisted calls between plain
ones; confirm the best settings by really running them (`core.worker.confirm`); look into answers that part; time passes at a
second cache length. All with the run's own decoding. What plain decoding costs comes from single calls alone, never from a batch.
The same spec gives the same answers, traces and rounds; only times differ, and with them what is confirmed. The seed picks
the calibration's prompts, which setting runs first, and what is drawn under sampling. Times in seconds.
A further draft of a group (`core.worker.first`) reads the kept answers and has its passes timed; the target's passes, the plain calls
and the loop's overhead are the first draft's, and marked so in the record.
Not covered: several drafts in one run, requests batched together.
"""

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

from core.errors import DeviceError, InvalidInput, ModelError
from core.measured import Environment, Generation
from core.policies import FixedGamma, Plain, Policy
from core.predict import THRESHOLDS
from core.runs import RunSpec, Stage
from core.settings import Settings
from core.sink import Sink
from core.trace import PromptTrace
from core.worker.answers import Answers
from core.worker.batch import Written
from core.worker.calls import Calls
from core.worker.check import check_seconds
from core.worker.confirm import confirm
from core.worker.environment import environment, prepare
from core.worker.first import First
from core.worker.generate import run_policy
from core.worker.inputs import cache_lengths, encode_prompts, spread, text_of
from core.worker.loading import too_much
from core.worker.memory import peaks, peaks_of
from core.worker.models import Garage
from core.worker.precision import differences
from core.worker.processors import lists
from core.worker.recorder import Recorder
from core.worker.rival import fastest_plain, warm_up
from core.worker.room import out_of_memory
from core.worker.shapes import shapes
from core.worker.side_by_side import side_by_side
from core.worker.smoke import shortened, smoke
from core.worker.timing import PREFILLS, WIDEST, Quiet, pass_times, prefill_seconds
from core.worker.tracing import traces
from core.worker.ways import ways

CALIBRATION_GAMMAS = (1, 4, 12)
CALIBRATION_PROMPTS = 3
CALIBRATION_TOKENS = 24
LIGHT = 0.1
"""A draft up to this share of the target's parameters is followed to the end of each tail; a heavier one while a threshold is offered."""
FURTHER_PREFILLS = 1
CALIBRATION_S = 15.0
"""No further prompt is begun after this time."""
DOING: dict[Stage, str] = {
    "plain": "the target wrote its answers",
    "draft": "the draft read the answers",
    "timing": "passes were timed",
    "calibrating": "the loop was calibrated",
    "confirming": "settings were confirmed",
    "writing": "answers were written side by side",
    "ways": "prompts were written in several ways",
    "shapes": "passes were timed",
}

_garage = Garage()
_answers = Answers()
_first = First()


def measure(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    """Measure `spec` and report to `sink`; the pair and its answers stay in memory for the next call.

    Raises InvalidInput (prompts, budget), ModelError (folders, vocabularies, files that change, scores that are not numbers),
    DeviceError (no such device, out of memory). What was reported before an error stays valid.
    """
    if spec.max_new_tokens < 1:
        raise InvalidInput(f"{spec.max_new_tokens} new tokens leave nothing to measure. Ask for at least 1; 40 is a good start.")
    if not spec.prompts and spec.extent != "shapes":
        raise InvalidInput("There is no prompt to measure. Add at least one; 24 or more give a useful interval.")
    prepare(spec, settings)
    recorder, reason = Recorder(spec, sink), ""
    _garage.begin()
    try:
        if spec.extent == "smoke":
            _Measurement(shortened(spec), recorder).smoke()
        elif spec.extent == "side_by_side":
            with _same_files():
                side_by_side(spec, recorder, _garage)
        elif spec.extent == "ways":
            with _same_files():
                ways(spec, recorder, _garage)
        elif spec.extent == "shapes":
            shapes(spec, recorder, _garage)
        else:
            _Measurement(spec, recorder).run()
    except Exception as error:
        if not out_of_memory(error):
            raise
        reason = too_much(error)
    if reason:  # outside the except block, whose traceback would keep the models alive
        _garage.empty()
        raise DeviceError(_too_little(spec, recorder.doing, reason))


def _too_little(spec: RunSpec, stage: Stage, reason: str) -> str:
    advice = "Use a smaller dtype, shorter prompts, fewer new tokens, or another device."
    if stage not in DOING:
        return f"The pair does not fit into the memory of {spec.device}: {reason} {advice}"
    return f"The memory of {spec.device} did not suffice while {DOING[stage]}: {reason} What was measured before is kept. {advice}"


class _Measurement:
    """One run's state while it is measured: the pair, the encoded prompts and, once known, the traces of the answers."""

    def __init__(self, spec: RunSpec, sink: Recorder) -> None:
        self._spec = spec
        self._sink = sink
        self._pair = _garage.get(spec, sink.stage)
        self._quiet = Quiet(self._pair.device, sink.disturbed)
        self._prompts = encode_prompts(self._pair, spec)
        self._known = _first.of(spec, _garage.target)

    def run(self) -> None:
        """All stages in order."""
        begun = environment(self._spec, self._pair)
        self._sink.environment(begun)
        self._sink.stage("load", 1, 2)
        known = self._warm_up(begun)
        if known != begun:
            self._sink.environment(known)
        self._sink.stage("load", 2, 2)
        with _same_files():
            written = self._answer()
        with _same_files():
            traces = self._read(written)
        middle, other = cache_lengths([p.shape[1] for p in self._prompts], [len(t.answer) for t in traces], self._pair.context)
        half = statistics.median_low([len(t.answer) for t in traces]) // 2
        self._time_passes(middle, half)
        calls = Calls(self._pair, self._spec, self._prompts, [t.answer for t in traces], self._sink, known.plain)
        budgets = [len(t.answer) if t.ended == "stop" else t.budget for t in traces]
        self._calibrate(calls, budgets)
        _first.keep(self._sink.run(), _garage.target)
        confirm(calls, self._spec, self._sink, budgets)
        for difference in differences(self._pair, self._spec, self._prompts, [t.answer for t in traces], calls.parted):
            self._sink.difference(difference)
        self._passes(other, half)
        _first.keep(self._sink.run(), _garage.target)
        self._sink.environment(known.model_copy(update=peaks(self._pair.devices)))

    def smoke(self) -> None:
        """Only whether the pair runs."""
        self._sink.environment(environment(self._spec, self._pair))
        smoke(self._pair, self._prompts[0], self._sink)

    def _warm_up(self, begun: Environment) -> Environment:
        """First calls are slow (allocations, kernel choice) and belong to nobody's result; they tell what memory and plain decoding are like."""
        prompt, budget = self._prompts[0], min(8, self._spec.max_new_tokens)
        first = self._known
        most = peaks_of(
            self._pair, lambda policy: run_policy(self._pair, prompt, policy, budget, self._spec.decoding), first.target_peak_bytes if first else None
        )
        if first:
            warm_up(self._pair, self._prompts, self._spec, first.plain)
            return begun.model_copy(update=most | {"plain": first.plain, "carried": first.carried})
        return begun.model_copy(update=most | fastest_plain(self._pair, self._prompts, self._spec)._asdict())

    def _answer(self) -> list[Written]:
        found: dict[int, Written] = {}
        self._sink.stage("plain", 0, len(self._prompts))
        for index, written in _answers.of(self._spec, self._pair, _garage.target, self._prompts):
            found[index] = written
            self._sink.generation(_record(index, written, self._spec))
            self._sink.stage("plain", len(found), len(self._prompts))
        return [found[index] for index in range(len(self._prompts))]

    def _read(self, written: list[Written]) -> list[PromptTrace]:
        """A heavy draft, and a further one, is followed after a wrong token only as far as the thresholds offered need it."""
        found: dict[int, PromptTrace] = {}
        heavy = self._known is not None or self._pair.draft.num_parameters() > LIGHT * self._pair.target.num_parameters()
        how = {"stop": self._spec.stop, "least": THRESHOLDS[1] if heavy else 0.0, "known": self._known.traces if self._known else ()}
        self._sink.stage("draft", 0, len(self._prompts))
        for index, trace in traces(self._pair, self._prompts, written, self._spec.max_new_tokens, self._spec.decoding, **how):
            found[index] = trace
            self._sink.trace(index, trace)
            self._sink.stage("draft", len(found), len(self._prompts))
        return [found[index] for index in range(len(self._prompts))]

    def _time_passes(self, cache_tokens: int, written: int) -> None:
        self._sink.stage("timing", 0, 2)
        self._passes(cache_tokens, written)
        self._sink.stage("timing", 1, 2)
        most = FURTHER_PREFILLS if self._known else PREFILLS
        draft, feeding = self._pair.draft, self._pair.feeding
        self._sink.draft_prefill(tuple(prefill_seconds(draft, prompt, self._quiet, most, feeding) for prompt in self._prompts))

    def _passes(self, cache_tokens: int, written: int) -> None:
        """written: of the cached tokens, those of the answer."""
        text = text_of(self._prompts, cache_tokens + WIDEST)
        known = self._known.passes.get(cache_tokens) if self._known else None
        timed = pass_times(self._pair, lists(self._pair, self._spec.decoding), text, cache_tokens, self._quiet, known, written)
        self._sink.passes(timed.model_copy(update={"check_s": check_seconds(self._pair.draft, self._quiet)}))

    def _calibrate(self, calls: Calls, budgets: list[int]) -> None:
        """Each gamma between two plain runs. Where this takes long two prompts do.

        A further draft has the first one's plain calls, and what came of the others (`Environment.carried`).
        """
        if self._known:
            for call in self._known.calls:
                self._sink.generation(call.model_copy(update={"reused": True}))
            return
        chosen = spread([prompt.label for prompt in self._spec.prompts], CALIBRATION_PROMPTS, self._spec.seed)
        policies: list[Policy] = [Plain()]
        for policy in map(FixedGamma, CALIBRATION_GAMMAS):
            policies += [policy, Plain()]
        began_s = time.monotonic()
        for done, index in enumerate(chosen):
            if done >= 2 and time.monotonic() - began_s > CALIBRATION_S:
                break
            self._sink.stage("calibrating", done, len(chosen))
            calls.block("calibration", index, policies, min(CALIBRATION_TOKENS, budgets[index]))


@contextmanager
def _same_files() -> Iterator[None]:
    """Raise ModelError when the models' files change meanwhile: weights may be read from them as they are needed."""
    yield
    changed = _garage.changed()
    if changed:
        _garage.empty()
        raise ModelError(f"The files in {changed} changed while they were measured, so nobody knows which were. Measure again.")


def _record(index: int, written: Written, spec: RunSpec) -> Generation:
    return Generation(
        purpose="answer",
        block=index,
        prompt=index,
        policy=Plain(),
        tokens=len(written.tokens),
        total_s=written.total_s,
        first_token_s=written.first_token_s,
        equal=None if spec.decoding.sample else True,
        batch=written.batch,
        reused=written.reused,
    )
