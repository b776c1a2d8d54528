"""How a run was measured, row by row: everything needed to repeat it, or to distrust it. Costs are ratios to one plain target step."""

from core import numbers
from core.measured import Environment
from core.placement import words
from core.runs import Run
from core.smoke import TOKENS
from core.timing import LoopCosts
from core.verdict import assisted, differing

Rows = list[tuple[str, str]]


def rows(run: Run) -> Rows:
    """What and its value: the settings, the machine, and how the texts came about."""
    asked = _passes(run) if run.spec.extent == "shapes" else _decoding(run)
    return [*_about(run), *asked, *(_where(run, run.environment) if run.environment else []), *_texts(run)]


def _about(run: Run) -> Rows:
    spec = run.spec
    rows = [("Run", run.id), ("Status", run.status), ("Created", numbers.when(run.created))]
    if run.started and run.finished and run.finished >= run.started:  # the clock may have been set back, and the server killed
        rows.append(("Took", numbers.duration((run.finished - run.started).total_seconds())))
    rows += [("Target", spec.target.name), ("Draft", spec.draft.name), ("Device", spec.device), ("Number format", spec.dtype)]
    if words(spec.placement):
        rows.append(("Placement asked for", words(spec.placement)))
    return rows


def _decoding(run: Run) -> Rows:
    spec = run.spec
    rows = [
        ("Decoding", spec.decoding.words()),
        ("Chat template", "applied" if spec.chat_template else "not applied"),
        ("Most new tokens", str(TOKENS if spec.extent == "smoke" else spec.max_new_tokens)),
        ("Seed", str(spec.seed)),
        ("Disturbed while timed", "yes" if run.disturbed else "no"),
    ]
    if spec.stop:
        cut = sum(trace.ended == "stop" for trace in run.traces)
        said = ", ".join(repr(text) for text in spec.stop)
        rows.append(("Stop strings", f"{said}: {cut} of {len(run.traces)} answers cut there for the replay; real runs write on"))
    return rows


def _passes(run: Run) -> Rows:
    """What is asked of a run that times passes; it writes no text."""
    spec = run.spec
    return [
        ("Weights", "random, built from the configs" if spec.random_weights else "the models' own"),
        ("Batch sizes", ", ".join(map(str, spec.batches))),
        ("Tokens cached", ", ".join(f"{length:,}" for length in spec.cache_lengths)),
        ("Seed", str(spec.seed)),
        ("Disturbed while timed", "yes" if run.disturbed else "no"),
    ]


def _where(run: Run, where: Environment) -> Rows:
    rows = [
        ("Device name", where.device_name),
        ("Platform", where.platform),
        ("Threads", str(where.threads)),
        ("Attention", _of_both(where.attention, where.draft_attention)),
        *_placed(where),
        ("Python, torch, transformers", f"{where.python}, {where.torch}, {where.transformers}"),
        ("scikit-learn", "present: the library adapts its threshold" if where.scikit_learn else "absent"),
        *([] if run.spec.extent == "shapes" else [("Plain decoding, the rival", _rival(where))]),
        ("Target size", f"{numbers.millions(where.target_parameters)} parameters, {where.target_layers} layers{_weights(where.target_bytes)}"),
        ("Draft size", f"{numbers.millions(where.draft_parameters)} parameters, {where.draft_layers} layers{_weights(where.draft_bytes)}"),
    ]
    peaks = [("target alone", where.target_peak_bytes), ("draft alone", where.draft_peak_bytes), ("whole run", where.peak_bytes)]
    known = [f"{name} {numbers.file_size(count)}" for name, count in peaks if count is not None]
    if known:
        rows.append(("Peak memory", f"{', '.join(known)}{_peaks_are(run, where)}"))
    if where.carried is not None:
        said = f"passes and plain calls kept from {where.carried.draft}, the first draft of this group"
        rows.append(("The target's timings", f"{said}; this draft's passes were timed beside a step of the target"))
    return rows


def _of_both(target: str, draft: str) -> str:
    """One value where both models have it; runs from before placements do not know the draft's."""
    return target if draft in ("", target) else f"target {target}, draft {draft}"


def _placed(where: Environment) -> Rows:
    """Where the weights really lay and how they were kept, where that is not one device and the number format."""
    rows: Rows = []
    if len({*where.target_devices, *where.draft_devices}) > 1:
        rows.append(("Weights lie on", f"target {', '.join(where.target_devices)}; draft {', '.join(where.draft_devices)}"))
    kept = [f"{role} {how}" for role, how in (("target", where.target_quantization), ("draft", where.draft_quantization)) if how]
    if kept:
        unpacked = "; times are not those of engines that keep GGUF weights packed" if "GGUF" in "".join(kept) else ""
        rows.append(("Weights are kept", f"{', '.join(kept)}{unpacked}"))
    if where.device_peak_bytes:
        rows.append(("Peak by device", ", ".join(f"{device} {numbers.file_size(count)}" for device, count in where.device_peak_bytes.items())))
    return rows


def _rival(where: Environment) -> str:
    failed = f". Compiled plain decoding could not be tried: {where.compile_failed}" if where.compile_failed else ""
    return f"{where.plain}, the fastest that the library offers here{failed}"


def _peaks_are(run: Run, where: Environment) -> str:
    """What a CPU's figures count; on an accelerator the device itself says."""
    if run.spec.device != "cpu":
        return ""
    alone = "; alone: weights, and by how much resident memory grew in a call of eight tokens" if where.target_peak_bytes is not None else ""
    return f"{alone}; whole run: the worker since it started"


def _weights(count: int | None) -> str:
    return "" if count is None else f", {numbers.file_size(count)} of weights"


def _texts(run: Run) -> Rows:
    """How the answers were written, and whether a draft changed them."""
    rows: Rows = []
    answers = [g for g in run.generations if g.purpose == "answer"]
    if answers:
        most, reused = max(g.batch for g in answers), sum(g.reused for g in answers)
        how = f"in batches of up to {most}" if most > 1 else "one by one"
        rows.append(("Answers written", f"{len(answers)} {how}{f', {reused} of them reused from an earlier run' if reused else ''}"))
    if run.spec.decoding.sample:
        rows.append(("Assisted answers equal to plain", "not compared: sampled texts are drawn anew in every call"))
    elif compared := assisted(run):
        rows.append(("Assisted answers equal to plain", f"{len(compared) - len(differing(run))} of {len(compared)}"))
    return rows


def fit(costs: LoopCosts) -> list[tuple[str, str, str, str]]:
    """What c and h are made of, as what, value, unit, known by: d1 + e = c, and the loop's round + d2 - d1 = h."""
    error = "not known" if costs.calibration_error is None else f"{costs.calibration_error:.1%}"
    own = not costs.carried_from
    fitted = "fitted to calibration runs" if own else f"from the first draft of this group, {costs.carried_from}"
    rows = [
        ("d1, the draft's pass over one token", f"{costs.draft_next:.4f}", "plain steps", "timed alone"),
        ("d2, the draft's first pass of a round, two tokens wide", f"{costs.draft_first:.4f}", "plain steps", "timed alone"),
        ("e, the loop per drafted token; c = d1 + e", f"{costs.token_overhead:.4f}", "plain steps", fitted),
        ("the loop per round; h = this + d2 - d1", f"{costs.round_overhead:.4f}", "plain steps", fitted),
        ("calibration error, one standard deviation", error, "of a run's time", "one gamma left out" if own else f"{fitted}, and taking it over"),
    ]
    if own:
        rows.append(("calibration runs with other rounds than the replay", str(costs.mismatched), "runs", "counted with their own rounds"))
    return rows
