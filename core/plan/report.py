"""The job behind a report: a run of this store in, its HTML without Plotly out. Light: no torch, no Transformers."""

from typing import Any

from core import demo
from core.analysis import Unfinished, analyse
from core.errors import InvalidInput
from core.memory import CacheProfile
from core.model_info import Weights
from core.report_html import body
from core.report_memory import Model, Served, served
from core.runs import Run
from core.settings import Settings
from core.store import open_store

EXAMPLE = "example"


def report(arguments: dict[str, Any], settings: Settings) -> str:
    """Job: {"run": id, "texts": bool, "link": address, "made": day, "models": [{"profile", "weights"}, ...]} -> `core.report_html.body`.

    Without "models" there is "missing", a sentence that says why. "version" is there so that another program makes its own.
    Raises InvalidInput where there is no such run, or where it says nothing about time.
    """
    found = analyse(_run(str(arguments["run"]), settings))
    if isinstance(found, Unfinished):
        raise InvalidInput(found.missing)
    models = [_model(known) for known in arguments.get("models", [])]
    memory: Served | str = served(found, *models) if models else str(arguments["missing"])
    return body(found, texts=bool(arguments["texts"]), memory=memory, link=str(arguments["link"]), made=str(arguments["made"]))


def _run(run_id: str, settings: Settings) -> Run:
    if run_id == EXAMPLE:
        return demo.example_run()
    store = open_store(settings)
    try:
        return store.get(run_id, traces=True)
    finally:
        store.close()


def _model(known: dict[str, Any]) -> Model:
    weights = Weights.model_validate(known["weights"]) if known["weights"] else None
    return Model(CacheProfile.from_json(known["profile"]), weights)
