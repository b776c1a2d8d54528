"""Files and pasted text from elsewhere, made into runs: the kind is told by what is in them, never by their name.

A whole run of Draftgauge comes back as it was (`core.imports_json`). Engines' own records and the method's two numbers become a run
without traces, whose `imported` says what is known, what is not, and how it was converted. Nothing that the source does not say is
filled in, but for what `RunSpec` cannot leave open; pages show none of that.
"""

import secrets
from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json as parse_json

from core import imports_llama, imports_pair, imports_vllm
from core.errors import InvalidInput
from core.imports_counts import Found
from core.imports_json import EDITED, LARGEST_BYTES, from_json, unpacked
from core.privacy import has_texts
from core.record import Imported, Record, Source
from core.run_document import FORMAT
from core.runs import ModelRef, Progress, Run, RunSpec

KINDS = ("json", "gz", "jsonl", "txt", "log", "prom", "csv")
MOST_LINES = 200_000
UNKNOWN = "unknown"
LONGEST_NAME = 200

WORDS: dict[Source, str] = {
    "draftgauge": "a whole run of Draftgauge",
    "alpha_c": "alpha and c",
    "vllm": "vLLM's acceptance records",
    "vllm_prometheus": "vLLM's /metrics page",
    "llama_cpp": "llama.cpp's acceptance records",
    "published": "a published result",
}


class Preview(Record):
    """What a file is and what it knows, in words, before it is imported. facts: name and value.

    definition: how a record counts and was converted. knows_alpha: whether it says alpha. warning: what to know before importing.
    """

    source: Source
    words: str
    target: str
    draft: str
    facts: tuple[tuple[str, str], ...]
    definition: str = ""
    knows_alpha: bool = False
    warning: str = ""


def read(name: str, content: bytes, *, gamma: int | None = None, target: str = "", draft: str = "") -> Run:
    """The run in a file. Raises InvalidInput with a sentence.

    name: of the file, for sentences. gamma: the draft length that the engine was set to, where its record does not say it.
    target, draft: names of the models, where it says none; a whole run keeps its own.
    """
    if len(content) > LARGEST_BYTES:
        raise InvalidInput(f"{name} has {len(content) / 1e6:.0f} MB. Import at most {LARGEST_BYTES / 1e6:.0f} MB.")
    content = unpacked(content, name)
    if f'"{FORMAT}"'.encode() in content[:1000]:
        return from_json(content, name)
    found = _record(_text(content, name), gamma)
    imported = found.imported.model_copy(update={"reference": name[:300]})
    return to_run(imported, target or found.target, draft or found.draft)


def to_run(imported: Imported, target_name: str, draft_name: str) -> Run:
    """A finished run that knows nothing but `imported`: no prompts, no times, a device that nobody knows."""
    target, draft = (" ".join(name.split())[:LONGEST_NAME] or f"{UNKNOWN} {part}" for name, part in ((target_name, "target"), (draft_name, "draft")))
    spec = RunSpec(
        target=ModelRef(source="hub", name=target, path=target),
        draft=ModelRef(source="hub", name=draft, path=draft),
        prompts=(),
        device=UNKNOWN,
    )
    now = datetime.now(UTC)
    done = Progress(stage="done", done=1, total=1, fraction=1.0)
    return Run(id=secrets.token_hex(5), spec=spec, status="done", progress=done, created=now, finished=now, imported=imported)


def is_record(run: Run) -> bool:
    """Whether the run was imported without anything that can be replayed."""
    return run.imported is not None and run.imported.source != "draftgauge"


def preview(run: Run) -> Preview:
    """What importing it would give."""
    assert run.imported is not None
    imported, record = run.imported, is_record(run)
    return Preview(
        source=imported.source,
        words=WORDS[imported.source],
        target=run.spec.target.name,
        draft=run.spec.draft.name,
        facts=tuple(_record_facts(imported) if record else _run_facts(run)),
        definition=imported.definition if record else "",
        knows_alpha=imported.alpha is not None,
        warning=EDITED if imported.definition.endswith(EDITED) else "",
    )


def _record(text: str, gamma: int | None) -> Found:
    values = _json_values(text)
    if imports_vllm.has_requests(values):
        return imports_vllm.from_requests(values)
    if imports_llama.has_timings(values):
        return imports_llama.from_timings(values, gamma)
    if imports_vllm.PREFIX in text:
        return imports_vllm.from_metrics(text)
    if imports_vllm.LOG in text:
        return imports_vllm.from_log(text)
    if any(mark in text for mark in imports_llama.MARKS):
        return imports_llama.from_log(text, gamma)
    return imports_pair.from_text(text)


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name} is no UTF-8 text (byte {error.start + 1}). Export it anew, or paste what it says.") from error


def _json_values(text: str) -> list[Any]:
    """The JSON in a text: the whole of it, or that of its lines, which may be a stream of server-sent events; empty when there is none."""
    whole = _json_or_none(text)
    if isinstance(whole, dict | list):
        return [whole]
    lines = (line.removeprefix("data:").strip() for line in text.split("\n")[:MOST_LINES])
    return [value for line in lines if line.startswith(("{", "[")) and (value := _json_or_none(line)) is not None]


def _json_or_none(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return None


def _record_facts(imported: Imported) -> list[tuple[str, str]]:
    known = [
        ("alpha", None if imported.alpha is None else f"{imported.alpha:.3f}"),
        ("c", None if imported.c is None else f"{imported.c:.3f}"),
        ("gamma", None if imported.gamma is None else str(imported.gamma)),
        ("accepted / drafted", None if imported.drafted is None else f"{imported.accepted or 0:,} / {imported.drafted:,}"),
        ("rounds", None if imported.rounds is None else f"{imported.rounds:,}"),
    ]
    return [(name, "not known" if value is None else value) for name, value in known]


def _run_facts(run: Run) -> list[tuple[str, str]]:
    where = run.environment
    return [
        ("measured", f"{run.created:%Y-%m-%d}, {run.status}"),
        ("on", f"{where.device_name}, {where.host}" if where else run.spec.device),
        ("prompts", f"{len(run.spec.prompts):,}, {'with' if has_texts(run) else 'without'} their texts"),
        ("answers traced", f"{len(run.traces):,}"),
        ("timed calls", f"{len(run.generations):,}"),
    ]
