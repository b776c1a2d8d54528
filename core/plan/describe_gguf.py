"""`describe` for a GGUF file: bytes and parameters of its tensors, its config as Transformers reads it, its vocabulary.

The config needs Transformers' own mapping of some thirty architectures, and that needs torch, which this process must not
load: a process of its own reads it (`core.plan.gguf_config`, 5 to 15 s). Units: bytes, seconds. Not covered: models split over several
files.
"""

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from core.encoders import packed
from core.errors import ModelError
from core.model_info import ModelInfo, Weights
from core.pair import check
from core.plan.vocabulary import keep, read_gguf_vocabulary
from core.runs import ModelRef
from core.settings import Settings
from core.usable import encodes, judge_config

LIMIT_S = 45.0
_PART = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
_ROOT = Path(__file__).parents[2]


def describe_gguf(ref: ModelRef, settings: Settings, limit_s: float = LIMIT_S) -> ModelInfo:
    """The model in a GGUF file. Raises InvalidInput and ModelError as `core.pair.check`, ModelError when it cannot be read."""
    check(ref, settings)
    if _PART.search(ref.name):
        return ModelInfo(
            ref=ref, read_s=time.time(), refusal=f"{ref.name} is one part of a split GGUF file. Join the parts with llama-gguf-split first."
        )
    found = _read(Path(ref.path), limit_s)
    config = found["config"]
    refusal = str(found.get("refusal", "")) or (packed(ref.name, str(config.get("model_type"))) if encodes(config) else "")
    judged = judge_config(ref.name, config) if not refusal else None
    info = ModelInfo(
        ref=ref,
        read_s=time.time(),
        refusal=refusal or (judged.refusal if judged else ""),
        warnings=judged.warnings if judged else (),
        config=config,
        weights=Weights(
            bytes=sum(found["bytes"].values()), parameters=found["parameters"], bytes_by_dtype=found["bytes"], quantisation=found["quantisation"]
        ),
        licence=found["licence"],
    )
    try:
        words = read_gguf_vocabulary(Path(ref.path))
    except ModelError as error:
        return info.model_copy(update={"vocabulary_problem": str(error)})
    return info.model_copy(update={"vocabulary": keep(words, settings), "chat_template": words.chat_template or ""})


def _read(file: Path, limit_s: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "core.plan.gguf_config", str(file)]
    try:
        done = subprocess.run(command, capture_output=True, cwd=_ROOT, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise ModelError(f"{file} was not read within {limit_s:g} seconds, so it was given up. Choose another file.") from error
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        raise ModelError(f"{file} is cut off or damaged, or not a GGUF file that can be read here. Download it again, or choose another file.")
    answer: dict[str, Any] = json.loads(lines[-1])
    if "error" in answer:
        raise ModelError(str(answer["error"]))
    return answer
