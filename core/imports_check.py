"""Whether an imported run hangs together: every limit and invariant that the rest of the program relies on.

A run that was measured here satisfies all of them by construction. Times in seconds. Raises InvalidInput naming the place.
"""

from collections import Counter
from collections.abc import Sequence

from core import shapes_ask, ways
from core.analysis import Analysis, Unfinished, analyse
from core.errors import InvalidInput
from core.imports_values import LARGEST, refuse
from core.measured import AnyPolicy, Difference, Environment, Generation, PassTimes, Sample, WayCall
from core.notes import MOST_NOTE_CHARACTERS, MOST_TAG_CHARACTERS, MOST_TAGS
from core.policies import Drafting, EarlyExit, PromptLookup
from core.prompts import MOST_PROMPTS
from core.record import Imported, Step
from core.run_document import LookupDocument, SampledDocument, TailsDocument, TraceDocument
from core.runs import Run
from core.typed import MOST_STOPS

LONGEST_S = 1e7
LONGEST_NAME = 1_000
MOST_NEW_TOKENS = 100_000
MOST_GENERATIONS, MOST_CALIBRATIONS, LARGEST_BLOCK = 20_000, 1_000, 100
"""Calls, several times those of the largest run: pages compute from all of them. A block is one prompt's calls in a row, answers aside."""
WIDEST_PASS = 1_000
LONGEST_ROUND = 1_000
YEARS = range(2020, 2200)


def check(run: Run) -> Analysis | Unfinished:
    """What the run says. Raises InvalidInput unless it has ended, its parts fit together, and it can be analysed."""
    if run.status in ("queued", "running"):
        refuse("run.status", f"is {run.status}: only runs that have ended can be imported")
    _check_about(run)
    _check_notes(run)
    _check_spec(run)
    for number, passes in enumerate(run.passes):
        _check_passes(passes, f"run.passes[{number}]")
    for number, seconds in enumerate(run.draft_prefill_s):
        _check_time(seconds, f"run.draft_prefill_s[{number}]")
    _check_calls(run)
    for number, generation in enumerate(run.generations):
        _check_generation(generation, run, f"run.generations[{number}]")
    for number, difference in enumerate(run.differences):
        _check_difference(difference, run, f"run.differences[{number}]")
    _check_steps(run.steps, run)
    if len(run.traces) > len(run.spec.prompts):
        refuse("traces", f"are {len(run.traces)} for {len(run.spec.prompts)} prompts")
    return _analysed(run)


def _check_about(run: Run) -> None:
    if not (run.id.isascii() and run.id.replace("-", "").replace("_", "").isalnum() and len(run.id) <= 32):
        refuse("run.id", "is no id of a run")
    for name, date in (("created", run.created), ("started", run.started), ("finished", run.finished)):
        if date is not None and (date.tzinfo is None or date.year not in YEARS):
            refuse(f"run.{name}", f"is {date.isoformat()}, no date with a time zone since {YEARS[0]}")
    if not 0 <= run.progress.fraction <= 1:
        refuse("run.progress.fraction", f"is {run.progress.fraction:g}, not a share")
    if run.environment is not None:
        _check_environment(run.environment)
    if run.imported is not None:
        _check_imported(run.imported, run)


def _check_notes(run: Run) -> None:
    if run.edition < 0:
        refuse("run.edition", f"is {run.edition}")
    if len(run.tags) > MOST_TAGS:
        refuse("run.tags", f"are {len(run.tags):,}; a run has at most {MOST_TAGS}")
    for number, tag in enumerate(run.tags):
        if len(tag) > MOST_TAG_CHARACTERS:
            refuse(f"run.tags[{number}]", f"has {len(tag):,} characters")
    if len(run.note) > MOST_NOTE_CHARACTERS:
        refuse("run.note", f"has {len(run.note):,} characters")


