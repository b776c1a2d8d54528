"""The job behind a large upload: a kept file in, its prompts out. Light: no torch, no Transformers."""

from typing import Any

from core.prompt_files import Choice, kept, read_file
from core.settings import Settings


def import_prompts(arguments: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Job: {"file": key of `core.prompt_files.keep`, "name": its name, "choice": a Choice} -> the Reading as JSON. Raises InvalidInput."""
    choice = Choice.model_validate(arguments.get("choice") or {})
    return read_file(str(arguments["name"]), kept(str(arguments["file"]), settings), choice).model_dump(mode="json")
