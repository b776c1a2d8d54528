"""Who looks at a page, as an id that says nothing else: of the account where people sign in, otherwise of the browser.

The queue is fair to each person, and prompts that somebody who is signed in has pasted are found again by nobody else. A browser is known
by the cookie that Streamlit gives each one against forged requests, which lasts until the browser is closed; without it a tab is a person.
Whoever is not signed in can pretend to be several: limits per person are then a courtesy among colleagues. The ids are keyed hashes, so
that the store holds no address.

A draft is found again by an id in the address. Whoever has the address reads what is saved there, so a person writes only under ids that
were made for them: otherwise somebody could send an address and read later what was pasted into it.
"""

import hashlib
import hmac
import re
import secrets

import streamlit as st
from streamlit.web.server.starlette.starlette_app_utils import decode_xsrf_token_string
from streamlit.web.server.starlette.starlette_server_config import XSRF_COOKIE_NAME

from core import privacy

DRAFT_ID = re.compile(r"[A-Za-z0-9]{1,64}")
_TAB = "_person"
_RANDOM = 12
"""How many letters of a draft's id are drawn; the others say whose it is."""


def person() -> str:
    """The id of who looks at this page. Raises StoreError where the data folder cannot be used."""
    return signed_in() or _browser() or st.session_state.setdefault(_TAB, f"tab-{secrets.token_hex(8)}")


def signed_in() -> str:
    """The id of the account that is signed in, by Streamlit's OIDC or a trusted header of a proxy; "" where nobody is."""
    user = st.user.to_dict()
    name = user.get("sub") or user.get("email")
    return _hashed("user", f"{user.get('iss', '')} {name}") if name else ""


def own(found: str, kind: str = "") -> str:
    """The id under which a draft is kept: for who is signed in one that is theirs alone, otherwise the address's, which nobody guesses.

    found: the id in the address; what can be none leads nowhere, so that no address leads to what is kept under other names.
    kind: what the ids of this kind of draft begin with.
    """
    account, known = signed_in(), kind + found if DRAFT_ID.fullmatch(found) else ""
    return f"{account}-{known}" if account else known


def draft_id(found: str = "") -> str:
    """The id in the address under which to save a draft: `found` where it was made for who looks at this page, otherwise a new one.

    Raises StoreError where the data folder cannot be used.
    """
    return found if found and found == _draft_id(found[:_RANDOM]) else _draft_id(secrets.token_hex(_RANDOM // 2))


def _draft_id(random: str) -> str:
    return random + _hashed("draft", f"{person()} {random}").removeprefix("draft-")


def _browser() -> str:
    cookie = st.context.cookies.get(XSRF_COOKIE_NAME)
    token = decode_xsrf_token_string(cookie)[0] if isinstance(cookie, str) else None  # a cookie is masked anew with every answer
    return _hashed("browser", token.hex()) if token else ""


def _hashed(kind: str, what: str) -> str:
    from core.ui.desk import settings  # here, because the desk needs this module

    key = privacy.installation_key(settings().data)
    return f"{kind}-{hmac.new(key, f'{kind} {what}'.encode(), hashlib.sha256).hexdigest()[:16]}"
