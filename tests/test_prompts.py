"""Which prompts can be measured, how many are taken, and pasted text: three ways to write them, refusals that name the line."""

import json

import pytest

from core.errors import InvalidInput
from core.prompt_text import read
from core.prompts import MOST_BYTES, MOST_NAMED, MOST_PROMPTS, check, size_bytes
from core.runs import Message, Prompt


def texts(pasted: str) -> list[str]:
    return [prompt.text for prompt in read(pasted).prompts]


def refusals(pasted: str) -> list[str]:
    return [f"{refused.where} {refused.why}" for refused in read(pasted).refused]


def test_one_prompt_per_line() -> None:
    assert texts("first\n\n  second $x$ <b>\r\nthird\n\n") == ["first", "  second $x$ <b>", "third"]


def test_separated_prompts_keep_their_lines() -> None:
    assert texts("a\n\n  b\n---\n\nc\n ---  \nd") == ["a\n\n  b", "c", "d"]


@pytest.mark.parametrize("pasted", ["---\na\n---\nb\n---\n", "a\n---\nb", "\n---\na\n---\nb", "a\n---\nb\n---\n\n"])
def test_a_separator_at_either_end_is_allowed(pasted: str) -> None:
    found = read(pasted)
    assert [prompt.text for prompt in found.prompts] == ["a", "b"]
    assert found.refused_count == 0


def test_json_lines_with_labels() -> None:
    lines = [{"prompt": "a\nb", "label": "chat"}, {"prompt": "c"}, {"text": "d", "label": " code ", "id": 7}, "e"]
    assert read("\n" + "\n\n".join(json.dumps(line) for line in lines)).prompts == (
        Prompt(text="a\nb", label="chat"),
        Prompt(text="c"),
        Prompt(text="d", label="code"),
        Prompt(text="e"),
    )


def test_a_json_list_over_several_lines_is_read_as_one() -> None:
    pasted = json.dumps([{"prompt": "a"}, {"prompt": 1}, {"prompt": "b"}], indent=2)
    assert texts(pasted) == ["a", "b"]
    assert refusals(pasted) == ['entry 2 has a "prompt" that is a number, not text']


def test_code_in_braces_is_not_json() -> None:
    assert texts("{ return 1; }\n{ return 2; }") == ["{ return 1; }", "{ return 2; }"]
    assert texts('{"id": 1}\n---\n{"id": 2}') == ['{"id": 1}', '{"id": 2}']
    assert texts("[1]\n[2]") == ["[1]", "[2]"]


def test_a_byte_order_mark_is_dropped() -> None:
    assert texts("\ufefffirst") == ["first"]


def test_markup_control_characters_and_right_to_left_are_kept() -> None:
    lines = ["<script>alert(1)</script> **b** $x$", "\x1b[31mred\x07", "مرحبا \u202eabc", "a\u2028b", "tab\tend "]
    assert texts("\n".join(lines)) == lines


def test_a_chat_keeps_its_turns_up_to_the_last_of_the_user() -> None:
    turns = [("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello"), ("user", "Why?"), ("assistant", "So.")]
    line = json.dumps({"messages": [{"role": role, "content": content} for role, content in turns], "label": "chat"})
    expected = tuple(Message(role=role, content=content) for role, content in turns[:4])
    assert read(line).prompts == (Prompt(text="Why?", label="chat", messages=expected),)


def test_a_chat_in_parts_and_under_prompt() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert read(json.dumps({"prompt": [{"role": "user", "content": parts}]})).prompts[0].messages == (Message(role="user", content="ab"),)


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([], "is a chat without a user turn"),
        ([{"role": "system", "content": "x"}, {"role": "assistant", "content": "y"}], "is a chat without a user turn"),
        ([{"role": "user", "content": "x"}, {"role": "robot", "content": "y"}], r"message \(2\) whose role is none of"),
        ([{"from": "human", "value": "x"}], r"message \(1\) whose role is none of"),
        ([{"role": "user", "content": [{"type": "image", "url": "x"}]}], r"message \(1\) whose content is not text alone"),
        ([{"role": "user", "content": None}], r"message \(1\) whose content is not text alone"),
        ([{"role": "user", "content": "x"}, {"role": "assistant", "content": "", "tool_calls": [{}]}], r"message \(2\) that calls tools"),
        (["x"], r"message \(1\) whose role"),
        ([{"role": "user", "content": " "}], "is empty"),
        ([{"role": "system", "content": "a\0b"}, {"role": "user", "content": "x"}], "NUL character .character 2 "),
    ],
)
def test_chats_that_cannot_be_used_are_named(messages: object, why: str) -> None:
    found = read('{"prompt": "kept"}\n' + json.dumps({"messages": messages}))
    assert [prompt.text for prompt in found.prompts] == ["kept"]
    assert found.refused[0].where == "line 2"
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(found.refused[0].why)


