"""What goes wrong between this machine and the Hub while a model is downloaded, in sentences."""

import contextlib
import errno
import logging
from collections.abc import Generator

from huggingface_hub import constants
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError

from core.errors import DraftgaugeError, ModelError
from core.runs import ModelRef

log = logging.getLogger("draftgauge.download")

KEPT = "Files that came whole are kept, so try again."


@contextlib.contextmanager
def sentences(ref: ModelRef) -> Generator[None]:
    """Turn whatever the library raises about `ref` into a ModelError; its network errors share no base with the others."""
    try:
        yield
    except DraftgaugeError:
        raise
    except Exception as error:
        log.exception("%s could not be downloaded", ref.path)
        raise ModelError(sentence(error, ref)) from error


def sentence(error: BaseException, ref: ModelRef) -> str:
    """What happened, and what to do."""
    if isinstance(error, LocalEntryNotFoundError):
        return _not_in_cache(error, ref)
    if isinstance(error, HfHubHTTPError):
        return _answered(error, ref)
    if _disk_is_full(error):
        return f"The disk that holds {constants.HF_HUB_CACHE} is full. Free some space, or set HF_HOME to a folder on another disk. {KEPT}"
    if isinstance(error, OSError) and error.filename:
        return f"The Hub's cache cannot be used ({error.strerror}: {error.filename}). Set HF_HOME to a folder that can be written."
    return f"The download of {ref.path} broke off ({_reason(error)}). {KEPT}"


def _not_in_cache(error: LocalEntryNotFoundError, ref: ModelRef) -> str:
    """The library falls back to its cache whenever the Hub does not answer well; why it did not is the cause."""
    if constants.is_offline_mode():
        return f"{ref.path} is not whole in the Hub's cache, and HF_HUB_OFFLINE forbids to download it. Unset it, or choose a model that is there."
    if isinstance(error.__cause__, HfHubHTTPError):
        return _answered(error.__cause__, ref)
    return f"{constants.ENDPOINT} cannot be reached ({_reason(error.__cause__ or error)}), and {ref.path} is not whole in the cache. {KEPT}"


def _answered(error: HfHubHTTPError, ref: ModelRef) -> str:
    if isinstance(error, GatedRepoError):
        return f"{ref.path} is gated. Ask for access at {constants.ENDPOINT}/{ref.path}, then set HF_TOKEN to a token of that account."
    if isinstance(error, RepositoryNotFoundError):
        return f"{constants.ENDPOINT} has no model {ref.path}, or it is private. Check the name, or set HF_TOKEN to a token that may read it."
    if isinstance(error, RevisionNotFoundError):
        return f"{ref.path} has no revision {ref.revision}. Choose another one, or none for the newest."
    status = error.response.status_code
    if status == 401:
        return f"{constants.ENDPOINT} refuses the token in HF_TOKEN. Correct or unset it."
    if status == 429:
        wait = error.response.headers.get("Retry-After")
        return f"{constants.ENDPOINT} asks for a pause{f' of {wait} s' if wait else ''} (status 429). {KEPT}"
    return f"{constants.ENDPOINT} answered with status {status} when asked for {ref.path}. {KEPT}"


def _disk_is_full(error: BaseException) -> bool:
    """The library's Rust part words the system's error itself."""
    return (isinstance(error, OSError) and error.errno == errno.ENOSPC) or "os error 28" in str(error)


def _reason(error: BaseException) -> str:
    line = (str(error).strip().splitlines() or [""])[0][:200].rstrip(".")
    return f"{type(error).__name__}: {line}" if line else type(error).__name__
