"""One server and one browser for the whole session, with a store that holds runs of every state.

Without Debian's chromium these tests are skipped, except in CI, where that is a failure.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, Request, expect, sync_playwright

from core.settings import Settings
from core.store import open_store
from tests import synthetic
from tests.browser.server import CHROMIUM, PATIENCE_MS, launch, serve

expect.set_options(timeout=PATIENCE_MS)


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
    with serve(folder, DRAFTGAUGE_TEST_ONLY_SHOWS="1") as url:
        yield Site(url, good, bad)


@pytest.fixture(scope="session")
def browser(site: Site) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = launch(playwright)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh tab; the page's own errors, what its content policy has refused, and requests to other hosts fail the test."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    tab = context.new_page()
    errors: list[str] = []
    strangers: list[str] = []

    def asked(request: Request) -> None:
        if not re.match(r"(https?|wss?)://localhost[:/]|data:|blob:", request.url):
            strangers.append(request.url)

    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on("console", lambda message: errors.append(message.text) if "Content Security Policy" in message.text else None)
    tab.on("request", asked)
    yield tab
    context.close()
    assert errors == []
    assert strangers == [], "the page called another host"
