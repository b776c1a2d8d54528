"""Signing in as people do, in Chromium, with an identity provider that checks everything: who gets in, who does not, and what is left afterwards.

The server only shows runs, so that no worker is started; what people could do to each other's is in `tests/test_neighbours.py`.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from core.ui.frame import PAGES
from tests import synthetic
from tests.browser.conftest import Site
from tests.browser.server import visit
from tests.login_site import ANN, BOB, EVE, LoginSite, login_site


@pytest.fixture(scope="module")
def guarded(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginSite]:
    """A private installation with one run, which is Ann's."""
    folder = tmp_path_factory.mktemp("login")
    with login_site(folder, DRAFTGAUGE_READ_ONLY="true") as found:
        found.keep(synthetic.run("anns", prompts=8, tokens=32), ANN)
        yield found


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser that nobody has used; the page's own errors fail the test, and so does a part of the login page that is refused."""
    opened = browser.new_context(viewport={"width": 1440, "height": 1000})
    errors: list[str] = []
    opened.on("weberror", lambda error: errors.append(str(error.error)))
    opened.on("response", lambda answer: errors.append(answer.url) if answer.status == 403 else None)
    yield opened
    opened.close()
    assert errors == []


def title(page: Page, words: str) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text(words)


def sign_in(page: Page, guarded: LoginSite, email: str, address: str = "") -> None:
    """From the page's button over the provider's form and back."""
    visit(page, f"{guarded.url}/{address}")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_label("E-mail").fill(email)
    page.get_by_role("button", name="Continue").click()
    page.wait_for_url(f"{guarded.url}/**")


def test_every_page_is_the_login_until_somebody_signs_in_and_again_after_they_sign_out(context: BrowserContext, guarded: LoginSite):
    page = context.new_page()
    for name in PAGES:
        visit(page, f"{guarded.url}/{'' if name == 'start' else name}")
        title(page, "Sign in to Draftgauge")
        expect(page.get_by_test_id("stMain").get_by_role("button")).to_have_text(["loginSign in"])
    sign_in(page, guarded, ANN, "runs")
    expect(page.get_by_text(f"Signed in as {ANN}")).to_be_visible()
    visit(page, f"{guarded.url}/runs")
    title(page, "Runs")
    page.get_by_role("button", name="Sign out").click()
    title(page, "Sign in to Draftgauge")
    assert guarded.provider.ended[-1].count(".") == 2, "the provider has ended its session too, by the token of this login"
    assert not any(cookie.get("name", "").startswith("_streamlit_user") for cookie in context.cookies())
    page.go_back()
    title(page, "Sign in to Draftgauge")


def test_who_is_not_on_the_list_gets_a_sentence_and_nothing_else(context: BrowserContext, guarded: LoginSite):
    page = context.new_page()
    sign_in(page, guarded, EVE)
    title(page, "This account may not come in")
    expect(page.get_by_text(f"{EVE} is signed in, but not on the list of people who may use this installation.")).to_be_visible()
    expect(page.get_by_test_id("stMain").get_by_role("button")).to_have_text(["logoutSign out"])


def test_two_people_are_told_apart(browser: Browser, context: BrowserContext, guarded: LoginSite):
    mine, other = context.new_page(), browser.new_context().new_page()
    sign_in(mine, guarded, ANN)
    sign_in(other, guarded, BOB)
    visit(mine, f"{guarded.url}/runs")
    title(mine, "Runs")
    visit(other, f"{guarded.url}/runs")
    title(other, "No runs yet")
    visit(mine, f"{guarded.url}/measure?run=anns")
    expect(mine.get_by_role("heading", name="Share and export")).to_be_visible()
    visit(other, mine.url)
    title(other, "There is no such run here")
    other.context.close()
