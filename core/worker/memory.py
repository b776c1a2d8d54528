"""How much memory the models take. Unit: bytes.

Weights and buffers are counted; what a call needs beyond them is measured. On CUDA that is the allocator's peak. On a CPU it is how
much the process's resident memory grew: memory that is free is given back to the system first, and the system's record of the most
is begun anew (Linux 4.0 and glibc: /proc/self/clear_refs, malloc_trim), so that only what the call itself asked for counts, in whole
pages. Other systems keep one peak for the whole life of a process, so there is none per model there.
"""

import ctypes
import re
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import PreTrainedModel

from core.policies import FixedGamma, Plain, Policy
from core.worker.models import Pair

if sys.platform != "win32":
    import resource


_before_anew = {"peak": 0}
"""The most of this process before its record was begun anew."""


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
    return max(_before_anew["peak"], _process_peak())


def _process_peak() -> int:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def peaks_of(pair: Pair, run: Callable[[Policy], object], target_peak_bytes: int | None = None) -> dict[str, int]:
    """Run plain, then with the draft: the peaks of `Environment`, empty where unknown. What a draft adds to a plain call is the draft's.

    target_peak_bytes: the target's, where it is known from another draft; plain is not run then.
    """
    held = model_bytes(pair.target)
    plain = _added(pair.device, run, Plain()) if target_peak_bytes is None else target_peak_bytes - held
    assisted = _added(pair.device, run, FixedGamma(2))
    if plain is None or assisted is None:
        return {}
    return {"target_peak_bytes": held + plain, "draft_peak_bytes": model_bytes(pair.draft) + max(0, assisted - plain)}


def _added(device: torch.device, run: Callable[[Policy], object], policy: Policy) -> int | None:
    """What a second call needed beyond what was there before, because first ones allocate for good; None where it is not known."""
    run(policy)
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        run(policy)
        return torch.cuda.max_memory_allocated(device) - before
    return resident_growth(lambda: run(policy)) if device.type == "cpu" else None


def resident_growth(call: Callable[[], object]) -> int | None:
    """Most resident bytes of this process during `call` less those before it; None, without calling, where the system does not say."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
        _before_anew["peak"] = max(_before_anew["peak"], _process_peak())
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("VmRSS")
        call()
        return max(0, _status("VmHWM") - before)
    except (OSError, AttributeError, TypeError):  # another system, another C library, or a container that forbids it
        return None


def _status(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"/proc/self/status has no {name}")
    return int(found[1]) * 1024
