"""`tools/deploy/nginx.conf` with a real nginx in front of a real server, over TLS: pages, websocket, files in and out, and what stays inside.

Ports, certificate and the server's address are this test's; everything else is the file as it stands. Without nginx these tests are
skipped, except in CI, where that is a failure.
"""

import contextlib
import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from websockets.exceptions import InvalidStatus

from core.settings import Settings
from core.store import open_store
from core.ui.server import policy
from tests import synthetic
from tests.benches import until
from tests.browser.server import free_port, serve
from tests.sessions import Session, play

ROOT = Path(__file__).resolve().parents[1]
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
NAME = "draftgauge.test"
"""A name that nobody can look up: it comes in the Host header alone."""
LARGEST = b"name,usd_per_hour\n".ljust(2**20, b"0")
"""As large as an uploader takes it; with what is around it, more than the proxy takes anywhere but at an upload."""
INSIDE = ["/ready", "/_stcore/metrics", "/_stcore/script-health-check", "/_stcore/agent/interact", "/_stcore/agent/openapi.json", "/_stcore/"]
DISGUISED = ["//ready", "/%72eady", "/x/../ready", "/_stcore//metrics", "/_stcore/%6detrics", "/static/../_stcore/metrics", "/_stcore/./metrics"]


@dataclass(frozen=True)
class Front:
    """The proxy: its address over TLS and without, what it trusts, and the server behind it."""

    url: str
    plain: str
    server: str
    run: str

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    if NGINX is None:
        pytest.fail("nginx is missing in CI") if os.environ.get("CI") else pytest.skip("nginx is not installed")
    folder = tmp_path_factory.mktemp("proxy")
    store = open_store(Settings(data=folder))
    run = synthetic.keep(store, synthetic.run(prompts=8, tokens=32))
    store.close()
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    certificate = authority.issue_cert("127.0.0.1", "localhost", NAME)
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(folder / "chain.pem")
    with (
        pytest.MonkeyPatch.context() as patch,
        serve(folder, DRAFTGAUGE_READ_ONLY="true", STREAMLIT_SERVER_ALLOWED_HOSTS=f"127.0.0.1 {NAME}") as server,
        nginx(folder, int(server.rsplit(":", 1)[1])) as (tls, plain),
    ):
        patch.setenv("SSL_CERT_FILE", str(folder / "authority.pem"))
        yield Front(f"https://127.0.0.1:{tls}", f"http://127.0.0.1:{plain}", server, run)