@pytest.mark.parametrize(
    ("pasted", "kept", "refused"),
    [
        (" \n\t\n", 0, []),
        ("---\n---", 0, ["line 2 is between two --- lines and empty"]),
        ("a\n---\n \n---\nb", 2, ["line 3 is between two --- lines and empty"]),
        ('{"prompt": "a"}\n\n{"id": "b"}', 1, ['line 3 has no "prompt", "text" or "messages"']),
        ('{"prompt": "a"}\n{"prompt": {"text": "b"}}', 1, ['line 2 has a "prompt" that is an object, not text']),
        ('{"prompt": "a"}\n{"messages": "b"}', 1, ['line 2 has a "messages" that is text, not a list']),
        ('{"prompt": "a"}\n{"prompt": " "}\n{"prompt": "c"}', 2, ["line 2 is empty"]),
        ('{"prompt": "a"}\n[1]', 1, ["line 2 is a list, not an object with a prompt"]),
        ('{"id": 1}', 0, ['line 1 has no "prompt", "text" or "messages"']),
        ('{"prompt": "a"}\n{"prompt": "b", "label": 3}', 1, ["line 2 has a label that is not text of at most 60 characters"]),
        (json.dumps({"prompt": "a", "label": "x" * 61}), 0, ["line 1 has a label that is not text of at most 60 characters"]),
        ("a\nb\0c", 1, ["line 2 holds a NUL character (character 2 of its text)"]),
        ('{"prompt": "a"}\n{"prompt": "\\ud800"}', 1, ["line 2 holds half of a surrogate pair, which is no character"]),
        ("a\n" + "é" * 500_001, 1, ["line 2 has 1,000,002 bytes, and one prompt may have 1,000,000"]),
    ],
)
def test_what_cannot_be_used_is_named_and_the_rest_kept(pasted: str, kept: int, refused: list[str]) -> None:
    assert len(read(pasted).prompts) == kept
    assert refusals(pasted) == refused


def test_broken_json_lines_are_named_one_by_one() -> None:
    found = read('{"prompt": "a"}\n{"prompt": "b",}\nplain\n{"prompt": "c"}')
    assert [prompt.text for prompt in found.prompts] == ["a", "c"]
    assert [refused.where for refused in found.refused] == ["line 2", "line 3"]
    assert found.refused[1].why == "is not valid JSON (Expecting value, at its character 1)"
    assert read('{"prompt": "a"}\n' + "[" * 100_000).refused[0].why == "is not valid JSON (it is nested too deeply)"
    assert read('{"prompt": "a"}\n' + "1" * 5000).refused[0].why == "is not valid JSON (it holds a number with too many digits)"


def test_many_refusals_are_counted() -> None:
    found = read('{"prompt": "a"}\n' + "x\n" * 1000)
    assert (found.found, found.refused_count, len(found.refused)) == (1, 1000, MOST_NAMED)


def test_ten_thousand_prompts_become_a_random_sample_in_their_order() -> None:
    found = read("\n".join(map(str, range(10_000))))
    taken = [int(prompt.text) for prompt in found.prompts]
    assert len(set(taken)) == MOST_PROMPTS == len(taken)
    assert taken == sorted(taken)
    assert 4000 < sum(taken) / len(taken) < 6000, "not the first ones"
    assert found.found == 10_000
    assert found.notes[0].startswith("10,000 prompts were found, and a random 500 of them taken")
    assert found.prompts == read("\n".join(map(str, range(10_000)))).prompts


def test_prompts_of_more_than_a_megabyte_are_sampled_too() -> None:
    found = read("\n".join(f"{number:03}" + "x" * 9_997 for number in range(300)))
    assert len(found.prompts) == 100
    assert sum(map(size_bytes, found.prompts)) == MOST_BYTES
    assert found.prompts[50].text[:3] != "050"


def test_the_limits_themselves_are_allowed() -> None:
    assert len(read("a\n" * MOST_PROMPTS).prompts) == MOST_PROMPTS
    assert read("a\n" * MOST_PROMPTS).notes == ()
    assert len(read("a" * MOST_BYTES).prompts) == 1
    turns = (Message(role="user", content="x"), Message(role="user", content="a" * (MOST_BYTES - 1)))
    check([Prompt(text=turns[1].content, messages=turns)])


@pytest.mark.parametrize(
    ("prompts", "words"),
    [
        ([], "no prompts"),
        ([Prompt(text="a"), Prompt(text="\n")], "Prompt 2 is empty"),
        ([Prompt(text="a")] * 501, "501 prompts"),
        ([Prompt(text="x" * 600_000)] * 2, "1.20 MB together"),
        ([Prompt(text="a", messages=(Message(role="system", content="\0"), Message(role="user", content="a")))], "Prompt 1 holds a NUL"),
    ],
)
def test_prompts_from_elsewhere_are_checked_too(prompts: list[Prompt], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        check(prompts)
