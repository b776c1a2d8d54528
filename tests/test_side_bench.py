"""Side-by-side runs through the bench, with the embedded pair: streamed while they are written, and cancelled in the middle of a lane."""

import contextlib
import time

from core import demo
from core.bench import Bench
from core.policies import FixedGamma, Plain
from core.runs import Lane, RunSpec
from core.settings import Settings
from core.store import Store
from tests.benches import ended, until


def test_a_run_streams_and_a_cancelled_one_keeps_its_steps_and_stops_at_once(settings: Settings, store: Store) -> None:
    spec = RunSpec(
        target=demo.TARGET,
        draft=demo.DRAFT,
        prompts=demo.prompts()[:1],
        max_new_tokens=24,
        extent="side_by_side",
        lanes=(Lane(policy=Plain()), Lane(policy=FixedGamma(3))),
        order=(1, 0),
    )
    with contextlib.closing(Bench(settings, store)) as bench:
        run_id = bench.submit(spec)
        ended(store, run_id, within_s=120)
        run = store.get(run_id, traces=True)
        assert (run.status, run.error) == ("done", "")
        assert [generation.lane for generation in run.generations] == [1, 0]
        assert [step.lane for step in run.steps] == sorted((step.lane for step in run.steps), reverse=True)
        assert store.streamed(run_id)[1] == list(run.steps)
        texts = ["".join(piece for step in run.steps if step.lane == lane for piece in step.pieces) for lane in (0, 1)]
        assert texts[0] == texts[1] == "".join(run.traces[0].pieces) != ""
        assert (run.progress.stage, run.progress.done, run.progress.total) == ("writing", 2, 2)
        assert run.environment is not None

        long = bench.submit(spec.model_copy(update={"max_new_tokens": 200, "order": (0, 1)}))
        until(lambda: len(store.streamed(long)[1]) > 5, within_s=60)
        place, seen = store.streamed(long)
        bench.cancel(long)
        began_s = time.monotonic()
        cancelled = ended(store, long)
        assert time.monotonic() - began_s < 2.5
        assert cancelled.status == "cancelled"
        assert cancelled.steps[: len(seen)] == tuple(seen)
        assert cancelled.steps[len(seen) :] == tuple(store.streamed(long, after=place)[1])
        assert cancelled.generations == ()
        assert len(cancelled.steps) < 200
        assert ended(store, bench.submit(spec), within_s=60).status == "done"
