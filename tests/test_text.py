"""Foreign text inside Markdown stays text, whatever it contains."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from core.markdown import code, plain

GITHUB = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
HOSTILE = (
    "\n\n![x](http://host/a.png)",
    "`\n\n![x](http://host/a.png)\n\n`",
    "``` \n# heading",
    "    indented code",
    "&lt;b&gt; &amp; &#33;",
    "<img src=http://host/a.png>",
    "a\n===\nb",
    "a\r\n- list\r\n1. list",
    "| a | b |\n|---|---|\n| c | d |",
    "[x](http://host) ~~no~~ **bold** _it_ > quote",
    "\u2028# line separator",
    "\\",
    "`",
)
marks = st.text(st.sampled_from("\\`*_{}[]<>()#+-.!|~$:&;=@ \n\r\t\u2028\x0babA1"), max_size=40)


def leaves(text: str) -> list[Token]:
    """What a paragraph made of `text` holds; fails when it is anything but one paragraph."""
    found = GITHUB.parse(text)
    assert [token.type for token in found] == ["paragraph_open", "inline", "paragraph_close"], text
    children = found[1].children
    assert children is not None
    return children


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text: str):
    check_plain(text)
    check_code(text)


@given(marks | st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=40))
def test_any_text_stays_text(text: str):
    check_plain(text)
    check_code(text)


def check_plain(text: str) -> None:
    for before in ("", "This failed. "):
        if not before and not one_line(text):
            continue
        found = leaves(before + plain(text))
        assert {token.type for token in found} <= {"text", "text_special"}
        assert "".join(token.content for token in found).rstrip() == (before + one_line(text)).rstrip()


def check_code(text: str) -> None:
    found = leaves(f"The run {code(text)}. It")
    assert [token.type for token in found] == ["text", "code_inline", "text"]
    assert found[1].content == (one_line(text).replace("`", "'") or "nothing")
