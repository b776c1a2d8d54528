"""The runs on disk: the only channel between the pages and the workers.

Whoever measures a run may write to it only while its status is "running", so that a late writer
cannot revive a run that was cancelled or interrupted. Statuses go one way: queued, running, and
then one that never changes. Times are seconds since 1970 (UTC).
"""

import re
import secrets
import time
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, true, update

from core import notes, run_rows, turns
from core.database import devices, prompt_drafts, results, runs, traces
from core.errors import InvalidInput, StoreError
from core.measured import DeviceInfo, Difference, Environment, Generation, PassTimes
from core.privacy import installation_key, without_texts
from core.record import Record, Step
from core.runs import TIMED, Progress, Run, RunSpec, Status
from core.settings import Settings
from core.shelf import Shelf
from core.trace import PromptTrace
from core.trace_file import pack_traces

FILE_NAME = "draftgauge.sqlite"
DRAFTS_KEPT = 100
EXAMPLE = "example"
"""The id by which addresses name the bundled runs, which are in no store."""
_ID = re.compile(r"[A-Za-z0-9]{1,32}")

_MEASURED = (runs.c.extent == "full") & runs.c.imported.is_(None) & runs.c.deleted_s.is_(None)


def drawn_apart(spec: RunSpec) -> RunSpec:
    """What is asked without what a page draws by chance at every click."""
    return spec.model_copy(update={"group": "", "order": ()})


def open_store(settings: Settings) -> "Store":
    """The store in the data folder. Raises StoreError when the folder cannot be used."""
    return Store(settings.data / FILE_NAME)


