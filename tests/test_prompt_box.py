"""The prompts of one's own on a page: pasted, uploaded, chosen from a table, saved, and never lost; over a real store and planner."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.planner import Planner
from core.prompt_draft import Draft
from core.prompt_files import LARGE_BYTES
from core.prompt_rows import Room
from core.runs import Prompt
from core.settings import Settings
from core.store import Store
from core.ui import desk, prompt_table
from tests.apps import ok, texts

ID = "0123456789ab"
HOSTILE = "$x$ <b>bold</b> **b** [l](http://h) :red[r]"
CSV = f'id,question,answer,label\n1,"{HOSTILE}",a long answer,chat\n2,two,b,code\n3,,c,code\n4,two,d,code\n'.encode()


@pytest.fixture
def planner(settings: Settings, app_site: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Planner]:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with contextlib.closing(Planner(settings, light=1)) as made:
        monkeypatch.setattr(desk, "planner", lambda: made)
        yield made


def page() -> None:
    import streamlit as st

    from core.prompt_rows import Room
    from core.ui import prompt_box

    asked: dict[str, Any] = st.session_state.get("asked", {})
    room = Room(text=asked.get("context"))
    st.session_state["found"] = prompt_box.prompt_box(asked.get("target", ""), room, 40, chat_template=asked.get("chat", False))


def open_box(before: AppTest | None = None, **asked: Any) -> AppTest:
    """The box at an address that somebody else has made up, or at the one where another tab of the same browser left it."""
    app = AppTest.from_function(page, default_timeout=30)
    app.user = {}
    app.session_state["_person"] = "tab-of-the-test"
    app.query_params["pasted"] = draft_id(before) if before else ID
    app.session_state["asked"] = asked
    return ok(app.run())


def draft_id(app: AppTest) -> str:
    return "".join(app.query_params["pasted"])


def found(app: AppTest) -> list[str]:
    return [prompt.text for prompt in app.session_state["found"]]


def paste(app: AppTest, text: str) -> AppTest:
    return ok(app.text_area[0].set_value(text).run())


def upload(app: AppTest, name: str, content: bytes) -> AppTest:
    return ok(app.file_uploader[0].upload(name, content).run())


def edit(app: AppTest, rows: dict[int, dict[str, Any]]) -> AppTest:
    """Change cells as the browser does: values by column, by the row's place from 0."""
    key = app.data_editor[0].key
    assert key
    app.session_state[key] = {"edited_rows": rows, "added_rows": [], "deleted_rows": []}
    return ok(app.run())


def until(app: AppTest, done: Any, within_s: float = 90) -> AppTest:
    """Look again until the planner has answered."""
    until_s = time.monotonic() + within_s
    while not done(ok(app.run())):
        assert time.monotonic() < until_s, texts(app)
        time.sleep(0.2)
    return app


def table(app: AppTest) -> list[dict[str, Any]]:
    return app.data_editor[0].value.to_dict("records")


@pytest.mark.usefixtures("app_site")
def test_nothing_is_asked_for_before_there_are_prompts() -> None:
    app = open_box()
    assert found(app) == []
    assert not app.data_editor
    assert not app.error


@pytest.mark.usefixtures("app_site")
def test_pasted_prompts_stand_in_the_table_as_text() -> None:
    app = paste(open_box(), f"{HOSTILE}\ntwo\n{HOSTILE}")
    assert found(app) == [HOSTILE, "two"]
    rows = [(row["Include"], row["Prompt"], row["Note"]) for row in table(app)]
    assert rows == [(True, HOSTILE, ""), (True, "two", ""), (False, HOSTILE, "Same as 1")]
    assert "**2 prompts**, 1 left out" in texts(app)


@pytest.mark.usefixtures("app_site")
def test_choices_in_the_table_are_saved_and_found_again(store: Store) -> None:
    app = edit(paste(open_box(), "one\ntwo\none"), {1: {"Include": False}, 2: {"Include": True, "Label": " **x** "}})
    expected = (Prompt(text="one"), Prompt(text="one", label="**x**"))
    assert app.session_state["found"] == expected
    assert r"**2 prompts: 1 no label, 1 \*\*x\*\***, 1 left out" in texts(app)
    again = open_box(app)
    assert again.session_state["found"] == expected
    assert [(row["Include"], row["Label"]) for row in table(again)] == [(True, ""), (False, ""), (True, "**x**")]
    moved = paste(again, "new\none\ntwo\none")
    assert found(moved) == ["new", "one", "one"]
    kept = store.load_prompts(draft_id(app))
    assert kept == Draft.read(kept).saved()
    assert draft_id(moved) == draft_id(app) != ID
    assert store.load_prompts(ID) is None, "whoever made up an address reads nothing of what is written there"


@pytest.mark.usefixtures("app_site")
def test_what_cannot_be_seen_is_written_out_in_the_table_alone() -> None:
    app = paste(open_box(), "a\x1b[31m \u202e\u0645\ufeff\tb " + "x" * 200)
    assert table(app)[0]["Prompt"] == "a\\u001b[31m \\u202e\u0645\\ufeff b " + "x" * 132 + "..."
    assert found(app) == ["a\x1b[31m \u202e\u0645\ufeff\tb " + "x" * 200]


