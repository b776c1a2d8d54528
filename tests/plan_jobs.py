"""Jobs that a planner's processes really do in tests."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from core.errors import InvalidInput
from core.settings import Settings


def echo(arguments: dict[str, Any], settings: Settings) -> Any:
    """Gives back what it got, who it is, and leaves a mark for each time it ran."""
    with (settings.data / "runs").open("a") as marks:
        marks.write(f"{arguments}\n")
    print("not a reply")
    return {**arguments, "pid": os.getpid()}


def refuse(arguments: dict[str, Any], settings: Settings) -> Any:
    raise InvalidInput(f"{arguments['name']} is refused. Choose another.")


def crash(arguments: dict[str, Any], settings: Settings) -> Any:
    raise KeyError(arguments["name"])


def die(arguments: dict[str, Any], settings: Settings) -> Any:
    os._exit(3)


def hang(arguments: dict[str, Any], settings: Settings) -> Any:
    Path(arguments["pid_file"]).write_text(str(os.getpid()))
    time.sleep(600)


def big(arguments: dict[str, Any], settings: Settings) -> Any:
    return "x" * arguments["bytes"]


def once(arguments: dict[str, Any], settings: Settings) -> Any:
    """Answers the first time and fails afterwards, as a Hub that goes away."""
    if Path(arguments["file"]).exists():
        raise InvalidInput("The Hub is gone.")
    Path(arguments["file"]).touch()
    return "first"


def imports(arguments: dict[str, Any], settings: Settings) -> Any:
    return [name for name in arguments["names"] if name in sys.modules]


def start_another(arguments: dict[str, Any], settings: Settings) -> Any:
    """Starts a process that would outlive this one, then hangs."""
    started = subprocess.Popen(["sleep", "600"])
    Path(arguments["pid_file"]).write_text(str(started.pid))
    time.sleep(600)
