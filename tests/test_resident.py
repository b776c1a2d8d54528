"""Memory that a call needed on a CPU: what it asked for, and neither what was there before nor what was freed earlier."""

import gc
import sys

import pytest
import torch

from core.worker.memory import peak_bytes, resident_growth

MIB = 2**20
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets the record of the most be begun anew")


@linux
def test_a_call_s_own_memory_is_counted_also_when_it_was_freed_meanwhile():
    held = torch.ones(16 * MIB)  # 64 MiB that were there before
    grown = resident_growth(lambda: torch.ones(8 * MIB).sum())
    assert grown == pytest.approx(32 * MIB, abs=4 * MIB)
    assert held.sum() == 16 * MIB


@linux
def test_what_an_earlier_call_freed_does_not_hide_the_next_one():
    first, second = (resident_growth(lambda: [torch.ones(MIB // 8) for _ in range(64)]) for _ in range(2))  # 32 MiB in small pieces
    assert first == pytest.approx(32 * MIB, abs=4 * MIB)
    assert second == pytest.approx(first, abs=4 * MIB)


@linux
def test_garbage_that_is_collected_meanwhile_does_not_hide_the_call():
    circle: list[object] = [torch.ones(16 * MIB)]
    circle.append(circle)
    del circle
    grown = resident_growth(lambda: (gc.collect(), torch.ones(8 * MIB).sum()))
    assert grown == pytest.approx(32 * MIB, abs=4 * MIB)


@linux
def test_the_process_s_own_peak_outlives_a_new_record():
    torch.ones(64 * MIB).sum()
    before = peak_bytes(torch.device("cpu"))
    resident_growth(lambda: None)
    after = peak_bytes(torch.device("cpu"))
    assert before is not None
    assert after is not None
    assert after >= before