@pytest.mark.usefixtures("app_site")
def test_nothing_is_lost_when_the_text_cannot_be_read() -> None:
    app = paste(open_box(), '{"prompt": "kept"}\n{"prompt": 3}\nplain <b>')
    assert found(app) == ["kept"]
    shown = app.warning[0].value.replace("\\", "")
    assert 'line 2 has a "prompt" that is a number, not text; line 3 is not valid JSON' in shown
    app = paste(app, '{"prompt": 3}')
    assert found(app) == []
    assert not app.data_editor
    assert "line 1 has" in app.error[0].value
    assert open_box(app).text_area[0].value == '{"prompt": 3}'


@pytest.mark.usefixtures("app_site")
def test_a_csv_is_read_its_columns_chosen_and_all_of_it_found_again() -> None:
    app = upload(open_box(), "traffic $x$.csv", CSV)
    assert [(row["Prompt"], row["Label"], row["Include"]) for row in table(app)] == [
        (HOSTILE, "chat", True),
        ("two", "code", True),
        ("two", "code", False),
    ]
    assert "line 4 is empty" in app.warning[0].value
    assert [(box.label, box.value) for box in app.selectbox] == [("Column of prompts", "question"), ("Column of labels", "label")]
    app.selectbox[0].set_value("answer")
    assert found(ok(app.run())) == ["a long answer", "b", "c", "d"]
    app.selectbox[1].set_value("")
    assert {prompt.label for prompt in ok(app.run()).session_state["found"]} == {""}
    again = open_box(app)
    assert found(again) == ["a long answer", "b", "c", "d"]
    assert [box.value for box in again.selectbox] == ["answer", ""]
    next(button for button in again.button if button.label == "Remove").click()
    assert found(ok(again.run())) == []


@pytest.mark.usefixtures("app_site")
def test_the_separation_of_a_text_file_can_be_chosen_and_paste_stays() -> None:
    app = upload(paste(open_box(), "pasted"), "x.txt", b"a\nb\n\nc\n")
    assert found(app) == ["pasted", "a\nb", "c"]
    app.selectbox[0].set_value("lines")
    assert found(ok(app.run())) == ["pasted", "a", "b", "c"]


@pytest.mark.usefixtures("app_site")
def test_a_file_that_cannot_be_read_says_why_and_leaves_the_rest() -> None:
    app = upload(paste(open_box(), "pasted"), "latin.txt", b"caf\xe9")
    assert "is not UTF-8" in app.error[0].value.replace("\\", "")
    assert "0xE9" in app.error[0].value
    assert found(app) == ["pasted"]


@pytest.mark.usefixtures("app_site")
def test_too_much_text_gets_a_sentence() -> None:
    app = paste(open_box(), "x" * 1_000_001)
    assert "1.00 MB were pasted" in app.error[0].value
    assert found(app) == []
    both = upload(paste(app, "x\n" * 3), "x.txt", b"\n".join(b"%d" % number for number in range(500)))
    assert "501 prompts are too many" in both.error[0].value
    assert found(both) == []
    assert found(edit(both, {0: {"Include": False}})) == [str(number) for number in range(500)]


@pytest.mark.usefixtures("planner")
def test_a_large_file_is_read_by_the_planner() -> None:
    content = b"".join(b"prompt %d\n" % number for number in range(20_000))
    assert len(content) > LARGE_BYTES
    app = upload(open_box(), "many.txt", content)
    assert found(app) == []
    assert "Reading the file" in texts(app)
    until(app, lambda app: app.data_editor)
    assert len(found(app)) == 500
    assert "20,000 prompts were found, and a random 500 of them taken" in texts(app).replace("\\", "")
    assert len(found(open_box(app))) == 500


@pytest.mark.usefixtures("planner")
def test_tokens_are_counted_long_prompts_left_out_and_one_is_shown_as_the_model_reads_it() -> None:
    app = open_box(target="demo:target", context=60)
    paste(app, "$x$ <b>\n" + "word " * 30)
    assert len(found(app)) == 2, "before they are counted"
    until(app, lambda app: "Counting tokens" not in texts(app))
    short, long = table(app)
    assert (short["Include"], short["Note"]) == (True, "")
    assert not long["Include"]
    assert long["Note"] == f"Left out: with 40 new tokens it needs {long['Tokens'] + 40}, and the pair holds 60"
    edit(app, {1: {"Include": True}})
    assert "word " * 30 not in found(app), "what cannot be measured is not included"
    app.toggle[0].set_value(True)
    until(app, lambda app: app.code)
    assert app.code[0].value == "$x$ <b>"
    assert f"{short['Tokens']} tokens, special tokens included" in texts(app)


@pytest.mark.usefixtures("planner")
def test_a_model_that_cannot_count_is_said_and_prompts_stay() -> None:
    app = paste(open_box(target="demo:target", chat=True), "one")
    until(app, lambda app: app.warning)
    assert "Tokens are not counted. Demo target has no chat template" in app.warning[0].value.replace("\\", "")
    assert found(app) == ["one"]


def test_the_room_of_a_pair_is_the_smaller(planner: Planner) -> None:
    until_s = time.monotonic() + 90
    while (room := prompt_table.pair_room("demo:target", ["demo:draft"])) == Room():
        assert time.monotonic() < until_s
        time.sleep(0.2)
    assert room == Room(text=1024)
