"""Logs: one line for each event, whoever writes it and whatever its text, with run ids, and without the texts of prompts."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (INFO|WARNING|ERROR) [\w.]+: \S.*")
"""What every line of a log looks like."""
PROMPT = "Our customer Ann Example\nowes us 1,234 euros"
UNDER_WAY = """
import logging, sys, threading, warnings

log = logging.getLogger("a.library")
log.propagate = False
log.addHandler(logging.StreamHandler())
silent = logging.getLogger("silent.library")
silent.propagate = False

from core.log import set_up

set_up(words=False)

def deeper(text):
    try:
        {}[text]
    except KeyError as error:
        raise ValueError(f"cannot use {text}") from error

log.warning("two\\nlines")
try:
    deeper(sys.argv[1])
except ValueError:
    silent.exception("it failed")
warnings.warn("a warning\\nof two lines")
thread = threading.Thread(target=deeper, args=sys.argv[1:], name="helper")
thread.start()
thread.join()
"""
PAGE = """
import sys

import streamlit as st
from streamlit.testing.v1 import AppTest

from core.log import set_up

st.get_option("server.port")  # a server reads its configuration first
set_up(words=False)
AppTest.from_string(f"raise ValueError({sys.argv[1]!r})").run()
"""


def lines(code: str) -> list[str]:
    """What a program prints that handles PROMPT, by lines."""
    command = [sys.executable, "-c", code, PROMPT]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=True)
    return [*done.stdout.splitlines(), *done.stderr.splitlines()]


def test_libraries_warnings_and_threads_write_lines_of_the_same_form() -> None:
    found = lines(UNDER_WAY)
    assert [line for line in found if not LINE.fullmatch(line)] == []
    library, error, warning, thread = (line.split(" ", 2)[2] for line in found)
    assert library == "WARNING a.library: two\\nlines"
    assert warning.startswith("WARNING py.warnings: ")
    assert r"a warning\nof two lines" in warning
    assert re.fullmatch(
        r"ERROR silent\.library: it failed\\nKeyError \(<string>:\d+ deeper\); then ValueError \(<string>:\d+ <module>, .* deeper\)", error
    )
    assert thread.startswith("ERROR draftgauge: the thread helper failed\\nKeyError (")
    assert not any("Ann" in line or "1,234" in line for line in found)


def test_a_page_that_fails_is_one_line_without_the_words_of_its_error() -> None:
    """Streamlit logs it by itself, and would draw it in colours over many lines where rich is installed."""
    [line] = [line for line in lines(PAGE) if "ScriptRunContext" not in line]
    assert LINE.fullmatch(line)
    assert re.search(r"ERROR streamlit\.error_util: Uncaught app execution\\nValueError \(.*:1 <module>\)", line)
