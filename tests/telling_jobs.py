"""Jobs that try to tell what must not be told, for `tests.test_secrets`: run by a real worker in the place of a measurement."""

import logging
import os
import sys
import threading
import warnings

from core.runs import RunSpec
from core.settings import Settings
from core.sink import Sink
from tests.jobs import begin


def tells(spec: RunSpec, sink: Sink, settings: Settings) -> None:
    """Repeat the token, a proxy's password and a prompt in a log line, in print, in a warning and in errors, as a library may."""
    begin(sink)
    prompt = spec.prompts[0].text
    told = f"Illegal header value b'Bearer {os.environ['HF_TOKEN']}'\nby {os.environ['HTTPS_PROXY']} for {prompt!r}\n{prompt}"
    logging.getLogger("some.library").warning(told)
    print("a library prints", told, file=sys.stderr)
    warnings.warn(told, stacklevel=1)
    thread = threading.Thread(target=_fails, args=(told,))
    thread.start()
    thread.join()
    print(told, end="", file=sys.stderr)
    raise RuntimeError(told)


def _fails(told: str) -> None:
    raise RuntimeError(told)
