"""The app behind a login: with an identity provider of its own, people who have accounts there, and two of them on the list of who may come in."""

import contextlib
import hashlib
import hmac
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode

from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from core.privacy import installation_key
from core.runs import Run
from core.settings import Settings
from core.store import open_store
from tests.browser.server import free_port, serve
from tests.oidc_server import Claims, Provider, provider
from tests.sessions import Session

ANN, BOB, EVE, MAX = "ann@example.com", "bob@example.com", "eve@example.com", "max@example.com"
ACCOUNTS: dict[str, Claims] = {
    ANN: {"sub": "1", "email_verified": True, "name": "Ann"},
    BOB: {"sub": "2", "email_verified": True},
    EVE: {"sub": "3", "email_verified": True},
    MAX: {"sub": "4", "email_verified": False, "email": ANN},
}
"""Eve is not on the list; Max says that he is Ann, which the provider has not checked."""
COOKIE_SECRET = "only-for-tests-only-for-tests-only-for-tests"


@dataclass(frozen=True)
class LoginSite:
    """A running app: its address, its data folder and its provider."""

    url: str
    folder: Path
    provider: Provider

    def keep(self, run: Run, email: str) -> None:
        """Put a run that has ended into the store, as this person's."""
        account = f"user {self.provider.url} {ACCOUNTS[email]['sub']}"
        person = hmac.new(installation_key(self.folder), account.encode(), hashlib.sha256).hexdigest()[:16]
        store = open_store(Settings(data=self.folder))
        store.insert(run, f"user-{person}")
        store.close()

    async def sign_in(self, email: str) -> str:
        """The cookies of somebody who signs in without a browser: the button of the page, the provider's form, and the way back."""
        async with Session.open(self.url, keep=True) as stranger:
            await stranger.click("Sign in")
            heard = [ForwardMsg.FromString(data) for data in stranger.heard]
        jar = CookieJar()
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
        begin = next(message.auth_redirect.url for message in heard if message.WhichOneof("type") == "auth_redirect")
        with opener.open(self.url + begin, timeout=20) as form, opener.open(form.url, urlencode({"email": email}).encode(), timeout=20):
            pass
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar if cookie.name.startswith("_streamlit_user"))


@contextlib.contextmanager
def login_site(folder: Path, **settings: str) -> Iterator[LoginSite]:
    """The app over a data folder, open for Ann and Bob, and telling them apart."""
    port = free_port()
    with provider(f"http://localhost:{port}/oauth2callback", ACCOUNTS) as known:
        secrets = folder / "secrets.toml"
        secrets.write_text(known.secrets_toml(COOKIE_SECRET))
        asked = {"DRAFTGAUGE_USERS": json.dumps([ANN, BOB]), "DRAFTGAUGE_PRIVATE": "true", "STREAMLIT_SECRETS_FILES": str(secrets)}
        with serve(folder, port=port, **asked | settings) as url:
            yield LoginSite(url, folder, known)
