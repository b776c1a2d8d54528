"""An identity provider on this machine: OpenID Connect's code flow with PKCE and a nonce, for tests that sign in as people do.

Spoken: discovery, JWKS, authorize with a login form, token, end of session (OpenID Connect Core 1.0 and RP-Initiated Logout 1.0, RFC 6749,
RFC 7636). It is strict, so that a client which leaves something out is refused: the address to come back to must be the registered one, a
code is good once, and only with the verifier of its challenge and the client's own password. Keys and tokens are joserfc's. Not covered:
refresh tokens, userinfo, consent, a password of the people: who writes an address of `accounts` is that person.
"""

import base64
import contextlib
import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, PASSWORD = "draftgauge", "the client's own password"
GOOD_FOR_S = 300
FORM = '<!doctype html><title>Sign in</title><form method="post"><input name="email" aria-label="E-mail"><button>Continue</button></form>'
Claims = Mapping[str, object]


class Refused(Exception):
    """A request that a client of this provider may not make."""


@dataclass
class Provider:
    """What the provider knows. back_to: the only address that people are sent back to. accounts: claims of each, by e-mail address.

    A test may change what it signs (`spoils`), and with which key; the one that `/jwks` names stays.
    """

    back_to: str
    accounts: Mapping[str, Claims]
    url: str = ""
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"use": "sig", "alg": "RS256"}, auto_kid=True))
    signs_with: RSAKey | None = None
    spoils: dict[str, object] = field(default_factory=dict)
    codes: dict[str, tuple[dict[str, str], str]] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)

    def secrets_toml(self, cookie_secret: str, **more: str) -> str:
        """The section of Streamlit's secrets.toml that leads here."""
        known = {"redirect_uri": self.back_to, "cookie_secret": cookie_secret, "client_id": CLIENT, "client_secret": PASSWORD}
        known |= {"server_metadata_url": f"{self.url}/.well-known/openid-configuration"} | more
        return "\n".join(["[auth]", *(f"{name} = {json.dumps(value)}" for name, value in known.items())])

    def discovery(self) -> dict[str, object]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            "end_session_endpoint": f"{self.url}/end",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        }

    def check(self, asked: dict[str, str]) -> None:
        """Whether this is a request to sign somebody in. Raises Refused."""
        wanted = {"response_type": "code", "client_id": CLIENT, "redirect_uri": self.back_to, "code_challenge_method": "S256"}
        wrong = [name for name, value in wanted.items() if asked.get(name) != value]
        wrong += [name for name in ("state", "nonce", "code_challenge") if not asked.get(name)]
        if wrong or "openid" not in asked.get("scope", "").split():
            raise Refused(f"wrong or missing: {wrong or ['scope']}")

    def sign_in(self, asked: dict[str, str], email: str) -> str:
        """Where somebody who has signed in is sent. Raises Refused."""
        self.check(asked)
        if email not in self.accounts:
            raise Refused(f"no account {email}")
        code = secrets.token_urlsafe(24)
        self.codes[code] = (asked, email)
        return f"{self.back_to}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, given: dict[str, str], authorization: str) -> dict[str, object]:
        """The tokens for a code. Raises Refused."""
        if authorization != _basic(CLIENT, PASSWORD) or given.get("grant_type") != "authorization_code":
            raise Refused("not this client")
        asked, email = self.codes.pop(given.get("code", ""), ({}, ""))
        challenge = create_s256_code_challenge(given.get("code_verifier", ""))
        if not email or given.get("redirect_uri") != self.back_to or challenge != asked["code_challenge"]:
            raise Refused("not this code")
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + GOOD_FOR_S, "nonce": asked["nonce"], "email": email}
        said = claims | dict(self.accounts[email]) | self.spoils
        signed = jwt.encode({"alg": "RS256", "kid": self.key.kid}, said, self.signs_with or self.key)
        return {"access_token": secrets.token_urlsafe(24), "token_type": "Bearer", "expires_in": GOOD_FOR_S, "id_token": signed}


def _basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


@contextlib.contextmanager
def provider(back_to: str, accounts: Mapping[str, Claims]) -> Iterator[Provider]:
    """A running provider."""
    known = Provider(back_to, accounts)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"known": known}))
    server.daemon_threads = True
    known.url = f"http://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield known
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Handler(BaseHTTPRequestHandler):
    known: Provider

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        path, asked = self._asked()
        match path:
            case "/.well-known/openid-configuration":
                self._json(self.known.discovery())
            case "/jwks":
                self._json({"keys": [self.known.key.as_dict(private=False)]})
            case "/authorize":
                self._or_refuse(lambda: self.known.check(asked), lambda _: self._send(200, FORM.encode(), "text/html"))
            case "/end" if asked.get("post_logout_redirect_uri") == self.known.back_to:
                self.known.ended.append(asked.get("id_token_hint", ""))
                self._redirect(self.known.back_to)
            case _:
                self._send(404, b"", "text/plain")

    def do_POST(self) -> None:
        path, asked = self._asked()
        given = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        if path == "/authorize":
            self._or_refuse(lambda: self.known.sign_in(asked, given.get("email", "")), self._redirect)
        elif path == "/token":
            self._or_refuse(lambda: self.known.token(given, self._authorization()), self._json)
        else:
            self._send(404, b"", "text/plain")

    def _asked(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        return parts.path, dict(parse_qsl(parts.query))

    def _authorization(self) -> str:
        """The header, with name and password as they are meant: RFC 6749 has them form-encoded, and not every client does that."""
        kind, _, value = self.headers.get("Authorization", "").partition(" ")
        with contextlib.suppress(ValueError):
            return f"{kind} {base64.b64encode(unquote(base64.b64decode(value).decode()).encode()).decode()}"
        return ""

    def _or_refuse(self, do: Any, then: Any) -> None:
        try:
            found = do()
        except Refused as error:
            self._json({"error": "invalid_request", "error_description": str(error)}, 400)
            return
        then(found)

    def _redirect(self, to: str) -> None:
        self.send_response(302)
        self.send_header("Location", to)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _json(self, value: object, status: int = 200) -> None:
        self._send(status, json.dumps(value).encode(), "application/json")

    def _send(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
