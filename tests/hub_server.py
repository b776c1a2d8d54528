"""A small Hub on this machine: the paths and headers that huggingface_hub 2.4 uses, and the faults a real one can have.

Spoken: `/api/models/ID[/revision/REV]`, `/api/models?search=...`, `/api/datasets/ID`, and `/ID/resolve/REV/FILE` with HEAD, GET and
ranges; X-Repo-Commit, ETag, X-Linked-Etag, X-Linked-Size, X-Xet-Hash, X-Error-Code. Large files (LFS, xet) are redirected
to another host name, as the Hub does to its storage, so that a test can see whether the token follows.
"""

import contextlib
import hashlib
import json
import re
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Seen(NamedTuple):
    """One request as it arrived."""

    method: str
    host: str
    path: str
    token: str


@dataclass
class Repo:
    """A model repository. large: names of files that lie in the storage. gated: only `token` opens its files."""

    files: dict[str, bytes | Path]
    large: set[str] = field(default_factory=set)
    gated: str | bool = False
    token: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    def read(self, name: str) -> bytes:
        content = self.files[name]
        return content.read_bytes() if isinstance(content, Path) else content


Fault = Callable[["Handler"], None]


@dataclass
class HubServer:
    """What the server holds, which faults it has, and what it was asked."""

    url: str = ""
    storage: str = ""
    repos: dict[str, Repo] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    datasets: set[str] = field(default_factory=set)
    faults: dict[str, Fault] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def paths(self) -> list[str]:
        return [request.path for request in self.seen]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Quiet about clients that go away, as those with limits do."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


@contextlib.contextmanager
def hub_server(certificate: Path | None = None) -> Iterator[HubServer]:
    """A running server, with TLS when given a certificate with its key in one file."""
    hub = HubServer()
    server = _Server(("127.0.0.1", 0), type("Bound", (Handler,), {"hub": hub}))
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "https" if certificate else "http"
    hub.url, hub.storage = (f"{scheme}://{host}:{server.server_port}" for host in ("127.0.0.1", "localhost"))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.stop.set()
        server.shutdown()
        server.server_close()
        thread.join()