@contextlib.contextmanager
def nginx(folder: Path, server: int) -> Iterator[tuple[int, int]]:
    """The deployed file between two free ports, over TLS and without, and the server's."""
    assert NGINX is not None
    tls, plain = free_port(), free_port()
    site = (ROOT / "tools" / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    changes = {
        r"listen \[::\].*": "",
        r"listen 443 ssl": f"listen 127.0.0.1:{tls} ssl",
        r"listen 80": f"listen 127.0.0.1:{plain}",
        r"server 127\.0\.0\.1:8501": f"server 127.0.0.1:{server}",
        r"ssl_certificate .*": f"ssl_certificate {folder}/chain.pem;",
        r"ssl_certificate_key .*": f"ssl_certificate_key {folder}/key.pem;",
    }
    for old, new in changes.items():
        site, found = re.subn(old, new, site)
        assert found, f"nginx.conf has no {old} any more"
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    (folder / "nginx.conf").write_text(f"pid {folder}/nginx.pid; events {{}} http {{ access_log off; {temporary}\n{site}\n}}")
    told = ["-c", f"{folder}/nginx.conf", "-e", f"{folder}/nginx.log", "-g", "daemon off; master_process off;"]
    with subprocess.Popen([NGINX, *told]) as process:
        try:
            until(lambda: listens(tls), within_s=10)
            yield tls, plain
        finally:
            process.terminate()
    assert "[emerg]" not in (folder / "nginx.log").read_text()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def get(front: Front, path: str, host: str = "", headers: dict[str, str] | None = None) -> Answer:
    """The proxy's answer to exactly this path, which no library has tidied."""
    connection = http.client.HTTPSConnection("127.0.0.1", front.port, timeout=10, context=ssl.create_default_context())
    return ask(connection, path, {"Host": host or f"127.0.0.1:{front.port}"} | (headers or {}))


def ask(connection: http.client.HTTPConnection, path: str, headers: dict[str, str]) -> Answer:
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = b"" if answer.status == http.HTTPStatus.SWITCHING_PROTOCOLS else answer.read()
        answer.close()
        return Answer(answer.status, answer.headers, body)


def shake_hands(front: Front, host: str, origin: str) -> int:
    """The status with which a websocket is answered."""
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    return get(front, "/_stcore/stream", host, upgrade | {"Origin": origin}).status


def test_pages_pass_with_the_headers_of_both(front: Front) -> None:
    index = get(front, "/")
    assert index.status == 200
    script = re.search(r'src="\.(/static/js/[^"]+)"', index.body.decode())
    assert script
    for path in ("/measure", script[1], "/_stcore/host-config", "/_stcore/health"):
        answer = get(front, path)
        assert answer.status == 200, path
        assert answer.headers["Content-Security-Policy"] == policy()
        assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
        assert answer.headers["Server"] == "nginx"
    cookie = str(answer.headers["Set-Cookie"])
    assert cookie.startswith("_streamlit_xsrf=")
    assert {"Secure", "SameSite=Lax"} < set(re.split("; ?", cookie.replace("secure", "Secure")))
    assert "httponly" not in cookie.lower()


def test_what_the_operator_alone_may_see_stays_inside(front: Front) -> None:
    for path in ("/ready", "/_stcore/metrics"):
        with urllib.request.urlopen(front.server + path, timeout=10) as answer:
            assert answer.status == 200, "it is there, for who asks on the machine itself"
    for path in (*INSIDE, *DISGUISED):
        answer = get(front, path)
        assert answer.status == 404, path
        assert answer.headers["Content-Security-Policy"] is None, "nginx answered, not the server"
    assert get(front, "/ready/").headers["Location"] in ("/ready", f"https://127.0.0.1:{front.port}/ready")
    assert b"# TYPE" not in get(front, "/measure/_stcore/metrics").body


def test_a_page_without_tls_leads_to_the_one_with_it(front: Front) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", int(front.plain.rsplit(":", 1)[1]), timeout=10)
    answer = ask(connection, "/measure?run=x", {"Host": NAME})
    assert (answer.status, answer.headers["Location"]) == (301, f"https://{NAME}/measure?run=x")


def test_a_session_works_and_files_go_in_and_out(front: Front) -> None:
    async def look() -> None:
        async with Session.open(front.url, "memory_cost") as session:
            await session.until("The shipped prices")
            await session.upload("Your own prices", "prices.csv", LARGEST)
            await session.until("has 1,048,576 characters")  # it came whole, and is too long for prices
            await session.go("measure", f"run={front.run}")
            assert b'"format"' in await session.download("Whole run")
            assert session.errors == []

    play(look())


def test_an_upload_that_is_too_large_is_refused_before_it_is_sent(front: Front) -> None:
    assert get(front, "/_stcore/upload_file/a/b", headers={"Content-Length": str(51 * 2**20 + 1)}).status == 413
    assert get(front, "/measure", headers={"Content-Length": str(2**20 + 1)}).status == 413


def test_only_the_names_of_the_environment_are_served(front: Front) -> None:
    """`STREAMLIT_SERVER_ALLOWED_HOSTS` is a list with spaces; it takes the place of the file's names, localhost among them."""
    assert shake_hands(front, NAME, f"https://{NAME}") == 101
    assert shake_hands(front, f"127.0.0.1:{front.port}", front.url) == 101
    for host in ("localhost", "elsewhere.example"):
        assert shake_hands(front, host, f"https://{host}") == 403
    assert shake_hands(front, NAME, "https://elsewhere.example") == 403, "another site's page"
    assert shake_hands(front, NAME, f"https://{NAME}:8443") == 403, "another port's page"

    async def wrong_name() -> None:
        async with Session.open(f"https://localhost:{front.port}"):
            pass

    with pytest.raises(InvalidStatus, match="403"):
        play(wrong_name())
