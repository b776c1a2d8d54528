"""The measurement: from a `RunSpec` to everything that predictions need, reported to a `Sink` as it comes.

Stages: load both models; let the target answer every prompt; run the draft once over each answer;
time isolated passes; calibrate the loop's overhead with short assisted runs between plain ones;
confirm the best fixed gamma and the library's default by really running them. Greedy decoding.
The same spec gives the same answers, traces and rounds; only times differ, and with them the gamma that is
confirmed. The seed picks the calibration's prompts and which setting runs first. Times in seconds.
Not covered: sampling, several drafts in one run, batches.
"""

import random
import statistics
import time
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from core import columns, predict
from core.errors import DeviceError, InvalidInput, NotMeasured
from core.policies import FixedGamma, Plain, Policy, TransformersDefault
from core.runs import Generation, Purpose, RunSpec
from core.settings import Settings
from core.sink import Sink
from core.worker.environment import device_named, environment
from core.worker.generate import Timed, first_difference, run_policy
from core.worker.models import Garage, Pair
from core.worker.recorder import Recorder
from core.worker.smoke import shortened, smoke
from core.worker.timing import WIDEST, Quiet, pass_times, prefill_seconds
from core.worker.tracing import trace

CALIBRATION_GAMMAS = (1, 4, 12)
CALIBRATION_PROMPTS = 4
CALIBRATION_S = 15.0
"""No further prompt is begun after this time."""
REPEAT_BEFORE_S = 60.0
"""The confirmation is run twice when both turns would end within this time; together with loading that stays below 90 s."""

_garage = Garage()


