"""Uploaded files: every kind, every way in which one can be wrong, and the job for large ones."""

import contextlib
import json
import time
from pathlib import Path

import pytest

from core.errors import InvalidInput
from core.planner import Failed, Planner, Ready, Waiting
from core.prompt_files import KEPT_FILES, LARGEST_BYTES, Choice, keep, kept, read_file
from core.prompts import Reading
from core.runs import Message, Prompt
from core.settings import Settings


def texts(name: str, text: str, choice: Choice | None = None) -> list[str]:
    return [prompt.text for prompt in read_file(name, text.encode(), choice).prompts]


def refusals(found: Reading) -> list[str]:
    return [f"{refused.where} {refused.why}" for refused in found.refused]


@pytest.mark.parametrize(
    ("text", "shape", "prompts"),
    [
        ("a\n\nb\n\nc\n", "lines", ["a", "b", "c"]),
        ("a\nb\n\n \nc\n", "paragraphs", ["a\nb", "c"]),
        ("a\nb\n\nc\n---\nd\n", "separated", ["a\nb\n\nc", "d"]),
        ("a\nb\n", "lines", ["a", "b"]),
        ('{"prompt": "a"}\n', "lines", ['{"prompt": "a"}']),
    ],
)
def test_text_says_by_itself_how_its_prompts_are_separated(text: str, shape: str, prompts: list[str]) -> None:
    found = read_file("x.TXT", text.encode())
    assert found.shape == shape
    assert [prompt.text for prompt in found.prompts] == prompts


def test_the_separation_can_be_chosen() -> None:
    text = "a\nb\n\nc\n---\nd\n"
    assert texts("x.txt", text, Choice(shape="lines")) == ["a", "b", "c", "---", "d"]
    assert texts("x.txt", text, Choice(shape="paragraphs")) == ["a\nb", "c\n---\nd"]
    assert read_file("x.txt", b"a\n\n  b\nc").prompts[1].text == "  b\nc"


def test_json_lines_and_json_hold_the_same() -> None:
    entries = [
        {"prompt": "p <b>", "label": "code"},
        {"text": "t"},
        {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]},
    ]
    expected = (
        Prompt(text="p <b>", label="code"),
        Prompt(text="t"),
        Prompt(text="u", messages=(Message(role="system", content="s"), Message(role="user", content="u"))),
    )
    lines = "\n".join(map(json.dumps, entries))
    assert read_file("x.jsonl", ("\ufeff" + lines.replace("\n", "\r\n")).encode()).prompts == expected
    assert read_file("x.json", json.dumps(entries, indent=1).encode()).prompts == expected
    assert read_file("x.json", json.dumps({"version": 2, "data": entries}).encode()).prompts == expected
    assert read_file("x.json", lines.encode()).prompts == expected, "JSON Lines under the wrong name"
    assert read_file("x.json", json.dumps(entries[0]).encode()).prompts == expected[:1]


def test_nested_json_is_refused_by_entry() -> None:
    found = read_file("x.json", b'[{"prompt": {"text": "a"}}, {"prompt": "b"}, [{"prompt": "c"}], null, 7]')
    assert [prompt.text for prompt in found.prompts] == ["b"]
    assert refusals(found) == [
        'entry 1 has a "prompt" that is an object, not text',
        "entry 3 is a list, not an object with a prompt",
        "entry 4 is null, not an object with a prompt",
        "entry 5 is a number, not an object with a prompt",
    ]


def test_csv_with_quotes_a_mark_and_a_label() -> None:
    text = '\ufeffid,prompt,label\r\n1,"he said ""x"", yes",code\r\n2,"two\r\nlines",\r\n\r\n3,$y$ <b>, chat \r\n'
    found = read_file("x.csv", text.encode())
    assert found.prompts == (
        Prompt(text='he said "x", yes', label="code"),
        Prompt(text="two\nlines"),
        Prompt(text="$y$ <b>", label="chat"),
    )
    assert (found.columns, found.prompt_column, found.label_column) == (("id", "prompt", "label"), "prompt", "label")
    assert found.notes == ("The first line was read as the names of 3 columns.",)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_csv_separators_are_found(separator: str) -> None:
    rows = [["n", "text"], ["1", '"a, b; c | d"'], ["2", '"e, f"'], ["3", '"g; h"']]
    text = "\n".join(separator.join(row) for row in rows)
    assert texts("x.csv", text) == ["a, b; c | d", "e, f", "g; h"]


