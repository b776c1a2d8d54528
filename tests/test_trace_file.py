"""Traces as bytes: what is packed comes out, and damaged bytes give a sentence."""

import dataclasses
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from core.errors import StoreError
from core.trace import PromptTrace, Sampled
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


def sampled(trace: PromptTrace, seed: int, thresholds: tuple[float, ...] = (0.0, 0.1, 0.7)) -> PromptTrace:
    rng, tokens = np.random.default_rng(seed), len(trace.answer)
    p, overlap, *stops = rng.random((2 + len(thresholds), tokens), dtype=np.float32)
    found = Sampled(p, overlap, dict(zip(thresholds, stops, strict=True)), rng.random(tokens) < 0.5, seed)
    return dataclasses.replace(trace, sampled=found, ended="stop")


def test_sampled_traces_survive_beside_greedy_ones() -> None:
    traces = [sampled(random_trace(0), 5), random_trace(1), sampled(random_trace(2, tokens=3), 6, ()), sampled(random_trace(3), 7, (0.4,))]
    back = unpack_traces(pack_traces(traces))
    assert all(map(same, back, traces))
    assert [trace.ended for trace in back] == ["stop", "eos", "stop", "stop"]
    assert back[0].sampled is not None
    assert (back[0].sampled.p.dtype, back[0].sampled.greedy_hit.dtype, back[0].sampled.stop_rejected[0.7].dtype) == (np.float32, np.bool_, np.float32)


def test_a_file_from_before_sampling_is_read_as_greedy() -> None:
    with np.load(io.BytesIO(pack_traces([random_trace(0), random_trace(1)]))) as file:
        old = {
            name: file[name] for name in file.files if name not in ("stop", "thresholds", "clamped", "p", "overlap", "greedy_hit", "stop_rejected")
        }
    assert len(old) == 18
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **old)
    assert all(map(same, unpack_traces(buffer.getvalue()), [random_trace(0), random_trace(1)]))


@pytest.mark.parametrize("name", ["p", "overlap", "stop_rejected", "clamped", "thresholds"])
def test_sampled_values_of_another_length_are_refused(name: str) -> None:
    with np.load(io.BytesIO(pack_traces([sampled(random_trace(0), 5)]))) as file:
        arrays = {key: file[key] for key in file.files}
    arrays[name] = arrays[name][:-1]
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    with pytest.raises(StoreError, match="damaged"):
        unpack_traces(buffer.getvalue())


HUGE = io.BytesIO()
np.lib.format.write_array_header_1_0(HUGE, {"shape": (10**14,), "fortran_order": False, "descr": "<i4"})


@pytest.mark.parametrize("content", [b"no array", HUGE.getvalue()], ids=["no array", "of 400 TB"])
def test_members_that_are_no_arrays_or_larger_than_any_memory_are_damage(content: bytes) -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        file.writestr("length.npy", content)
    with pytest.raises(StoreError, match=r"^The recorded trace is damaged .* Measure this pair again\.$"):
        unpack_traces(held.getvalue())
