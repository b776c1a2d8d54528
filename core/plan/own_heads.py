"""A job that says what of a model can draft for it, from its config alone: heads that it ships, and whether its first layers run alone."""

import copy
from typing import Any

import torch
from torch import nn
from transformers import DynamicCache, PretrainedConfig

from core.encoders import drafts_itself
from core.errors import InvalidInput
from core.own_heads import Heads
from core.plan import skeleton
from core.plan.model_config import Resolved, resolve, why
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
    layers = int(found.text.num_hidden_layers)
    exit_problem = _exit_problem(found, layers) if layers > 1 and not refusal else ""
    heads = Heads(layers=layers, mtp_layers=mtp_layers, problem=problem, refusal=refusal, exit_problem=exit_problem)
    return heads.model_dump(mode="json")


def _exit_problem(found: Resolved, layers: int) -> str:
    """Why the first layers cannot be run alone; "" where they can, or where a pass without values does not tell, so that the worker says it."""
    try:
        ran = _layers_run(skeleton.build(found).model, layers)
    except Exception:  # an architecture that cannot be built or run without values may raise anything
        return ""
    if ran in (0, 1):
        return ""
    kind = found.whole.model_type
    return f"In Transformers 5.24 {kind!r} cannot leave its layers early: asked for 1 layer it runs {ran} of {layers}. Choose another way to draft."


@torch.no_grad()
def _layers_run(model: Any, layers: int) -> int:
    """How many layers a pass really runs when the config is told to have one, as the library tells it to leave early."""
    stacks = [module for module in model.modules() if isinstance(module, nn.ModuleList) and len(module) == layers]
    ran: list[bool] = []
    for layer in stacks[0] if stacks else ():
        layer.register_forward_hook(lambda *_: ran.append(True))
    text = copy.deepcopy(model.config.get_text_config(decoder=True))
    getattr(model, model.base_model_prefix).config.num_hidden_layers = 1
    model(input_ids=torch.ones((1, 2), dtype=torch.long, device="meta"), cache=DynamicCache(config=text), use_cache=True)
    return len(ran)


def _problem(config: PretrainedConfig) -> str:
    """Why the library cannot build the layers that the config names; "" when it can."""
    try:
        config.get_mtp_config()
    except (ValueError, AttributeError, TypeError) as error:
        return f"Transformers cannot build the layers for several tokens that the config names ({why(error)})."
    return ""
