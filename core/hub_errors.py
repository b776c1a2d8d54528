"""What a person reads when the Hub, or the line to it, does not do what it was asked: a sentence for each error.

For the small files that pages ask for (`core.hub`) and for the downloads of the worker (`core.worker.hub_files`) alike. Nothing that a
server sent is repeated, and no error's own text, because either may hold anything, the token included. Times in seconds.
Source: huggingface_hub.errors, version 2.4; httpx2's errors; the status codes of RFC 9110 and RFC 6585.
"""

import contextlib
import errno
import re
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import constants, is_offline_mode
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

MALFORMED = (ValueError, RecursionError, KeyError, TypeError, AttributeError, IndexError)
"""What reading a damaged or foreign answer raises."""

OFFLINE = "Working offline, because HF_HUB_OFFLINE is set. Unset it to ask the Hub."
BAD_TOKEN = "Invalid credentials in Authorization header"
"""The Hub's message for a token that it does not know, as huggingface_hub compares it; 401 alone also stands for a model that is not there."""


class HubUnreachable(DraftgaugeError):
    """The Hub is down, too slow, or asks to wait: what is cached may stand in."""


class NotThere(ModelError):
    """There is no such model, or none that may be seen."""


@dataclass(frozen=True)
class Asked:
    """What was asked for, where, and whether with a token. cache: where it is kept; setting: what moves that.

    kept: what is said of a try that failed half-way, such as what came of it so far.
    """

    wanted: str
    revision: str
    endpoint: str
    with_token: bool
    cache: Path
    setting: str = "DRAFTGAUGE_DATA"
    kept: str = ""


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
        raise said(asked, error) from error


def said(asked: Asked, error: BaseException) -> DraftgaugeError:
    """Any error of the library in a sentence."""
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "os error 28" in str(error):  # as the library's Rust part words it
        where = f"The disk that holds {asked.cache} is full, so the files of {asked.wanted} cannot be kept."
        return ModelError(f"{where} Free some space, or set {asked.setting} to a folder on another disk.{asked.kept}")
    return next(say(asked, error) for kind, say in _SENTENCES if isinstance(error, kind))


def no_answer(host: str, error: BaseException, connect_s: float, read_s: float) -> str:
    """Why a host gave no answer, for an error of httpx2; the seconds are how long it was waited for."""
    if isinstance(error, httpx2.ConnectTimeout):
        return f"{host} could not be reached within {connect_s:g} seconds. Check the network, or work offline."
    if isinstance(error, httpx2.TimeoutException):
        return f"{host} sent nothing for {read_s:g} seconds. Try again later, or choose a model on this machine."
    if isinstance(error, httpx2.ProxyError):
        return f"The proxy does not let a request to {host} through. Check HTTPS_PROXY and NO_PROXY."
    if isinstance(error, httpx2.ConnectError):
        return _no_connection(host, error)
    if isinstance(error, httpx2.TooManyRedirects):
        return f"{host} sent the request in a circle. Check HF_ENDPOINT and proxies."
    return f"{host} broke off its answer. Try again."


def busy(host: str, response: httpx2.Response) -> str:
    """Why a host takes no requests for now, by its answer; "" where it does."""
    if response.status_code == 429:
        wait_s = retry_after_s(response)
        asked = f" It asks to wait {wait_s:g} seconds." if wait_s is not None else ""
        return f"{host} takes no more requests for now (429).{asked} Try again then; with a token in HF_TOKEN it takes more."
    if response.status_code >= 500:
        return f"{host} is out of order for the moment ({response.status_code}). Try again later, or choose a model that is on this machine."
    return ""


def retry_after_s(response: httpx2.Response) -> float | None:
    """From `retry-after` in seconds, else from the t= of the Hub's `ratelimit` header."""
    plain = response.headers.get("retry-after", "").strip()
    if plain.isdigit():
        return float(plain[:6])
    found = re.search(r";\s*t\s*=\s*(\d{1,6})", response.headers.get("ratelimit", ""))
    return float(found[1]) if found else None


def _no_connection(host: str, error: Exception) -> str:
    reason = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        return f"The certificate of {host} is not trusted here. Check the clock, the proxy, and SSL_CERT_FILE."
    if "SSL" in reason:
        return f"{host} does not answer over TLS as it should. Check HF_ENDPOINT and proxies."
    if "Name or service" in reason or "name resolution" in reason or "nodename" in reason or "No address" in reason:
        return f"The name {host} cannot be looked up. Check the network and HF_ENDPOINT, or choose a model that is on this machine."
    return f"{host} cannot be reached. Check the network and HF_ENDPOINT, or choose a model that is on this machine."


