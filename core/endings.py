"""How a worker process ended, in words: what the system says, what has most likely happened, and what to do.

Exit codes are as `subprocess` gives them: the negative number of the signal that ended the process, else what it returned. What a
shortage of memory looks like is Linux's way: the system sends SIGKILL, and nobody else does without being asked to. `file` is the
worker's log.
"""

import signal
from pathlib import Path

SHORT = (b"memory allocation", b"bad_alloc", b"cannot allocate memory", b"out of memory")
"""What native libraries write before they end their process, because they could get no more memory."""
TAIL_BYTES = 1_000
SMALLER = "Use a smaller dtype, shorter prompts or another device, or close other programs, then measure again."
_HAPPENED = {
    signal.SIGKILL: ("was killed from outside (SIGKILL), most likely because this machine ran out of memory", SMALLER),
    signal.SIGBUS: (
        "lost a file that it was reading (SIGBUS): a model file was cut off meanwhile, or its disk fails",
        "Put the model's files back, then measure again.",
    ),
    signal.SIGTERM: ("was ended from outside (SIGTERM)", "Measure again."),
}


def words(code: int | None, file: Path) -> str:
    """The sentence for a run whose worker ended like this in the middle of it."""
    happened, advice = _of(code, file)
    return f"The worker {happened}; what was measured is kept. {advice}"


def start_words(code: int | None, file: Path) -> str:
    """The sentence for a worker that ended like this before it could begin."""
    if code == -signal.SIGKILL:
        return f"The worker could not start: it {_HAPPENED[signal.SIGKILL][0]}. Close other programs and try again."
    return f"The worker could not start. The end of {file} says why."


def late_words(patience_s: float, file: Path) -> str:
    """The sentence for a worker that was ended because it was not ready in time."""
    return f"The worker was not ready within {patience_s:g} seconds and was ended: a driver or a disk may hang. The end of {file} may say more."


def _of(code: int | None, file: Path) -> tuple[str, str]:
    if code is not None and -code in _HAPPENED:
        return _HAPPENED[signal.Signals(-code)]
    if _short_of_memory(file):
        return "ended by itself, because it could get no more memory", SMALLER
    if code is not None and code < 0:
        return f"crashed in native code ({_name(-code)})", f"The end of {file} may say why; measure again, or choose another dtype or device."
    return f"ended by itself (code {code})", f"The end of {file} may say why; measure again."


def _short_of_memory(file: Path) -> bool:
    """Whether the last that a worker wrote says so."""
    try:
        with file.open("rb") as log:
            log.seek(max(0, file.stat().st_size - TAIL_BYTES))
            last = log.read().rstrip().rpartition(b"\n")[2].lower()
    except OSError:
        return False
    return any(words in last for words in SHORT)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a signal without a name, such as the real-time ones
        return f"signal {number}"
