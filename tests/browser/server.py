"""The app as a process of its own, and the browser to look at it with."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, Playwright, TimeoutError, expect

ROOT = Path(__file__).resolve().parents[2]
FENCE, CALLED = str(ROOT / "tests" / "fence"), "called.log"
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 20_000
"""How long something may take to appear: on a machine that is also running other tests."""
SETTLED = "() => !document.querySelector('[data-testid=\"stStatusWidget\"]')"
"""A function, because the pages' content policy lets the browser evaluate a text once, when it comes, and not again while it waits."""


@contextmanager
def serve(folder: Path, *, port: int = 0, **settings: str) -> Iterator[str]:
    """Run the app over the data folder until the context ends; its address. port: 0 for any. `settings` are further environment variables.

    Whatever the server, its workers and its jobs call on other machines, the Hub aside, is refused, and fails the test at the end.
    With DRAFTGAUGE_TEST_ONLY_SHOWS its worker starts without torch and would measure nothing (`tests/fence`).
    """
    port = port or free_port()
    server = start(folder, port, None, **settings)
    try:
        yield f"http://localhost:{port}"
    finally:
        server.terminate()
        server.wait(20)
        called = folder / CALLED
        assert not called.exists(), f"other machines were called: {called.read_text()}"


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(folder: Path, port: int, log: Path | None = None, **settings: str) -> subprocess.Popen[bytes]:
    """The app's process, once it answers; to be ended by who asked for it. log: where everything goes that it prints."""
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port), "--server.headless", "true"]
    fence = {"DRAFTGAUGE_TEST_FENCE": str(folder / CALLED), "PYTHONPATH": os.pathsep.join(filter(None, (FENCE, os.environ.get("PYTHONPATH"))))}
    environment = os.environ | {"DRAFTGAUGE_DATA": str(folder), "XDG_RUNTIME_DIR": str(folder)} | fence | settings
    with contextlib.ExitStack() as opened:
        file = opened.enter_context(log.open("wb")) if log else None
        server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file or subprocess.DEVNULL, stderr=file)
    try:
        _wait_for(f"http://localhost:{port}/_stcore/health")
    except RuntimeError:
        server.kill()
        raise
    return server


def launch(playwright: Playwright) -> Browser:
    """Debian's chromium, without a window."""
    return playwright.chromium.launch(executable_path=str(CHROMIUM), headless=True, args=FLAGS)


def visit(page: Page, address: str) -> None:
    """Open a page and wait until it stands still; it must not show an exception."""
    page.goto(address)
    page.wait_for_selector('[data-testid="stMain"] h1')
    page.wait_for_function(SETTLED)
    expect(page.get_by_test_id("stException")).to_have_count(0)


def choose(page: Page, box: str, option: str | re.Pattern[str]) -> None:
    """Choose from a list; a page that is being drawn anew closes an open one, so it is opened again then."""
    for patience_ms in (4_000, 8_000, 30_000):
        page.wait_for_function(SETTLED)
        page.get_by_role("combobox", name=box).click()
        with contextlib.suppress(TimeoutError):
            page.get_by_role("option", name=option).click(timeout=patience_ms)
            return
        page.keyboard.press("Escape")
    raise TimeoutError(f"{option} could not be chosen from {box}.")


def _wait_for(url: str) -> None:
    for _ in range(200):
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                if answer.read() == b"ok":
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError(f"The server at {url} did not start.")
