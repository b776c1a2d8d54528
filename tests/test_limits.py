"""What a client sends that no browser would: messages and uploads of hundreds of MB, and values that its widgets do not offer.

Each is refused by the running server, which takes little memory for it, and other sessions go on. Sizes in bytes.
"""

import asyncio
import contextlib
import http.client
import re
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from core.ui.import_box import LONGEST_PASTE
from tests.browser.server import free_port, start
from tests.sessions import COOKIE, Session, new_cookie, play

MB = 1_000_000
MOST_GROWTH = 100 * MB
LARGEST_PAGE = 5 * MB
TOO_BIG = (CloseCode.MESSAGE_TOO_BIG, CloseCode.ABNORMAL_CLOSURE)
"""How the server hangs up; the second where what is still being sent costs the client the server's last word."""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the server's memory from /proc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    port = free_port()
    process = start(folder, port, HF_HUB_OFFLINE="1")
    yield f"http://localhost:{port}", process
    process.terminate()
    process.wait(20)


def peak(process: subprocess.Popen[bytes]) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


async def fill(session: Session, size: int, *, whole: bool) -> int:
    """Send a message of this size, whole or in parts of 1 MB; the code with which the server closes."""
    part = bytes(MB)
    with contextlib.suppress(ConnectionClosed):  # the code tells why
        await session._socket.send(bytes(size) if whole else (part for _ in range(size // MB)))
        await session._socket.wait_closed()
    return session._socket.close_code or 0


@pytest.mark.parametrize(("size", "whole"), [(200 * MB, False), (15 * MB, True)])
def test_a_message_that_is_too_large_ends_its_own_session_alone(server: tuple[str, subprocess.Popen[bytes]], size: int, whole: bool) -> None:
    """Of 25 MB on not even its end is awaited; from 10 MB on it is not looked at."""
    url, process = server

    async def beside_another() -> None:
        async with Session.open(url, "runs", keep=True) as other, Session.open(url) as rude:
            for page in ("pair", "gamma", "memory_cost", "runs"):
                await other.go(page)
            before = peak(process)
            sending = asyncio.create_task(fill(rude, size, whole=whole))
            waits_s = [await other.go(page) for page in ("gamma", "runs", "")]
            assert await asyncio.wait_for(sending, 30) in TOO_BIG
            assert max(waits_s) < 10
            assert other.errors == []
            assert max(map(len, other.heard)) < LARGEST_PAGE, "what pages send is far from the limit"
            assert peak(process) - before < MOST_GROWTH

    play(beside_another())


def test_a_message_that_is_none_ends_its_own_session_alone(server: tuple[str, subprocess.Popen[bytes]]) -> None:
    url, process = server

    async def both() -> None:
        async with Session.open(url) as other, Session.open(url) as rude:
            await rude._socket.send(b"\xff" * 100)
            await asyncio.wait_for(rude._socket.wait_closed(), 10)
            assert rude._socket.close_code == CloseCode.PROTOCOL_ERROR
            await other.go("runs")
            assert other.errors == []

    play(both())
    assert process.poll() is None


@pytest.mark.parametrize("announced", [True, False])
def test_an_upload_that_is_too_large_is_refused(server: tuple[str, subprocess.Popen[bytes]], announced: bool) -> None:
    """300 MB: by its announced length at once, and without one as soon as too much has come."""
    url, process = server

    async def scenario() -> None:
        async with Session.open(url, "runs") as session:
            wanted = BackMsg()
            wanted.file_urls_request.request_id = "1"
            wanted.file_urls_request.file_names.append("a.json")
            wanted.file_urls_request.session_id = session._session_id
            urls = (await session._ask(wanted, "1")).file_urls_response.file_urls[0]
            before = peak(process)
            assert await asyncio.to_thread(put, url, urls.upload_url, session.cookie, announced) == 413
            assert peak(process) - before < MOST_GROWTH
            await session.go("pair")
            assert session.errors == []

    play(scenario())


def put(url: str, path: str, cookie: str, announced: bool) -> int:
    """Upload 300 MB until the server answers; its status."""
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.json"\r\nContent-Type: application/json\r\n\r\n'
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    connection.putrequest("PUT", path)
    for name, value in {"Content-Type": "multipart/form-data; boundary=x", "Cookie": f"{COOKIE}={cookie}", "X-Xsrftoken": cookie}.items():
        connection.putheader(name, value)
    connection.putheader(*(("Content-Length", str(300 * MB)) if announced else ("Transfer-Encoding", "chunked")))
    connection.endheaders()
    with contextlib.suppress(OSError):  # the server has answered and hung up
        for part in (head, *[bytes(MB)] * 299):
            connection.send(part if announced else b"%x\r\n%b\r\n" % (len(part), part))
    status = connection.getresponse().status
    connection.close()
    return status


def test_values_that_widgets_do_not_offer_are_not_taken(server: tuple[str, subprocess.Popen[bytes]], folder: Path) -> None:
    url, _ = server

    async def scenario() -> None:
        async with Session.open(url, "runs") as session:
            await session.set("text_area", "Or its text", "alpha 0.5" + " " * (LONGEST_PASTE + 50_000))
            assert [file.stat().st_size for file in (folder / "uploads").iterdir()] == [LONGEST_PASTE]
            assert session.errors == []
        async with Session.open(url, "measure") as session:
            await session.set("number_input", "Most new tokens", 1e12)
            assert "1000000000000 new tokens cannot be measured" in session.text()
            await session.set("number_input", "Most new tokens", 40.0)
            await session.set("selectbox", "Number format", "float1")
            await session.set("selectbox", "Device", "toaster")
            await session.set("button_group", "Decoding", ["Divining"])
            assert session.errors == []
            assert "tokens=" not in session.query
            assert not any(value in session.query for value in ("float1", "toaster", "Divining"))
        async with Session.open(url, "gamma") as session:
            await session.set("number_input", "Draft length it was set to", 1e6)
            assert session.find("number_input", "Draft length it was set to").value != 1e6
            assert session.errors == []

    play(scenario())


def test_another_sites_page_uploads_nothing(server: tuple[str, subprocess.Popen[bytes]]) -> None:
    """It can make a browser send the cookie, but cannot read it, so it does not know the token that must come beside it."""
    url, _ = server

    async def scenario() -> None:
        async with Session.open(url, "runs") as session:
            place, known = f"{url}/_stcore/upload_file/{session._session_id}/{uuid.uuid4()}", session.cookie
            assert [small(place, known, token) for token in (None, "", new_cookie(url), known)] == [403, 403, 403, 204]
            assert small(place, "", known) == 403

    play(scenario())


def small(address: str, cookie: str, token: str | None) -> int:
    """Put a small file into a tab; the status of the answer. token: None for no such header."""
    body = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.json"\r\n\r\n{}\r\n--x--\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=x", "Cookie": f"{COOKIE}={cookie}"}
    request = urllib.request.Request(address, body, headers | ({} if token is None else {"X-Xsrftoken": token}), method="PUT")
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
