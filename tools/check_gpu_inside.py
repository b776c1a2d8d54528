"""The parts of `tools.check_gpu` that need torch: memory that really runs out, events beside clocks, compiled plain decoding beside the other.

Usage: python -m tools.check_gpu_inside memory|clocks|plain --device cuda:0. The last line says what was found; "FAIL ..." and 1 otherwise.
Never run on a card yet; read against torch 2.13 and Transformers 5.24.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from transformers import LogitsProcessorList

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from core import demo  # noqa: E402
from core.errors import DeviceError  # noqa: E402
from core.runs import RunSpec  # noqa: E402
from core.settings import Settings  # noqa: E402
from core.sink import StoreSink  # noqa: E402
from core.store import Store  # noqa: E402
from core.worker.calls import plain_arguments  # noqa: E402
from core.worker.generate import synchronise, timed_generate  # noqa: E402
from core.worker.inputs import encode_prompts  # noqa: E402
from core.worker.measure import measure  # noqa: E402
from core.worker.models import Garage  # noqa: E402
from core.worker.rival import offers_compiled, seconds  # noqa: E402
from core.worker.timing import WIDEST, Stepper  # noqa: E402

BLOCKS = (2**28, 2**24)
"""Sizes of the blocks that fill the card, in bytes: less than the last one stays free."""
CACHED, REPEATS = 128, 40
APART = 0.15
"""How far the medians of both clocks may lie apart: events leave out the call's own way to the card."""


class Failed(Exception):
    """A point that does not hold."""


def memory(device: torch.device, spec: RunSpec) -> str:
    """The card is filled but for a little, and a measurement runs out of memory; once it is free again the same process measures.

    A first one in 16 bits wakes the card's libraries, which say other things when they cannot start. Its models are let go before those in
    32 bits are loaded, which need more than twice what that and the rest leave.
    """
    _measure(spec.model_copy(update={"dtype": "bfloat16"}))
    before = torch.cuda.memory_allocated(device)
    ballast = _filled(device)
    filled = sum(block.nbytes for block in ballast)
    said = _refused(spec)
    held = torch.cuda.memory_allocated(device) - filled
    del ballast
    torch.cuda.empty_cache()
    if held > before:
        raise Failed(f"{held - before:,} bytes more than before stayed allocated after memory ran out")
    _measure(spec)
    return f"told in a sentence ({said.split(':')[0]}), and measured again in the same process"


def _filled(device: torch.device) -> list[torch.Tensor]:
    blocks: list[torch.Tensor] = []
    for size in BLOCKS:
        while True:
            try:
                blocks.append(torch.empty(size, dtype=torch.uint8, device=device))
            except torch.OutOfMemoryError:
                break
    return blocks


def _refused(spec: RunSpec) -> str:
    """The product's own sentence; the error that holds its models is gone when this returns."""
    try:
        _measure(spec)
    except DeviceError as error:
        return str(error)
    raise Failed(f"a measurement ran in less than {BLOCKS[-1]:,} bytes")


def clocks(device: torch.device, spec: RunSpec) -> str:
    """One-token passes by events on the card and by a clock between two synchronisations."""
    pair = Garage().get(spec)
    prompts = encode_prompts(pair, spec)
    text = torch.cat(prompts, dim=1).repeat(1, 8)[:, : CACHED + WIDEST]
    with torch.no_grad():
        stepper = Stepper(pair.target, text, CACHED, LogitsProcessorList(), every=True)
        for _ in range(5):
            stepper.seconds(1)
        by_clock, by_events = zip(*(_both(stepper, device) for _ in range(REPEATS)), strict=True)
    clock_s, events_s = statistics.median(by_clock), statistics.median(by_events)
    said = f"a step takes {clock_s * 1000:.3f} ms by the clock, {events_s * 1000:.3f} ms by events"
    if not 1 - APART <= events_s / clock_s <= 1 + APART:
        raise Failed(f"{said}: more than {APART:.0%} apart")
    return said


def _both(stepper: Stepper, device: torch.device) -> tuple[float, float]:
    """Seconds of one pass by both clocks: the pass is the same, the events stand right around it."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.device(device):
        synchronise(device)
        begin.record()
        by_clock = stepper.seconds(1)
        end.record()
    synchronise(device)
    return by_clock, begin.elapsed_time(end) / 1000  # milliseconds


def plain(_device: torch.device, spec: RunSpec) -> str:
    """Plain decoding over a dynamic cache and compiled over a static one; a second, longer prompt must not compile anew."""
    pair = Garage().get(spec)
    prompts = sorted(encode_prompts(pair, spec), key=lambda prompt: prompt.shape[1])
    if not offers_compiled(pair):
        raise Failed("the library would not compile plain decoding of the demo target here")
    dynamic_s = seconds(pair, prompts, spec, "dynamic cache")
    began = time.perf_counter()
    static_s = seconds(pair, prompts, spec, "static cache, compiled")
    compiling_s = time.perf_counter() - began
    how = plain_arguments("static cache, compiled", prompts, spec.max_new_tokens)
    longer = timed_generate(pair, prompts[-1], spec.max_new_tokens, **how)
    texts = [timed_generate(pair, prompts[-1], spec.max_new_tokens, **each).tokens.tolist() for each in ({}, how)]
    same = sum(a == b for a, b in zip(*texts, strict=True))
    said = (
        f"dynamic {dynamic_s:.3f} s, static and compiled {static_s:.3f} s (warm-up {compiling_s:.0f} s), "
        f"{same} of {len(texts[0])} tokens of a longer prompt equal"
    )
    if longer.total_s > 5 * max(static_s, 0.05):
        raise Failed(f"{said}; but the longer prompt took {longer.total_s:.2f} s: it was compiled anew amid a timed call")
    return said


def _measure(spec: RunSpec) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "check.sqlite")
        run_id = store.add(spec)
        store.claim(run_id, "check", 0)
        sink = StoreSink(store, run_id)
        try:
            measure(spec, sink, Settings(data=Path(folder)))
            sink.flush()
        finally:
            store.close()


def main() -> int:
    """The asked part; its finding as the last line."""
    parts = {"memory": memory, "clocks": clocks, "plain": plain}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=parts)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    few = 2 if given.small else 4
    spec = RunSpec(target=demo.TARGET, draft=demo.DRAFT, prompts=demo.prompts()[:few], max_new_tokens=24, device=given.device, confirm_s=0.0)
    try:
        print(parts[given.part](torch.device(given.device), spec))
    except Failed as error:
        print(f"FAIL {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
