"""The job behind `search`: models on the Hub by a part of their name, most downloaded first. Light: no torch."""

from typing import Any

from core.errors import InvalidInput
from core.hub import Hub
from core.hub_client import Limits, session, within
from core.model_info import Found
from core.settings import Settings

LONGEST_CHARACTERS = 96
LIMITS = Limits(total_s=15.0)


def search(arguments: dict[str, Any], settings: Settings) -> list[dict[str, Any]]:
    """Job: {"text": ...} -> up to 20 Found as JSON; the most popular for "". Raises InvalidInput, ModelError and HubUnreachable."""
    return [found.model_dump(mode="json") for found in search_hub(str(arguments.get("text", "")), settings)]


def search_hub(text: str, settings: Settings, limits: Limits = LIMITS, endpoint: str | None = None) -> list[Found]:
    """Text generation models with safetensors weights. endpoint: the Hub to ask, else HF_ENDPOINT or the public one."""
    wanted = text.strip()
    if len(wanted) > LONGEST_CHARACTERS or not wanted.isprintable():
        raise InvalidInput(f"A search has at most {LONGEST_CHARACTERS} characters, none of them invisible. Write a part of the model's name.")

    def ask() -> list[Found]:
        with session(limits) as meter:
            return Hub(settings, limits, meter, endpoint).search(wanted)

    return within(limits, ask)
