"""The server around the pages is built from the settings, and says which of them cannot be used; the rest of it is tested as it runs."""

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from core.errors import InvalidInput
from core.settings import Settings
from core.ui import desk, server
from core.ui.gate import Gate


def headers(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Those of an answer of a server with these settings."""
    monkeypatch.setattr(desk, "settings", lambda: settings)
    app = Starlette(routes=[Route("/", lambda _request: PlainTextResponse("x"))], middleware=server.around()["middleware"])
    return dict(TestClient(app).get("/").headers)


def test_sites_of_the_settings_may_show_the_pages_in_a_frame_and_no_others(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = headers(settings, monkeypatch)
    assert alone["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in alone["content-security-policy"]
    named = headers(settings.model_copy(update={"embed_in": ["https://wiki.example.com", "https://*.hf.space"]}), monkeypatch)
    assert "x-frame-options" not in named
    assert named["content-security-policy"].endswith("frame-ancestors https://wiki.example.com https://*.hf.space")


def test_people_of_the_settings_are_those_whose_files_are_passed_on(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "settings", lambda: settings.model_copy(update={"users": ["@example.org"]}))
    assert [each.kwargs for each in server.around()["middleware"] if each.cls is Gate] == [{"users": ["@example.org"]}]


def test_a_setting_that_cannot_be_used_ends_the_start_with_its_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Settings:
        raise InvalidInput("DRAFTGAUGE_THREADS is '0', which cannot be used.")

    monkeypatch.setattr(desk, "settings", refuse)
    with pytest.raises(SystemExit, match="DRAFTGAUGE_THREADS is '0'"):
        server.around()