class Handler(BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.hub.seen.append(Seen(self.command, self.headers.get("host", ""), self.path, self.headers.get("authorization", "")))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLError):
            for part, fault in list(self.hub.faults.items()):
                if part in f"{self.command} {self.path}":
                    fault(self)
                    return
            self.well()
            return
        self.close_connection = True

    def well(self) -> None:
        """The answer of a Hub without faults."""
        path = unquote(urlsplit(self.path).path)
        if path == "/api/models":
            return self._search()
        if found := re.fullmatch(r"/api/datasets/(.+)", path):
            return self.json({"id": found[1]}) if found[1] in self.hub.datasets else self.error(404, "RepoNotFound")
        if found := re.fullmatch(r"/api/models/(.+?)(?:/revision/(.+))?", path):
            return self._model(found[1], found[2])
        if found := re.fullmatch(r"/(.+)/resolve/([^/]+)/(.+)", path):
            return self._resolve(found[1], found[3])
        if found := re.fullmatch(r"/storage/(.+?)//(.+)", path):
            return self.content(self.hub.repos[found[1]].read(found[2]))
        return self.error(404, "RepoNotFound")

    def _search(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        text = query.get("search", [""])[0].lower()
        rows = [{"id": name, "downloads": 1, "tags": [], "gated": repo.gated} | repo.extra for name, repo in self.hub.repos.items()]
        wanted = [row for row in rows if text in row["id"].lower() and row.get("pipeline_tag") == query["pipeline_tag"][0]]
        wanted = [row for row in wanted if set(query["filter"]) <= set(row["tags"])]
        self.json(sorted(wanted, key=lambda row: -row[query["sort"][0]])[: int(query["limit"][0])])

    def _model(self, name: str, revision: str | None) -> None:
        if name in self.hub.renamed:
            return self.redirect(307, f"/api/models/{self.hub.renamed[name]}" + (f"/revision/{revision}" if revision else ""))
        repo = self.hub.repos.get(name)
        if repo is None:
            known = bool(self.headers.get("authorization"))
            return self.error(404 if known else 401, "RepoNotFound", "Repository not found" if known else "Invalid username or password.")
        if revision not in (None, "main", COMMIT):
            return self.error(404, "RevisionNotFound")
        siblings = [{"rfilename": file} for file in repo.files]
        return self.json({"id": name, "sha": COMMIT, "siblings": siblings, "gated": repo.gated, "downloads": 7, "tags": []} | repo.extra)

    def _resolve(self, name: str, file: str) -> None:
        if name not in self.hub.repos:
            return self.error(404, "RepoNotFound")
        repo = self.hub.repos[name]
        if repo.gated and self.headers.get("authorization") != f"Bearer {repo.token}":
            return self.error(403 if self.headers.get("authorization") else 401, "GatedRepo")
        if file not in repo.files:
            return self.error(404, "EntryNotFound", headers={"X-Repo-Commit": COMMIT})
        content = repo.read(file)
        etag = hashlib.sha256(content).hexdigest()
        if file not in repo.large:
            git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            return self.content(content, {"X-Repo-Commit": COMMIT, "ETag": f'"{git}"'})
        linked = {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(len(content)), "X-Xet-Hash": etag}
        link = f'<{self.hub.url}/api/models/{name}/xet-read-token/{COMMIT}>; rel="xet-auth"'
        return self.redirect(302, f"{self.hub.storage}/storage/{name}//{file}", {"X-Repo-Commit": COMMIT, "ETag": '"x"', "Link": link} | linked)

    def content(self, content: bytes, headers: dict[str, str] | None = None) -> None:
        """The bytes, or the range of them that was asked for."""
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        part = content[int(found[1]) : int(found[2]) + 1] if found else content
        self.send_response(206 if found else 200)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        if found:
            self.send_header("Content-Range", f"bytes {found[1]}-{int(found[1]) + len(part) - 1}/{len(content)}")
        self.body(part)

    def json(self, value: Any, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.body(json.dumps(value).encode())

    def body(self, content: bytes) -> None:
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def redirect(self, status: int, to: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {"Location": to, **(headers or {})}.items():
            self.send_header(key, value)
        self.body(b"")

    def error(self, status: int, code: str = "", message: str = "", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {"X-Error-Code": code, "X-Error-Message": message, **(headers or {})}.items():
            if value:
                self.send_header(key, value)
        self.body(b"{}")


def once(fault: Fault) -> Fault:
    """The fault at the first request only."""
    left = [fault]
    return lambda handler: left.pop()(handler) if left else handler.well()


def status(code: int, **headers: str) -> Fault:
    return lambda handler: handler.error(code, headers={key.replace("_", "-"): value for key, value in headers.items()})


def raw(content: bytes, **headers: str) -> Fault:
    """A whole answer with these bytes."""

    def fault(handler: Handler) -> None:
        handler.send_response(200)
        for key, value in headers.items():
            handler.send_header(key.replace("_", "-"), value)
        handler.body(content)

    return fault


def drip(head: bytes, pause_s: float = 0.1) -> Fault:
    """`head`, then one more byte again and again, for ever."""

    def fault(handler: Handler) -> None:
        handler.wfile.write(head)
        while not handler.hub.stop.wait(pause_s):
            handler.wfile.write(b"x")
            handler.wfile.flush()

    return fault


def silence(handler: Handler) -> None:
    """No answer at all."""
    handler.hub.stop.wait(30)
    handler.close_connection = True


def cut(handler: Handler) -> None:
    """Half of what was announced."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"id": ')
    handler.close_connection = True


def endless(handler: Handler) -> None:
    """Chunk after chunk, of no announced length."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.send_header("X-Repo-Commit", COMMIT)
    handler.end_headers()
    block = b"%x\r\n" % 65_536 + bytes(65_536) + b"\r\n"
    while not handler.hub.stop.is_set():
        handler.wfile.write(block)
