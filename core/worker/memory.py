"""How much memory the models take. Unit: bytes.

Weights and buffers are counted; peaks are what the device reports. A CPU's operating system knows only the most that the whole
process ever had, so there is no peak per model there.
"""

import sys
from collections.abc import Callable

import torch
from transformers import PreTrainedModel

from core.policies import FixedGamma, Plain, Policy
from core.worker.models import Pair

if sys.platform != "win32":
    import resource


def model_bytes(model: PreTrainedModel) -> int:
    """Weights and buffers; shared ones count once."""
    tensors = {tensor.data_ptr(): tensor.nbytes for tensor in [*model.parameters(), *model.buffers()]}
    return sum(tensors.values())


def peak_bytes(device: torch.device) -> int | None:
    """The most that was in use at once; on a CPU by this process since it began. None where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if device.type != "cpu" or sys.platform == "win32":
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def peaks_of(pair: Pair, run: Callable[[Policy], object]) -> dict[str, int]:
    """Run plain, then with the draft: the peaks of `Environment`, empty where unknown. What a draft adds to a plain call is the draft's."""
    plain, assisted = (_added(pair.device, run, policy) for policy in (Plain(), FixedGamma(2)))
    if plain is None or assisted is None:
        return {}
    return {"target_peak_bytes": model_bytes(pair.target) + plain, "draft_peak_bytes": model_bytes(pair.draft) + max(0, assisted - plain)}


def _added(device: torch.device, run: Callable[[Policy], object], policy: Policy) -> int | None:
    """What a call needed beyond what was there before; None where it is not known."""
    if device.type != "cuda":
        run(policy)
        return None
    run(policy)  # first calls allocate for good
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    run(policy)
    return torch.cuda.max_memory_allocated(device) - before
