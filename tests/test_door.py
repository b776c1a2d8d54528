"""Nobody sees a page who may not: by the login, by the list of people, and where the login itself cannot be read."""

import ast
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.access import admitted
from core.settings import Settings
from core.ui import desk
from tests.apps import ok, texts

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(file.stem for file in (ROOT / "pages").glob("*.py") if file.stem != "__init__")
ANN: dict[str, object] = {"is_logged_in": True, "email": "ann@example.com", "sub": "1", "iss": "https://id.example.com"}
AUTH: dict[str, object] = {"client_id": "x", "client_secret": "x", "cookie_secret": "x", "redirect_uri": "x", "server_metadata_url": "x"}


def open_as(page: str, user: dict[str, object] | None = None, **auth: object) -> AppTest:
    """A page by itself, as a cold link opens it."""
    app = AppTest.from_file(f"../pages/{page}.py", default_timeout=30)
    app.user = user or {}
    app.secrets["auth"] = AUTH | auth
    return ok(app.run())


@pytest.mark.parametrize("page", PAGES)
def test_every_page_asks_who_is_there_before_it_does_anything(page: str):
    body = ast.parse((ROOT / "pages" / f"{page}.py").read_text(encoding="utf-8")).body
    does = [ast.unparse(node) for node in body[1:] if not isinstance(node, ast.Import | ast.ImportFrom | ast.Assign | ast.FunctionDef)]
    assert does[0] == "frame()"


@pytest.mark.parametrize("page", PAGES)
def test_who_is_not_signed_in_sees_the_login_and_nothing_else(app_site: None, page: str):
    app = open_as(page, {"is_logged_in": False})
    assert [shown.value for shown in app.title] == ["Sign in to Draftgauge"]
    assert [shown.label for shown in app.button] == ["Sign in"]
    assert "big_model" not in texts(app)


def test_each_provider_has_its_button(app_site: None):
    app = open_as("start", {"is_logged_in": False}, google=AUTH, okta=AUTH, client_kwargs={"scope": "openid"})
    assert [shown.label for shown in app.button] == ["Sign in with Google", "Sign in with Okta"]


def test_who_is_signed_in_sees_the_page_and_the_way_out(app_site: None):
    app = open_as("start", ANN)
    assert "Sign out" in [shown.label for shown in app.button]
    assert any("ann" in shown.value for shown in app.markdown)
    assert app.title[0].value != "Sign in to Draftgauge"


def test_where_no_login_is_configured_nobody_is_asked(app_site: None):
    app = ok(AppTest.from_file("../pages/start.py", default_timeout=30).run())
    assert "Sign out" not in [shown.label for shown in app.button]
    assert app.title[0].value != "Sign in to Draftgauge"


def restricted(monkeypatch: pytest.MonkeyPatch, settings: Settings, **changes: object) -> None:
    changed = settings.model_copy(update=changes)
    monkeypatch.setattr(desk, "settings", lambda: changed)


def test_only_people_on_the_list_come_in(app_site: None, settings: Settings, monkeypatch: pytest.MonkeyPatch):
    restricted(monkeypatch, settings, users=["@example.org"])
    app = open_as("runs", ANN)
    assert [shown.value for shown in app.title] == ["This account may not come in"]
    assert [shown.label for shown in app.button] == ["Sign out"]
    assert app.markdown[-1].value.startswith("` ann@example.com ` is signed in, but not on the list"), "as text the address would become a link"
    assert open_as("runs", ANN | {"email": "Ann@Example.org"}).title[0].value != "This account may not come in"


@pytest.mark.parametrize("changes", [{"private": True}, {"users": ["@example.com"]}])
def test_people_who_must_be_told_apart_must_be_known(app_site: None, settings: Settings, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object]):
    restricted(monkeypatch, settings, **changes)
    assert [shown.value for shown in open_as("runs").title] == ["Nobody is signed in here"]


def test_a_login_that_cannot_be_read_lets_nobody_in(app_site: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Streamlit itself takes a broken secrets.toml for none, and so would show the pages to everybody."""
    import streamlit as st

    file = tmp_path / "secrets.toml"
    file.write_text("[auth\nclient_id = ")
    monkeypatch.setattr("streamlit.runtime.secrets.secrets_singleton._secrets", None)
    get = st.get_option
    monkeypatch.setattr(st, "get_option", lambda name: [str(file)] if name == "secrets.files" else get(name))
    app = ok(AppTest.from_file("../pages/runs.py", default_timeout=30).run())
    assert [shown.value for shown in app.title] == ["The login cannot be read"]


@pytest.mark.parametrize(("written", "asked"), [("[auth]", True), ("[another]", False)])
def test_an_empty_section_for_the_login_asks_for_one(app_site: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, asked: bool):
    """Streamlit takes it for none."""
    import streamlit as st

    file = tmp_path / "secrets.toml"
    file.write_text(written)
    monkeypatch.setattr("streamlit.runtime.secrets.secrets_singleton._secrets", None)
    get = st.get_option
    monkeypatch.setattr(st, "get_option", lambda name: [str(file)] if name == "secrets.files" else get(name))
    monkeypatch.setattr("streamlit.config.get_option", lambda name: [str(file)] if name == "secrets.files" else get(name))
    app = ok(AppTest.from_file("../pages/runs.py", default_timeout=30).run())
    assert (app.title[0].value == "Sign in to Draftgauge") is asked


@pytest.mark.parametrize(
    ("claims", "allowed", "may"),
    [
        ({}, [], True),
        ({}, ["ann@example.com"], False),
        ({"email": "ANN@example.COM "}, ["ann@Example.com"], True),
        ({"email": "ann@example.com", "email_verified": True}, ["@example.com"], True),
        ({"email": "ann@example.com", "email_verified": False}, ["@example.com"], False),
        ({"email": "ann@example.com", "email_verified": "false"}, ["ann@example.com"], False),
        ({"email": "ann@evil.example.com"}, ["@example.com"], False),
        ({"email": "ann@evilexample.com"}, ["@example.com"], False),
        ({"email": "x@evil.com@example.com"}, ["@example.com"], False),
        ({"email": 3}, ["@example.com"], False),
    ],
)
def test_who_is_on_the_list(claims: dict[str, object], allowed: list[str], may: bool):
    assert admitted(claims, allowed) is may


def test_settings_name_people_and_sites_or_say_why_not(monkeypatch: pytest.MonkeyPatch):
    assert Settings(users=["ann@example.com", "@example.org"], embed_in=["https://*.hf.space", "http://localhost:80"]).users[1] == "@example.org"
    for wrong in ("ann", "a@b@c", "ann @b", ""):
        with pytest.raises(ValueError, match=re.escape("neither an e-mail address nor @ and a domain")):
            Settings(users=[wrong])
    for wrong in ("example.com", "https://a.com; script-src *", "https://a.com/path", "javascript://x", "https://a.com\r\nX: y"):
        with pytest.raises(ValueError, match="is no site such as"):
            Settings(embed_in=[wrong])
