"""What is asked of models that read with an encoder and cannot be had: sentences that a config alone tells, before anything is loaded.

Source: Transformers 5.24, `candidate_generator.py` (early exit and heads call the target as a decoder alone), the worker's own stages
(`core.worker.shapes` times passes of decoders), and its loading (GGUF files are read as decoders). Pages ask first, the bench where a config
lies on this machine, the worker always. Not covered: which encoder-decoders go together (`core.advice_runs`, `core.worker.kinds`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.errors import ModelError
from core.model_folder import CONFIG, read_config
from core.policies import EarlyExit, OwnHeads
from core.runs import RunSpec
from core.usable import encodes


def drafts_itself(name: str, kind: str) -> str:
    """Why it has no early exit and no heads. kind: its model type."""
    return (
        f"{name} is an encoder-decoder ({kind}), and Transformers 5.24 lets decoders alone draft for themselves. "
        "Choose a draft model, or prompt lookup."
    )


def timed(name: str, kind: str = "") -> str:
    """Why its passes are not timed alone, nor in batches."""
    shown = f" ({kind})" if kind else ""
    return f"{name} is an encoder-decoder{shown}, and passes behind encoded prompts are not timed here. Measure the pair instead."


def packed(name: str, kind: str) -> str:
    """Why its GGUF file cannot be used."""
    return f"{name} is a GGUF file of an encoder-decoder ({kind}), and such files are read as decoders here. Choose the model's safetensors."


def refusal(spec: RunSpec, name: str, config: Mapping[str, Any], *, is_target: bool) -> str:
    """Why the run cannot be had with this model of it; "" where it can."""
    if not encodes(config):
        return ""
    kind = str(config.get("model_type"))
    if spec.extent == "shapes":
        return timed(name, kind)
    itself = is_target and any(isinstance(lane.policy, EarlyExit | OwnHeads) for lane in spec.lanes)
    return drafts_itself(name, kind) if itself else ""


def check(spec: RunSpec) -> None:
    """Raise ModelError for what cannot be had of a run's model, where its config.json lies in a folder on this machine."""
    for ref in dict.fromkeys((spec.target, spec.draft)):
        if ref.source == "folder":
            found = refusal(spec, ref.name, read_config(Path(ref.path) / CONFIG), is_target=ref == spec.target)
            if found:
                raise ModelError(found)
