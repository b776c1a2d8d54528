"""One server and one browser for the whole session, with a store that holds runs of every state.

Without Debian's chromium these tests are skipped, except in CI, where that is a failure.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from core.settings import Settings
from core.store import open_store
from tests import synthetic

ROOT = Path(__file__).resolve().parents[2]
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


@dataclass(frozen=True)
class Site:
    """A running app: its address, and the ids of the runs in its store."""

    url: str
    good: str
    bad: str


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if not CHROMIUM.exists():
        pytest.fail(f"{CHROMIUM} is missing in CI") if os.environ.get("CI") else pytest.skip(f"{CHROMIUM} is not installed")
    folder = tmp_path_factory.mktemp("site")
    store = open_store(Settings(data=folder))
    good, bad = synthetic.keep(store, synthetic.run(c=0.10)), synthetic.keep(store, synthetic.run(c=0.60, best=1))
    store.close()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port), "--server.headless", "true"]
    environment = os.environ | {"DRAFTGAUGE_DATA": str(folder), "XDG_RUNTIME_DIR": str(folder)}
    server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    try:
        _wait_for(f"http://localhost:{port}/_stcore/health")
        yield Site(f"http://localhost:{port}", good, bad)
    finally:
        server.terminate()
        server.wait(20)


@pytest.fixture(scope="session")
def browser(site: Site) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=str(CHROMIUM), headless=True, args=FLAGS)
        yield opened
        opened.close()


def _wait_for(url: str) -> None:
    for _ in range(200):
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                if answer.read() == b"ok":
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise TimeoutError(f"The server at {url} did not start.")
