"""What goes wrong while a model is downloaded: in the words of `core.hub_errors`, and with its traceback in the worker's log."""

import contextlib
import logging
from collections.abc import Generator
from pathlib import Path

from huggingface_hub import constants

from core.errors import DraftgaugeError
from core.hub_client import token
from core.hub_errors import Asked, said
from core.runs import ModelRef

log = logging.getLogger("draftgauge.download")

KEPT = " Files that came whole are kept."


@contextlib.contextmanager
def sentences(ref: ModelRef, cache: Path) -> Generator[None]:
    """Turn whatever the library raises about `ref` into a sentence; its network errors share no base with the others."""
    try:
        yield
    except DraftgaugeError:
        raise
    except Exception as error:
        log.exception("%s could not be downloaded", ref.path)
        raise said(Asked(ref.path, ref.revision, constants.ENDPOINT, bool(token()), cache, "HF_HOME", KEPT), error) from error