def _check_environment(environment: Environment) -> None:
    for name, value in environment.model_dump(exclude={"carried"}).items():
        if isinstance(value, int) and value < 0:
            refuse(f"run.environment.{name}", f"is {value}")
        if isinstance(value, str) and len(value) > LONGEST_NAME:
            refuse(f"run.environment.{name}", f"has {len(value):,} characters")


def _check_imported(imported: Imported, run: Run) -> None:
    if imported.source != "draftgauge" and (run.traces or run.generations):
        refuse("run.imported.source", f"is {imported.source}, which measures nothing, and there are measurements")
    if (imported.accepted or 0) > (imported.drafted or 0):
        refuse("run.imported", f"accepts {imported.accepted:,} of {imported.drafted or 0:,} drafted tokens")


def _check_spec(run: Run) -> None:
    spec = run.spec
    if len(spec.prompts) > MOST_PROMPTS:
        refuse("run.spec.prompts", f"are {len(spec.prompts):,}; {MOST_PROMPTS} can be measured")
    if not 1 <= spec.max_new_tokens <= MOST_NEW_TOKENS:
        refuse("run.spec.max_new_tokens", f"is {spec.max_new_tokens:,}")
    for name, text in (("target", spec.target.name), ("draft", spec.draft.name), ("device", spec.device)):
        if not 0 < len(text) <= LONGEST_NAME:
            refuse(f"run.spec.{name}", f"has a name of {len(text):,} characters")
    if spec.extent == "shapes":
        shapes_ask.check(spec)
    if len(spec.stop) > MOST_STOPS:
        refuse("run.spec.stop", f"are {len(spec.stop):,}; at most {MOST_STOPS} can be used")
    if spec.group and not (spec.group.isalnum() and len(spec.group) <= 32):
        refuse("run.spec.group", "is no id of a group")
    if spec.order and sorted(spec.order) != list(range(len(spec.lanes))):
        refuse("run.spec.order", "does not name every lane once")
    for number, lane in enumerate(spec.lanes):
        _check_policy(lane.policy, f"run.spec.lanes[{number}].policy")


def _check_policy(policy: AnyPolicy, where: str) -> None:
    longest = policy.limit if isinstance(policy, Drafting | EarlyExit) else 1
    if isinstance(policy, PromptLookup):
        longest = max(policy.tokens, policy.ngram)
    if longest > LONGEST_ROUND:
        refuse(where, f"drafts {longest:,} tokens at a time")
    if isinstance(policy, EarlyExit) and policy.layers > LARGEST:
        refuse(where, f"leaves after {policy.layers:,} layers")


def _check_way(way: WayCall, rounds: int, where: str) -> None:
    if not 0 <= way.rejected <= rounds:
        refuse(f"{where}.rejected", f"is {way.rejected} of {rounds} rounds")
    for name, seconds in (("draft_prefill_s", way.draft_prefill_s), ("prepared_s", way.prepared_s)):
        if not 0 <= seconds <= LONGEST_S:
            refuse(f"{where}.{name}", f"is {seconds:g} seconds")


def _check_time(seconds: float, where: str) -> None:
    if not 0 < seconds <= LONGEST_S:
        refuse(where, f"is {seconds:g} seconds")


def _check_passes(passes: PassTimes, where: str) -> None:
    if not (0 <= passes.cache_tokens <= LARGEST and 1 <= passes.batch <= WIDEST_PASS):
        refuse(where, f"is of batch {passes.batch:,} after {passes.cache_tokens:,} tokens")
    if passes.problem and not (passes.target or passes.draft):
        return
    if 1 not in passes.target or not {1, 2} <= set(passes.draft):
        refuse(where, "lacks the passes over one token, or the draft's over two")
    if not set(passes.target) <= set(passes.target_one_s) | {1} or not set(passes.draft) <= set(passes.target_one_beside_draft_s):
        refuse(where, "lacks the one-token passes beside a width")
    _check_samples(passes.target, f"{where}.target")
    _check_samples(passes.draft, f"{where}.draft")
    beside = [*passes.target_one_s.values(), *passes.target_one_beside_draft_s.values()]
    for seconds in (*beside, passes.target_prefill_s, passes.draft_prefill_s):
        if seconds is not None:
            _check_time(seconds, where)


