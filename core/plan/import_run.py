"""The job behind an import: a kept file in, what it is, or the id it got in the store. Light: no torch, no Transformers.

In a process of its own, because a hostile file must take neither the web process's time nor its memory.
"""

from typing import Any

from core.errors import InvalidInput
from core.imports import preview, read
from core.prompt_files import kept
from core.settings import Settings
from core.store import open_store


def import_run(arguments: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Job: {"file": key of `core.prompt_files.keep`, "name", "gamma", "target", "draft", "ticket", "person"} -> {"preview": Preview, "run": id}.

    ticket: "" to look only, and then run is ""; anything else imports, once per ticket.
    person: an id of whose the run is. Raises InvalidInput, StoreError.
    """
    gamma = arguments.get("gamma")
    content = kept(str(arguments["file"]), settings)
    names = {part: str(arguments.get(part) or "") for part in ("target", "draft")}
    run = read(str(arguments["name"]), content, gamma=None if gamma is None else int(gamma), **names)
    found = preview(run).model_dump(mode="json")
    if not arguments.get("ticket"):
        return {"preview": found, "run": ""}
    if settings.read_only:
        raise InvalidInput("This Draftgauge only shows runs, so nothing can be imported here.")
    store = open_store(settings)
    try:
        return {"preview": found, "run": store.insert(run, str(arguments.get("person", "")))}
    finally:
        store.close()
