"""A run in several ways through the real bench and worker: it leaves its answer for lists, and a cancelled one what it had."""

import contextlib
import time
from pathlib import Path

from core import ways
from core.bench import Bench
from core.history import Query
from core.lanes import ways_of
from core.policies import EarlyExit, FixedGamma, Plain
from core.runs import Lane
from core.settings import Settings
from core.store import Store
from tests.benches import ended
from tests.models import spec_of, write_pair

LANES = (Lane(policy=Plain()), Lane(policy=FixedGamma(3)), Lane(policy=EarlyExit(2, 3, threshold=0.0)))


def test_it_is_measured_and_one_that_is_cancelled_amid_early_exit_leaves_the_target_whole(settings: Settings, store: Store) -> None:
    settings.model_roots[0].mkdir()
    spec = spec_of(write_pair(Path(settings.model_roots[0])), max_new_tokens=12).model_copy(update={"confirm_s": 0.0})
    with contextlib.closing(Bench(settings, store)) as bench:
        run_id = bench.submit(ways_of(spec, LANES))
        ended(store, run_id, within_s=200)
        run = store.get(run_id)
        assert (run.status, run.error) == ("done", "")
        assert run.summary == ways.summary(run)
        assert run.summary is not None
        assert [(entry.id, entry.kind, entry.summary) for entry in store.history(Query()).entries] == [(run_id, "ways", run.summary)]
        assert run.environment is not None
        assert run.environment.peak_bytes

        exits = ways_of(spec.model_copy(update={"max_new_tokens": 128, "confirm_s": 3600.0}), (LANES[0], LANES[2]))
        cut = bench.submit(exits)
        while not (kept := [g for g in store.get(cut).generations if g.lane == 1]):
            time.sleep(0.02)
        bench.cancel(cut)
        cancelled = ended(store, cut)
        assert cancelled.status == "cancelled"
        assert [g for g in cancelled.generations if g.lane == 1][: len(kept)] == kept
        assert ways.results(cancelled)[1].decode is not None
        assert cancelled.summary is None

        again = bench.submit(ways_of(spec, LANES))
        ended(store, again, within_s=200)
        rounds = [[(g.lane, g.rounds, g.equal) for g in store.get(each).generations] for each in (run_id, again)]
        assert rounds[0] == rounds[1]
