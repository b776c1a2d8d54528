"""For a process that must not outlive the one that started it, whatever it does.

Its standard input ends with its parent, and a thread that reads it can end the process; but where native code holds Python's
interpreter, no thread gets to run, and the process would live on for ever, with the device's lock in its hand. So the system is asked
to do it. Only Linux can; elsewhere the thread must do. Source: man 2 PR_SET_PDEATHSIG.
"""

import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Let the system end this process when the thread that started it ends; that thread must live as long as this process may."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
