"""One server and one browser for the whole session, with a store that holds runs of every state.

Without Debian's chromium these tests are skipped, except in CI, where that is a failure.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, sync_playwright

from core.settings import Settings
from core.store import open_store
from tests import synthetic
from tests.browser.server import CHROMIUM, launch, serve


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
    with serve(folder) as url:
        yield Site(url, good, bad)


@pytest.fixture(scope="session")
def browser(site: Site) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = launch(playwright)
        yield opened
        opened.close()
