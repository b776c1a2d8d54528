"""The server as a browser meets it: headers on every answer, pages and the embedded replay that work under them, readiness, and the end."""

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from core.settings import Settings
from core.store import FILE_NAME, open_store
from core.ui.server import policy
from tests import side_runs, synthetic
from tests.browser.conftest import Site
from tests.browser.server import PATIENCE_MS, serve, visit


@pytest.fixture(scope="module")
def guarded(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("guarded")
    store = open_store(Settings(data=folder))
    for name, run in (("full", synthetic.run(prompts=8, tokens=32)), ("side", side_runs.run())):
        store.insert(run.model_copy(update={"id": name}))
    store.close()
    with serve(folder, DRAFTGAUGE_READ_ONLY="true") as url:
        yield url


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A tab in which everything that the content policy has refused fails the test."""
    rights = ["clipboard-read", "clipboard-write"]
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, permissions=rights, reduced_motion="reduce")
    page = context.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text) if "Content Security Policy" in message.text else None)
    page.on("pageerror", lambda error: refused.append(str(error)))
    yield page
    context.close()
    assert refused == []


@pytest.mark.parametrize("path", ["/", "/measure", "/_stcore/health", "/ready", "/static/nothing.js", "/nowhere"])
def test_every_answer_has_the_headers(guarded: str, path: str):
    try:
        with urllib.request.urlopen(guarded + path, timeout=10) as answer:
            headers = answer.headers
    except urllib.error.HTTPError as error:
        headers = error.headers
    assert headers["Content-Security-Policy"] == policy()
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"


def test_the_policy_lets_nothing_in_from_elsewhere_and_nobody_frame_the_page():
    parts = dict(part.split(" ", 1) for part in policy().split("; "))
    assert parts["default-src"] == "'self'"
    assert parts["frame-ancestors"] == "'none'"
    assert "unsafe" not in parts["script-src"]
    assert parts["script-src"].count("'sha256-") == 3
    assert not any(word in policy() for word in ("http:", "https:", "*", "unsafe-eval"))
    assert dict(part.split(" ", 1) for part in policy(["https://*.hf.space"]).split("; "))["frame-ancestors"] == "https://*.hf.space"


@pytest.mark.parametrize("address", ["/measure?run=full", "/gamma?run=full"])
def test_pages_work_under_the_policy(tab: Page, guarded: str, address: str):
    visit(tab, guarded + address)
    expect(tab.locator(".js-plotly-plot").first).to_be_visible(timeout=3 * PATIENCE_MS)


def test_the_replay_runs_under_the_policy(tab: Page, guarded: str):
    visit(tab, f"{guarded}/side_by_side?run=side")
    replay = tab.frame_locator("iframe").first
    expect(replay.locator(".lane")).to_have_count(2)
    assert tab.locator("iframe").first.bounding_box()["height"] > 400  # pyright: ignore[reportOptionalSubscript]  # it could tell its height


def test_a_script_that_were_drawn_by_mistake_would_not_run(browser: Browser, guarded: str):
    with browser.new_page() as page:
        visit(page, guarded)
        done = betray(page)
    assert done == ["script-src-elem", True]


def betray(page: Page) -> list[object]:
    """What was refused, and whether nothing was run."""
    return page.evaluate(
        """async () => {
          const script = document.createElement('script');
          script.textContent = 'window.betrayed = true';
          const heard = new Promise(found =>
            document.addEventListener('securitypolicyviolation', each => found(each.violatedDirective), {once: true}));
          document.body.append(script);
          return [await heard, window.betrayed === undefined];
        }"""
    )


def test_readiness_follows_the_store(guarded: str, tmp_path: Path):
    with urllib.request.urlopen(f"{guarded}/ready", timeout=10) as answer:
        assert answer.read() == b"ready"
    (tmp_path / FILE_NAME).write_bytes(b"no database at all" * 100)
    with serve(tmp_path) as url, pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{url}/ready", timeout=10)
    assert refused.value.code == 503
    assert refused.value.read() == b"not ready"
