"""Between `Run`, the record that everybody reads, and the rows of the store's tables. Dates are seconds since 1970 (UTC)."""

import json
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, insert, select, true

from core.database import results, runs, specs, traces
from core.errors import StoreError
from core.measured import Difference, Environment, Generation, PassTimes
from core.record import Imported, Record, Step, Summary
from core.runs import Progress, Run, RunSpec
from core.trace_file import pack_traces, unpack_traces

Measured = Sequence[tuple[str, str]]
"""Kind and JSON of everything that was reported, in order."""


EVERYBODYS: ColumnElement[bool] = true()
"""The condition of a query over runs that leaves none out."""


def with_spec() -> Select[Any]:
    """Every run's row with what was asked, as the column `spec`."""
    return select(runs, specs.c.data.label("spec")).join(specs, specs.c.run_id == runs.c.id)


def measured(connection: Connection, run_id: str) -> Measured:
    """Everything reported of a run, in order."""
    rows = connection.execute(select(results.c.kind, results.c.data).where(results.c.run_id == run_id).order_by(results.c.number)).all()
    return [(kind, data) for kind, data in rows]


def packed_traces(connection: Connection, run_id: str) -> list[bytes]:
    """Traces up to the first gap, so that their index is the prompt's."""
    rows = connection.execute(select(traces.c.prompt, traces.c.data).where(traces.c.run_id == run_id).order_by(traces.c.prompt)).all()
    return [data for expected, (prompt, data) in enumerate(rows) if prompt == expected]


def to_run(row: Row[Any], reported: Measured = (), packed: Sequence[bytes] = ()) -> Run:
    """The run of a row `with_spec`. Raises StoreError when it is damaged, or of another version."""
    try:
        return Run(
            id=row.id,
            spec=RunSpec.model_validate_json(row.spec),
            status=row.status,
            progress=Progress.model_validate_json(row.progress),
            created=date(row.created_s),
            started=None if row.started_s is None else date(row.started_s),
            finished=None if row.finished_s is None else date(row.finished_s),
            error=row.error,
            environment=None if row.environment is None else Environment.model_validate_json(row.environment),
            passes=tuple(PassTimes.model_validate_json(data) for kind, data in reported if kind == "passes"),
            draft_prefill_s=tuple(float(data) for kind, data in reported if kind == "draft_prefill"),
            differences=tuple(Difference.model_validate_json(data) for kind, data in reported if kind == "difference"),
            generations=tuple(Generation.model_validate_json(data) for kind, data in reported if kind == "generation"),
            disturbed=row.disturbed,
            steps=tuple(Step.model_validate_json(data) for kind, data in reported if kind == "step"),
            summary=None if row.summary is None else Summary.model_validate_json(row.summary),
            imported=None if row.imported is None else Imported.model_validate_json(row.imported),
            tags=tuple(json.loads(row.tags)),
            note=row.note,
            edition=row.edition,
            share_id=row.share_id,
            traces=tuple(trace for data in packed for trace in unpack_traces(data)),
        )
    except (ValueError, TypeError, OverflowError) as error:  # of pydantic, JSON, the traces' format, and dates beyond the calendar
        raise StoreError(f"Run {row.id} cannot be read: it is damaged, or of another version of Draftgauge.") from error


def to_run_if_readable(row: Row[Any]) -> Run | None:
    """The run of a row, or None where `to_run` raises."""
    try:
        return to_run(row)
    except StoreError:
        return None


def add_run(connection: Connection, run_id: str, spec: RunSpec, **values: Any) -> None:
    """A new run with a share id of its own; `values` are further columns of its row."""
    row: dict[str, Any] = {
        "id": run_id,
        "device": spec.device,
        "device_name": spec.device,
        "status": "queued",
        "progress": Progress().model_dump_json(),
        "extent": spec.extent,
        "target": spec.target.name,
        "draft": spec.draft.name,
        "dtype": spec.dtype,
        "group_id": spec.group,
        "share_id": secrets.token_hex(10),
        "words": words(run_id, spec.target.name, spec.draft.name),
    }
    connection.execute(insert(runs).values(**row | values))
    connection.execute(insert(specs).values(run_id=run_id, data=spec.model_dump_json()))


def add_whole(connection: Connection, run_id: str, run: Run, person: str = "") -> None:
    """A run that has ended, with everything that was measured. person: an id of whose it is."""
    known, where = run.imported, run.environment
    values: dict[str, Any] = {
        "status": run.status,
        "progress": run.progress.model_dump_json(),
        "created_s": run.created.timestamp(),
        "started_s": None if run.started is None else run.started.timestamp(),
        "finished_s": None if run.finished is None else run.finished.timestamp(),
        "error": run.error,
        "environment": None if where is None else where.model_dump_json(),
        "device_name": where.device_name if where else run.spec.device,
        "disturbed": run.disturbed,
        "person": person,
        "tags": tags_json(run.tags),
        "note": run.note,
        "words": words(run_id, run.spec.target.name, run.spec.draft.name, run.tags, run.note),
        "imported": None if known is None else known.model_dump_json(),
    }
    if known:
        values |= {"speedup": known.speedup, "alpha": known.alpha, "c": known.c}
    if run.summary:
        values |= summary_values(run.summary)
    add_run(connection, run_id, run.spec, **values)
    kinds: dict[str, Sequence[Record | float]] = {
        "passes": run.passes,
        "draft_prefill": run.draft_prefill_s,
        "difference": run.differences,
        "generation": run.generations,
        "step": run.steps,
    }
    rows = [row for kind, records in kinds.items() for row in result_rows(run_id, kind, records)]
    if rows:
        connection.execute(insert(results), rows)
    packed = [{"run_id": run_id, "prompt": at, "data": pack_traces((trace,))} for at, trace in enumerate(run.traces)]
    if packed:
        connection.execute(insert(traces), packed)


def result_rows(run_id: str, kind: str, records: Sequence[Record | float]) -> list[dict[str, Any]]:
    """Rows of the table `results`."""
    return [{"run_id": run_id, "kind": kind, "data": each.model_dump_json() if isinstance(each, Record) else repr(each)} for each in records]


def summary_values(summary: Summary) -> dict[str, Any]:
    """A summary as columns."""
    return {"summary": summary.model_dump_json(), "speedup": summary.speedup, "alpha": summary.alpha, "c": summary.c}


def tags_json(tags: Sequence[str]) -> str:
    """Tags as they are kept; each stands there between its quotes exactly as `json.dumps(tag, ensure_ascii=False)` writes it."""
    return json.dumps(list(tags), ensure_ascii=False)


def words(run_id: str, target: str, draft: str, tags: Sequence[str] = (), note: str = "") -> str:
    """What the search looks into."""
    return "\n".join((run_id, target, draft, *tags, note)).casefold()


def date(seconds: float) -> datetime:
    """A moment of the store."""
    return datetime.fromtimestamp(seconds, UTC)
