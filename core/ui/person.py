"""Who looks at a page, as an id that says nothing else: of the account where people sign in, otherwise of the browser.

The queue is fair to each person, and prompts that somebody who is signed in has pasted are found again by nobody else. A browser is known
by the cookie that Streamlit gives each one against forged requests, which lasts until the browser is closed; without it a tab is a person.
Whoever is not signed in can pretend to be several: limits per person are then a courtesy among colleagues. The ids are keyed hashes, so
that the store holds no address.
"""

import hashlib
import hmac
import secrets

import streamlit as st
from streamlit.web.server.starlette.starlette_app_utils import decode_xsrf_token_string
from streamlit.web.server.starlette.starlette_server_config import XSRF_COOKIE_NAME

from core import privacy

_TAB = "_person"


def person() -> str:
    """The id of who looks at this page. Raises StoreError where the data folder cannot be used."""
    return signed_in() or _browser() or st.session_state.setdefault(_TAB, f"tab-{secrets.token_hex(8)}")


def signed_in() -> str:
    """The id of the account that is signed in, by Streamlit's OIDC or a trusted header of a proxy; "" where nobody is."""
    user = st.user.to_dict()
    name = user.get("sub") or user.get("email")
    return _hashed("user", f"{user.get('iss', '')} {name}") if name else ""


def own(draft_id: str) -> str:
    """The id under which a draft is kept: for who is signed in one that is theirs alone, otherwise the address's, which nobody guesses."""
    account = signed_in()
    return f"{account}-{draft_id}" if account else draft_id


def _browser() -> str:
    cookie = st.context.cookies.get(XSRF_COOKIE_NAME)
    token = decode_xsrf_token_string(cookie)[0] if isinstance(cookie, str) else None  # a cookie is masked anew with every answer
    return _hashed("browser", token.hex()) if token else ""


def _hashed(kind: str, what: str) -> str:
    from core.ui.desk import settings  # here, because the desk needs this module

    key = privacy.installation_key(settings().data)
    return f"{kind}-{hmac.new(key, f'{kind} {what}'.encode(), hashlib.sha256).hexdigest()[:16]}"
