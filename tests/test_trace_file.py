"""Traces as bytes: what is packed comes out, and damaged bytes give a sentence."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from core.errors import StoreError
from core.trace import PromptTrace
from core.trace_file import pack_traces, unpack_traces
from tests.supplies import random_trace


def same(a: PromptTrace, b: PromptTrace) -> bool:
    """Equal in every field, array types included."""
    return repr(dataclasses.asdict(a)) == repr(dataclasses.asdict(b))


def test_traces_survive_packing_also_empty_ones_and_none() -> None:
    traces = [random_trace(0), random_trace(1, rich=False), random_trace(2, tokens=0), random_trace(3, tokens=1)]
    assert all(map(same, unpack_traces(pack_traces(traces)), traces))
    assert unpack_traces(pack_traces([])) == ()
    back = unpack_traces(pack_traces(traces))[0]
    assert (back.answer.dtype, back.accept.dtype, back.draft_eos.dtype) == (np.int32, np.float32, np.bool_)


def test_traces_are_small() -> None:
    assert len(pack_traces([random_trace(i, tokens=128, rich=False) for i in range(16)])) < 40_000


@pytest.mark.parametrize("damage", [lambda b: b[:-30], lambda b: b"PK" + bytes(50), lambda b: b"", lambda b: b.replace(b"accept", b"except")])
def test_a_damaged_trace_gives_a_sentence(damage) -> None:
    with pytest.raises(StoreError, match="damaged"):
        unpack_traces(damage(pack_traces([random_trace(0)])))


def test_a_trace_with_any_byte_changed_is_read_or_refused() -> None:
    whole, random = pack_traces([random_trace(0)]), np.random.default_rng(0)
    refused = 0
    for _ in range(600):
        damaged = bytearray(whole)
        damaged[random.integers(len(whole))] = random.integers(256)
        try:
            unpack_traces(bytes(damaged))
        except StoreError:
            refused += 1
    assert refused > 300


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "evil.npz", length=np.array([{}], dtype=object))
    with pytest.raises(StoreError, match="damaged"):
        unpack_traces((tmp_path / "evil.npz").read_bytes())
