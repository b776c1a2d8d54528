"""The tables, figures and sentences of a report, from an analysis; plain text that the template escapes."""

from collections.abc import Sequence
from dataclasses import dataclass

from core import columns as col
from core import deploy, numbers, predict, verdict
from core.analysis import Analysis, sentence_case
from core.placement import exact as exact_texts
from core.placement import format_words
from core.policies import Drafting, Oracle, Plain, Policy, describe, to_transformers
from core.runs import Run
from core.trace import repeated_share

Row = tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A title, the columns' names, rows of text, and which row to tint (-1 for none)."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    marked: int = -1


@dataclass(frozen=True)
class Figure:
    """One figure of the row under the headline: value, its spread, what it means."""

    label: str
    value: str
    spread: str
    meaning: str


@dataclass(frozen=True)
class Setting:
    """The setting in a sentence, and its names and values in Transformers; none for plain decoding."""

    answer: str
    values: tuple[tuple[str, str], ...]
    place: str


@dataclass(frozen=True)
class Text:
    """One prompt with its answer, as far as they are known."""

    title: str
    prompt: str
    answer: str


def figures_of(analysis: Analysis) -> tuple[Figure, ...]:
    """alpha, c, v, h and the plain step, with what each means."""
    costs, alpha, policy = analysis.costs, analysis.alpha, analysis.advice.policy
    gamma = policy.limit if isinstance(policy, Drafting) and not analysis.level else analysis.best_fixed
    verify, step_s = float(costs.verify_up_to(gamma)[gamma]), costs.plain_step_s
    return (
        Figure("alpha", f"{alpha.value:.2f}", numbers.interval(alpha.for_traffic), "chance that a drafted token is accepted"),
        Figure("c", numbers.cost(costs.c), numbers.milliseconds(costs.c * step_s), "one drafted token / one plain step"),
        Figure(f"v({gamma + 1})", numbers.cost(verify), numbers.milliseconds(verify * step_s), f"check of {gamma + 1} tokens / one plain step"),
        Figure("h", numbers.cost(costs.overhead), numbers.milliseconds(costs.overhead * step_s), "rest of a round / one plain step"),
        Figure("plain step", numbers.milliseconds(step_s), f"{1 / step_s:,.0f} tokens/s", "the target alone, one request at a time"),
    )


def policies(analysis: Analysis) -> Table:
    """One row per policy, the answer first and tinted."""
    rows = tuple(_policy(analysis, policy) for policy in analysis.policies())
    names = ("Setting", "Predicted", "Measured", "On these prompts", "For such traffic", "Tokens per round", "Accepted / drafted")
    return Table("Settings", names, rows, marked=0)


def _policy(analysis: Analysis, policy: Policy) -> Row:
    row, measured = analysis.row(policy), analysis.is_confirmed(policy)
    these = (col.MEASURED_LOW, col.MEASURED_HIGH) if measured else (col.THESE_LOW, col.THESE_HIGH)
    traffic = (col.MEASURED_TRAFFIC_LOW, col.MEASURED_TRAFFIC_HIGH) if measured else (col.TRAFFIC_LOW, col.TRAFFIC_HIGH)
    plain, used = isinstance(policy, Plain), row[col.UTILISATION]
    limit = ", an upper limit that cannot be run" if isinstance(policy, Oracle) else ""
    return (
        f"{sentence_case(row[col.SETTING])}{limit}",
        numbers.ratio(row[col.SPEEDUP]),
        numbers.ratio(row[col.MEASURED]) if measured else "",
        *("" if plain or row[low] is None else numbers.interval((row[low], row[high])) for low, high in (these, traffic)),
        f"{row[col.TOKENS_PER_ROUND]:.2f}",
        "" if used is None else f"{100 * used:.0f} %",
    )


def by_label(analysis: Analysis) -> Table:
    """Which kinds of prompts win and which lose under the recommended setting; replayed."""
    found = predict.by_label(analysis.run, analysis.advice.policy)
    rows = [
        (str(label) or "no label", str(count), f"{alpha:.2f}", numbers.ratio(speedup))
        for label, count, alpha, speedup in found.itertuples(index=False, name=None)
    ]
    return Table(f"Under {describe(analysis.advice.policy)}", ("Kind", "Prompts", "alpha", "Speedup"), tuple(rows))


def setting(analysis: Analysis) -> Setting:
    """What to set in Transformers."""
    policy = Plain() if analysis.advice.verdict == "leave_off" else analysis.advice.policy
    values = tuple((name, repr(value)) for name, value in to_transformers(policy).items())
    place = "On the draft's generation_config" if isinstance(policy, Drafting) else "As arguments of generate"
    return Setting(deploy.answer(analysis), values, place if values else "")


def limits(analysis: Analysis) -> tuple[str, ...]:
    """What these numbers hold for, and what they say nothing about."""
    run, spec, where = analysis.run, analysis.run.spec, analysis.run.environment
    library = f"Transformers {where.transformers} on {where.device_name}" if where else "Transformers"
    tokens = sum(len(trace.answer) for trace in run.traces)
    repeated = sum(repeated_share(trace.answer) * len(trace.answer) for trace in run.traces) / tokens
    used = format_words(spec)
    known = "was really run" if analysis.advice.confirmed else "was predicted from a recorded trace and not run"
    exact = (
        "Sampled texts differ from call to call; their distribution is the same with a draft and without."
        if spec.decoding.sample
        else f"In float32 texts are equal with a draft and without: {_equal(run)}."
        if exact_texts(spec)
        else f"In {used} a check and a single step round differently, so texts may part where two tokens nearly tie."
    )
    found = [
        f"Measured with {library} in {used}, one request at a time. Other engines have other kernels, and requests in a batch gain less.",
        f"Decoding: {spec.decoding.words()}. Another temperature has another acceptance.",
        f"{numbers.counted(len(run.traces), 'prompt')}, answers of at most {numbers.counted(spec.max_new_tokens, 'token')}. "
        "The interval for traffic holds for prompts of the same kind.",
        f"The setting above {known}. Replayed numbers are never confirmed ones.",
        exact,
        f"{repeated * 100:.0f} % of the stretches of eight tokens in the answers repeat. Answers that repeat themselves are easy to draft.",
    ]
    if spec.stop:
        found.append("Answers end at stop strings. The library cannot stop there while it drafts, so real runs wrote on.")
    return tuple(found)


def _equal(run: Run) -> str:
    compared = verdict.assisted(run)
    if not compared:
        return "not compared in this run"
    return f"{len(compared) - len(verdict.differing(run))} of {len(compared)} here"


def texts_of(run: Run) -> Sequence[Text]:
    """Every traced prompt with its answer."""
    return [
        Text(f"Prompt {at + 1}{f', {prompt.label}' if prompt.label else ''}", prompt.text, "".join(trace.pieces))
        for at, (prompt, trace) in enumerate(zip(run.spec.prompts, run.traces, strict=False))
    ]