def _gated(asked: Asked, error: BaseException) -> DraftgaugeError:
    link = f"{asked.endpoint}/{asked.wanted}"
    if asked.with_token:
        return ModelError(f"{asked.wanted} is gated, and the token in HF_TOKEN has no access. Ask for access at {link}; approval may take a while.")
    return ModelError(f"{asked.wanted} is gated. Ask for access at {link}, then set HF_TOKEN to a token of that account and start again.")


def _refused(asked: Asked, error: BaseException) -> DraftgaugeError:
    assert isinstance(error, HfHubHTTPError)
    status = error.response.status_code
    if status == 401 and error.response.headers.get("x-error-message") == BAD_TOKEN:
        return ModelError("The Hub does not accept the token in HF_TOKEN. Make a new one at https://huggingface.co/settings/tokens, or unset it.")
    if status in (401, 404):
        private = "the token in HF_TOKEN may have no access to it" if asked.with_token else "a private one needs a token with access in HF_TOKEN"
        return NotThere(f"There is no model {asked.wanted} on the Hub that can be seen here. Check the spelling; {private}.")
    if status == 403:
        return ModelError(f"The Hub forbids access to {asked.wanted}. Check what the token in HF_TOKEN may read, or choose another model.")
    later = f"{asked.endpoint} refused the request with code {status}. Try again later; check HF_ENDPOINT."
    return HubUnreachable((busy(_host(asked), error.response) or later) + asked.kept)


def _no_revision(asked: Asked, error: BaseException) -> DraftgaugeError:
    return ModelError(f"{asked.wanted} has no revision {asked.revision!r}. Leave it out, or write a branch, tag or commit that exists.")


def _no_file(asked: Asked, error: BaseException) -> DraftgaugeError:
    return ModelError(f"A file that the Hub lists for {asked.wanted} is not there. Try again later, or choose another model or revision.")


def _disabled(asked: Asked, error: BaseException) -> DraftgaugeError:
    return ModelError(f"{asked.wanted} has been disabled on the Hub. Choose another model.")


def _not_fetched(asked: Asked, error: BaseException) -> DraftgaugeError:
    """The library falls back to its cache whenever the Hub does not answer well; why it did not is the cause."""
    if is_offline_mode():
        return HubUnreachable(f"{OFFLINE} {asked.wanted} is not whole on this machine.")
    if isinstance(error.__cause__, httpx2.HTTPError):
        return said(asked, error.__cause__)
    return HubUnreachable(f"The files of {asked.wanted} could not be fetched from {asked.endpoint}. Try again later.{asked.kept}")


def _line(asked: Asked, error: BaseException) -> DraftgaugeError:
    return HubUnreachable(no_answer(_host(asked), error, constants.HF_HUB_ETAG_TIMEOUT, constants.HF_HUB_DOWNLOAD_TIMEOUT) + asked.kept)


def _foreign(asked: Asked, error: BaseException) -> DraftgaugeError:
    return HubUnreachable(f"{asked.endpoint} gave an answer that is damaged or not the Hub's. Try again; check HF_ENDPOINT and proxies.{asked.kept}")


def _disk(asked: Asked, error: BaseException) -> DraftgaugeError:
    assert isinstance(error, OSError)
    if error.errno is None:  # the library's own complaints: a cut-off file, a missing header
        return _foreign(asked, error)
    return ModelError(f"{asked.cache} cannot be used ({error.strerror}). Set {asked.setting} to a folder that can be written.")


def _broke_off(asked: Asked, error: BaseException) -> DraftgaugeError:
    return HubUnreachable(f"The files of {asked.wanted} could not be fetched ({type(error).__name__}). Try again later.{asked.kept}")


def _host(asked: Asked) -> str:
    return urlsplit(asked.endpoint).hostname or asked.endpoint


_SENTENCES: tuple[tuple[type[BaseException], Callable[[Asked, BaseException], DraftgaugeError]], ...] = (
    (LocalEntryNotFoundError, _not_fetched),
    (EntryNotFoundError, _no_file),
    (RevisionNotFoundError, _no_revision),
    (GatedRepoError, _gated),
    (DisabledRepoError, _disabled),
    (HfHubHTTPError, _refused),
    (FileMetadataError, _foreign),
    (httpx2.RequestError, _line),
    (OSError, _disk),
    *((kind, _foreign) for kind in MALFORMED),
    (BaseException, _broke_off),
)
"""The first kind that fits; the library's errors are also HTTP errors, and those also system errors."""
