"""What is kept from Streamlit: messages that no page needs, and files of whoever may not come in.

Streamlit obeys some messages of every browser that reaches it, before a page could ask who that is: it empties the caches of all, names the
changed files of its own folder (git), and writes instructions for coding agents there. Where people sign in, it takes files into any open
tab, also of somebody who is not signed in, and gives a file to whoever knows its address, also after they signed out.
Source: `streamlit/web/server/starlette` and `streamlit/runtime/app_session.py` of Streamlit 1.67. Not covered: whose file it is, among those
who may come in; its address is a hash of what is in it.
"""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from google.protobuf.message import DecodeError
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.auth_util import get_cookie_with_chunks
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.web.server.server_util import get_cookie_secret
from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

from core.access import admitted
from core.ui import door

log = logging.getLogger("draftgauge.server")

FILES = re.compile(r"(?<!/static)/(media|_stcore/upload_file)/")
"""Paths of people's files; `/static/media` holds the fonts of the pages."""
NOT_NEEDED = ("clear_cache", "load_git_info")
NOT_NEEDED_OPERATIONS = ("install_skills", "dismiss_skills_nudge")


class Gate:
    """ASGI middleware. users: who may come in, as in the settings."""

    def __init__(self, app: ASGIApp, users: Sequence[str] = ()) -> None:
        self._app, self._users = app, users

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what pages need, of who may come in."""
        if scope["type"] == "http" and FILES.search(scope["path"]) and not self._may_come_in(HTTPConnection(scope).cookies):
            await PlainTextResponse("Sign in to Draftgauge first.", 403)(scope, receive, send)
        else:
            await self._app(scope, _needed(receive) if scope["type"] == "websocket" else receive, send)

    def _may_come_in(self, cookies: Mapping[str, str]) -> bool:
        if not door.asks():
            return True
        claims = _claims(cookies)
        return claims.get("is_logged_in") is True and admitted(claims, self._users)


def _claims(cookies: Mapping[str, str]) -> dict[str, Any]:
    """What Streamlit's own cookie says of who is signed in; nothing where it was not signed here."""
    secret = get_cookie_secret()

    def signed(name: str) -> bytes | None:
        return decode_signed_value(secret, name, cookies[name].encode("latin-1", "replace")) if name in cookies else None

    said = get_cookie_with_chunks(signed, USER_COOKIE_NAME)
    return cast("dict[str, Any]", json.loads(said)) if said else {}


def _needed(receive: Receive) -> Receive:
    """The messages of a websocket without those that no page needs."""

    async def next_needed() -> Message:
        message = await receive()
        while message["type"] == "websocket.receive" and _is_not_needed(message.get("bytes") or b""):
            message = await receive()
        return message

    return next_needed


def _is_not_needed(data: bytes) -> bool:
    try:
        sent = BackMsg.FromString(data)
    except DecodeError:  # Streamlit closes the connection
        return False
    kind = sent.WhichOneof("type")
    operation = sent.backend_operation_request.WhichOneof("payload")
    dropped = kind in NOT_NEEDED or operation in NOT_NEEDED_OPERATIONS
    if dropped:
        log.info("dropped a message of the kind %s", operation or kind)
    return dropped
