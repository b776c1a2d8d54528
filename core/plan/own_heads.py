"""A job that says which heads of its own a model ships, from its config alone, as the library's config classes resolve it."""

from typing import Any

from transformers import PretrainedConfig

from core.encoders import drafts_itself
from core.errors import InvalidInput
from core.own_heads import Heads
from core.plan.model_config import resolve, why
from core.settings import Settings


def own_heads(arguments: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Job: {"config": config.json} -> `Heads` as JSON. Raises InvalidInput and ModelError as `core.plan.model_config.resolve`."""
    if "config" not in arguments:
        raise InvalidInput("No config was given to look for heads in.")
    found = resolve(arguments["config"])
    mtp_layers = int(getattr(found.text, "num_mtp_layers", None) or 0)
    problem = _problem(found.whole) if mtp_layers else ""
    whole = found.whole
    refusal = drafts_itself("The target", whole.model_type) if whole.is_encoder_decoder else ""
    heads = Heads(layers=int(found.text.num_hidden_layers), mtp_layers=mtp_layers, problem=problem, refusal=refusal)
    return heads.model_dump(mode="json")


def _problem(config: PretrainedConfig) -> str:
    """Why the library cannot build the layers that the config names; "" when it can."""
    try:
        config.get_mtp_config()
    except (ValueError, AttributeError, TypeError) as error:
        return f"Transformers cannot build the layers for several tokens that the config names ({why(error)})."
    return ""
