"""A small Hub on this machine: serves repositories by the paths that huggingface_hub downloads from, and can misbehave.

Real HTTP, no mocks: HF_ENDPOINT leads a download process here.
"""

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from core.runs import ModelRef


@dataclass
class Repository:
    """Files at one commit. `claimed_bytes` overrides the size that is stated for a file.

    stalls, breaks, cuts: a file half of which is sent, before the line falls silent, is closed once, or ends as if that were all of it, always.
    spoils: a file of which one bit is sent wrong. refuses: a file that is answered with the status `refusal`, whatever else is.
    """

    files: dict[str, bytes]
    commit: str = "c0ffee" * 6 + "beef"
    token: str = ""
    gated: bool = False
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    claimed_bytes: dict[str, int] = field(default_factory=dict)
    stalls: str = ""
    breaks: str = ""
    cuts: str = ""
    spoils: str = ""
    refuses: str = ""
    refusal: int = 503

    def of_folder(self, folder: Path) -> "Repository":
        self.files |= {file.name: file.read_bytes() for file in folder.iterdir()}
        return self


@dataclass
class Hub:
    """The server's address, what it holds, and what was asked of it: (method, path)."""

    url: str
    repositories: dict[str, Repository] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    stalled: threading.Event = field(default_factory=threading.Event)
    closing: threading.Event = field(default_factory=threading.Event)

    def ref(self, name: str, revision: str | None = None) -> ModelRef:
        known = self.repositories.get(name)
        return ModelRef(source="hub", name=name, path=name, revision=(known.commit if known else "main") if revision is None else revision)

    def fetched(self, name: str) -> set[str]:
        """The files of a repository whose content was asked for."""
        return {path.partition("/resolve/")[2].partition("/")[2] for method, path in self.asked if method == "GET" and f"/{name}/resolve/" in path}


@contextlib.contextmanager
def serve() -> Iterator[Hub]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.hub = Hub(f"http://127.0.0.1:{server.server_port}")  # pyright: ignore[reportAttributeAccessIssue]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.hub  # pyright: ignore[reportAttributeAccessIssue]
    finally:
        server.hub.closing.set()  # pyright: ignore[reportAttributeAccessIssue]
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def _serve(self) -> None:
        self.hub: Hub = self.server.hub  # pyright: ignore[reportAttributeAccessIssue]
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append((self.command, path))
        api = path.startswith("/api/models/")
        parts = path.removeprefix("/api/models").strip("/").split("/")
        repository = self.hub.repositories.get("/".join(parts[:2]))
        if repository is None:
            self._send(404, headers={"X-Error-Code": "RepoNotFound"})
        elif repository.status != 200:
            self._send(repository.status, headers=repository.headers)
        elif repository.token and self.headers.get("Authorization") != f"Bearer {repository.token}":
            self._send(401, headers={"X-Error-Code": "RepoNotFound"})
        elif parts[3:] and parts[3] not in (repository.commit, "main"):
            self._send(404, headers={"X-Error-Code": "RevisionNotFound"})
        elif api:
            self._api(repository, parts)
        elif repository.gated:
            self._send(403, headers={"X-Error-Code": "GatedRepo"})
        else:
            self._file(repository, "/".join(parts[4:]))

    def _api(self, repository: Repository, parts: list[str]) -> None:
        if parts[2:3] == ["tree"]:
            answer: object = [
                {"type": "file", "path": name, "oid": _etag(content), "size": repository.claimed_bytes.get(name, len(content))}
                for name, content in repository.files.items()
            ]
        else:
            answer = {"id": "/".join(parts[:2]), "sha": repository.commit, "siblings": []}
        self._send(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def _file(self, repository: Repository, name: str) -> None:
        if name not in repository.files:
            self._send(404, headers={"X-Error-Code": "EntryNotFound"})
            return
        content = repository.files[name]
        if name == repository.refuses and self.command == "GET":
            self._send(repository.refusal, headers=repository.headers)
            return
        headers = {"ETag": f'"{_etag(content)}"', "X-Repo-Commit": repository.commit, "Accept-Ranges": "bytes"}
        if name == repository.spoils and self.command == "GET":
            content = content[:-1] + bytes([content[-1] ^ 1])
        if name == repository.cuts and self.command == "GET":
            self._send(200, content[: len(content) // 2], headers)
        elif wanted := self.headers.get("Range"):
            self.hub.ranges.append(wanted)
            start = int(wanted.removeprefix("bytes=").partition("-")[0])
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self._send(206, content[start:], headers)
        elif self.command == "GET" and name in (repository.stalls, repository.breaks):
            self._half(content, headers, stall=name == repository.stalls)
        else:
            self._send(200, content, headers)

    def _half(self, content: bytes, headers: dict[str, str], stall: bool) -> None:
        self._head(200, len(content), headers)
        self.wfile.write(content[: len(content) // 2])
        self.wfile.flush()
        if stall:
            self.hub.stalled.set()
            self.hub.closing.wait()
        self.close_connection = True

    def _send(self, status: int, content: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self._head(status, len(content), headers or {})
        if self.command == "GET":
            self.wfile.write(content)

    def _head(self, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()


def _etag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
