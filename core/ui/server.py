"""The server around the pages, put together in `app.py`: headers on every answer, a readiness check, a quiet end.

The content policy lets the browser take scripts, styles, fonts and data from this server alone, so that even a text that were drawn as HTML by
mistake could run nothing and call nobody. Streamlit styles its elements inline, so styles may be inline; its one inline script, and those of
the replay of a side-by-side run (which a framed document inherits), are named by their hashes. `blob:` is for Streamlit's own components.
Source for what Streamlit 1.67 loads: its `static/index.html`. Not covered: TLS and its header (HSTS), which belong to the proxy in front
(`tools/deploy`).
"""

import logging
import re
import signal
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypedDict

import streamlit as st
from anyio import to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket
from uvicorn import Server

from core import player
from core.errors import DraftgaugeError, InvalidInput
from core.log import set_up
from core.ui import desk
from core.ui.gate import Gate

log = logging.getLogger("draftgauge.server")

POLICY_VIOLATION = 1008
"""The code with which a websocket is refused (RFC 6455)."""
LINGER_S = 3
"""At the end, for browsers that are still reading a file."""
INDEX = Path(st.__file__).with_name("static") / "index.html"


class Around(TypedDict):
    """What `st.App` takes beside the router."""

    routes: list[Route]
    middleware: list[Middleware]
    lifespan: Callable[[Any], AbstractAsyncContextManager[None]]


def around() -> Around:
    """The server around the pages, by its settings. Ends the program with a sentence where one cannot be used."""
    try:
        known = desk.settings()
    except InvalidInput as error:
        raise SystemExit(str(error)) from error
    headers = Middleware(SecurityHeaders, embed_in=known.embed_in)
    middleware = [headers, Middleware(OwnPages), Middleware(Gate, users=known.users)]
    return {"routes": [Route("/ready", ready)], "middleware": middleware, "lifespan": lifespan}


def policy(embed_in: Sequence[str] = ()) -> str:
    """The content policy. embed_in: sites that may show this one in a frame."""
    inline = re.findall(r"<script>(.*?)</script>", INDEX.read_text(encoding="utf-8"), re.DOTALL)
    hashes = " ".join(f"'{name}'" for name in (*map(player.hash_of, inline), *player.script_hashes()))
    return "; ".join(
        [
            "default-src 'self'",
            f"script-src 'self' blob: {hashes}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "worker-src 'self' blob:",
            "object-src 'none'",
            "base-uri 'self'",
            "form-action 'self'",
            f"frame-ancestors {' '.join(embed_in) or chr(39) + 'none' + chr(39)}",
        ]
    )


class SecurityHeaders:
    """Adds the headers to every answer; ASGI middleware."""

    def __init__(self, app: ASGIApp, embed_in: Sequence[str] = ()) -> None:
        self._app = app
        self._headers = {
            "Content-Security-Policy": policy(embed_in),
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
            "Cross-Origin-Opener-Policy": "same-origin",
        }
        if not embed_in:
            self._headers["X-Frame-Options"] = "DENY"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on, and name the headers as an answer begins."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)


class OwnPages:
    """Refuses the websocket of another site's page; ASGI middleware.

    Streamlit refuses it too, unless it comes from another port of this machine, but asks a service in the Internet for this machine's address
    first, while every session waits; also for an origin in `server.corsAllowedOrigins`, which is therefore refused as well.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what comes from here, or from no browser."""
        if scope["type"] == "websocket" and not _is_own(Headers(scope=scope)):
            log.warning("refused the websocket of another site's page")
            await WebSocket(scope, receive, send).close(POLICY_VIOLATION)
        else:
            await self._app(scope, receive, send)


async def ready(_request: Request) -> PlainTextResponse:
    """200 when runs can be read and written, 503 when not; why not is in the log, because it names folders."""
    try:
        await to_thread.run_sync(_look)
    except DraftgaugeError as error:
        log.warning("not ready: %s", error)
        return PlainTextResponse("not ready", 503)
    return PlainTextResponse("ready")


@asynccontextmanager
async def lifespan(_app: Any) -> AsyncGenerator[None]:
    """The worker begins to load before the first visitor comes; at the end it is stopped, and the run under way keeps what it measured."""
    set_up(words=False)
    _linger_no_longer()
    logging.getLogger("uvicorn.access").propagate = False  # a line for every file of every page is the proxy's to write
    try:
        await to_thread.run_sync(_look)
    except DraftgaugeError as error:  # every page says it too, and tries again
        log.error("%s", error)
    yield
    await to_thread.run_sync(desk.close)
    log.info("stopped")


def _linger_no_longer() -> None:
    """Without a limit one browser that stands still would keep the server, and so the workers, from ending. Streamlit has no setting for it."""
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    if isinstance(server, Server):
        server.config.timeout_graceful_shutdown = LINGER_S


def _is_own(headers: Headers) -> bool:
    """Whether the page is of this server, or any page may come in, because Streamlit's switch says so."""
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host", "") or not st.get_option("server.enableCORS")


def _look() -> None:
    desk.everybodys().devices()
