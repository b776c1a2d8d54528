"""Drafting with the target's own states: early exit, and heads that were made for it. What the library needs for it, and what it cannot do.

Early exit: the library sets the config's number of layers for the draft's passes and puts it back afterwards. The first layers write a cache of
their own and read the prompt themselves. Models whose loop ignores that number would draft with all their layers, so they are refused. MTP:
layers behind the last one in the target's own files, read anew from them in every
call. DFlash: a model of its own that takes the target's hidden states and its embeddings. Source: Transformers 5.24,
`candidate_generator.py`, `modeling_layers.py`. Not covered: heads of other kinds (Gemma 4 assistants, EAGLE, Medusa).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from transformers import AutoModel, DynamicCache, PreTrainedModel

from core import encoders
from core.errors import InvalidInput, ModelError
from core.policies import EarlyExit, OwnHeads, describe
from core.runs import Lane, ModelRef, RunSpec
from core.worker.download import Report
from core.worker.generate import exiting
from core.worker.loading import DTYPES, LOAD_FAILURES, first_line
from core.worker.models import Pair
from core.worker.places import places
from core.worker.processors import name_of
from core.worker.room import out_of_memory

_FAILURES = (*LOAD_FAILURES, IndexError)
_OF_DFLASH = ("block_size", "target_layer_ids", "mask_token_id")


def check(target: PreTrainedModel, lane: Lane) -> None:
    """Raise InvalidInput or ModelError when this target cannot draft for itself in the way the lane asks for."""
    if isinstance(lane.policy, EarlyExit | OwnHeads) and target.config.is_encoder_decoder:
        raise ModelError(encoders.drafts_itself(name_of(target), target.config.model_type))
    if isinstance(lane.policy, EarlyExit):
        _check_early_exit(target, lane.policy.layers)
    if isinstance(lane.policy, OwnHeads) and lane.policy.method == "mtp":
        _check_mtp(target)


def _check_early_exit(target: PreTrainedModel, layers: int) -> None:
    most = int(target.config.get_text_config(decoder=True).num_hidden_layers)
    if layers >= most:
        raise InvalidInput(f"Early exit after {layers} layers is all of {name_of(target)}, which has {most}. Choose fewer.")
    try:
        ran = layers_run(target, layers)
    except _FAILURES as error:
        if out_of_memory(error):
            raise
        raise ModelError(f"{_cannot_exit(target)}: {first_line(error)} Choose another way to draft.") from error
    if ran != layers:
        raise ModelError(f"{_cannot_exit(target)}: asked for {layers} layers it runs {ran} of {most}. Choose another way to draft.")


def _cannot_exit(target: PreTrainedModel) -> str:
    return f"In Transformers 5.24 {name_of(target)} ({target.config.model_type}) cannot leave its layers early"


@torch.no_grad()
def layers_run(target: PreTrainedModel, layers: int) -> int:
    """How many of the target's layers a pass really runs when it is told to stop after so many."""
    most = int(target.config.get_text_config(decoder=True).num_hidden_layers)
    stacks = [module for module in target.modules() if isinstance(module, torch.nn.ModuleList) and len(module) == most]
    ran = 0

    def count(*_: Any) -> None:
        nonlocal ran
        ran += 1

    hooks = [layer.register_forward_hook(count) for layer in (stacks[0] if stacks else ())]
    try:
        with exiting(target, layers):
            begin = torch.zeros((1, 1), dtype=torch.long, device=target.device)
            target(input_ids=begin, cache=DynamicCache(config=target.config), use_cache=True)
    finally:
        for hook in hooks:
            hook.remove()
    return ran


def _check_mtp(target: PreTrainedModel) -> None:
    if not getattr(target.config.get_text_config(), "num_mtp_layers", None):
        raise InvalidInput(
            f"{name_of(target)} ({target.config.model_type}) ships no heads for multi-token prediction: its config names no num_mtp_layers that "
            "Transformers 5.24 could run. Choose another way to draft."
        )


def load_dflash(target: PreTrainedModel, ref: ModelRef, spec: RunSpec, report: Report) -> PreTrainedModel:
    """The head of a DFlash lane, on the run's device and in its number format. Raises ModelError when it is none, or not for this target."""
    place = places(spec.model_copy(update={"draft": ref}), report)[1]
    report("load", 1, 2)
    try:
        loaded = AutoModel.from_pretrained(place.folder, dtype=DTYPES[spec.dtype], output_loading_info=True, **place.weights_loader)
    except LOAD_FAILURES as error:
        if out_of_memory(error):
            raise
        raise ModelError(f"The head {ref.name} in {place.folder} could not be loaded: {first_line(error)} Check its files.") from error
    head, info = cast("tuple[PreTrainedModel, dict[str, Any]]", loaded)
    lacking = [name for name in _OF_DFLASH if getattr(head.config, name, None) is None]
    if lacking:
        raise ModelError(f"{ref.name} ({head.config.model_type}) is no DFlash head: its config lacks {lacking[0]}. Choose one made for the target.")
    if info["missing_keys"]:
        raise ModelError(
            f"The head {ref.name} lacks {len(info['missing_keys'])} of its weights, {sorted(info['missing_keys'])[0]} first. Get it again."
        )
    _check_made_for(target, head, ref)
    return cast("PreTrainedModel", cast("torch.nn.Module", head).to(target.device)).eval()


def _check_made_for(target: PreTrainedModel, head: PreTrainedModel, ref: ModelRef) -> None:
    """What the sizes tell. A head of another target of the same size would run, and little of what it proposes would be kept."""
    config = target.config.get_text_config(decoder=True)
    deepest = max(head.config.target_layer_ids)
    if head.config.hidden_size != config.hidden_size or deepest >= config.num_hidden_layers or head.config.mask_token_id >= config.vocab_size:
        raise ModelError(
            f"The head {ref.name} was made for another target: it reads states of width {head.config.hidden_size:,} after layer {deepest + 1}, and "
            f"{name_of(target)} has a width of {config.hidden_size:,} and {config.num_hidden_layers} layers. Choose the head of this target."
        )


@contextmanager
def explained(pair: Pair, lane: Lane) -> Iterator[None]:
    """Turn a failure of the library while the target drafts for itself into a ModelError with a sentence."""
    try:
        yield
    except _FAILURES as error:
        if not isinstance(lane.policy, EarlyExit | OwnHeads) or out_of_memory(error):
            raise
        raise ModelError(
            f"Transformers could not draft for {name_of(pair.target)} with {describe(lane.policy)}: {first_line(error)} "
            "What was written before is kept. Choose another way to draft."
        ) from error