def test_csv_columns_can_be_chosen() -> None:
    text = "id,Title,body,kind\n1,short,a long body of text,x\n2,s,another long body,y\n"
    guessed = read_file("x.csv", text.encode())
    assert (guessed.prompt_column, guessed.label_column) == ("body", "")
    chosen = read_file("x.csv", text.encode(), Choice(prompt_column="Title", label_column="kind"))
    assert chosen.prompts == (Prompt(text="short", label="x"), Prompt(text="s", label="y"))
    assert read_file("x.csv", text.encode(), Choice(prompt_column="gone", label_column="body")).label_column == ""


def test_csv_rows_that_cannot_be_used_are_named() -> None:
    text = 'prompt,label\na,b\nc\nd,e,f\n"g" h,i\n,j\nk,l\n"m\nn,o\n'
    found = read_file("x.csv", text.encode())
    assert [prompt.text for prompt in found.prompts] == ["a", "k"]
    cells = "cells where the first line has 2; text with separators in it needs quotes"
    assert refusals(found) == [
        f"line 3 has 1 {cells}",
        f"line 4 has 3 {cells}",
        "line 5 is no row (',' expected after '\"')",
        "line 6 is empty",
        "line 8 begins a quote that never ends; it and all after it were left out",
    ]


def test_a_single_column_and_a_very_long_cell() -> None:
    assert texts("x.csv", "prompt\na\nb") == ["a", "b"]
    assert [len(text) for text in texts("x.csv", f"prompt,label\n{'x' * 900_000},l\n")] == [900_000]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.pdf", b"%PDF", "'x.pdf' is not a kind of file that is read here"),
        ("x.txt", b"", "'x.txt' is empty"),
        ("x.csv", b"\n \n", "'x.csv' is empty"),
        ("x.txt", b"one\ntwo\ncaf\xe9\n", "byte 12, in line 3, is 0xE9"),
        ("x.csv", "é".encode("utf-16"), "UTF-16"),
        ("x.json", b'{"prompt": "a"', "not valid JSON"),
        ("x.json", b"[" * 100_000, "not valid JSON"),
        ("x.json", b'{"a": [1], "b": [2]}', "one object with 2 lists"),
        ("x.json", b'{"a": 1}', "one object with 0 lists"),
        ("x.json", b"3", "neither a list nor an object"),
        ("x.csv", b"a,a\n1,2\n", "two columns of the same name in its first line: a, a"),
        ("x.csv", b'"a" b,c\n1,2\n', "no readable names of columns: its line 1 is no row"),
        ("x.csv", b'"', "no readable names of columns: its line 1 begins a quote"),
        ("x.txt", b"a" * (LARGEST_BYTES + 1), "has 50 MB. Upload at most 50 MB"),
    ],
)
def test_files_that_cannot_be_used_get_a_sentence(name: str, content: bytes, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_file(name, content)
    assert words in str(caught.value)


def test_files_are_kept_by_content_and_the_oldest_go(settings: Settings) -> None:
    first = keep(b"first", settings)
    assert kept(first, settings) == b"first"
    assert keep(b"first", settings) == first
    for number in range(KEPT_FILES):
        keep(b"%d" % number, settings)
        time.sleep(0.002)
    with pytest.raises(InvalidInput, match="no longer kept"):
        kept(first, settings)
    assert len(list((settings.data / "uploads").iterdir())) == KEPT_FILES
    with pytest.raises(InvalidInput, match="has 50 MB"):
        keep(b"a" * (LARGEST_BYTES + 1), settings)


@pytest.mark.parametrize("key", ["../../etc/passwd", "", "a" * 63, "A" * 64])
def test_only_keys_are_looked_up(settings: Settings, key: str) -> None:
    with pytest.raises(InvalidInput, match="is not the key of a file"):
        kept(key, settings)


def test_a_large_file_is_read_by_a_job(settings: Settings, tmp_path: Path) -> None:
    key = keep(b"".join(b'{"prompt": "prompt %d of many"}\n' % number for number in range(100_000)) + b"{\n", settings)
    with contextlib.closing(Planner(settings, light=1)) as planner:
        asked = {"file": key, "name": "x.jsonl", "choice": Choice().model_dump(mode="json")}
        until_s = time.monotonic() + 60
        while isinstance(answer := planner.ask("import_prompts", asked), Waiting):
            assert time.monotonic() < until_s
            time.sleep(0.05)
        assert isinstance(answer, Ready)
        found = Reading.model_validate(answer.data)
        assert (found.found, len(found.prompts), found.refused_count) == (100_000, 500, 1)
        assert found.refused[0].where == "line 100,001"
        while isinstance(answer := planner.ask("import_prompts", asked | {"file": "0" * 64}), Waiting):
            time.sleep(0.05)
        assert answer == Failed("The uploaded file is no longer kept here. Upload it again.")
