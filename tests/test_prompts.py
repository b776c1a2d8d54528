"""Pasted text to prompts: three ways to write them, and errors that name the line."""

import json

import pytest

from core.errors import InvalidInput
from core.prompts import MOST_PROMPTS, check, parse
from core.runs import Prompt


def texts(pasted: str) -> list[str]:
    return [prompt.text for prompt in parse(pasted)]


def test_one_prompt_per_line() -> None:
    assert texts("first\n\n  second $x$ <b>\r\nthird\n\n") == ["first", "  second $x$ <b>", "third"]


def test_separated_prompts_keep_their_lines() -> None:
    assert texts("a\n\n  b\n---\n\nc\n ---  \nd") == ["a\n\n  b", "c", "d"]


@pytest.mark.parametrize("pasted", ["---\na\n---\nb\n---\n", "a\n---\nb", "\n---\na\n---\nb", "a\n---\nb\n---\n\n"])
def test_a_separator_at_either_end_is_allowed(pasted: str) -> None:
    assert texts(pasted) == ["a", "b"]


def test_json_lines_with_labels() -> None:
    lines = [{"prompt": "a\nb", "label": "chat"}, {"prompt": "c"}, {"prompt": "d", "label": "code", "id": 7}]
    assert parse("\n" + "\n\n".join(json.dumps(line) for line in lines)) == [
        Prompt(text="a\nb", label="chat"),
        Prompt(text="c"),
        Prompt(text="d", label="code"),
    ]


def test_code_in_braces_is_not_json() -> None:
    assert texts("{ return 1; }\n{ return 2; }") == ["{ return 1; }", "{ return 2; }"]
    assert texts('{"id": 1}\n---\n{"id": 2}') == ['{"id": 1}', '{"id": 2}']


def test_a_byte_order_mark_is_dropped() -> None:
    assert texts("\ufefffirst") == ["first"]


@pytest.mark.parametrize(
    ("pasted", "words"),
    [
        ("", "no prompts"),
        (" \n\t\n", "no prompts"),
        ("---\n---", "line 2 is empty"),
        ("a\n---\n \n---\nb", "line 3 is empty"),
        ('{"prompt": "a"}\n\n{"text": "b"}', 'Line 3 has no "prompt"'),
        ('{"prompt": "a"}\n{"prompt": 5}', 'Line 2 has no "prompt"'),
        ('{"prompt": "a"}\n{"prompt": " "}', "line 2 is empty"),
        ('{"prompt": "a"}\n{"prompt": "b",}', "Line 2 is not valid JSON"),
        ('{"prompt": "a"}\nplain', "Line 2 is not valid JSON"),
        ('{"prompt": "a"}\n[1]', 'Line 2 has no "prompt"'),
        ('{"id": 1}', 'Line 1 has no "prompt".*---'),
        ('{"prompt": "a", "label": 3}', "label in line 1"),
        (json.dumps({"prompt": "a", "label": "x" * 61}), "label in line 1"),
        ("a\n" * (MOST_PROMPTS + 1), "501 prompts"),
        ("é" * 500_001, "1.00 MB"),
    ],
)
def test_what_cannot_be_used_is_named(pasted: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        parse(pasted)


def test_the_limits_themselves_are_allowed() -> None:
    assert len(parse("a\n" * MOST_PROMPTS)) == MOST_PROMPTS
    assert len(parse("a" * 1_000_000)) == 1


def test_prompts_from_elsewhere_are_checked_too() -> None:
    with pytest.raises(InvalidInput, match="Prompt 2 is empty"):
        check([Prompt(text="a"), Prompt(text="\n")])
