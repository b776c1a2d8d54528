"""Devices that are not there: tensors that say they lie on one, are computed on the CPU, and refuse to meet tensors of another.

PyTorch refuses to mix devices in the same way, but for the exceptions kept here: single numbers on the CPU go with any device, and so do
indices on the CPU. What is proven with them is that code, ours and the library's, moves what it must; not that a GPU's kernels are right,
nor anything about time. Built on wrapper subclasses under a mode that stands where PyTorch's own fake tensors do (torch 2.13), so that
naming a CUDA device does not look for one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

CPU, NAME = torch.device("cpu"), "elsewhere"
_aten = torch.ops.aten
_MOVES = {_aten._to_copy.default, _aten.copy_.default, _aten._copy_from.default}
_TAKES_CPU_INDICES = {_aten.index.Tensor, _aten.index_put_.default, _aten.index_put.default, _aten._index_put_impl_.default}


class Elsewhere(torch.Tensor):
    """A tensor whose numbers are `held` on the CPU, and that says it lies on `device`."""

    held: torch.Tensor
    place: torch.device

    @staticmethod
    def __new__(cls, held: torch.Tensor, place: torch.device) -> "Elsewhere":
        """PyTorch itself takes it for a tensor on "meta", whose kernels it never asks for; what it says of its device is asked below."""
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            layout=held.layout,
            device=torch.device("meta"),
            dispatch_device=True,
        )
        made.held, made.place = held, place
        return made

    def __repr__(self, **_: Any) -> str:
        return f"Elsewhere({self.held!r}, {self.place})"

    def tolist(self) -> Any:
        return self.held.tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.prim.device.default:
            return args[0].place
        return _run(func, args, kwargs or {})


class _Mode(TorchDispatchMode):
    """Makes new tensors on devices that are not there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.prim.device.default:
            return args[0].place
        return _run(func, args, kwargs or {})


class _Module(backend_registration._DummyBackendModule):
    """What PyTorch asks of a backend's module."""

    def device_count(self) -> int:
        return 2


@contextmanager
def elsewhere() -> Iterator[tuple[str, str]]:
    """Two devices by their names. A process cannot forget them again, so do this in one of its own."""
    backend_registration._setup_privateuseone_for_python_backend(rename=NAME, backend_module=_Module())
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device=...) then moves what it made in the open
    with _Mode():
        yield f"{NAME}:0", f"{NAME}:1"


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The operation on what is held, and its result where it belongs; as it is where no device that is not there has a part in it."""
    flat = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, torch.Tensor)]
    asked = None if kwargs.get("device") is None else torch.device(kwargs["device"])
    if not any(isinstance(each, Elsewhere) for each in flat) and (asked is None or asked.type != NAME):
        return func(*args, **kwargs)
    place = asked or _meeting(func, flat)
    held_args, held_kwargs = tree_map(_held, (args, kwargs))
    if asked is not None and asked.type == NAME:
        held_kwargs["device"] = CPU
    found = func(*held_args, **held_kwargs)
    known = {id(each.held): each for each in flat if isinstance(each, Elsewhere)}

    def placed(each: Any) -> Any:
        if not isinstance(each, torch.Tensor):
            return each
        if place.type != NAME:
            return each.clone() if id(each) in known else each
        return known[id(each)] if id(each) in known and known[id(each)].place == place else Elsewhere(each, place)

    return tree_map(placed, found)


def _held(each: Any) -> Any:
    return each.held if isinstance(each, Elsewhere) else each


def _meeting(func: Any, tensors: list[torch.Tensor]) -> torch.device:
    """Where the result lies. Raises RuntimeError, as PyTorch does, when the tensors lie apart."""
    if not tensors:
        return CPU
    if func in _MOVES:
        return tensors[0].device
    first = tensors[0].device
    for place, tensor in enumerate(tensors):
        single = tensor.dim() == 0 and tensor.device == CPU
        index = place > 0 and tensor.device == CPU and func in _TAKES_CPU_INDICES
        if first.type == "cpu" and tensors[place].device != CPU and tensors[0].dim() == 0:
            first = tensor.device
        elif tensor.device != first and not single and not index:
            raise RuntimeError(f"Expected all tensors to be on the same device, but {func} got {first} and {tensor.device}")
    return first