def _check_samples(samples: dict[int, Sample], where: str) -> None:
    for width, sample in samples.items():
        if not 1 <= width <= WIDEST_PASS:
            refuse(where, f"has a width of {width} tokens")
        _check_time(sample.median_s, f"{where}.{width}.median_s")
        if sample.n < 1 or not 0 <= sample.iqr_s <= LONGEST_S:
            refuse(f"{where}.{width}", "has no timing")


def _check_generation(g: Generation, run: Run, where: str) -> None:
    _check_policy(g.policy, f"{where}.policy")
    if not 0 <= g.prompt < max(1, len(run.spec.prompts)):
        refuse(f"{where}.prompt", f"is {g.prompt}, and there are {len(run.spec.prompts)} prompts")
    if not 0 <= g.lane < max(1, len(run.spec.lanes)):
        refuse(f"{where}.lane", f"is {g.lane}, and there are {len(run.spec.lanes)} lanes")
    if not 1 <= g.tokens <= MOST_NEW_TOKENS:
        refuse(f"{where}.tokens", f"is {g.tokens:,}")
    if not 0 < g.first_token_s <= g.total_s <= LONGEST_S:
        refuse(where, f"has its first token at {g.first_token_s:g} of {g.total_s:g} seconds")
    if g.rounds and (min(g.rounds) < 1 or sum(g.rounds) != g.tokens):
        refuse(f"{where}.rounds", f"do not add up to its {g.tokens} tokens")
    if g.drafted and (len(g.drafted) != len(g.rounds) or any(k < n - 1 for k, n in zip(g.drafted, g.rounds, strict=True))):
        refuse(f"{where}.drafted", "does not fit its rounds")
    if max(g.drafted, default=0) > MOST_NEW_TOKENS:
        refuse(f"{where}.drafted", f"has a round of {max(g.drafted):,} tokens")
    if g.block < 0 or g.budget < 0 or g.batch < 0 or not 0 <= g.cpu_share <= 10_000:
        refuse(where, "has a negative count")
    if g.way is not None:
        _check_way(g.way, len(g.rounds), f"{where}.way")


def _check_calls(run: Run) -> None:
    blocks = Counter((g.purpose, g.block) for g in run.generations if g.purpose != "answer")
    for most, name, count in (
        (MOST_GENERATIONS, "calls", len(run.generations)),
        (MOST_CALIBRATIONS, "calls of the calibration", sum(g.purpose == "calibration" for g in run.generations)),
        (LARGEST_BLOCK, "calls of one block", max(blocks.values(), default=0)),
    ):
        if count > most:
            refuse("run.generations", f"are {count:,} {name}; a run has {most:,} at most")


def _check_difference(difference: Difference, run: Run, where: str) -> None:
    if not 0 <= difference.prompt < max(1, len(run.spec.prompts)) or not 0 <= difference.token <= MOST_NEW_TOKENS:
        refuse(where, "names no token of an answer")
    if difference.margin is not None and difference.margin < 0:
        refuse(f"{where}.margin", f"is {difference.margin:g}")


def _check_steps(steps: Sequence[Step], run: Run) -> None:
    latest: dict[int, float] = {}
    for number, step in enumerate(steps):
        where = f"run.steps[{number}]"
        if not 0 <= step.lane < len(run.spec.lanes):
            refuse(f"{where}.lane", f"is {step.lane}, and there are {len(run.spec.lanes)} lanes")
        if not latest.get(step.lane, 0.0) <= step.at_s <= LONGEST_S:
            refuse(f"{where}.at_s", f"is {step.at_s:g} seconds, before the step that it follows")
        if not step.tokens or len(step.tokens) != len(step.pieces):
            refuse(where, f"has {len(step.tokens)} tokens and {len(step.pieces)} texts")
        if not 0 <= step.accepted <= min(step.drafted, len(step.tokens)) or step.drafted > MOST_NEW_TOKENS:
            refuse(where, f"accepts {step.accepted} of {step.drafted} drafted tokens and writes {len(step.tokens)}")
        if len(step.rejected) > step.drafted - step.accepted or min(step.draft_s, step.verify_s) < 0:
            refuse(where, "throws away more than it drafted, or took negative time")
        latest[step.lane] = step.at_s


