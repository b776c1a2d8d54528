"""The line to the Hugging Face Hub: huggingface_hub talks, and here are the limits within which it may.

Every request has connect and read times, every answer a largest size for its kind, and the whole job a
time after which it is given up, so that a Hub that is down, slow, dripping or endless costs a sentence and not a page.
The library's own retries (up to five, seconds apart) are replaced by one, and by the Hub's own `retry-after`
where that is short. The token comes from HF_TOKEN only, and nothing that a server sends is repeated in a sentence.
Times in seconds, sizes in bytes. Not covered: weights, which are never downloaded here; the xet protocol, which is
switched off because its own network code knows no limits (such files come over plain HTTP instead).
"""

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx2
from huggingface_hub import close_session, constants, is_offline_mode, set_client_factory
from huggingface_hub.utils import disable_progress_bars

from core.errors import DraftgaugeError, InvalidInput
from core.hub_errors import OFFLINE, HubUnreachable, busy, no_answer, retry_after_s

T = TypeVar("T")

MB = 1_000_000
LARGEST_BYTES = {
    "config.json": MB,
    "generation_config.json": MB,
    "adapter_config.json": MB,
    "chat_template.jinja": MB,
    "tokenizer_config.json": 8 * MB,
    "special_tokens_map.json": MB,
    "added_tokens.json": 4 * MB,
    "tokenizer.json": 64 * MB,
    "tokenizer.model": 32 * MB,
    "spiece.model": 32 * MB,
    "vocab.json": 32 * MB,
    "merges.txt": 32 * MB,
    "model.safetensors.index.json": 32 * MB,
}
"""By file name; measured maxima of public models are 20 MB for tokenizer.json (Gemma 3) and 9 MB for an index (DeepSeek V3)."""
LARGEST_OTHER_BYTES = 8 * MB
_RANGE = re.compile(r"bytes=(\d+)-(\d+)")


class TooLarge(DraftgaugeError):
    """A file is larger than its kind ever is."""


class _Busy(HubUnreachable):
    """Worth another try after `wait_s`."""

    def __init__(self, sentence: str, wait_s: float) -> None:
        super().__init__(sentence)
        self.wait_s = wait_s


@dataclass(frozen=True)
class Limits:
    """Longest times in seconds, and the number of further tries after an error that may pass."""

    connect_s: float = 5.0
    read_s: float = 10.0
    total_s: float = 40.0
    longest_wait_s: float = 5.0
    pause_s: float = 0.5
    tries: int = 2


@dataclass
class Meter:
    """Bytes of answers received so far (counted by several threads, so it may lag by a chunk), and the file being fetched, if any."""

    bytes_read: int = 0
    file: str = ""


def token() -> str | None:
    """The access token of this environment. A value that no header could carry is a sentence, because the library's own error repeats it."""
    found = os.environ.get("HF_TOKEN", "").strip()
    if not found:
        return None
    if not re.fullmatch(r"[!-~]+", found):
        raise InvalidInput("HF_TOKEN holds spaces or other characters that no token has. Copy it again from https://huggingface.co/settings/tokens.")
    return found


@contextlib.contextmanager
def session(limits: Limits) -> Generator[Meter]:
    """All requests of huggingface_hub inside go through one client with these limits; it is closed afterwards."""
    meter = Meter()
    until_s = time.monotonic() + limits.total_s
    constants.HF_HUB_DISABLE_XET = True
    disable_progress_bars()
    own: list[_Client] = []

    def make() -> httpx2.Client:
        own.append(_Client(limits, until_s, meter))
        return own[-1]

    set_client_factory(make)
    try:
        yield meter
    finally:
        for client in own:  # not close_session: a thread that was left behind must not end the next job's session
            client.close()


def within(limits: Limits, job: Callable[[], T]) -> T:
    """The job's answer, or HubUnreachable when it takes longer than `total_s`.

    Its thread is left behind then: a name look-up, or a header that arrives byte by byte, can be ended in no other way.
    """
    box: list[T | BaseException] = []

    def work() -> None:
        try:
            box.append(job())
        except BaseException as error:
            box.append(error)

    thread = threading.Thread(target=work, name="draftgauge-hub", daemon=True)
    thread.start()
    thread.join(limits.total_s)
    if not box:
        close_session()
        raise HubUnreachable(_late(limits))
    if isinstance(box[0], BaseException):
        raise box[0]
    return box[0]


