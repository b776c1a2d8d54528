"""The file that a whole run travels in: JSON, versioned, described by `core/schema/run-v1.json`.

Written by `core.export_json`, read by `core.imports_json`. Traces are plain arrays, one value per answer token, with the meanings of
`core.trace`; what is no number there (NaN) is null. Times in seconds. `sha256` is over everything that was measured: a file that was
edited since is recognised, but somebody who wants to can compute it anew; it is no signature.
"""

import hashlib
import json
from datetime import datetime
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from core.record import Record
from core.runs import Run
from core.trace import Ended, Lookup, PromptTrace, Sampled, Tails

FORMAT = "draftgauge-run"
VERSION: Literal[1] = 1
MOST_TOKENS = 1_000_000

Chance = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
NearlyChance = Annotated[float, Field(ge=0, le=1.001, allow_inf_nan=False)]
"""A sum of probabilities, which rounding may carry over 1."""
Id = Annotated[int, Field(ge=-1, lt=2**31)]
Count = Annotated[int, Field(ge=0, le=MOST_TOKENS)]
Short = Annotated[int, Field(ge=-1, lt=2**15)]


class TailsDocument(Record):
    """`core.trace.Tails`: position (M,), confidence (M, T = width) with null after the draft's own end of text, eos_at (M,)."""

    position: tuple[Count, ...]
    width: Annotated[int, Field(ge=0, le=1000)]
    confidence: tuple[tuple[NearlyChance | None, ...], ...]
    eos_at: tuple[Short, ...]


class LookupDocument(Record):
    """`core.trace.Lookup`: candidates (N,), matched (N,)."""

    candidates: tuple[Short, ...]
    matched: tuple[Short, ...]


class SampledDocument(Record):
    """`core.trace.Sampled`: p (N,), overlap (N,), stop_rejected by threshold (N,), greedy_hit (N,)."""

    p: tuple[NearlyChance, ...]
    overlap: tuple[NearlyChance, ...]
    stop_rejected: dict[str, tuple[Chance, ...]]
    greedy_hit: tuple[bool, ...]
    clamped: Count


class TraceDocument(Record):
    """`core.trace.PromptTrace` of one prompt, N answer tokens; lookup by n-gram size."""

    prompt_tokens: Count
    answer: tuple[Id, ...]
    pieces: tuple[str, ...]
    ended: Ended
    budget: Count
    accept: tuple[Chance, ...]
    confidence: tuple[Chance, ...]
    draft_choice: tuple[Id, ...]
    draft_eos: tuple[bool, ...]
    tails: TailsDocument | None = None
    lookup: dict[str, LookupDocument] | None = None
    sampled: SampledDocument | None = None

    def trace(self) -> PromptTrace:
        """The arrays again; `core.imports_check` has made sure that they fit together."""
        return PromptTrace(
            prompt_tokens=self.prompt_tokens,
            answer=np.array(self.answer, np.int32),
            pieces=self.pieces,
            ended=self.ended,
            budget=self.budget,
            accept=np.array(self.accept, np.float32),
            confidence=np.array(self.confidence, np.float32),
            draft_choice=np.array(self.draft_choice, np.int32),
            draft_eos=np.array(self.draft_eos, np.bool_),
            tails=None if self.tails is None else _tails(self.tails),
            lookup=None if self.lookup is None else {int(size): _lookup(found) for size, found in self.lookup.items()},
            sampled=None if self.sampled is None else _sampled(self.sampled),
        )


class RunDocument(Record):
    """The whole file. exported: when. program: the Draftgauge that wrote it. texts: whether prompts and answers are in it.

    sha256: of `fingerprint`. run: `core.runs.Run` without traces; its share address stays at home.
    """

    format: Literal["draftgauge-run"]
    version: Literal[1]
    exported: datetime
    program: str = Field(max_length=100)
    texts: bool
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    run: Run
    traces: tuple[TraceDocument, ...]


def fingerprint(run: Any, traces: Any) -> str:
    """SHA-256 of both as JSON values, whatever their spacing and the order of their names."""
    content = json.dumps([run, traces], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _tails(found: TailsDocument) -> Tails:
    rows = [[np.nan if value is None else value for value in row] for row in found.confidence]
    confidence = np.array(rows, np.float32).reshape(len(rows), found.width)
    return Tails(np.array(found.position, np.int32), confidence, np.array(found.eos_at, np.int16))


def _lookup(found: LookupDocument) -> Lookup:
    return Lookup(np.array(found.candidates, np.int16), np.array(found.matched, np.int16))


def _sampled(found: SampledDocument) -> Sampled:
    stops = {float(key): np.array(values, np.float32) for key, values in found.stop_rejected.items()}
    return Sampled(np.array(found.p, np.float32), np.array(found.overlap, np.float32), stops, np.array(found.greedy_hit, np.bool_), found.clamped)
