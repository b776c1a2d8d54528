"""Who somebody is: the account where people sign in, else the browser, else the tab; and whose drafts are whose."""

import pytest
from streamlit.testing.v1 import AppTest

from core.settings import Settings

pytestmark = pytest.mark.usefixtures("app_site")
SCRIPT = "import streamlit as st\nfrom core.ui import person\nst.text(person.person())\nst.text(person.own('0123'))"


def who(user: dict[str, str | bool], script: str = SCRIPT, **state: str) -> list[str]:
    app = AppTest.from_string(script)
    app.user = user
    for name, value in state.items():
        app.session_state[name] = value
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


def test_a_draft_is_written_only_under_an_id_that_was_made_for_its_writer() -> None:
    """Else somebody could send an address, and read later what was pasted into it."""
    script = "import streamlit as st\nfrom core.ui import person\nst.text(person.draft_id(st.session_state.get('found', '')))"

    def save(tab: str, found: str = "") -> str:
        return who({}, script, _person=tab, found=found)[0]

    mine = save("tab-mine")
    assert save("tab-mine", mine) == mine
    assert save("tab-mine") != mine
    assert save("tab-another", mine) not in (mine, "")
    for made_up in ("0123456789ab", mine[:-1], mine + "0", "é" * 28):
        assert save("tab-mine", made_up) != made_up


def test_no_address_leads_to_what_is_kept_under_another_kind_of_name() -> None:
    script = "import streamlit as st\nfrom core.ui import person\nst.text(person.own(st.session_state['found'], st.session_state['kind']))"
    assert who({}, script, found="abc", kind="side-") == ["side-abc"]
    for found in ("side-abc", "user-0123456789abcdef-abc", "../abc", "a b", "x" * 65, "\u00e9"):
        assert who({}, script, found=found, kind="") == [""]
