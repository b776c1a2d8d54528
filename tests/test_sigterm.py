"""What an operator's SIGTERM does to `streamlit run app.py` in the middle of a measurement, with a tab open and a browser that stands still,
and what its logs say of it.
"""

import contextlib
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import streamlit
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from core.runs import RunSpec
from core.settings import Settings
from core.store import open_store
from tests.benches import alive, until, worker_pid
from tests.browser.server import free_port, start
from tests.models import TEXTS, spec_of, write_pair
from tests.test_logs import LINE

WITHIN_S = 12.0
"""A browser that stands still has 3 seconds, a worker 2; the rest is for a machine that runs other tests."""


def long_run(folder: Path) -> RunSpec:
    folder.mkdir()
    spec = spec_of(write_pair(folder), prompts=len(TEXTS))
    return spec.model_copy(update={"prompts": spec.prompts * 100, "max_new_tokens": 128})


@contextlib.contextmanager
def standing_still(port: int) -> Iterator[None]:
    """A browser that asks for the largest script, and does not read it."""
    scripts = (Path(streamlit.__file__).parent / "static" / "static" / "js").iterdir()
    largest = max(scripts, key=lambda file: file.stat().st_size).name
    with socket.socket() as browser:
        browser.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        browser.connect(("127.0.0.1", port))
        browser.sendall(f"GET /static/js/{largest} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        yield


def test_sigterm_keeps_what_was_measured_and_leaves_nobody_behind(tmp_path: Path) -> None:
    settings, port, printed = Settings(data=tmp_path), free_port(), tmp_path / "printed.log"
    with contextlib.closing(open_store(settings)) as store:
        spec = long_run(tmp_path / "models")
        busy, waiting = store.add(spec), store.add(spec)
        roots = f'["{tmp_path / "models"}"]'
        server = start(tmp_path, port, printed, DRAFTGAUGE_MODEL_ROOTS=roots, STREAMLIT_LOGGER_HIDE_WELCOME_MESSAGE="true")

        try:
            until(lambda: store.get(busy).generations != (), within_s=60)
            measured, pid = store.get(busy).generations, worker_pid(settings, busy)
            tab = connect(f"ws://localhost:{port}/_stcore/stream", subprotocols=[Subprotocol("streamlit")])
            with tab, standing_still(port):
                server.send_signal(signal.SIGTERM)
                server.wait(WITHIN_S)
        finally:
            server.kill()
            server.wait()
        assert server.returncode == -signal.SIGTERM, "systemd and containers take that for a clean end"
        assert not alive(pid)
        run = store.get(busy)
        assert (run.status, store.status(waiting)) == ("interrupted", "queued")
        assert run.generations[: len(measured)] == measured
        assert "The app was stopped while this run was measured." in run.error
    said = {name: (tmp_path / name).read_text(encoding="utf-8") for name in ("printed.log", "worker-cpu.log")}
    for text in said.values():
        assert [line for line in text.splitlines() if not LINE.fullmatch(line)] == []
        assert not any(part in text for prompt in TEXTS for part in prompt.splitlines())
    assert "timeout graceful shutdown exceeded" in said["printed.log"], "the browser did stand still"
    assert f"INFO draftgauge.station: run {busy} on cpu begins" in said["printed.log"]
    assert f"INFO draftgauge.station: run {busy} on cpu ended: the server stops" in said["printed.log"]
    assert f"INFO draftgauge.worker: run {busy} begun" in said["worker-cpu.log"]
    assert said["printed.log"].splitlines()[-1].split(": ", 1)[1].startswith("Finished server process")
