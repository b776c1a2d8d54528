"""How much memory the models take. Unit: bytes.

Weights and buffers are counted, and what bitsandbytes keeps beside its weights; what a call needs beyond them is measured. On CUDA that is
the allocator's peak, of several devices the sum of theirs. On a CPU it is how
much the process's resident memory grew: memory that is free is given back to the system first, and the system's record of the most
is begun anew (Linux 4.0 and glibc: /proc/self/clear_refs, malloc_trim), so that only what the call itself asked for counts, in whole
pages. Other systems keep one peak for the whole life of a process, so there is none per model there.
"""

import ctypes
import gc
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from core.policies import FixedGamma, Plain, Policy
from core.worker.models import Pair

if sys.platform != "win32":
    import resource


_before_anew: dict[str, int] = {}
"""By device, the most before its record was begun anew."""


def model_bytes(model: PreTrainedModel) -> int:
    """Weights, buffers, and the statistics of weights in fewer bits; shared ones count once."""
    tensors = [*model.parameters(), *model.buffers(), *_statistics(model)]
    return sum({(tensor.device, tensor.data_ptr()): tensor.nbytes for tensor in tensors}.values())


def _statistics(model: PreTrainedModel) -> Iterator[torch.Tensor]:
    """Bitsandbytes keeps them as attributes: in 4 bits on the weight; in 8 bits there until the first pass, then on the layer."""
    for module in model.modules():
        weight = getattr(module, "weight", None)
        for owner, name in ((getattr(weight, "quant_state", None), "absmax"), (weight, "SCB"), (getattr(module, "state", None), "SCB")):
            found = getattr(owner, name, None)
            if isinstance(found, torch.Tensor):
                yield found


def begin_peaks() -> None:
    """Count peaks of CUDA devices from now on."""
    for index in range(torch.cuda.device_count()):
        torch.cuda.reset_peak_memory_stats(index)
        _before_anew.pop(f"cuda:{index}", None)


def peaks(devices: Sequence[torch.device]) -> dict[str, Any]:
    """What `Environment` says in the end of the most that was in use: together, and of each device where there are several."""
    each = {str(device): peak_bytes(device) for device in devices}
    known = {name: count for name, count in each.items() if count is not None}
    return {"peak_bytes": sum(known.values()) if len(known) == len(each) else None, "device_peak_bytes": known if len(each) > 1 else {}}


def peak_bytes(device: torch.device) -> int | None:
    """The most that was in use at once; on a CPU by this process since it began. None where the system does not say."""
    if device.type == "cuda":
        return max(_before_anew.get(str(device), 0), torch.cuda.max_memory_allocated(device))
    if device.type != "cpu" or sys.platform == "win32":
        return None
    return max(_before_anew.get("cpu", 0), _process_peak())


def _process_peak() -> int:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def peaks_of(pair: Pair, run: Callable[[Policy], object], target_peak_bytes: int | None = None) -> dict[str, int]:
    """Run plain, then with the draft: the peaks of `Environment`, empty where unknown. What a draft adds to a plain call is the draft's.

    target_peak_bytes: the target's, where it is known from another draft; plain is not run then.
    """
    held = model_bytes(pair.target)
    plain = _added(pair.devices, run, Plain()) if target_peak_bytes is None else target_peak_bytes - held
    assisted = _added(pair.devices, run, FixedGamma(2))
    if plain is None or assisted is None:
        return {}
    return {"target_peak_bytes": held + plain, "draft_peak_bytes": model_bytes(pair.draft) + max(0, assisted - plain)}


def _added(devices: Sequence[torch.device], run: Callable[[Policy], object], policy: Policy) -> int | None:
    """What a second call needed beyond what was there before, because first ones allocate for good; None where it is not known.

    On devices of two kinds it is not: what one kind counts is not what the other does.
    """
    run(policy)
    kinds = {device.type for device in devices}
    if kinds == {"cuda"}:
        before = sum(_begin_anew(device) for device in devices)
        run(policy)
        return sum(torch.cuda.max_memory_allocated(device) for device in devices) - before
    return resident_growth(lambda: run(policy)) if kinds == {"cpu"} else None


def _begin_anew(device: torch.device) -> int:
    """Count the peak of a CUDA device from now on; what is in use now."""
    _before_anew[str(device)] = peak_bytes(device) or 0
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)


def resident_growth(call: Callable[[], object]) -> int | None:
    """Most resident bytes of this process during `call` less those before it; None, without calling, where the system does not say."""
    try:
        gc.collect()  # garbage that is collected amid the call would hide as much of its memory
        ctypes.CDLL(None).malloc_trim(0)
        _before_anew["cpu"] = max(_before_anew.get("cpu", 0), _process_peak())
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
