"""Tiny pairs loaded as the worker loads them. Apart from `tests.models`, whose own text is what its tokenizer learns from."""

from pathlib import Path

import torch

from core.runs import RunSpec
from core.worker.models import Garage, Pair
from tests.models import spec_of, write_pair


def load_pair(spec: RunSpec) -> Pair:
    """The pair of `spec`, loaded as the worker loads it."""
    return Garage().get(spec)


def small_pair(folder: Path) -> Pair:
    """Two tiny random models that often agree, written into `folder` and loaded; one torch thread from then on."""
    torch.set_num_threads(1)
    return load_pair(spec_of(write_pair(folder)))
