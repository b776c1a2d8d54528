"""Measure the embedded pair on this machine and keep the run as the bundled example.

    python tools/make_example.py

Run it on an idle machine: a disturbed run is refused. The example is an ordinary run of the
ordinary measurement; only the host's name and the models' absolute paths are taken out.
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from core import demo  # noqa: E402
from core.runs import Run, RunSpec  # noqa: E402
from core.settings import Settings  # noqa: E402
from core.sink import StoreSink  # noqa: E402
from core.store import Store  # noqa: E402
from core.trace_file import pack_traces  # noqa: E402
from core.worker.measure import measure  # noqa: E402


def main() -> None:
    """Measure, check, write core/demo/example/."""
    run = measured(RunSpec(target=demo.TARGET, draft=demo.DRAFT, prompts=demo.prompts()))
    if run.disturbed:
        raise SystemExit("the machine was disturbed while the example was measured; stop what else runs and try again")
    folder = demo.FOLDER / "example"
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_text(shareable(run).model_dump_json(indent=1) + "\n", encoding="utf-8")
    (folder / "traces.npz").write_bytes(pack_traces(run.traces))


def measured(spec: RunSpec) -> Run:
    """One run through a store of its own, as the worker does it."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "example.sqlite")
        run_id = store.add(spec)
        store.claim(run_id, "example", 0)
        sink = StoreSink(store, run_id)
        measure(spec, sink, Settings(data=Path(folder)))
        sink.flush()
        store.finish(run_id, "done")
        run = store.get(run_id, traces=True)
        store.close()
    return run


def shareable(run: Run) -> Run:
    """The same run under the id `example`, without what names this machine's folders and host."""
    plain = {"target": run.spec.target.model_copy(update={"path": ""}), "draft": run.spec.draft.model_copy(update={"path": ""})}
    environment = run.environment.model_copy(update={"host": "example"}) if run.environment else None
    return run.model_copy(update={"id": "example", "spec": run.spec.model_copy(update=plain), "environment": environment})


if __name__ == "__main__":
    main()
