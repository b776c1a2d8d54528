"""Who somebody is: the account where people sign in, else the browser, else the tab; and whose drafts are whose."""

import pytest
from streamlit.testing.v1 import AppTest

from core.settings import Settings

pytestmark = pytest.mark.usefixtures("app_site")
SCRIPT = "import streamlit as st\nfrom core.ui import person\nst.text(person.person())\nst.text(person.own('0123'))"


def who(user: dict[str, str | bool]) -> list[str]:
    app = AppTest.from_string(SCRIPT)
    app.user = user
    app.run()
    assert not app.exception
    return [shown.value for shown in app.text]


def test_an_account_is_the_same_person_everywhere_and_its_address_is_not_in_the_id(settings: Settings) -> None:
    ada = {"is_logged_in": True, "iss": "https://id", "sub": "1", "email": "ada@example.com"}
    found = who(ada)
    assert found == who(ada)
    assert found[0].startswith("user-")
    assert found[1] == f"{found[0]}-0123"
    assert len({found[0], who(ada | {"sub": "2"})[0], who(ada | {"iss": "https://other"})[0], who({"email": "ada@example.com"})[0]}) == 4
    assert "ada" not in found[0]


def test_the_ids_of_another_installation_are_others(settings: Settings) -> None:
    found = who({"sub": "1"})
    (settings.data / "private.key").write_bytes(bytes(32))
    assert who({"sub": "1"}) != found


def test_who_is_not_signed_in_is_a_tab_of_its_own_with_drafts_by_address_alone() -> None:
    first, second = who({}), who({"is_logged_in": False})
    assert first[0].startswith("tab-")
    assert first[0] != second[0]
    assert first[1] == second[1] == "0123"
