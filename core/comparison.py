"""Two to six runs side by side: what differs in their settings, and what may not be compared because of it.

Every field of a run's spec and environment that can change a result is compared, each under one name; what a run measured is no setting.
Prompts are compared by the hash of their texts, so that nothing of them need be shown; where texts are withheld, other hashes may still
be the same prompts. A value that a run does not record is
"not known": it is neither taken for equal nor for different. Not covered: settings of an engine that an imported run did not record.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from core.imports import WORDS, is_record
from core.measured import Environment
from core.policies import describe
from core.runs import Extent, ModelRef, Prompt, Run, RunSpec

MOST, LEAST = 6, 2
LETTERS = "ABCDEF"
UNKNOWN = "not known"
NOT_USED = "not used"
AS_FORMAT = "in the number format"

Topic = Literal["machine", "precision", "versions", "rival", "prompts", "temperature", "decoding", "seed", "target", "kind", "source"]

CANNOT: dict[Topic, str] = {
    "machine": "Times belong to the machine they were taken on, so c, v, h, e and the speedups that follow from them cannot be compared as "
    "those of the pairs. Alpha and tokens per round can.",
    "precision": "In another number format the target may write other answers and every pass costs another time: answers, alpha, c and speedups "
    "cannot be compared as those of the pairs.",
    "versions": "Kernels and the library's loop change between versions, so c, v, h, e and speedups may differ for that reason alone. "
    "Alpha can be compared, under sampling only between equal Transformers.",
    "rival": "Speedups, c, v and h are relative to another kind of plain decoding, so they cannot be compared. Alpha can.",
    "prompts": "Alpha, tokens per round and speedups are of other texts, so they cannot be compared as those of the pairs. c, v, h and e can, "
    "at similar lengths.",
    "temperature": "Alpha belongs to the way the target's tokens are drawn, and so do tokens per round and speedups: they cannot be compared. "
    "c, v, h and e can.",
    "decoding": "Greedy and sampled decoding accept by different rules and write other answers: alpha, answers and speedups cannot be compared. "
    "c and v can.",
    "seed": "The answers were drawn with other seeds, so they are other texts: alpha and speedups differ a little by chance.",
    "target": "Each speedup is relative to its own target, so a larger one does not mean a faster answer. "
    "c, v and h are in steps of each own target.",
    "kind": "A smoke test and a side-by-side run write one prompt only and say nothing about other traffic; a run in several ways replays "
    "nothing, and timings of shapes have no answers: their numbers cannot be compared with a measurement's.",
    "source": "Imported numbers were counted and timed by somebody else's program: only what their definition gives can be compared.",
}


@dataclass(frozen=True)
class Setting:
    """One setting of one run: its value as compared, and in words; topic: what it limits, None where it limits no comparison."""

    name: str
    topic: Topic | None
    value: str
    words: str


@dataclass(frozen=True)
class Row:
    """One setting of all runs, in words, in the order of the runs.

    others: letters of the runs that differ from the baseline (or, where that is not known, from the first that is known).
    unknown: letters of those of which it is not known whether they do.
    """

    name: str
    topic: Topic | None
    words: tuple[str, ...]
    others: str
    unknown: str


@dataclass(frozen=True)
class Caution:
    """One reason not to compare: the settings that differ, each one's runs by their letters, and what cannot be compared then."""

    topic: Topic
    names: tuple[str, ...]
    others: tuple[str, ...]
    sentence: str


def rows(runs: Sequence[Run], baseline: int = 0) -> list[Row]:
    """Every setting. Of runs with other prompts, the prompts' order and labels are other anyway and are left out."""
    every = [{setting.name: setting for setting in settings(run)} for run in runs]
    alike = len({one["Prompts"].value for one in every}) == 1
    return [_row(runs, [one[name] for one in every], baseline) for name in every[0] if alike or name not in _OF_EQUAL_PROMPTS]


def differences(every: Sequence[Row]) -> list[Row]:
    """The settings that are known to differ."""
    return [row for row in every if row.others]


def same(every: Sequence[Row]) -> list[Row]:
    """The settings that all runs are known to share."""
    return [row for row in every if not row.others and not row.unknown]


def cautions(every: Sequence[Row]) -> list[Caution]:
    """What cannot be compared because of the settings that differ, one caution for each topic, in the order of the rows."""
    found: dict[Topic, list[Row]] = {}
    for row in differences(every):
        if row.topic:
            found.setdefault(row.topic, []).append(row)
    return [Caution(topic, tuple(row.name for row in those), tuple(row.others for row in those), CANNOT[topic]) for topic, those in found.items()]


def confounded(every: Sequence[Row]) -> str:
    """Letters of the runs whose speedup may differ from the baseline's for more reasons than the draft.

    Other prompts alone are none: the paired test takes those that both have.
    """
    return _letters(row.others for row in differences(every) if row.topic and row.name != "Prompts")


