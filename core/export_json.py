"""A whole run as JSON, to be imported on another machine (`core.run_document` describes it)."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import NotMeasured
from core.privacy import without_texts
from core.run_document import FORMAT, VERSION, fingerprint
from core.runs import Run
from core.trace import Lookup, PromptTrace, Sampled, Tails
from core.version import VERSION as PROGRAM


def to_json(run: Run, *, texts: bool = False, key: bytes | None = None) -> bytes:
    """The run with its traces, UTF-8. key: as in `core.privacy`. Raises NotMeasured for a run that has not ended yet."""
    if run.status in ("queued", "running"):
        raise NotMeasured(f"Run {run.id} is {run.status}. Export it when it has ended.")
    if not texts:
        run = without_texts(run) if key is None else without_texts(run, key)
    body = json.loads(run.model_copy(update={"share_id": ""}).model_dump_json())
    traces = trace_values(run.traces)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "exported": datetime.now(UTC).isoformat(timespec="seconds"),
        "program": PROGRAM,
        "texts": texts,
        "sha256": fingerprint(body, traces),
        "run": body,
        "traces": traces,
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False).encode()


def trace_values(traces: Sequence[PromptTrace]) -> list[dict[str, Any]]:
    """Traces as JSON values, named as in `core.run_document.TraceDocument`."""
    return [_trace(trace) for trace in traces]


def _trace(trace: PromptTrace) -> dict[str, Any]:
    return {
        "prompt_tokens": trace.prompt_tokens,
        "answer": trace.answer.tolist(),
        "pieces": list(trace.pieces),
        "ended": trace.ended,
        "budget": trace.budget,
        "accept": digits(trace.accept),
        "confidence": digits(trace.confidence),
        "draft_choice": trace.draft_choice.tolist(),
        "draft_eos": trace.draft_eos.tolist(),
        "tails": None if trace.tails is None else _tails(trace.tails),
        "lookup": None if trace.lookup is None else {str(size): _lookup(trace.lookup[size]) for size in sorted(trace.lookup)},
        "sampled": None if trace.sampled is None else _sampled(trace.sampled),
    }


def _tails(tails: Tails) -> dict[str, Any]:
    rows = [[None if isnan(value) else value for value in digits(row)] for row in tails.confidence]
    return {"position": tails.position.tolist(), "width": tails.confidence.shape[1], "confidence": rows, "eos_at": tails.eos_at.tolist()}


def _lookup(lookup: Lookup) -> dict[str, Any]:
    return {"candidates": lookup.candidates.tolist(), "matched": lookup.matched.tolist()}


def _sampled(sampled: Sampled) -> dict[str, Any]:
    return {
        "p": digits(sampled.p),
        "overlap": digits(sampled.overlap),
        "stop_rejected": {repr(key): digits(sampled.stop_rejected[key]) for key in sorted(sampled.stop_rejected)},
        "greedy_hit": sampled.greedy_hit.tolist(),
        "clamped": sampled.clamped,
    }


def digits(values: NDArray[np.float32]) -> list[float]:
    """Each as the float64 with the fewest digits that becomes the same float32 again; NaN stays."""
    short = values.astype(np.str_).astype(np.float64)
    exact = values.astype(np.float64)
    return np.where(short.astype(np.float32) == values, short, exact).tolist()