class Store(Shelf):
    """All runs, safe to use from several threads and processes. Every method may raise StoreError."""

    def add(self, spec: RunSpec, person: str = "") -> str:
        """Queue a run and return its id. person: an id of who asks for it."""
        run_id = secrets.token_hex(5)
        with self._begin() as connection:
            run_rows.add_run(connection, run_id, spec, created_s=time.time(), person=person, turn=turns.next_turn())
        return run_id

    def asked_lately(self, spec: RunSpec, person: str, within_s: float) -> str | None:
        """The waiting or running run of this person that asks for the same and was queued in the last seconds, as by a double click."""
        now_s = time.time()
        recent = runs.c.created_s.between(now_s - within_s, now_s + within_s)  # a clock that was set back leaves runs from the future
        lately = (runs.c.person == person) & runs.c.status.in_(notes.ALIVE) & recent
        with self._begin() as connection:
            rows = connection.execute(run_rows.with_spec().where(lately).order_by(runs.c.number)).all()
        return next((row.id for row in rows if drawn_apart(RunSpec.model_validate_json(row.spec)) == drawn_apart(spec)), None)

    def waiting_of(self) -> Counter[str]:
        """How many runs wait, by the person who queued them."""
        counted = select(runs.c.person, func.count().label("waiting")).where(runs.c.status == "queued").group_by(runs.c.person)
        with self._begin() as connection:
            return Counter({row.person: row.waiting for row in connection.execute(counted)})

    def insert(self, run: Run, person: str = "") -> str:
        """Keep a whole run with its traces; returns its id, a new one where it is taken or reserved. Raises InvalidInput when it has not ended.

        person: an id of whose it is. A run that was exported from its shared link has the share id as its own, which here still leads to the
        run it was shared from.
        """
        if run.status in notes.ALIVE:
            raise InvalidInput(f"The run {run.id} is {run.status}; only a run that has ended can be kept. Wait for its end, then export it again.")
        with self._begin() as connection:
            taken = connection.execute(select(runs.c.id).where((runs.c.id == run.id) | (runs.c.share_id == run.id))).first()
            run_id = run.id if _ID.fullmatch(run.id) and run.id != EXAMPLE and taken is None else secrets.token_hex(5)
            run_rows.add_whole(connection, run_id, run, person)
        return run_id

    def get(self, run_id: str, *, traces: bool = False, results: bool = True) -> Run:
        """One run, with its traces on request; without `results` only what was asked and how it goes. Raises InvalidInput when there is none.

        By its share id it comes without its texts, and with share ids in place of every id, so that nothing leads to them; a deleted run
        is not shared any more.
        """
        with self._begin() as connection:
            asked = ((runs.c.id == run_id) & self._mine) | ((runs.c.share_id == run_id) & runs.c.deleted_s.is_(None))
            row = connection.execute(run_rows.with_spec().where(asked)).one_or_none()
            if row is None:
                raise InvalidInput(f"There is no run {run_id}.")
            measured = run_rows.measured(connection, row.id) if results else ()
            packed = run_rows.packed_traces(connection, row.id) if traces else ()
            run = run_rows.to_run(row, measured, packed)
            return run if row.id == run_id else self._shared(connection, run)

    def streamed(self, run_id: str, after: int = 0) -> tuple[int, list[Step]]:
        """What a side-by-side run has written since the place `after`, and the place to go on from; 0 is the beginning."""
        new = (results.c.run_id == run_id) & (results.c.kind == "step") & (results.c.number > after)
        with self._begin() as connection:
            rows = connection.execute(select(results.c.number, results.c.data).where(new).order_by(results.c.number)).all()
            return (rows[-1].number if rows else after), [Step.model_validate_json(row.data) for row in rows]

    def status(self, run_id: str) -> Status | None:
        """A run's status, or None when there is no such run."""
        with self._begin() as connection:
            return connection.execute(select(runs.c.status).where(runs.c.id == run_id)).scalar_one_or_none()

    def recent(self, limit: int) -> list[Run]:
        """The newest measurements first: what was asked and how it went, without passes, generations and traces.

        Smoke tests, side-by-side, imported, deleted and `unreadable` runs are left out.
        """
        return [run for run in self._newest(limit) if run is not None]

    def unreadable(self, limit: int) -> int:
        """How many of the newest runs are damaged, or of another version."""
        return sum(run is None for run in self._newest(limit))

    def _newest(self, limit: int) -> list[Run | None]:
        with self._begin() as connection:
            rows = connection.execute(run_rows.with_spec().where(_MEASURED, self._mine).order_by(runs.c.number.desc()).limit(limit)).all()
        return [run_rows.to_run_if_readable(row) for row in rows]

    def group(self, group: str) -> list[Run]:
        """The runs of one group in the order they were queued: what was asked and how it goes, without passes, generations and traces."""
        if not group:
            return []
        chosen = (runs.c.group_id == group) & runs.c.deleted_s.is_(None) & self._mine
        with self._begin() as connection:
            rows = connection.execute(run_rows.with_spec().where(chosen).order_by(runs.c.number)).all()
        return [run for row in rows if (run := run_rows.to_run_if_readable(row)) is not None]

    def timing(self) -> bool:
        """Whether a run is in a timed stage on some device, so that the machine should be left alone."""
        with self._begin() as connection:
            found = connection.execute(select(runs.c.progress).where(runs.c.status == "running")).scalars().all()
            return any(Progress.model_validate_json(progress).stage in TIMED for progress in found)

    def queued(self, device: str | None = None) -> list[str]:
        """Ids of the runs that wait (for one device, or all), the next one first (`core.turns`)."""
        with self._begin() as connection:
            return turns.line(connection, device)

    def running(self, device: str) -> list[str]:
        """Ids of the runs that are measured on a device."""
        with self._begin() as connection:
            return list(connection.execute(select(runs.c.id).where(runs.c.status == "running", runs.c.device == device)).scalars())

    def waiting_devices(self) -> list[str]:
        """Devices that queued runs wait for."""
        with self._begin() as connection:
            return list(connection.execute(select(runs.c.device).where(runs.c.status == "queued").distinct()).scalars())

    # What the worker writes, while the run is running.

    def claim(self, run_id: str, host: str, pid: int) -> bool:
        """Make a queued run a running one; False when it is no longer queued."""
        now = time.time()
        values = {"status": "running", "host": host, "claimed_by": pid, "started_s": now, "heartbeat_s": now, "turn": turns.next_turn()}
        with self._begin() as connection:
            return connection.execute(update(runs).where(runs.c.id == run_id, runs.c.status == "queued").values(**values)).rowcount == 1

    def begin_anew(self, run_id: str) -> None:
        """Let the run begin only now: until now it waited for the device after all."""
        with self._running(run_id, started_s=time.time()):
            pass

    def heartbeat(self, run_id: str) -> None:
        """Record that somebody still looks after this run."""
        with self._running(run_id):
            pass

    def progress(self, run_id: str, progress: Progress) -> None:
        """Replace the run's progress."""
        with self._running(run_id, progress=progress.model_dump_json()):
            pass

    def environment(self, run_id: str, environment: Environment) -> None:
        """Record where the run is measured."""
        with self._running(run_id, environment=environment.model_dump_json(), device_name=environment.device_name):
            pass

    def disturbed(self, run_id: str) -> None:
        """Record that the machine was disturbed during timing."""
        with self._running(run_id, disturbed=True):
            pass

    def passes(self, run_id: str, passes: PassTimes) -> None:
        """Append isolated pass times."""
        self._append(run_id, "passes", [passes])

    def draft_prefill(self, run_id: str, seconds: Iterable[float]) -> None:
        """Append times of the draft's prompt passes, in seconds."""
        self._append(run_id, "draft_prefill", list(seconds))

    def difference(self, run_id: str, difference: Difference) -> None:
        """Append a place where answers part."""
        self._append(run_id, "difference", [difference])

    def generations(self, run_id: str, generations: Sequence[Generation]) -> None:
        """Append timed generations."""
        self._append(run_id, "generation", generations)

    def steps(self, run_id: str, steps: Sequence[Step]) -> None:
        """Append what a side-by-side run wrote."""
        self._append(run_id, "step", steps)

    def trace(self, run_id: str, index: int, trace: PromptTrace) -> None:
        """Set the trace of prompt number `index`."""
        with self._running(run_id) as connection:
            connection.execute(delete(traces).where(traces.c.run_id == run_id, traces.c.prompt == index))
            connection.execute(insert(traces).values(run_id=run_id, prompt=index, data=pack_traces((trace,))))

    # What the server decides.

    def finish(self, run_id: str, status: Status, error: str = "", took_s: float | None = None) -> bool:
        """End a queued or running run; False when it had ended already. What was measured is kept.

        took_s: how long it ran by a clock that nobody sets; where that is known, it ended so long after it began, whatever the date is now.
        """
        alive, now_s = runs.c.status.in_(("queued", "running")), time.time()
        finished_s = now_s if took_s is None else func.coalesce(runs.c.started_s + took_s, now_s)
        with self._begin() as connection:
            ended = update(runs).where(runs.c.id == run_id, alive).values(status=status, error=error, finished_s=finished_s, turn=turns.next_turn())
            return connection.execute(ended).rowcount == 1

    def cancel_queued(self, run_id: str) -> bool:
        """Cancel a run that has not been claimed yet; False when it is not queued."""
        with self._begin() as connection:
            ended = update(runs).where(runs.c.id == run_id, runs.c.status == "queued").values(status="cancelled", finished_s=time.time())
            return connection.execute(ended).rowcount == 1

    def interrupt_running(self) -> int:
        """End every running run as interrupted, and return their number; for a server that starts. They ended with their last sign of life."""
        values: dict[str, Any] = {"status": "interrupted", "error": "The app was stopped while this run was measured."}
        values |= {"finished_s": func.coalesce(runs.c.heartbeat_s, time.time()), "turn": turns.next_turn()}
        with self._begin() as connection:
            return connection.execute(update(runs).where(runs.c.status == "running").values(**values)).rowcount

    # Devices and pasted prompts.

    def set_devices(self, found: Iterable[DeviceInfo]) -> None:
        """Replace the known devices."""
        rows = [{"data": device.model_dump_json()} for device in found]
        with self._begin() as connection:
            connection.execute(delete(devices))
            if rows:
                connection.execute(insert(devices), rows)

    def devices(self) -> list[DeviceInfo]:
        """The devices that the last worker found; empty before the first one has started."""
        with self._begin() as connection:
            found = connection.execute(select(devices.c.data).order_by(devices.c.number)).scalars()
            return [DeviceInfo.model_validate_json(data) for data in found]

    def save_prompts(self, draft_id: str, text: str, account: str = "") -> None:
        """Keep pasted text under an id; only the newest hundred are kept, of each account by itself. account: what its ids begin with."""
        among = prompt_drafts.c.id.startswith(f"{account}-", autoescape=True) if account else true()
        kept = select(prompt_drafts.c.id).where(among).order_by(prompt_drafts.c.changed_s.desc()).limit(DRAFTS_KEPT)
        with self._begin() as connection:
            connection.execute(delete(prompt_drafts).where(prompt_drafts.c.id == draft_id))
            newest_s = connection.execute(select(func.max(prompt_drafts.c.changed_s))).scalar() or 0.0
            changed_s = max(time.time(), newest_s + 1e-3)  # a clock that was set back must not make the text just saved the oldest
            connection.execute(insert(prompt_drafts).values(id=draft_id, text=text, changed_s=changed_s))
            connection.execute(delete(prompt_drafts).where(among, prompt_drafts.c.id.not_in(kept)))

    def load_prompts(self, draft_id: str) -> str | None:
        """The pasted text, or None when nothing was saved under this id."""
        with self._begin() as connection:
            return connection.execute(select(prompt_drafts.c.text).where(prompt_drafts.c.id == draft_id)).scalar_one_or_none()

    @contextmanager
    def _running(self, run_id: str, **values: Any) -> Generator[Connection]:
        """A transaction that first proves, and so holds, that the run is still running."""
        with self._begin() as connection:
            alive = update(runs).where(runs.c.id == run_id, runs.c.status == "running").values(heartbeat_s=time.time(), **values)
            if connection.execute(alive).rowcount == 0:
                raise StoreError(f"Run {run_id} is not running any more, so nothing more is written to it.")
            yield connection

    def _append(self, run_id: str, kind: str, records: Sequence[Record | float]) -> None:
        rows = run_rows.result_rows(run_id, kind, records)
        with self._running(run_id) as connection:
            if rows:
                connection.execute(insert(results), rows)

    def _shared(self, connection: Connection, run: Run) -> Run:
        """A run as its share id shows it. An imported run may name any other as its reference, so only one of the same person is shown with it."""
        owner = select(runs.c.person).where(runs.c.id == run.id).scalar_subquery()
        of_the_same = (runs.c.id == run.spec.reference) & (runs.c.person == owner)
        reference = connection.execute(select(runs.c.share_id).where(of_the_same)).scalar_one_or_none()
        spec = run.spec.model_copy(update={"reference": reference or "", "group": ""})
        shown = run.model_copy(update={"id": run.share_id, "spec": spec})
        return without_texts(shown) if "://" in self.place else without_texts(shown, installation_key(Path(self.place).parent))
