"""A token is in no page, store, log, export or error, and a prompt in no log, whatever a library or a server repeats."""

import base64
import contextlib
import io
import logging
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from huggingface_hub import constants
from hypothesis import given
from hypothesis import strategies as st

from core.bench import Bench
from core.child import HUB_OFFLINE_ASKED, Entry
from core.errors import DraftgaugeError
from core.export_json import to_json
from core.log import LONGEST_LINE, OneLine, Printed, private
from core.redact import redacted
from core.runs import Prompt, RunSpec
from core.settings import Settings
from core.store import Store
from core.worker.download import fetch
from tests.benches import ended
from tests.weights_server import Repository, serve

TOKEN = "hf_planted_0123456789"
PASSWORD = "proxy-p%40ss"
PROMPT = "Our customer Ann Example\nowes us 1,234 euros and 56 cents"


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:{PASSWORD}@localhost:1")


def holds(folder: Path, secret: str) -> list[str]:
    """The files below a folder that hold it."""
    return [file.name for file in folder.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()]


def test_secrets_of_the_environment_are_named_instead(planted: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "key-of-mine")
    monkeypatch.setenv("SHORT_TOKEN", "abc")
    said = redacted(f"Bearer {TOKEN}, http://me:{PASSWORD}@localhost:1, proxy-p@ss, key-of-mine, abc")
    assert said == "Bearer [HF_TOKEN], http://me:[HTTPS_PROXY]@localhost:1, [HTTPS_PROXY], [MY_API_KEY], abc"


@pytest.mark.parametrize("name", ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "SMTP_PASS", "SIGNING_KEY", "GOOGLE_CREDENTIALS"])
def test_what_a_secret_is_called(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "s3cret/of+ours")
    said = redacted("https://hub.example.com/a?token=s3cret%2Fof%2Bours gave 401 for s3cret/of+ours")
    assert said == f"https://hub.example.com/a?token=[{name}] gave 401 for [{name}]"


def test_a_password_of_an_address_is_found_in_the_header_that_becomes_of_it(planted: None) -> None:
    header = base64.b64encode(b"me:proxy-p@ss").decode()
    assert redacted(f"Proxy-Authorization: Basic {header}") == "Proxy-Authorization: Basic [HTTPS_PROXY]"
    assert redacted("http://x?p=proxy-p%40ss") == "http://x?p=[HTTPS_PROXY]"


def test_names_of_folders_and_switches_are_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PWD", "OLDPWD", "HF_TOKEN_PATH", "TOKENIZERS_PARALLELISM", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, "/home/somebody/here")
    assert redacted("/home/somebody/here") == "/home/somebody/here"


def test_what_is_printed_is_written_line_by_line_without_secrets(planted: None) -> None:
    to = io.StringIO()
    printed = Printed(to)
    print("one", TOKEN[:9], sep=" ", end="", file=printed)
    assert to.getvalue() == ""
    print(TOKEN[9:], "\ntwo", file=printed)
    assert to.getvalue() == "one [HF_TOKEN] \ntwo\n"
    print("x" * LONGEST_LINE, TOKEN[:9], end="", file=printed)
    assert to.getvalue().endswith("x\n")
    print(TOKEN[9:], end="", file=printed)
    printed.close()
    assert to.getvalue().endswith(" [HF_TOKEN]\n")
    assert to.getvalue().count("x") == LONGEST_LINE


