"""Measure on a machine that others use: every clock tells the CPU time of the calling thread instead of the time of day.

With one torch thread all of the work is done by the calling thread, so that waiting for the core does not count; what neighbours do to the
caches and the memory still does. Figures taken so must say so. Unit: seconds. Not covered: more than one thread, accelerators.
"""

import time

from core.worker import timing


def count_cpu_time() -> None:
    """From now on, in this process; and no block counts as disturbed because the core was taken from it."""
    time.perf_counter = time.thread_time
    time.monotonic = time.thread_time
    timing.involuntary_switches = lambda: 0
