"""What the app's processes hold while it runs: memory, open handles, threads, and how many there are. From Linux's /proc; sizes in bytes."""

import contextlib
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Role = Literal["web", "worker", "plan"]
NAMED: dict[Role, str] = {"web": "streamlit run", "worker": "core.worker", "plan": "core.plan"}
"""What stands in the command of each."""


@dataclass(frozen=True)
class Held:
    """All processes of one role at one moment. at_s: seconds since 1970."""

    at_s: float
    processes: int
    rss_bytes: int
    handles: int
    threads: int


def of_role(role: Role, root: int) -> list[int]:
    """The ids of the processes of a role among those that a process has started, and theirs."""
    return [pid for pid in _below(root) if NAMED[role] in command(pid)]


def command(pid: int) -> str:
    """How a process was called; empty where it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def held(pids: Iterable[int]) -> Held:
    """What they hold now; those that have ended hold nothing."""
    alive = [found for pid in pids if (found := _of_one(pid))]
    pages, handles, threads = (sum(values) for values in zip(*alive, strict=True)) if alive else (0, 0, 0)
    return Held(time.time(), len(alive), pages * os.sysconf("SC_PAGE_SIZE"), handles, threads)


def cpu_s(pids: Iterable[int]) -> float:
    """Processor seconds that processes have used so far."""
    used = [times for pid in pids if (times := _stat(pid))]
    return sum(int(times[11]) + int(times[12]) for times in used) / os.sysconf("SC_CLK_TCK")


def growth_per_hour(samples: Sequence[Held]) -> float:
    """Slope of the memory over the second half of the time, in bytes per hour; the first half fills caches."""
    late = samples[len(samples) // 2 :]
    if len(late) < 2:
        return 0.0
    middle_s, middle = (sum(values) / len(late) for values in ([one.at_s for one in late], [one.rss_bytes for one in late]))
    spread = sum((one.at_s - middle_s) ** 2 for one in late)
    return 3600 * sum((one.at_s - middle_s) * (one.rss_bytes - middle) for one in late) / spread


def line(name: str, samples: Sequence[Held]) -> str:
    """First, middle, last and most of everything, and the slope of the memory."""
    first, middle, last = samples[0], samples[len(samples) // 2], samples[-1]
    most = max(one.rss_bytes for one in samples)
    return (
        f"{name:7} RSS {mb(first.rss_bytes)} at first, {mb(middle.rss_bytes)} half-way, {mb(last.rss_bytes)} at the end, at most {mb(most)}, "
        f"{growth_per_hour(samples) / 1e6:+.0f} MB per hour in the second half; "
        f"handles {first.handles}, {middle.handles}, {last.handles}, at most {max(one.handles for one in samples)}; "
        f"threads at most {max(one.threads for one in samples)}; processes at most {max(one.processes for one in samples)}"
    )


def mb(size: int) -> str:
    """Bytes in megabytes."""
    return f"{size / 1e6:,.0f} MB"


def _below(root: int) -> list[int]:
    parents = {int(each.name): _parent(int(each.name)) for each in Path("/proc").iterdir() if each.name.isdigit()}
    found, more = list[int](), [root]
    while more:
        above = more.pop()
        children = [pid for pid, parent in parents.items() if parent == above]
        found += children
        more += children
    return found


def _parent(pid: int) -> int:
    found = _stat(pid)
    return int(found[1]) if found else 0


def _stat(pid: int) -> list[str]:
    """The fields of proc(5) from the state on; empty where the process has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return []


def _of_one(pid: int) -> tuple[int, int, int] | None:
    """Resident pages, handles and threads; None where it has ended."""
    with contextlib.suppress(OSError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages, len(list(Path(f"/proc/{pid}/fd").iterdir())), len(list(Path(f"/proc/{pid}/task").iterdir()))
    return None