def check_traces(traces: Sequence[TraceDocument]) -> None:
    """Raise InvalidInput unless every array of every trace has the length it must have, and points where something is."""
    if len(traces) > MOST_PROMPTS:
        refuse("traces", f"are {len(traces):,}; {MOST_PROMPTS} prompts can be measured")
    for number, trace in enumerate(traces):
        where, length = f"traces[{number}]", len(trace.answer)
        for name in ("pieces", "accept", "confidence", "draft_choice", "draft_eos"):
            _check_length(len(getattr(trace, name)), length, f"{where}.{name}")
        if not 1 <= length <= min(trace.budget, MOST_NEW_TOKENS) or trace.budget > MOST_NEW_TOKENS:
            refuse(where, f"has an answer of {length} tokens in a budget of {trace.budget:,}")
        if trace.ended == "length" and trace.budget != length:
            refuse(f"{where}.ended", f"is length after {length} of {trace.budget:,} tokens")
        if trace.tails is not None:
            _check_tails(trace.tails, length, f"{where}.tails")
        for size, lookup in (trace.lookup or {}).items():
            _check_lookup(size, lookup, length, f"{where}.lookup")
        if trace.sampled is not None:
            _check_sampled(trace.sampled, length, f"{where}.sampled")


def _check_length(found: int, length: int, where: str) -> None:
    if found != length:
        refuse(where, f"has {found} values for {length} answer tokens")


def _check_tails(tails: TailsDocument, length: int, where: str) -> None:
    for name in ("confidence", "eos_at"):
        _check_length(len(getattr(tails, name)), len(tails.position), f"{where}.{name}")
    if sorted(set(tails.position)) != list(tails.position) or max(tails.position, default=0) >= length:
        refuse(f"{where}.position", f"does not rise within {length} answer tokens")
    if any(len(row) != tails.width for row in tails.confidence):
        refuse(f"{where}.confidence", f"has rows that are not {tails.width} wide")
    if max(tails.eos_at, default=-1) >= tails.width:
        refuse(f"{where}.eos_at", f"names a column behind the {tails.width} there are")


def _check_lookup(size: str, lookup: LookupDocument, length: int, where: str) -> None:
    if not (size.isascii() and size.isdigit() and 1 <= int(size[:4]) <= LONGEST_ROUND):
        refuse(where, f"has {size[:20]!r} where an n-gram size belongs")
    for name in ("candidates", "matched"):
        _check_length(len(getattr(lookup, name)), length, f"{where}.{size}.{name}")
    if any(not 0 <= hit <= count for hit, count in zip(lookup.matched, lookup.candidates, strict=True)):
        refuse(f"{where}.{size}.matched", "has more matches than candidates")


def _check_sampled(sampled: SampledDocument, length: int, where: str) -> None:
    for name in ("p", "overlap", "greedy_hit"):
        _check_length(len(getattr(sampled, name)), length, f"{where}.{name}")
    for threshold, values in sampled.stop_rejected.items():
        if not _is_share(threshold):
            refuse(f"{where}.stop_rejected", f"has {threshold[:20]!r} where a threshold from 0 to 1 belongs")
        _check_length(len(values), length, f"{where}.stop_rejected.{threshold[:20]}")


def _is_share(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False


def _analysed(run: Run) -> Analysis | Unfinished:
    """The last word: everything that pages compute is computed once."""
    try:
        if run.spec.extent == "ways":
            ways.choice(run)
        return analyse(run)
    except (ValueError, ArithmeticError, LookupError, TypeError) as error:
        raise InvalidInput(
            f"This run cannot be imported: its measurements contradict each other ({type(error).__name__}). Export it again."
        ) from error
