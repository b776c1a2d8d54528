"""Prompt traces as bytes: one compressed .npz without pickle, for the store and for exported runs.

The arrays of all prompts are laid end to end with their lengths beside them, so that the size
hardly depends on the number of prompts. Strings are kept as UTF-8 JSON. Files from before sampling and stop strings
lack their arrays, and are read as greedy traces that no stop string ended.
"""

import io
import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import StoreError
from core.trace import Ended, Lookup, PromptTrace, Sampled, Tails

Array = NDArray[Any]

DAMAGE = (ValueError, TypeError, KeyError, IndexError, AttributeError, EOFError, OSError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error)
"""What reading comes to where the bytes are not those that were written; MemoryError where they speak of more than there is."""
PER_TOKEN = {"answer": np.int32, "accept": np.float32, "confidence": np.float32, "draft_choice": np.int32, "draft_eos": np.bool_}


def pack_traces(traces: Sequence[PromptTrace]) -> bytes:
    """Any number of traces as the bytes of an .npz file."""
    arrays: dict[str, Array] = {
        "length": np.array([len(t.answer) for t in traces], np.int32),
        "prompt_tokens": np.array([t.prompt_tokens for t in traces], np.int32),
        "budget": np.array([t.budget for t in traces], np.int32),
        "eos": np.array([t.ended == "eos" for t in traces], np.bool_),
        "stop": np.array([t.ended == "stop" for t in traces], np.bool_),
        "pieces": _text_array([list(t.pieces) for t in traces]),
        "ngrams": _text_array([None if t.lookup is None else sorted(t.lookup) for t in traces]),
    }
    for name, dtype in PER_TOKEN.items():
        arrays[name] = _joined([getattr(t, name) for t in traces], dtype)
    arrays |= _tail_arrays(traces) | _lookup_arrays(traces) | _sampled_arrays(traces)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack_traces(data: bytes) -> tuple[PromptTrace, ...]:
    """The traces that `pack_traces` packed. Raises StoreError when the bytes are damaged."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays: dict[str, Array] = {name: file[name] for name in file.files}
        return _traces(arrays)
    except DAMAGE as error:
        raise StoreError(f"The recorded trace is damaged ({str(error)[:200]}). Measure this pair again.") from error


def _traces(arrays: Mapping[str, Array]) -> tuple[PromptTrace, ...]:
    lengths = arrays["length"].tolist()
    tokens = {name: _split(arrays[name], lengths) for name in PER_TOKEN}
    pieces: list[list[str]] = _text(arrays["pieces"])
    tails, lookups, sampled, ended = _tails(arrays), _lookups(arrays, lengths), _sampled(arrays, lengths), _ended(arrays, len(lengths))
    return tuple(
        PromptTrace(
            prompt_tokens=int(arrays["prompt_tokens"][i]),
            pieces=tuple(pieces[i]),
            ended=ended[i],
            budget=int(arrays["budget"][i]),
            tails=tails[i],
            lookup=lookups[i],
            sampled=sampled[i],
            **{name: tokens[name][i] for name in PER_TOKEN},
        )
        for i in range(len(lengths))
    )


def _ended(arrays: Mapping[str, Array], count: int) -> list[Ended]:
    stops = arrays.get("stop", np.zeros(count, np.bool_))
    return ["eos" if eos else "stop" if stop else "length" for eos, stop in zip(arrays["eos"], stops, strict=True)]


def _tail_arrays(traces: Sequence[PromptTrace]) -> dict[str, Array]:
    """Tails laid end to end; `tail_count` is -1 where a prompt has none, `tail_width` its columns."""
    tails = [t.tails for t in traces]
    known = [t for t in tails if t is not None]
    return {
        "tail_count": np.array([-1 if t is None else len(t.position) for t in tails], np.int32),
        "tail_width": np.array([0 if t is None else t.confidence.shape[1] for t in tails], np.int32),
        "tail_position": _joined([t.position for t in known], np.int32),
        "tail_confidence": _joined([t.confidence.ravel() for t in known], np.float32),
        "tail_eos_at": _joined([t.eos_at for t in known], np.int16),
    }


def _tails(arrays: Mapping[str, Array]) -> list[Tails | None]:
    counts, widths = arrays["tail_count"].tolist(), arrays["tail_width"].tolist()
    sizes = [max(count, 0) for count in counts]
    positions, ends = _split(arrays["tail_position"], sizes), _split(arrays["tail_eos_at"], sizes)
    confidences = _split(arrays["tail_confidence"], [size * width for size, width in zip(sizes, widths, strict=True)])
    return [
        None if count < 0 else Tails(position, confidence.reshape(count, width), end)
        for count, width, position, confidence, end in zip(counts, widths, positions, confidences, ends, strict=True)
    ]


def _lookup_arrays(traces: Sequence[PromptTrace]) -> dict[str, Array]:
    known = [t.lookup[ngram] for t in traces if t.lookup is not None for ngram in sorted(t.lookup)]
    return {"candidates": _joined([each.candidates for each in known], np.int16), "matched": _joined([each.matched for each in known], np.int16)}


def _lookups(arrays: Mapping[str, Array], lengths: list[int]) -> list[dict[int, Lookup] | None]:
    ngrams: list[list[int] | None] = _text(arrays["ngrams"])
    sizes = [length for length, sizes in zip(lengths, ngrams, strict=True) for _ in sizes or ()]
    pairs = zip(_split(arrays["candidates"], sizes), _split(arrays["matched"], sizes), strict=True)
    return [None if sizes is None else {ngram: Lookup(*next(pairs)) for ngram in sizes} for sizes in ngrams]


def _sampled_arrays(traces: Sequence[PromptTrace]) -> dict[str, Array]:
    """`thresholds` is null where a prompt was not sampled; their arrays are laid end to end, threshold after threshold."""
    known = [t.sampled for t in traces if t.sampled is not None]
    return {
        "thresholds": _text_array([None if t.sampled is None else sorted(t.sampled.stop_rejected) for t in traces]),
        "clamped": np.array([each.clamped for each in known], np.int32),
        "p": _joined([each.p for each in known], np.float32),
        "overlap": _joined([each.overlap for each in known], np.float32),
        "greedy_hit": _joined([each.greedy_hit for each in known], np.bool_),
        "stop_rejected": _joined([each.stop_rejected[key] for each in known for key in sorted(each.stop_rejected)], np.float32),
    }


def _sampled(arrays: Mapping[str, Array], lengths: list[int]) -> list[Sampled | None]:
    if "thresholds" not in arrays:
        return [None] * len(lengths)
    thresholds: list[list[float] | None] = _text(arrays["thresholds"])
    sizes = [length for length, keys in zip(lengths, thresholds, strict=True) if keys is not None]
    stops = iter(_split(arrays["stop_rejected"], [length for length, keys in zip(lengths, thresholds, strict=True) for _ in keys or ()]))
    rows = zip(*(_split(arrays[name], sizes) for name in ("p", "overlap", "greedy_hit")), arrays["clamped"].tolist(), strict=True)
    found: list[Sampled | None] = []
    for keys in thresholds:
        if keys is None:
            found.append(None)
            continue
        p, overlap, greedy_hit, clamped = next(rows)
        found.append(Sampled(p, overlap, {key: next(stops) for key in keys}, greedy_hit, clamped))
    return found


def _joined(parts: Sequence[Array], dtype: type[np.generic]) -> Array:
    return np.concatenate([np.zeros(0, dtype), *parts]).astype(dtype)


def _split(array: Array, lengths: Sequence[int]) -> list[Array]:
    """`array` cut into parts of these lengths; the lengths must add up to it."""
    if sum(lengths) != len(array):
        raise ValueError(f"{len(array)} values where {sum(lengths)} belong")
    return np.split(array, np.cumsum(lengths)[:-1].tolist()) if lengths else []


def _text_array(value: object) -> Array:
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def _text(array: Array) -> Any:
    return json.loads(array.tobytes())
