"""What the worker can say about the machine: its devices, and the record of where a run was measured.

Only the worker asks torch; the web process reads what it stored.
"""

import importlib.util
import os
import platform
import socket
from pathlib import Path

import torch
import transformers
from transformers import PreTrainedModel

from core.errors import DeviceError, InvalidInput
from core.measured import DeviceInfo, Environment
from core.placement import Asked, problems
from core.runs import ModelRef, RunSpec
from core.settings import Settings
from core.worker.loading import UNPACKED, devices_of, quantization_of
from core.worker.memory import begin_peaks, model_bytes
from core.worker.models import Pair
from core.worker.room import free_bytes


def devices() -> list[DeviceInfo]:
    """Every device that can measure, the fastest kind first; the CPU is always there."""
    found: list[DeviceInfo] = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        name = f"cuda:{index}"
        found.append(DeviceInfo(id=name, name=properties.name, memory_bytes=properties.total_memory, free_bytes=free_bytes(name)))
    if torch.backends.mps.is_available():
        found.append(DeviceInfo(id="mps", name="Apple GPU", memory_bytes=_memory_bytes()))
    return [*found, DeviceInfo(id="cpu", name=_cpu_name(), memory_bytes=_memory_bytes(), free_bytes=free_bytes("cpu"))]


def device_named(name: str) -> DeviceInfo:
    """The device with this id. Raises DeviceError naming those that exist."""
    known = {device.id: device for device in devices()}
    if name not in known:
        raise DeviceError(f"This machine has no device {name!r}. Choose one of: {', '.join(known)}.")
    return known[name]


def prepare(spec: RunSpec, settings: Settings) -> None:
    """Make the run's devices ready: threads on a CPU; on CUDA its device is the one that libraries take unasked, and peaks count from here.

    Raises DeviceError for a device that does not exist, InvalidInput for a placement that this machine cannot follow.
    """
    device_named(spec.device)
    for sentence in problems(spec.placement, Asked.of(spec, devices())):
        raise InvalidInput(sentence)
    if "cpu" in (spec.device, spec.placement.draft_device):
        torch.set_num_threads(settings.threads)
    if spec.device.startswith("cuda"):
        torch.cuda.set_device(spec.device)
    begin_peaks()


def environment(spec: RunSpec, pair: Pair) -> Environment:
    """The record that goes with a run."""
    return Environment(
        host=socket.gethostname(),
        device=spec.device,
        device_name=device_named(spec.device).name,
        platform=platform.platform(),
        python=platform.python_version(),
        torch=str(torch.__version__),
        transformers=transformers.__version__,
        dtype=spec.dtype,
        attention=str(pair.target.config._attn_implementation),
        threads=torch.get_num_threads(),
        scikit_learn=importlib.util.find_spec("sklearn") is not None,
        target_parameters=pair.target.num_parameters(),
        draft_parameters=pair.draft.num_parameters(),
        target_layers=_layers(pair.target),
        draft_layers=_layers(pair.draft),
        target_bytes=model_bytes(pair.target),
        draft_bytes=model_bytes(pair.draft),
        draft_attention=str(pair.draft.config._attn_implementation),
        target_devices=tuple(map(str, devices_of(pair.target))),
        draft_devices=tuple(map(str, devices_of(pair.draft))),
        target_quantization=_kept(spec.target, pair.target),
        draft_quantization=_kept(spec.draft, pair.draft),
        encoder_decoder=pair.feeding.encodes,
    )


def _kept(ref: ModelRef, model: PreTrainedModel) -> str:
    """How the weights are kept; once they are unpacked the library no longer says that they came from a GGUF file."""
    return quantization_of(model) or (UNPACKED if ref.source == "gguf" else "")


def _layers(model: PreTrainedModel) -> int:
    """The decoder's; T5 counts them by a name of its own where they are not as many as the encoder's."""
    own = model.config.get_text_config(decoder=True)
    return int(getattr(own, "num_decoder_layers", None) or own.num_hidden_layers)


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_bytes() -> int | None:
    """Physical memory; None where the system does not say (Windows)."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
