"""The bench with the real measurement: a tiny pair goes through every stage, and a cancelled one keeps what it had."""

import contextlib
import time
from pathlib import Path

from core.analysis import Analysis, analyse, summary
from core.bench import Bench
from core.child import Entry
from core.history import Query
from core.settings import Settings
from core.store import Store
from tests.benches import ended
from tests.models import spec_of, write_pair


def test_a_pair_is_measured_and_a_second_run_can_be_cancelled_halfway(settings: Settings, store: Store) -> None:
    settings.model_roots[0].mkdir()
    spec = spec_of(write_pair(Path(settings.model_roots[0])))
    with contextlib.closing(Bench(settings, store, entry=Entry(measure="tests.hasty:measure"))) as bench:
        run_id = bench.submit(spec)
        ended(store, run_id, within_s=200)
        run = store.get(run_id, traces=True)
        assert (run.status, run.error) == ("done", "")
        assert "cpu" in {device.id for device in store.devices()}
        assert run.environment is not None
        assert len(run.traces) == len(spec.prompts)
        assert run.passes
        assert {generation.purpose for generation in run.generations} == {"answer", "calibration", "confirmation"}
        found = analyse(run)
        assert isinstance(found, Analysis)
        assert run.summary == summary(found)
        assert [(entry.id, entry.summary) for entry in store.history(Query()).entries] == [(run_id, run.summary)]

        long = spec.model_copy(update={"max_new_tokens": 128})
        run_id = bench.submit(long)
        while not (generations := store.get(run_id).generations):
            time.sleep(0.02)
        bench.cancel(run_id)
        began_s = time.monotonic()
        cancelled = ended(store, run_id)
        assert time.monotonic() - began_s < 1.5
        assert cancelled.status == "cancelled"
        assert cancelled.generations[: len(generations)] == generations

        again = bench.submit(spec)
        while not (traces := store.get(again, traces=True).traces):
            time.sleep(0.02)
        assert traces[0].answer.tolist() == run.traces[0].answer.tolist()
