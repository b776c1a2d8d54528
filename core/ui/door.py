"""Who may look at the pages, asked by `frame` before anything of a page is drawn.

Where Streamlit's OIDC login is configured (`[auth]` in secrets.toml) every page asks for it. Elsewhere whoever reaches the port may look,
unless people must be told apart (`DRAFTGAUGE_PRIVATE`, `DRAFTGAUGE_USERS`); a proxy can do that too, by a header (`server.trustedUserHeaders`).
Not covered: Streamlit looks at a login when a tab connects, so a tab that is open stays signed in until it is reloaded.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import streamlit as st
from streamlit.errors import StreamlitAuthError, StreamlitSecretNotFoundError

from core.access import admitted
from core.markdown import code, plain
from core.settings import Settings


def guard(settings: Settings) -> None:
    """Come back only for somebody who may look; for others the page ends here, with what they can do."""
    claims = st.user.to_dict()
    if _unreadable_secrets():
        _end("The login cannot be read", "secrets.toml is there and cannot be read, so nobody is let in. Its operator must correct it.")
    elif not claims.get("is_logged_in") and ("is_logged_in" in claims or asks()):
        _login()
    elif (settings.private or settings.users) and not (claims.get("sub") or claims.get("email")):
        why = "This installation tells people apart, and no login is configured. Its operator must add one; the README says how."
        _end("Nobody is signed in here", why)
    elif not admitted(claims, settings.users):
        who = code(str(claims["email"])) if claims.get("email") else "This account"
        _leave(f"{who} is signed in, but not on the list of people who may use this installation. Ask its operator, or use another account.")


def asks() -> bool:
    """Whether people must sign in: there is a section for it, even an empty one, or a secrets.toml that may hold one and cannot be read."""
    return _unreadable_secrets() or (_has_secrets() and "auth" in st.secrets)


def sign_out(settings: Settings) -> None:
    """Who is signed in, and the way out; nothing where nobody has to be."""
    claims = st.user.to_dict()
    if not claims.get("is_logged_in"):
        return
    own = " You see your own runs; a shared link shows a run without its texts." if settings.private else ""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        name = code(str(claims.get("email") or claims.get("name") or "an account without a name"))  # as text it would become a link
        st.markdown(f":small[:gray[Signed in as {name}.{own}]]", width="content")
        st.button("Sign out", icon=":material/logout:", type="tertiary", on_click=st.logout, key="_sign_out")


def _unreadable_secrets() -> bool:
    """Whether there is a file that may hold a login and cannot be read; Streamlit takes that for no login at all."""
    if not _has_secrets():
        return False
    try:
        len(st.secrets)
    except StreamlitSecretNotFoundError:
        return True
    return False


def _has_secrets() -> bool:
    return any(Path(file).exists() for file in st.get_option("secrets.files"))


def _login() -> None:
    st.title("Sign in to Draftgauge", anchor=False)
    st.markdown("Runs, prompts and answers of this installation are shown to people who are signed in.")
    for name in _providers():
        label = f"Sign in with {name.capitalize()}" if name else "Sign in"
        if st.button(label, icon=":material/login:", type="primary", key=f"_sign_in_{name}"):
            try:
                st.login(name or None)
            except StreamlitAuthError as error:
                st.error(plain(str(error)), icon=":material/error:")
    st.stop()


def _providers() -> list[str]:
    """Names of the providers that are configured; "" for one without a name."""
    section = cast("Mapping[str, object]", st.secrets["auth"])
    return [name for name, value in section.items() if isinstance(value, Mapping) and "client_id" in value] or [""]


def _leave(why: str) -> None:
    st.title("This account may not come in", anchor=False)
    st.markdown(why)
    st.button("Sign out", icon=":material/logout:", on_click=st.logout, key="_leave")
    st.stop()


def _end(title: str, why: str) -> None:
    st.title(title, anchor=False)
    st.markdown(why)
    st.stop()
