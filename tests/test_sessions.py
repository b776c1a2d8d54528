"""Several people at once on one running server: whose run is whose, one run for two clicks, and nothing of one in the other's pages."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, select
from streamlit.proto.BackMsg_pb2 import BackMsg

from core import database
from core.settings import Settings
from core.store import FILE_NAME, open_store
from tests.browser.server import serve
from tests.sessions import Session, new_cookie, play

SECRET = "the launch codes of Alice"
PAGES = ("", "pair", "measure", "gamma", "memory_cost", "side_by_side", "runs")
LONG = "tokens=400"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A server where two runs of each person may wait, and its data folder."""
    folder = tmp_path_factory.mktemp("site")
    with serve(folder, DRAFTGAUGE_QUEUE_EACH="2", HF_HUB_OFFLINE="1") as url:
        yield url, folder


def persons(folder: Path) -> list[tuple[str, str]]:
    """Status and person of every run in the store, oldest first."""
    engine = create_engine(f"sqlite:///{folder / FILE_NAME}")
    with engine.connect() as connection:
        rows = connection.execute(select(database.runs.c.status, database.runs.c.person).order_by(database.runs.c.number)).all()
    engine.dispose()
    return [(status, person) for status, person in rows]


async def ask(url: str, tokens: int, cookie: str = "") -> str:
    """Press Measure in a new tab, and read what the page says then."""
    async with Session.open(url, "measure", f"tokens={tokens}", cookie=cookie) as session:
        await session.click("Measure")
        assert session.errors == []
        return session.text()


def test_people_take_turns_and_each_has_their_own_room(site: tuple[str, Path]) -> None:
    """The first run is measured, the others wait: two of one browser, then none, and another browser's."""
    url, folder = site

    async def together() -> None:
        cookie = await asyncio.to_thread(new_cookie, url)
        async with Session.open(url, "measure", LONG, cookie=cookie) as first:
            await first.press("Measure")
            await first.click("Measure")  # before the first click is answered
            await first.until("Loading both models")
            assert len(persons(folder)) == 1, "two clicks, one run"
            assert first.errors == []
        assert "next in the queue" in await ask(url, 401, cookie)
        assert "2nd in the queue" in await ask(url, 402, cookie)
        assert "2 of your runs are waiting already" in await ask(url, 403, cookie)
        assert "next in the queue" in await ask(url, 404), "before those of the browser whose run is measured"

    play(together())
    found = persons(folder)
    assert [status for status, _ in found] == ["running", "queued", "queued", "queued"]
    assert len({person for _, person in found[:3]}) == 1
    assert found[3][1].startswith("browser-")
    assert found[3][1] != found[0][1]
    store = open_store(Settings(data=folder))
    waiting = store.queued("cpu")
    assert [store.get(run_id).spec.max_new_tokens for run_id in waiting] == [404, 401, 402]
    store.close()


def test_nothing_that_one_types_or_chooses_is_in_the_others_pages(site: tuple[str, Path]) -> None:
    url, _ = site

    async def both() -> None:
        async with Session.open(url, "measure") as alice, Session.open(url, keep=True) as bob:
            await alice.set("button_group", "Prompts", ["Your prompts"])
            await alice.set("text_area", "Prompts", SECRET)
            assert "pasted=" in alice.query
            await alice.set("number_input", "Most new tokens", 77.0)
            await alice.go("side_by_side")
            await alice.set("text_area", "Prompt", SECRET)
            await alice.go("runs")
            await alice.set("text_area", "Or its text", SECRET)
            for page in PAGES:
                await bob.go(page)
            await bob.go("measure")
            assert bob.find("number_input", "Most new tokens").value == 40
            await bob.set("button_group", "Prompts", ["Your prompts"])
            assert bob.find("text_area", "Prompts").value == ""
            assert alice.errors == bob.errors == []
            assert not any(SECRET.encode() in message for message in bob.heard)

    play(both())


def test_a_browser_that_clears_the_caches_of_all_takes_nothing_from_anybody(site: tuple[str, Path]) -> None:
    """Streamlit obeys that message from everyone; the bench and its running measurement must outlive it."""
    url, folder = site
    before = persons(folder)

    async def rude() -> None:
        async with Session.open(url) as session:
            await session._socket.send(BackMsg(clear_cache=True).SerializeToString())
            await session.go("runs")
            assert f"{len(before)} runs under way" in session.text()
            assert session.errors == []

    play(rude())
    assert persons(folder) == before
