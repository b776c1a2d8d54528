"""A run from the JSON that another Draftgauge exported (`core.run_document`). The file is not trusted.

It is read only as data, within limits of size and depth; then `core.imports_check` proves that everything in it fits together, so that
nothing that is computed from a run later can fail because of it. Every refusal is a sentence with the place in the file.
"""

import zlib
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_core import from_json as parse

from core import imports_check, imports_values, ways
from core.analysis import Analysis, Unfinished, summary
from core.errors import InvalidInput
from core.record import Imported, Summary
from core.run_document import FORMAT, VERSION, RunDocument, fingerprint
from core.runs import Run

LARGEST_BYTES = 100_000_000
"""Unpacked: about 500 prompts of 1,000 tokens."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Some editors put it in front of UTF-8."""
EDITED = "The file was edited after it was exported."


def from_json(content: bytes, name: str = "This file") -> Run:
    """The run, with its id of there, and `imported` saying where it is from. Raises InvalidInput with a sentence.

    content: JSON as `core.export_json` writes it, or that packed by gzip. A file that was edited since is marked as such.
    """
    content = unpacked(content, name).removeprefix(BYTE_ORDER_MARK)
    raw = _object(content, name)
    run = _document(raw, content, name)
    found = imports_check.check(run)
    edited = raw["sha256"] != fingerprint(raw["run"], raw["traces"])
    changes = {"imported": _imported(run.imported, name, edited=edited), "summary": _summary(run, found)}
    return run.model_copy(update=changes)


def unpacked(content: bytes, name: str) -> bytes:
    """The content of a gzip file, and any other as it is. Raises InvalidInput when it is damaged or too large."""
    if content.startswith(b"\x1f\x8b"):
        try:
            unpacker = zlib.decompressobj(wbits=31)
            content = unpacker.decompress(content, LARGEST_BYTES + 1)
        except zlib.error as error:
            raise InvalidInput(f"{name} is a damaged gzip file. Export the run again.") from error
    if len(content) > LARGEST_BYTES:
        raise InvalidInput(f"{name} has more than {LARGEST_BYTES / 1e6:.0f} MB. Export a run of fewer prompts.")
    return content


def _object(content: bytes, name: str) -> dict[str, Any]:
    """The JSON object with a format and version that can be read."""
    try:
        raw: object = parse(content, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidInput(f"{name} is not whole JSON ({error}). It may be cut off: export the run again.") from error
    if not isinstance(raw, dict):
        raise InvalidInput(f"{name} is JSON, but no run of Draftgauge. Choose a file that its button 'Whole run' made.")
    found = cast("dict[str, Any]", raw)
    if found.get("format") != FORMAT:
        raise InvalidInput(f'{name} has no "format": "{FORMAT}", so it is no run of Draftgauge. Choose a file that its button "Whole run" made.')
    version = found.get("version")
    if isinstance(version, int) and version > VERSION:
        raise InvalidInput(f"{name} is of version {version}; this Draftgauge reads version {VERSION}. Update Draftgauge here.")
    return found


def _document(raw: dict[str, Any], content: bytes, name: str) -> Run:
    imports_values.check_count(raw)
    imports_values.check_values(raw, "")
    if isinstance(raw.get("run"), dict) and "traces" in raw["run"]:
        raise InvalidInput(f"{name} cannot be imported: run.traces does not belong there; traces stand beside the run.")
    try:
        found = RunDocument.model_validate_json(content, strict=True)
    except ValidationError as error:
        raise InvalidInput(f"{name} cannot be imported: {_first(error.errors()[0])}. Export the run again, with this version if you can.") from error
    except InvalidInput as error:  # a policy that cannot be
        raise InvalidInput(f"{name} cannot be imported: {error}") from error
    imports_check.check_traces(found.traces)
    return found.run.model_copy(update={"traces": tuple(trace.trace() for trace in found.traces)})


def _first(error: ErrorDetails) -> str:
    """What is wrong where, in words."""
    where = ""
    for part in error["loc"]:
        where += f"[{part}]" if isinstance(part, int) else f".{part}"
    value = repr(error["input"])
    shown = "" if error["type"] in ("missing", "extra_forbidden") else f", not {value[:60]}"
    return f"{where.removeprefix('.')[:200]}: {error['msg'][:1].lower()}{error['msg'][1:200]}{shown}"


def _summary(run: Run, found: Analysis | Unfinished) -> Summary | None:
    """Computed anew where the file has one, so that lists of runs and the run's page say the same."""
    if run.summary is None:
        return None
    return ways.summary(run) if run.spec.extent == "ways" else summary(found) if isinstance(found, Analysis) else None


def _imported(before: Imported | None, name: str, *, edited: bool) -> Imported:
    """What an engine recorded stays that; anything else is a whole run from elsewhere."""
    note = EDITED if edited else ""
    if before is None or before.source == "draftgauge":
        return Imported(source="draftgauge", definition=note, reference=name[:300])
    return before.model_copy(update={"definition": f"{before.definition} {note}".strip()}) if edited else before
