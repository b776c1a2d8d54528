"""The web process stays small and private: no torch, no 250 MB, no telemetry; no other machine, and no other site's page, can reach it."""

import os
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

from tests.browser.server import CALLED, serve

ROOT = Path(__file__).resolve().parents[1]
MOST_MB = 250
SCRIPT = """
import re, sys
from pathlib import Path
from core.ui import desk
desk.PREWARM = ()  # this process is looked at, not the worker it would start
from streamlit.testing.v1 import AppTest
for query in ("", *sys.argv[2:]):
    page = AppTest.from_file(sys.argv[1], default_timeout=60)
    for name, value in (pair.split("=") for pair in query.split()):
        page.query_params[name] = value
    page.run()
    assert not page.exception, page.exception
heavy = sorted({"torch", "transformers", "tokenizers"} & set(sys.modules))
assert not heavy, heavy
peak_kb = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]  # getrusage would inherit the parent's peak
print(int(peak_kb) // 1024)
"""


@dataclass(frozen=True)
class Site:
    """A server as the README starts it, and where the fence writes whom it has called."""

    port: int
    called: Path

    def open_websocket(self, origin: str, host: str = "localhost") -> None:
        """As a page at this origin would, by a name that leads here; raises InvalidStatus where it is refused."""
        address, asked = f"ws://{host}:{self.port}/_stcore/stream", [Subprotocol("streamlit")]
        with connect(address, origin=Origin(origin), subprotocols=asked, sock=socket.create_connection(("localhost", self.port))):
            pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    with serve(folder, DRAFTGAUGE_TEST_ONLY_SHOWS="1") as url:
        yield Site(int(url.rsplit(":", 1)[1]), folder / CALLED)


@pytest.mark.parametrize(
    "page",
    [
        "app.py",
        "pages/start.py",
        "pages/pair.py target=demo:target",
        "pages/measure.py run=example",
        "pages/gamma.py run=example",
        "pages/memory_cost.py run=example",
    ],
)
def test_page_runs_without_torch_and_in_little_memory(page: str, tmp_path: Path):
    """Without anything in its address first, then with what stands behind it."""
    environment = os.environ | {"DRAFTGAUGE_DATA": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *page.split()], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) < MOST_MB


def test_telemetry_is_off_and_the_address_is_local():
    config = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert config["browser"]["gatherUsageStats"] is False
    assert config["server"]["address"] == "localhost"
    assert config["server"]["showEmailPrompt"] is False


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's table of sockets")
def test_the_running_server_listens_on_the_loopback_only(site: Site):
    listening = addresses_of(site.port)
    assert listening
    assert listening <= {"0100007F", "00000000000000000000000001000000"}, "127.0.0.1 and ::1, as Linux writes them"


@pytest.mark.parametrize("origin", ["https://elsewhere.example", "http://localhost:1", "http://8.8.8.8", "null", "http://[", "http://"])
def test_another_sites_page_opens_no_session_and_makes_the_server_call_nobody(site: Site, origin: str):
    """Streamlit by itself would ask a service in the Internet for this machine's address, and let in every port of this machine."""
    with pytest.raises(InvalidStatus, match="403"):
        site.open_websocket(origin)
    assert not site.called.exists()
    site.open_websocket(f"http://localhost:{site.port}")


def test_streamlits_switch_for_proxies_that_change_names_is_obeyed(tmp_path: Path):
    with serve(tmp_path, STREAMLIT_SERVER_ENABLE_CORS="false", STREAMLIT_SERVER_ENABLE_XSRF_PROTECTION="false") as url:
        Site(int(url.rsplit(":", 1)[1]), tmp_path / CALLED).open_websocket("https://elsewhere.example")
    assert not (tmp_path / CALLED).exists()


def test_another_name_that_leads_here_opens_no_session(site: Site):
    """Whoever owns a name can point it at this machine, once the page is there, so that its origin is the server's own."""
    for name in ("elsewhere.example", "localhost.elsewhere.example", "127.0.0.1.elsewhere.example"):
        with pytest.raises(InvalidStatus, match="403"):
            site.open_websocket(f"http://{name}:{site.port}", name)
    for name in ("localhost", "127.0.0.1", "[::1]"):
        site.open_websocket(f"http://{name}:{site.port}", name)


def addresses_of(port: int) -> set[str]:
    """The local addresses on which somebody listens at `port`; the columns are those of proc(5)."""
    found: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text(encoding="utf-8").splitlines()[1:]:
            address, number = line.split()[1].split(":")
            if int(number, 16) == port and line.split()[3] == "0A":
                found.add(address)
    return found
