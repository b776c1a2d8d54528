"""When memory does not suffice: how that is recognised, and how what nothing holds any more is given back.

PyTorch's allocators raise an error of their own; CUDA libraries that allocate beside them (cuBLAS, graphs, kernels being loaded), the CPU's
allocator and Apple's raise a plain RuntimeError, told by its words (torch 2.13). Python has MemoryError, and a file that cannot be mapped
into memory is the system's error 12.
"""

import errno
import gc
import sys
from pathlib import Path

import torch
from safetensors import SafetensorError

_WORDS = ("out of memory", "can't allocate memory", "cannot allocate memory", "alloc_failed")


def out_of_memory(error: Exception) -> bool:
    """Whether the device, or the machine, had too little memory left."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    told = isinstance(error, RuntimeError | SafetensorError) and any(word in str(error).lower() for word in _WORDS)
    return told or isinstance(error, torch.OutOfMemoryError | MemoryError)


def free_bytes(device: str) -> int | None:
    """What is free on a device; on the CPU what programs can still take without swapping. None where nobody says (only Linux and CUDA do)."""
    if device.startswith("cuda"):
        return torch.cuda.mem_get_info(torch.device(device))[0]
    info = Path("/proc/meminfo")
    lines = info.read_text().splitlines() if device == "cpu" and info.is_file() else []
    kibibytes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return 1024 * int(kibibytes[0]) if kibibytes else None


def release_memory() -> None:
    """Give back what nothing holds any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def forget_compiled() -> None:
    """Drop what was compiled for models that are let go: on CUDA captured graphs keep memory of their own; and compiling stops after some models."""
    if torch.cuda.is_available() and "torch._dynamo" in sys.modules:
        torch._dynamo.reset()