def gaps(every: Sequence[Row]) -> tuple[str, list[str]]:
    """Letters of the runs of which something is not known that could forbid a comparison, and the settings that are not known."""
    those = [row for row in every if row.unknown and row.topic]
    return _letters(row.unknown for row in those), [row.name for row in those]


def _letters(several: Iterable[str]) -> str:
    return "".join(sorted(set("".join(several))))


def fingerprint(prompt: Prompt) -> str:
    """What makes a prompt the same prompt: its text and its conversation, not its label."""
    turns = [[message.role, message.content] for message in prompt.messages]
    return hashlib.sha256(json.dumps([prompt.text, turns]).encode()).hexdigest()


def _row(runs: Sequence[Run], row: Sequence[Setting], baseline: int) -> Row:
    known = [at for at, setting in enumerate(row) if setting.value != UNKNOWN]
    reference = baseline if baseline in known or not known else known[0]
    others = unknown = ""
    for at, (letter, setting) in enumerate(zip(LETTERS, row, strict=False)):
        if setting.value == UNKNOWN or (setting.name == "Prompts" and _cannot_tell(runs[at], runs[reference])):
            unknown += letter
        elif setting.value != row[reference].value:
            others += letter
    limited: dict[str, Topic] = {setting.value: setting.topic for setting in row if setting.topic}
    topic = next(iter(limited.values())) if len(limited) > 1 else None
    return Row(row[0].name, topic, tuple(setting.words for setting in row), others, unknown)


def _cannot_tell(one: Run, other: Run) -> bool:
    """Whether prompts that look different may be the same: as many of them, and the texts of either withheld (`core.privacy`)."""
    mine, theirs = one.spec.prompts, other.spec.prompts
    withheld = any(prompt.withheld for prompt in (*mine, *theirs))
    return withheld and len(mine) == len(theirs) and sorted(map(fingerprint, mine)) != sorted(map(fingerprint, theirs))


def settings(run: Run) -> list[Setting]:
    """Every setting of a run, always the same names in the same order; of an engine's record little is known but the names."""
    spec, where = run.spec, run.environment
    every = [
        *_source(run),
        *_model("Target", "target", spec.target, where and (where.target_parameters, where.target_layers)),
        *_model("Draft", None, spec.draft, where and (where.draft_parameters, where.draft_layers)),
        *_prompts(spec),
        *_decoding(spec),
        *_machine(spec, where),
        *_versions(where),
    ]
    if not is_record(run):
        return every
    return [setting if setting.name in _OF_RECORDS else replace(setting, value=UNKNOWN, words=UNKNOWN) for setting in every]


_OF_RECORDS = ("Source", "Target", "Draft")
_OF_EQUAL_PROMPTS = ("Order of the prompts", "Labels")


def _setting(name: str, topic: Topic | None, value: object, words: str | None = None) -> Setting:
    """A setting whose words are its value unless given; None is a value that the run does not record."""
    if value is None:
        return Setting(name, topic, UNKNOWN, UNKNOWN)
    return Setting(name, topic, repr(value), str(value) if words is None else words)


def _source(run: Run) -> list[Setting]:
    spec = run.spec
    kinds: dict[Extent, str] = {
        "full": "measurement",
        "smoke": "smoke test",
        "side_by_side": "side by side",
        "ways": "several ways, really run",
        "shapes": "timings of shapes",
    }
    source = f"imported: {WORDS[run.imported.source]}" if run.imported and is_record(run) else "measured by Draftgauge"
    lanes = [
        f"{describe(lane.policy)}{_own_draft(lane.draft)}{f', weight {lane.ensemble_weight:g}' if lane.ensemble_weight else ''}"
        for lane in spec.lanes
    ]
    return [
        _setting("Source", "source", source),
        _setting("Kind of run", "kind", kinds[spec.extent]),
        _setting("Columns", None, [lane.model_dump(mode="json") for lane in spec.lanes], "; ".join(lanes)),
        _setting("Order of the columns", None, spec.order, ", ".join(str(lane + 1) for lane in spec.order)),
        _setting("Predicted from run", None, spec.reference),
        _setting("Passes that were timed", None, (spec.random_weights, spec.batches, spec.cache_lengths), _shapes(spec)),
        _setting("Time for confirmation", None, spec.confirm_s, f"{spec.confirm_s:g} s"),
    ]


def _shapes(spec: RunSpec) -> str:
    batches, lengths = (", ".join(f"{value:,}" for value in values) for values in (spec.batches, spec.cache_lengths))
    return f"{'random' if spec.random_weights else 'own'} weights, batch {batches}, {lengths} tokens" if spec.batches else NOT_USED


def _own_draft(draft: ModelRef | None) -> str:
    return f" with {draft.name}" if draft else ""