@given(
    before=st.text(max_size=20), after=st.text(max_size=20), secret=st.text(st.characters(codec="ascii", min_codepoint=33), min_size=6, max_size=40)
)
def test_no_text_around_it_saves_a_secret(before: str, after: str, secret: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_TOKEN", secret)
        assert secret not in redacted(f"{before}{secret}{after}").replace("[HF_TOKEN]", "")


def test_a_log_line_is_one_line_and_no_second_one_can_be_forged() -> None:
    line = OneLine("%(levelname)s %(message)s")
    record = logging.LogRecord("x", logging.INFO, "x", 1, "first\n2026-01-01 INFO forged\r\nthird", (), None)
    assert line.format(record) == "INFO first\\n2026-01-01 INFO forged\\r\\nthird"
    with private([PROMPT, "a"]):
        hidden = line.format(logging.LogRecord("x", logging.INFO, "x", 1, f"a: {PROMPT!r} and {PROMPT.splitlines()[1]}", (), None))
    assert hidden == "INFO a: '[text of the run]' and [text of the run]"
    assert "Ann" in line.format(logging.LogRecord("x", logging.INFO, "x", 1, PROMPT, (), None))


def test_a_worker_tells_neither_token_nor_prompt(planted: None, settings: Settings, store: Store, spec: RunSpec) -> None:
    asked = spec.model_copy(update={"prompts": (Prompt(text=PROMPT),)})
    with contextlib.closing(Bench(settings, store, entry=Entry("tests.telling_jobs:tells", "tests.jobs:devices"))) as bench:
        run = ended(store, bench.submit(asked))
    assert run.status == "failed"
    assert run.error.startswith("The measurement stopped unexpectedly (RuntimeError: Illegal header value b'Bearer [HF_TOKEN]'")
    log = (settings.data / "worker-cpu.log").read_text()
    assert re.search(r"WARNING some\.library: Illegal header value b'Bearer \[HF_TOKEN\]'.*\[HTTPS_PROXY\].*\[text of the run\]", log)
    assert re.search(rf"ERROR draftgauge\.worker: run {run.id} failed.*Traceback", log)
    assert re.search(rf"INFO draftgauge\.worker: run {run.id} failed$", log, re.MULTILINE)
    assert "a library prints Illegal header value b'Bearer [HF_TOKEN]'" in log
    assert re.search(r"WARNING py\.warnings: .*Illegal header value b'Bearer \[HF_TOKEN\]'", log)
    assert re.search(r"ERROR draftgauge: the thread Thread-\d+ \(_fails\) failed.*\[text of the run\]", log)
    assert "Ann Example" not in log
    assert "1,234 euros" not in log
    for secret in (TOKEN, PASSWORD):
        assert holds(settings.data, secret) == []
        assert secret.encode() not in to_json(run, texts=True)


@pytest.mark.parametrize("status", [200, 302, 401, 403, 404, 429, 500])
def test_a_download_tells_no_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: int, capfd: pytest.CaptureFixture[str]) -> None:
    """The server repeats the token in its headers, and the address of the Hub holds a password."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv(HUB_OFFLINE_ASKED, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with serve() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url.replace("http://", f"http://me:{PASSWORD}@"))
        headers = {"X-Error-Message": f"bad {TOKEN}", "X-Request-Id": TOKEN}
        if status == 302:
            headers["Location"] = f"http://me:{TOKEN}@localhost:1/config.json?token={TOKEN}"
        hub.repositories["a/b"] = Repository({"config.json": b"{}"}, status=status, headers=headers)
        with pytest.raises(DraftgaugeError) as refused:
            fetch([hub.ref("a/b", "main")], lambda stage, done, total: None)
    printed = capfd.readouterr()
    for secret in (TOKEN, PASSWORD):
        assert secret not in str(refused.value)
        assert secret not in printed.out + printed.err
        assert holds(tmp_path, secret) == []


def test_the_token_of_a_file_is_not_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever runs the server may be logged in to the Hub; that is not the server's business."""
    (tmp_path / "token").write_text(TOKEN)
    code = "from huggingface_hub import get_token; from core.hub_client import token; print(get_token(), token())"
    environment = {"HF_TOKEN_PATH": str(tmp_path / "token"), "PATH": "/usr/bin"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [TOKEN, "None"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's list of processes")
def test_no_command_line_holds_the_addresses_of_people(settings: Settings, store: Store) -> None:
    known = settings.model_copy(update={"users": ["ann@example.com"]})
    with contextlib.closing(Bench(known, store, entry=Entry("tests.jobs:by_seed", "tests.jobs:devices"))):
        until_s = time.monotonic() + 30
        while not (lines := _commands(str(known.data))):
            assert time.monotonic() < until_s, "no worker was started"
            time.sleep(0.05)
    assert all("core.worker" in line and "ann@example.com" not in line for line in lines)


def _commands(word: str) -> list[str]:
    """The command lines of this machine's processes that hold a word."""
    found: list[str] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found.append(file.read_text(errors="replace"))
    return [line for line in found if word in line]