def patiently(limits: Limits, request: Callable[[], T]) -> T:
    """One request, made again a few times where the Hub is busy for a moment. Raises HubUnreachable."""
    for _ in range(limits.tries - 1):
        try:
            return request()
        except _Busy as busy:
            if busy.wait_s > limits.longest_wait_s:
                raise
            time.sleep(busy.wait_s)
    return request()


class _Client(httpx2.Client):
    """A client that raises sentences, reads no more than an answer's kind may hold, and stops at `until_s`."""

    def __init__(self, limits: Limits, until_s: float, meter: Meter) -> None:
        super().__init__(
            timeout=httpx2.Timeout(limits.read_s, connect=limits.connect_s),
            follow_redirects=True,
            max_redirects=5,
            headers={"accept-encoding": "identity"},  # a small answer must not unpack to a large one
            event_hooks={"response": [self._guard]},
        )
        self._limits, self._until_s, self._meter = limits, until_s, meter

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if is_offline_mode():
            raise HubUnreachable(OFFLINE)
        request.extensions["timeout"] = {part: self._shorter(limit) for part, limit in request.extensions.get("timeout", {}).items()}
        with _sentences(request, self._limits):
            return super().send(request, **options)

    def _shorter(self, limit: float | None) -> float:
        """Callers of the library give limits of their own, or none."""
        return max(0.01, min(limit or self._limits.read_s, self._limits.read_s, self._until_s - time.monotonic()))

    def _guard(self, response: httpx2.Response) -> None:
        _check_status(response, self._limits)
        if response.headers.get("content-encoding", "identity") != "identity":
            raise HubUnreachable(f"{response.request.url.host} answered in a packed form that was not asked for. Check HF_ENDPOINT and proxies.")
        most_bytes = _most_bytes(response.request, self._meter.file)
        if response.request.method != "HEAD":
            if int(response.headers.get("content-length", "0")) > most_bytes:  # the HTTP parser has checked that it is a number
                raise _too_large(self._meter.file, most_bytes)
            response.stream = _Metered(response, most_bytes, self._until_s, self._limits, self._meter)


class _Metered(httpx2.SyncByteStream):
    """A body that is counted and cut off."""

    def __init__(self, response: httpx2.Response, most_bytes: int, until_s: float, limits: Limits, meter: Meter) -> None:
        assert isinstance(response.stream, httpx2.SyncByteStream)
        self._stream, self._request = response.stream, response.request
        self._most_bytes, self._until_s, self._limits, self._meter = most_bytes, until_s, limits, meter

    def __iter__(self) -> Iterator[bytes]:
        got = 0
        with _sentences(self._request, self._limits):
            for chunk in self._stream:
                got += len(chunk)
                self._meter.bytes_read += len(chunk)
                if got > self._most_bytes:
                    raise _too_large(self._meter.file, self._most_bytes)
                if time.monotonic() > self._until_s:
                    raise HubUnreachable(_late(self._limits))
                yield chunk

    def close(self) -> None:
        self._stream.close()


def _most_bytes(request: httpx2.Request, file: str) -> int:
    """What was asked for by range, else what a file of this name may hold. The address does not tell: it may be a storage host's."""
    asked = _RANGE.fullmatch(request.headers.get("range", ""))
    return int(asked[2]) - int(asked[1]) + 1 if asked else LARGEST_BYTES.get(file, LARGEST_OTHER_BYTES)


def _too_large(file: str, most_bytes: int) -> TooLarge:
    what = f"The file {file}" if file else "The Hub's answer"
    return TooLarge(f"{what} is larger than {most_bytes / MB:,.1f} MB, the most that is read. Choose another model.")


def _late(limits: Limits) -> str:
    return f"The Hub did not finish its answer within {limits.total_s:g} seconds. Try again later, or choose a model that is on this machine."


@contextlib.contextmanager
def _sentences(request: httpx2.Request, limits: Limits) -> Generator[None]:
    """Turn the network's errors into sentences, before the library waits and tries again on its own."""
    try:
        yield
    except (httpx2.TransportError, httpx2.TooManyRedirects) as error:
        sentence = no_answer(request.url.host, error, limits.connect_s, limits.read_s)
        if isinstance(error, httpx2.TimeoutException | httpx2.ConnectError | httpx2.TooManyRedirects):
            raise HubUnreachable(sentence) from error
        raise _Busy(sentence, limits.pause_s) from error


def _check_status(response: httpx2.Response, limits: Limits) -> None:
    sentence = busy(response.request.url.host, response)
    if sentence:
        wait_s = retry_after_s(response) if response.status_code == 429 else None
        raise _Busy(sentence, limits.pause_s if wait_s is None else wait_s)
