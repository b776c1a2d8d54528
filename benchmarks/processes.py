"""What the app's processes hold while it runs: memory, open handles, threads, and how many there are. From psutil; sizes in bytes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import psutil

Role = Literal["web", "worker", "plan"]


@dataclass(frozen=True)
class Held:
    """All processes of one role at one moment. at_s: seconds since 1970."""

    at_s: float
    processes: int
    rss_bytes: int
    handles: int
    threads: int


def of_role(role: Role, root: int) -> list[psutil.Process]:
    """The processes of a role among a process and what it has started."""
    parent = psutil.Process(root)
    found: list[psutil.Process] = []
    for process in (parent, *parent.children(recursive=True)):
        try:
            command = " ".join(process.cmdline())
        except psutil.Error:  # it has just ended
            continue
        kind = "worker" if "core.worker" in command else "plan" if "core.plan" in command else "web" if "streamlit run" in command else ""
        if kind == role:
            found.append(process)
    return found


def held(processes: Sequence[psutil.Process]) -> Held:
    """What they hold now."""
    alive = [process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    return Held(
        at_s=time.time(),
        processes=len(alive),
        rss_bytes=sum(process.memory_info().rss for process in alive),
        handles=sum(process.num_fds() for process in alive),
        threads=sum(process.num_threads() for process in alive),
    )


def growth_per_hour(samples: Sequence[Held]) -> float:
    """Slope of the memory over the second half of the time, in bytes per hour; the first half fills caches."""
    late = samples[len(samples) // 2 :]
    if len(late) < 2:
        return 0.0
    middle_s, middle = (sum(values) / len(late) for values in ([one.at_s for one in late], [one.rss_bytes for one in late]))
    spread = sum((one.at_s - middle_s) ** 2 for one in late)
    return 3600 * sum((one.at_s - middle_s) * (one.rss_bytes - middle) for one in late) / spread


def line(name: str, samples: Sequence[Held]) -> str:
    """First, last and most of everything, and the slope of the memory."""
    first, last = samples[0], samples[-1]
    most = max(one.rss_bytes for one in samples)
    return (
        f"{name:7} RSS {mb(first.rss_bytes)} at first, {mb(last.rss_bytes)} at the end, at most {mb(most)}, "
        f"{growth_per_hour(samples) / 1e6:+.0f} MB per hour in the second half; "
        f"handles {first.handles} to {last.handles}, at most {max(one.handles for one in samples)}; "
        f"threads at most {max(one.threads for one in samples)}; processes at most {max(one.processes for one in samples)}"
    )


def mb(size: int) -> str:
    """Bytes in megabytes."""
    return f"{size / 1e6:,.0f} MB"
