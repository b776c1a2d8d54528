"""Tables for spreadsheets and notebooks: one row per prompt, per policy, or per answer token.

CSV as in RFC 4180, UTF-8, the names of the columns in the first row; their meanings are `PER_PROMPT`, `PER_POLICY` and `PER_TOKEN`. A
cell without a value is empty. Numbers are numbers, with as many digits as it takes to read them back exactly. A text that a spreadsheet
would run as a formula (it begins with =, +, -, @, their full-width forms, a tab or a line break) gets an apostrophe in front, which
stays visible; everything else is as it was said, so a token's text can be "NA" or "null", which pandas takes for no value unless it is
told `keep_default_na=False`. Without texts the cells of prompts, tokens and their ids are empty.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from core import columns as col
from core.acceptance import mean_accept
from core.analysis import Analysis, Unfinished
from core.export_json import digits
from core.runs import Run
from core.trace import PromptTrace, repeated_share

FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\t", "\r", "\n")

PER_PROMPT = {
    "prompt": "number of the prompt, from 1",
    "label": "kind of traffic it stands for",
    "prompt_tokens": "length of the prompt as the target read it",
    "answer_tokens": "length of the plain answer",
    "ended_by": "eos: the target ended it; length: the budget was used up; stop: cut at a stop string",
    "alpha": "mean chance over its answer tokens that the draft's token is accepted (greedy: of `accept`; sampling: of `overlap`)",
    "predicted_speedup": "of the recommended setting, decode only, ratio to plain",
    "repeated_8grams": "share of the answer's 8-grams that occurred before in it",
    "begins": "the first characters of the prompt",
}
PER_POLICY = {
    col.SETTING: "the setting in words",
    col.KIND: "predicted, or confirmed when it was really run",
    col.SPEEDUP: "predicted, decode only, ratio to plain",
    col.THESE_LOW: "lower end of its 95 % interval on these prompts",
    col.THESE_HIGH: "upper end",
    col.TRAFFIC_LOW: "lower end of its 95 % interval for traffic like these prompts",
    col.TRAFFIC_HIGH: "upper end",
    col.MEASURED: "measured, decode only, ratio to plain",
    col.MEASURED_LOW: "lower end of its 95 % interval on these prompts",
    col.MEASURED_HIGH: "upper end",
    col.END_TO_END: "predicted, both prefills included",
    col.TOKENS_PER_ROUND: "emitted tokens per round",
    col.UTILISATION: "accepted / drafted",
    col.DRAFTED_PER_TOKEN: "drafted tokens per emitted token",
    col.DRAFT_SHARE: "share of decoding time in the draft's passes",
    col.VERIFY_SHARE: "share in the target's passes",
    col.REST_SHARE: "share in the loop",
    col.NOTE: "what must be known to read the row rightly",
}
PER_TOKEN = {
    "prompt": "number of the prompt, from 1",
    "position": "number of the answer token, from 1",
    "token_id": "the target's token",
    "text": "its text",
    "accept": "chance that the draft's token is accepted here (greedy: 0 or 1)",
    "confidence": "the draft's probability of the token it chose (sampling: of the answer's token)",
    "draft_choice": "the token the draft chose (sampling: its first choice)",
    "draft_ends_text": "whether the token it chose ends the text",
    "p": "the target's probability of its token; sampling only",
    "overlap": "sum of min(p, q) over the vocabulary; sampling only",
    "draft_first_choice_accepted": "whether the answer's token is the draft's first choice; sampling only",
    "lookup_1_candidates": "tokens that prompt lookup would propose here after 1 equal token",
    "lookup_1_matched": "how many of them are right, counted from the first",
    "lookup_2_candidates": "the same after 2 equal tokens",
    "lookup_2_matched": "how many of them are right",
    "lookup_3_candidates": "the same after 3 equal tokens",
    "lookup_3_matched": "how many of them are right",
}
LOOKUP_SIZES = (1, 2, 3)
BEGINNING = 80

Rows = Iterable[Mapping[str, Any]]


def per_prompt(found: Analysis | Unfinished, *, texts: bool = False) -> bytes:
    """One row per traced prompt."""
    run = found.run
    predicted: dict[int, float] = {}
    if isinstance(found, Analysis):
        rows = found.per_prompt(found.advice.policy).to_dict("records")
        predicted = {int(row["prompt"]) - 1: row["predicted speedup"] for row in rows}
    return table(PER_PROMPT, (_prompt_row(run, at, predicted.get(at), texts=texts) for at in range(len(run.traces))))


def per_policy(found: Analysis) -> bytes:
    """One row per policy that was predicted, in the order of the analysis."""
    return table(PER_POLICY, ({name: row[name] for name in PER_POLICY} for row in found.table.to_dict("records")))


def per_token(run: Run, *, texts: bool = False) -> bytes:
    """One row per answer token of every traced prompt."""
    return table(PER_TOKEN, (row for at, trace in enumerate(run.traces) for row in _token_rows(run, at, trace, texts=texts)))


def table(columns: Mapping[str, str], rows: Rows) -> bytes:
    """The rows under the names of the columns."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(columns))
    writer.writeheader()
    writer.writerows({name: cell(value) for name, value in row.items()} for row in rows)
    return out.getvalue().encode()


def cell(value: object) -> str | int | float:
    """A value as it stands in a cell."""
    if value is None or value != value:  # NaN, pandas' sign for "no value" in a column of numbers
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return value
    text = str(value)
    return f"'{text}" if text.startswith(FORMULA) else text


def _prompt_row(run: Run, at: int, predicted: float | None, *, texts: bool) -> dict[str, Any]:
    trace, prompt = run.traces[at], run.spec.prompts[at]
    return {
        "prompt": at + 1,
        "label": prompt.label,
        "prompt_tokens": trace.prompt_tokens,
        "answer_tokens": len(trace.answer),
        "ended_by": trace.ended,
        "alpha": mean_accept([trace]),
        "predicted_speedup": predicted,
        "repeated_8grams": repeated_share(trace.answer),
        "begins": " ".join(prompt.text[:BEGINNING].split()) if texts and not prompt.withheld else "",
    }


def _token_rows(run: Run, at: int, trace: PromptTrace, *, texts: bool) -> Iterable[dict[str, Any]]:
    said = texts and not run.spec.prompts[at].withheld
    columns = {
        "accept": digits(trace.accept),
        "confidence": digits(trace.confidence),
        "draft_ends_text": trace.draft_eos.tolist(),
        **_texts(trace, said=said),
        **_sampled(trace),
        **_lookups(trace),
    }
    for place in range(len(trace.answer)):
        yield {"prompt": at + 1, "position": place + 1, **{name: values[place] for name, values in columns.items()}}


def _texts(trace: PromptTrace, *, said: bool) -> dict[str, list[Any]]:
    if not said:
        return {}
    return {"token_id": trace.answer.tolist(), "text": list(trace.pieces), "draft_choice": trace.draft_choice.tolist()}


def _sampled(trace: PromptTrace) -> dict[str, list[Any]]:
    if trace.sampled is None:
        return {}
    known = trace.sampled
    return {"p": digits(known.p), "overlap": digits(known.overlap), "draft_first_choice_accepted": known.greedy_hit.tolist()}


def _lookups(trace: PromptTrace) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for size in LOOKUP_SIZES:
        lookup = (trace.lookup or {}).get(size)
        if lookup is not None:
            found[f"lookup_{size}_candidates"] = lookup.candidates.tolist()
            found[f"lookup_{size}_matched"] = lookup.matched.tolist()
    return found
