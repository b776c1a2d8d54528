"""`python -m core.plan SETTINGS`: what `core.planner` starts; not meant for people.

One job per line on standard input, {"function": "module:name", "arguments": {...}}; one reply per
line on standard output, {"data": ...} or {"error": sentence}, with "unbuildable" where a config is at fault. When standard input ends, the server
is gone, and so is this process, whatever it does.
"""

import importlib
import json
import logging
import os
import queue
import resource
import sys
import threading
from typing import Any

from core.bounded import first_to_go
from core.errors import ConfigError, DraftgaugeError
from core.log import set_up
from core.parent import end_with_parent
from core.redact import redacted
from core.settings import Settings

MOST_MEMORY_BYTES = 6 * 2**30
"""Of its own data: a damaged file must not take the machine's memory."""

log = logging.getLogger("draftgauge.plan")


def main() -> None:
    """Serve jobs until standard input ends."""
    end_with_parent()
    first_to_go()
    settings = Settings.model_validate_json(sys.argv[1])
    set_up(words=False)  # what it is asked about may be a prompt
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    voice = os.dup(1)
    os.dup2(2, 1)  # what libraries print goes to the log
    jobs: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()
    while True:
        reply = json.dumps(_reply(jobs.get(), settings)).encode() + b"\n"
        while reply:
            reply = reply[os.write(voice, reply) :]


def _listen(jobs: "queue.Queue[bytes]") -> None:
    # Unbuffered: a buffered reader's lock would abort the interpreter when it ends by itself.
    with open(0, "rb", buffering=0, closefd=False) as lines:
        for line in lines:
            jobs.put(line)
    os._exit(0)


def _reply(line: bytes, settings: Settings) -> dict[str, Any]:
    job = json.loads(line)
    module, name = job["function"].split(":")
    try:
        return {"data": getattr(importlib.import_module(module), name)(job["arguments"], settings)}
    except DraftgaugeError as error:
        return {"error": redacted(str(error)), "unbuildable": isinstance(error, ConfigError)}
    except MemoryError:
        return {"error": "This needs more memory to be read than is allowed here. Choose another model, or a smaller file."}
    except Exception as error:
        log.exception("The job %s failed", job["function"])
        log_file = settings.data / "plan.log"
        return {"error": f"This could not be read ({type(error).__name__}). The end of {log_file} says where; choose another model or file."}


if __name__ == "__main__":
    main()
