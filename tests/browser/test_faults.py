"""A measurement while tabs are closed, gone back in, clicked twice, and while its server is killed and started again: nothing is lost."""

import contextlib
import re
import signal
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from benchmarks import click_latency
from core.settings import Settings
from core.store import Store, open_store
from tests.benches import alive, until, worker_pid
from tests.browser.server import free_port, start, visit

STARTS_MS = 90_000
"""How long the first worker may take to start on a busy machine."""


@contextlib.contextmanager
def running(folder: Path, port: int, end: signal.Signals) -> Iterator[None]:
    server = start(folder, port, DRAFTGAUGE_MODEL_ROOTS=f'["{folder / "models"}"]')
    try:
        yield
    finally:
        server.send_signal(end)
        server.wait(30)


def test_a_run_outlives_its_tabs_and_is_marked_when_its_server_is_killed(browser: Browser, tmp_path: Path) -> None:
    busy, _ = click_latency.prepare(tmp_path)
    port, settings = free_port(), Settings(data=tmp_path)
    address = f"http://localhost:{port}/measure?run={busy}"
    with contextlib.closing(open_store(settings)) as store:
        with running(tmp_path, port, signal.SIGKILL):
            context = browser.new_context(viewport={"width": 1440, "height": 1000})
            tab = close_one_and_go_back_in_the_other(context.new_page(), context.new_page(), address, store, busy)
            waiting = measure_twice(context.new_page(), f"http://localhost:{port}/measure", store)
            until(lambda: store.get(busy).generations != (), within_s=60)
            measured, pid = store.get(busy).generations, worker_pid(settings, busy)
        until(lambda: not alive(pid), within_s=5)
        with running(tmp_path, port, signal.SIGTERM):
            expect(tab.get_by_text("This run was interrupted.")).to_be_visible(timeout=STARTS_MS)  # the tab finds the new server by itself
            expect(tab.get_by_text("The app was stopped while this run was measured.")).to_be_visible()
            expect(tab.get_by_role("button", name="Measure again")).to_be_visible()
            assert store.get(busy).generations[: len(measured)] == measured
            until(lambda: store.status(waiting) in ("running", "done"), within_s=60)
            context.close()


def close_one_and_go_back_in_the_other(first: Page, second: Page, address: str, store: Store, run_id: str) -> Page:
    """Two tabs watch the run. One is closed; in the other one somebody leaves, and comes back by the browser's button."""
    for tab in (first, second):
        visit(tab, address)
    expect(first.get_by_role("heading", name="Measuring")).to_be_visible(timeout=STARTS_MS)
    first.close()
    expect(second.get_by_role("heading", name="Measuring")).to_be_visible()
    second.get_by_role("link", name="Start").first.click()
    expect(second.get_by_role("heading", level=1).filter(has_text="Which draft model")).to_be_visible()
    second.go_back()
    expect(second).to_have_url(re.compile(f"/measure.*run={run_id}"))
    expect(second.get_by_role("heading", name="Measuring")).to_be_visible()
    assert store.status(run_id) == "running"
    return second


def measure_twice(page: Page, address: str, store: Store) -> str:
    """A double click on Measure; the one run that comes of it."""
    visit(page, address)
    page.get_by_role("button", name="Measure", exact=True).dblclick()
    expect(page.get_by_role("heading", name="Waiting to be measured")).to_be_visible()
    [waiting] = store.queued()
    page.close()
    return waiting