def _model(role: str, topic: Topic | None, ref: ModelRef, size: tuple[int, int] | None) -> list[Setting]:
    """The demo models lie wherever this program is installed, so their path is none of their own; folders have no revision."""
    place = "bundled" if ref.source == "demo" else f"{ref.source}: {ref.path}"
    revision = None if ref.source == "hub" and not ref.revision else ref.revision
    return [
        _setting(role, topic, ref.name),
        _setting(f"{role}, place", None, place),
        _setting(f"{role}, revision", topic, revision),
        _setting(f"{role}, parameters", topic, size and size[0], f"{size[0]:,}" if size else None),
        _setting(f"{role}, layers", topic, size and size[1]),
    ]


def _prompts(spec: RunSpec) -> list[Setting]:
    each = [fingerprint(prompt) for prompt in spec.prompts]
    labelled = sorted(zip(each, (prompt.label for prompt in spec.prompts), strict=True))
    counts = {prompt.label: 0 for prompt in spec.prompts}
    for prompt in spec.prompts:
        counts[prompt.label] += 1
    kinds = ", ".join(f"{label or 'none'} {count}" for label, count in counts.items())
    several = "prompt" if len(each) == 1 else "prompts"
    withheld = ", texts withheld" if any(prompt.withheld for prompt in spec.prompts) else ""
    return [
        _setting("Prompts", "prompts", sorted(each), f"{len(each)} {several}, {_short(sorted(each))}{withheld}"),
        _setting("Order of the prompts", None, each, _short(each)),
        _setting("Labels", None, labelled, f"{kinds}, {_short(labelled)}"),
        _setting("Chat template", "prompts", spec.chat_template, "applied" if spec.chat_template else "not applied"),
        _setting("Stop strings", "prompts", spec.stop, ", ".join(map(repr, spec.stop)) or "none"),
        _setting("Most new tokens", "prompts", spec.max_new_tokens),
    ]


def _short(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:8]


def _decoding(spec: RunSpec) -> list[Setting]:
    """In greedy decoding temperature, top-k and top-p do nothing, and no token is drawn with the seed."""
    how = spec.decoding
    drawn: dict[str, object] = {
        "Temperature": how.temperature,
        "Top-k": how.top_k or "off",
        "Top-p": how.top_p if how.top_p < 1 else "off",
        "Warpers on the draft": "once" if how.warpers_once else "twice, the library's own way",
        "Draft temperature": "the target's" if how.draft_temperature is None else how.draft_temperature,
    }
    return [
        _setting("Decoding", "decoding", "sampled" if how.sample else "greedy"),
        *(_setting(name, "temperature", value if how.sample else NOT_USED) for name, value in drawn.items()),
        _setting("Repetition penalty", "temperature", how.repetition_penalty),
        _setting("Seed", "seed" if how.sample else None, spec.seed),
    ]


def _machine(spec: RunSpec, where: Environment | None) -> list[Setting]:
    return [
        _setting("Device", "machine", _asked_and_found(spec.device, where and where.device)),
        _setting("Device name", "machine", where and where.device_name),
        _setting("Host", "machine", where and where.host),
        _setting("Platform", "machine", where and where.platform),
        _setting("Threads", "machine", where and where.threads),
        _setting("Number format", "precision", _asked_and_found(spec.dtype, where and where.dtype)),
        *_placement(where),
        _setting("Plain decoding, the rival", "rival", where and where.plain),
        _setting("Calibration of the loop", None, where and (f"that of {where.carried.draft}" if where.carried else "its own")),
    ]


def _placement(where: Environment | None) -> list[Setting]:
    """What a placement came to; runs from before there were any lie on their device, in their number format."""
    return [
        _setting("Target's weights", "precision", where and (where.target_quantization or AS_FORMAT)),
        _setting("Draft's weights", "precision", where and (where.draft_quantization or AS_FORMAT)),
        _setting("Target's devices", "machine", where and _lies_on(where.target_devices, where.device)),
        _setting("Draft's devices", "machine", where and _lies_on(where.draft_devices, where.device)),
    ]


def _lies_on(devices: Sequence[str], device: str) -> str:
    return ", ".join(devices) if [*devices] not in ([], [device]) else "the run's"


def _attention(where: Environment) -> str:
    own, other = where.attention, where.draft_attention or where.attention
    return own if own == other else f"target {own}, draft {other}"


def _asked_and_found(asked: str, found: str | None) -> str:
    return asked if found in (None, asked) else f"{asked} asked for, {found} used"


def _versions(where: Environment | None) -> list[Setting]:
    return [
        _setting("Python", "versions", where and where.python),
        _setting("PyTorch", "versions", where and where.torch),
        _setting("Transformers", "versions", where and where.transformers),
        _setting("Attention", "versions", where and _attention(where)),
        _setting("scikit-learn", "versions", where and ("present, adapts the threshold" if where.scikit_learn else "absent")),
    ]
