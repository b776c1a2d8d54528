"""What a person reads when huggingface_hub cannot do what it was asked: a sentence for each of its errors.

Nothing that a server sent is repeated, and no error's own text, because either may hold anything, the token included.
Network trouble, busy and slow servers are `core.hub_client`'s. Source: huggingface_hub.errors, version 2.4.
"""

import contextlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import httpx2
from huggingface_hub.errors import (
    DisabledRepoError,
    EntryNotFoundError,
    FileMetadataError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RevisionNotFoundError,
)

from core.errors import DraftgaugeError, ModelError
from core.hub_client import HubUnreachable

MALFORMED = (ValueError, RecursionError, KeyError, TypeError, AttributeError, IndexError)
"""What reading a damaged or foreign answer raises."""

BAD_TOKEN = "Invalid credentials in Authorization header"
"""The Hub's message for a token that it does not know, as huggingface_hub compares it; 401 alone also stands for a model that is not there."""


class NotThere(ModelError):
    """There is no such model, or none that may be seen."""


@dataclass(frozen=True)
class Asked:
    """What was asked for, where, and whether with a token."""

    wanted: str
    revision: str
    endpoint: str
    with_token: bool
    cache: Path


@contextlib.contextmanager
def sentences(asked: Asked) -> Generator[None]:
    """Raise the library's errors as DraftgaugeError. That a file does not exist stays EntryNotFoundError."""
    try:
        yield
    except DraftgaugeError:
        raise
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, *MALFORMED) as error:
        if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
            raise
        raise next(say(asked, error) for kind, say in _SENTENCES if isinstance(error, kind)) from error


def _gated(asked: Asked, error: Exception) -> DraftgaugeError:
    link = f"{asked.endpoint}/{asked.wanted}"
    if asked.with_token:
        return ModelError(f"{asked.wanted} is gated, and the token in HF_TOKEN has no access. Ask for access at {link}; approval may take a while.")
    return ModelError(f"{asked.wanted} is gated. Ask for access at {link}, then set HF_TOKEN to a token of that account and start again.")


def _refused(asked: Asked, error: Exception) -> DraftgaugeError:
    assert isinstance(error, HfHubHTTPError)
    status = error.response.status_code
    if status == 401 and error.response.headers.get("x-error-message") == BAD_TOKEN:
        return ModelError("The Hub does not accept the token in HF_TOKEN. Make a new one at https://huggingface.co/settings/tokens, or unset it.")
    if status in (401, 404):
        private = "the token in HF_TOKEN may have no access to it" if asked.with_token else "a private one needs a token with access in HF_TOKEN"
        return NotThere(f"There is no model {asked.wanted} on the Hub that can be seen here. Check the spelling; {private}.")
    if status == 403:
        return ModelError(f"The Hub forbids access to {asked.wanted}. Check what the token in HF_TOKEN may read, or choose another model.")
    return HubUnreachable(f"{asked.endpoint} refused the request with code {status}. Try again later; check HF_ENDPOINT.")


def _no_revision(asked: Asked, error: Exception) -> DraftgaugeError:
    return ModelError(f"{asked.wanted} has no revision {asked.revision!r}. Leave it out, or write a branch, tag or commit that exists.")


def _disabled(asked: Asked, error: Exception) -> DraftgaugeError:
    return ModelError(f"{asked.wanted} has been disabled on the Hub. Choose another model.")


def _not_fetched(asked: Asked, error: Exception) -> DraftgaugeError:
    return HubUnreachable(f"The files of {asked.wanted} could not be fetched from {asked.endpoint}. Try again later.")


def _foreign(asked: Asked, error: Exception) -> DraftgaugeError:
    return HubUnreachable(f"{asked.endpoint} gave an answer that is damaged or not the Hub's. Try again; check HF_ENDPOINT and proxies.")


def _disk(asked: Asked, error: Exception) -> DraftgaugeError:
    assert isinstance(error, OSError)
    if error.errno is None:  # the library's own complaints: a cut-off file, a missing header
        return _foreign(asked, error)
    return ModelError(f"The files of {asked.wanted} could not be kept in {asked.cache} ({error.strerror}). Free some space.")


_SENTENCES: tuple[tuple[type[Exception], Callable[[Asked, Exception], DraftgaugeError]], ...] = (
    (LocalEntryNotFoundError, _not_fetched),
    (RevisionNotFoundError, _no_revision),
    (GatedRepoError, _gated),
    (DisabledRepoError, _disabled),
    (HfHubHTTPError, _refused),
    (FileMetadataError, _foreign),
    (httpx2.HTTPError, _foreign),
    (OSError, _disk),
    (Exception, _foreign),
)
"""The first kind that fits; the library's errors are also HTTP errors, and those also system errors."""
