"""The result of a run as Markdown for a pull request: the verdict, the settings that count, where it was measured, and the way to the run.

Names of models and machines come from elsewhere: they stand in inline code, which they cannot end, so that none of their characters is
Markdown, HTML, a table's bar or somebody's name. No prompt or answer is in it.
"""

from urllib.parse import quote, urlsplit

from core import columns as col
from core import numbers, verdict
from core.analysis import Analysis, sentence_case
from core.markdown import code
from core.placement import format_words
from core.policies import Plain, Policy
from core.version import VERSION

MOST_ROWS = 6
ADDRESS = "/:?=&%#@[]!$+,;~-._"
"""Characters of an address that stay as they are; brackets that Markdown would read as the link's end do not."""


def summary(analysis: Analysis, link: str) -> str:
    """Markdown that ends with a line break. link: address of the run, "" for none; anything but http or https is left out."""
    parts = [f"### {verdict.sentence(analysis.advice)}", _pair(analysis), _facts(analysis), _table(analysis), _provenance(analysis)]
    if urlsplit(link).scheme in ("http", "https"):
        parts.append(f"[The run in Draftgauge](<{quote(link, safe=ADDRESS)}>)")
    return "\n\n".join(parts) + "\n"


def _pair(analysis: Analysis) -> str:
    spec = analysis.run.spec
    return f"Target {code(spec.target.name)}, draft {code(spec.draft.name)}."


def _facts(analysis: Analysis) -> str:
    how = "measured" if analysis.advice.confirmed else "replayed from a recorded trace, not run"
    return f"{'; '.join(verdict.facts(analysis))}; {how}. {verdict.formula(analysis)}"


def _table(analysis: Analysis) -> str:
    listed = [policy for policy in analysis.policies() if policy in _worth_a_row(analysis)]
    lines = ["| Setting | Predicted | Measured | 95 %, these prompts | Tokens per round |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *(_row(analysis, policy) for policy in listed)])


def _worth_a_row(analysis: Analysis) -> list[Policy]:
    """The answer, plain, what was really run, then the best of the rest."""
    listed = [policy for policy in analysis.policies() if policy.kind != "oracle"]
    first = [policy for policy in listed if policy == analysis.advice.policy or isinstance(policy, Plain) or analysis.is_confirmed(policy)]
    rest = sorted((policy for policy in listed if policy not in first), key=lambda policy: -analysis.known(policy))
    return [*first, *rest[: max(0, MOST_ROWS - len(first))]]


def _row(analysis: Analysis, policy: Policy) -> str:
    row, measured = analysis.row(policy), analysis.is_confirmed(policy)
    low, high = (col.MEASURED_LOW, col.MEASURED_HIGH) if measured else (col.THESE_LOW, col.THESE_HIGH)
    plain = isinstance(policy, Plain)
    between = "" if plain or row[low] is None else numbers.interval((row[low], row[high]))
    name = sentence_case(row[col.SETTING])
    cells = (
        f"**{name}**" if policy == analysis.advice.policy and analysis.advice.verdict == "use" else name,
        numbers.ratio(row[col.SPEEDUP]),
        numbers.ratio(row[col.MEASURED]) if measured else "",
        between,
        f"{row[col.TOKENS_PER_ROUND]:.2f}",
    )
    return f"| {' | '.join(cells)} |"


def _provenance(analysis: Analysis) -> str:
    run, spec, where = analysis.run, analysis.run.spec, analysis.run.environment
    device = where.device_name if where else spec.device
    versions = f", Transformers {code(where.transformers)}, torch {code(where.torch)}" if where else ""
    size = f"{numbers.counted(len(spec.prompts), 'prompt')} of at most {numbers.counted(spec.max_new_tokens, 'new token')}"
    how = f"{format_words(spec)}, {spec.decoding.words()}, {size}, one request at a time"
    return f"Measured on {run.created:%Y-%m-%d} on {code(device)}: {how}{versions}. Draftgauge {VERSION}, run {code(run.id)}."
