"""Whether models fit, from their configurations, before anything is allocated: a system out of memory ends the worker instead of saying so.

The same architecture is built without memory (torch's `meta` device), and its bytes are counted, whatever the files hold: a config of another
size than its weights would be allocated first and found out then. Units: bytes. Source: Transformers 5.24, `from_config`.
Not covered: caches and activations; models spread over several GPUs, which are looked at once they are loaded (`core.worker.loading`).
"""

from collections.abc import Sequence

import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, PretrainedConfig, PreTrainedModel

from core.bounded import GIB, OutOfBounds, bounded
from core.errors import DeviceError, ModelError
from core.numbers import file_size
from core.worker.loading import DTYPES, Key
from core.worker.room import free_bytes, out_of_memory

LEAST_BITS = 2
"""Of a weight in any packed format."""
MOST_MEMORY_BYTES = 8 * GIB
LONGEST_S = 120.0
"""Of building without memory: the largest public models take seconds and some 100 MB."""

Part = tuple[Key, PretrainedConfig, str]
"""Of a pair: how it is kept, its config, and its role in words."""


def check_room(parts: Sequence[Part], *, must_build: bool = False) -> None:
    """Raise DeviceError where the weights alone would not fit.

    must_build: raise ModelError for what the library cannot build; else loading it will say so.
    """
    needed: dict[str, int] = {}
    for key, config, role in parts:
        try:
            count = 0 if key.spread else weights_bytes(key, config, role)
        except ModelError:
            if must_build:
                raise
            continue
        needed[key.device] = needed.get(key.device, 0) + count
    for name, count in needed.items():
        free = free_bytes(name)
        if free is not None and count > free:
            raise DeviceError(
                f"The weights take {file_size(count)} in {parts[0][0].dtype}, and {name} has {file_size(free)} free. "
                "Use a smaller number format, another device, or smaller models."
            )


def weights_bytes(key: Key, config: PretrainedConfig, role: str) -> int:
    """Of all weights in the run's number format; the least they can take where they are kept in fewer bits.

    Raises DeviceError for sizes that cannot even be built, ModelError for what the library cannot build.
    """
    try:
        with bounded(MOST_MEMORY_BYTES, LONGEST_S):
            model = assemble(config, key, role, torch.device("meta"))
            count = sum(weight.nbytes for weight in model.parameters())
    except OutOfBounds as error:
        raise DeviceError(f"Building the {role} as its config says {error}, and that without its weights. Choose another model.") from error
    packed = key.quantization or getattr(config, "quantization_config", None) is not None
    return count * LEAST_BITS // (8 * DTYPES[key.dtype].itemsize) if packed else count


def assemble(config: PretrainedConfig, key: Key, role: str, device: torch.device) -> PreTrainedModel:
    """The model with random weights on `device`; on "meta" it takes no memory. Raises ModelError where the library cannot build it."""
    how = {"attn_implementation": key.attention} if key.attention else {}
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    torch.manual_seed(0)
    try:
        with device:
            model: PreTrainedModel = kind.from_config(config, dtype=DTYPES[key.dtype], trust_remote_code=False, **how)
    except Exception as error:  # a class may raise anything for values it cannot use
        if out_of_memory(error):
            raise
        raise ModelError(f"Transformers cannot build the {role} from its config: {why(error)} Correct it, or choose another model.") from error
    return model.eval()


def why(error: Exception) -> str:
    """The library's own reason, on one line."""
    line = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
    return f"{line}."