def measure(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    """Measure `spec` and report to `sink`; the pair stays loaded for the next call.

    Raises InvalidInput (prompts, budget), ModelError (folders, vocabularies), DeviceError (no such
    device, out of memory). What was reported before an error stays valid.
    """
    if spec.max_new_tokens < 1:
        raise InvalidInput(f"{spec.max_new_tokens} new tokens leave nothing to measure. Ask for at least 1; 40 is a good start.")
    if not spec.prompts:
        raise InvalidInput("There is no prompt to measure. Add at least one; 24 or more give a useful interval.")
    device_named(spec.device)
    if spec.device == "cpu":
        torch.set_num_threads(settings.threads)
    reason = ""
    try:
        if spec.extent == "smoke":
            _Measurement(shortened(spec), sink).smoke()
        else:
            _Measurement(spec, sink).run()
    except RuntimeError as error:
        if not _out_of_memory(error):
            raise
        reason = str(error).splitlines()[0]
    if reason:  # outside the except block, whose traceback would keep the models alive
        _garage.empty()
        raise DeviceError(
            f"The pair does not fit into the memory of {spec.device}: {reason} Use a smaller dtype, shorter prompts, or another device."
        )


def _out_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


class _Measurement:
    """One run's state while it is measured: the pair, the encoded prompts and, once known, the plain answers."""

    def __init__(self, spec: RunSpec, sink: Sink) -> None:
        self._began_s = time.monotonic()
        self._spec = spec
        self._sink = Recorder(spec, sink)
        self._block = 0
        self._answers: list[NDArray[np.int32]] = []
        self._answers_s = 0.0
        self._pair = _garage.get(spec, self._sink.stage)
        self._quiet = Quiet(self._pair.device, self._sink.disturbed)
        self._once = Quiet(self._pair.device, self._sink.disturbed, patience_s=0.0)  # judged, but not repeated
        self._prompts = encode_prompts(self._pair, spec)

    def run(self) -> None:
        """All stages in order."""
        self._sink.environment(environment(self._spec, self._pair))
        self._sink.stage("load", 1, 2)
        self._warm_up()
        self._answer()
        self._trace()
        self._time_passes()
        self._calibrate()
        self._confirm()

    def smoke(self) -> None:
        """Only whether the pair runs."""
        self._sink.environment(environment(self._spec, self._pair))
        smoke(self._pair, self._prompts[0], self._sink)

    def _warm_up(self) -> None:
        """First calls are slow (allocations, kernel choice) and belong to nobody's result."""
        for policy in (Plain(), FixedGamma(2)):
            run_policy(self._pair, self._prompts[0], policy, min(8, self._spec.max_new_tokens))
        self._sink.stage("load", 2, 2)

    def _answer(self) -> None:
        for index, prompt in enumerate(self._prompts):
            self._sink.stage("plain", index, len(self._prompts))
            timed, share = self._once(lambda prompt=prompt: run_policy(self._pair, prompt, Plain(), self._spec.max_new_tokens))
            self._answers.append(timed.tokens)
            self._answers_s += timed.total_s
            self._report("answer", index, Plain(), timed, share)
            self._block += 1

    def _trace(self) -> None:
        for index, (prompt, answer) in enumerate(zip(self._prompts, self._answers, strict=True)):
            self._sink.stage("draft", index, len(self._prompts))
            self._sink.trace(index, trace(self._pair, prompt, answer, self._spec.max_new_tokens))

    def _time_passes(self) -> None:
        lengths = cache_lengths([p.shape[1] for p in self._prompts], [len(a) for a in self._answers], self._pair.context)
        text = self._text_of(max(lengths) + WIDEST)
        for done, length in enumerate(lengths):
            self._sink.stage("timing", done, len(lengths) + 1)
            self._sink.passes(pass_times(self._pair, text, length, self._quiet))
        self._sink.stage("timing", len(lengths), len(lengths) + 1)
        self._sink.draft_prefill(tuple(prefill_seconds(self._pair.draft, prompt, self._quiet) for prompt in self._prompts))

    def _calibrate(self) -> None:
        """Each gamma between two plain runs. Where this takes long fewer prompts have to do, two at least."""
        chosen = spread([prompt.label for prompt in self._spec.prompts], CALIBRATION_PROMPTS, self._spec.seed)
        policies: list[Policy] = [Plain()]
        for gamma in CALIBRATION_GAMMAS:
            policies += [FixedGamma(gamma), Plain()]
        began_s = time.monotonic()
        for done, index in enumerate(chosen):
            if done >= 2 and time.monotonic() - began_s > CALIBRATION_S:
                break
            self._sink.stage("calibrating", done, len(chosen))
            self._run_block("calibration", index, policies)

    def _confirm(self) -> None:
        """Every prompt under every policy; the order rotates, so that no policy always runs first."""
        policies, turn_s = self._candidates()
        turns = 2 if time.monotonic() - self._began_s + 2 * turn_s < REPEAT_BEFORE_S else 1
        total = turns * len(self._prompts)
        for done in range(total):
            self._sink.stage("confirming", done, total)
            turn, index = divmod(done, len(self._prompts))
            first = (index + turn + self._spec.seed) % len(policies)
            self._run_block("confirmation", index, [*policies[first:], *policies[:first]])
        self._sink.stage("confirming", total, total)

    def _candidates(self) -> tuple[list[Policy], float]:
        """Plain and the settings worth confirming, and about how many seconds it takes to run them all on every prompt.

        Answers of one token leave no step to shorten, hence no best draft length.
        """
        policies: list[Policy] = [Plain(), TransformersDefault()]
        try:
            run = self._sink.run()
            policies.insert(1, predict.best_fixed(run))
            speedups = predict.predict(run, policies)[columns.SPEEDUP]
        except NotMeasured:
            return policies, self._answers_s * len(policies)
        return policies, self._answers_s * sum(1 / speedup for speedup in speedups)

    def _run_block(self, purpose: Purpose, index: int, policies: Sequence[Policy]) -> None:
        for policy in policies:
            timed, share = self._quiet(lambda policy=policy: run_policy(self._pair, self._prompts[index], policy, self._spec.max_new_tokens))
            self._report(purpose, index, policy, timed, share)
        self._block += 1

    def _report(self, purpose: Purpose, index: int, policy: Policy, timed: Timed, share: float) -> None:
        difference = first_difference(timed.tokens, self._answers[index])
        self._sink.generation(
            Generation(
                purpose=purpose,
                block=self._block,
                prompt=index,
                policy=policy,
                tokens=len(timed.tokens),
                total_s=timed.total_s,
                first_token_s=timed.first_token_s,
                rounds=() if isinstance(policy, Plain) else timed.rounds,
                equal=difference is None,
                first_difference=difference,
                cpu_share=share,
            )
        )

    def _text_of(self, tokens: int) -> torch.Tensor:
        """(1, tokens) of this run's own prompts, over and over: real text, because experts and caches may depend on it."""
        whole = torch.cat(self._prompts, dim=1)
        return whole.repeat(1, -(-tokens // whole.shape[1]))[:, :tokens]


def encode_prompts(pair: Pair, spec: RunSpec) -> list[torch.Tensor]:
    """Token ids (1, P) of every prompt on the pair's device. Raises InvalidInput naming a prompt that is empty or too long."""
    encoded: list[torch.Tensor] = []
    for number, prompt in enumerate(spec.prompts, 1):
        ids = pair.tokenizer(prompt.text, return_tensors="pt")["input_ids"]
        assert isinstance(ids, torch.Tensor)
        if ids.shape[1] == 0:
            raise InvalidInput(f"Prompt {number} is empty. Remove it, or write something.")
        if pair.context is not None and ids.shape[1] + spec.max_new_tokens > pair.context:
            raise InvalidInput(
                f"Prompt {number} has {ids.shape[1]:,} tokens; with {spec.max_new_tokens:,} new ones that is more than the "
                f"{pair.context:,} this pair can hold. Shorten it, or ask for fewer new tokens."
            )
        encoded.append(ids.long().to(pair.device))
    return encoded


def cache_lengths(prompt_tokens: Sequence[int], answer_tokens: Sequence[int], context: int | None) -> tuple[int, int]:
    """The median number of cached tokens over the run, and the longest; half the median where the two are close."""
    most = max(1, context - WIDEST) if context is not None else None
    halfway = [prompt + answer // 2 for prompt, answer in zip(prompt_tokens, answer_tokens, strict=True)]
    longest = max(prompt + answer for prompt, answer in zip(prompt_tokens, answer_tokens, strict=True))
    middle = round(statistics.median(halfway))
    if most is not None:
        middle, longest = min(middle, most), min(longest, most)
    return middle, longest if longest >= 1.25 * middle else max(1, middle // 2)


def spread(labels: Sequence[str], count: int, seed: int) -> list[int]:
    """Up to `count` indices, drawn with `seed` and taken from the labels in turn."""
    order = list(range(len(labels)))
    random.Random(seed).shuffle(order)
    turns: dict[str, int] = {}
    ranked: list[tuple[int, int]] = []
    for place, index in enumerate(order):
        turn = turns.get(labels[index], 0)
        turns[labels[index]] = turn + 1
        ranked.append((turn, place))
    return [order[place] for _, place in sorted(ranked)[:count]]
