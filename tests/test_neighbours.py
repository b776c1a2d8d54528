"""What somebody can do to others on the same server who speaks its protocol without a browser: nothing, whatever they press, guess or forge.

The server is behind a login, private. Nothing is measured: the device is held, so that Ann's first run waits for it.
"""

import contextlib
import http.client
import json
import sqlite3
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from http.cookiejar import CookieJar
from pathlib import Path

import pytest
import streamlit
from filelock import FileLock
from joserfc.jwk import RSAKey
from starlette.types import Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

from core.store import FILE_NAME
from core.ui.frame import PAGES
from core.ui.gate import Gate
from tests import synthetic
from tests.login_site import ANN, BOB, COOKIE_SECRET, EVE, MAX, LoginSite, login_site
from tests.sessions import COOKIE, Session, new_cookie, play

SECRET = "the launch codes of Ann"
PATHS = ["" if name == "start" else name for name in PAGES]
LOGIN, NOT_LISTED = "Sign in to Draftgauge", "This account may not come in"


@dataclass(frozen=True)
class House:
    """A private installation: Ann has a run that ended and two that wait, and has pasted prompts; Bob and others are about."""

    site: LoginSite
    folder: Path
    ann: str
    bob: str
    waiting: str
    ended: str
    pasted: str

    def rows(self) -> list[tuple[object, ...]]:
        """Everything of Ann's in the store; whether her first run waits or waits for the device is not told apart."""
        ann = self.of(self.ended, "person")
        alive = "case when status in ('queued', 'running') then 'alive' else status end"
        with contextlib.closing(sqlite3.connect(self.folder / FILE_NAME)) as store:
            asked = f"select id, {alive}, deleted_s, tags, note, edition, summary from runs where person = ? order by number"
            drafts = "select id, text from prompt_drafts where id like ? order by id"
            return [*store.execute(asked, (ann,)).fetchall(), *store.execute(drafts, (f"{ann}-%",)).fetchall()]

    def of(self, run_id: str, column: str) -> str:
        with contextlib.closing(sqlite3.connect(self.folder / FILE_NAME)) as store:
            return str(store.execute(f"select {column} from runs where id = ?", (run_id,)).fetchone()[0])


async def _move_in(site: LoginSite, folder: Path) -> House:
    ann, bob = await site.sign_in(ANN), await site.sign_in(BOB)
    run = synthetic.run(prompts=8, tokens=32)
    prompts = tuple(prompt.model_copy(update={"text": f"{SECRET} {at}"}) for at, prompt in enumerate(run.spec.prompts))
    ended = "annsrun"
    site.keep(run.model_copy(update={"id": ended, "spec": run.spec.model_copy(update={"prompts": prompts})}), ANN)
    async with Session.open(site.url, "measure", login=ann) as session:
        await session.set("button_group", "Prompts", ["Your prompts"])
        await session.set("text_area", "Prompts", f"{SECRET} 1\n{SECRET} 2")
        pasted = session.query.partition("pasted=")[2].partition("&")[0]
    for tokens in (400, 401):
        async with Session.open(site.url, "measure", f"tokens={tokens}", login=ann) as session:
            await session.click("Measure")
            waiting = session.query.removeprefix("run=")
    return House(site, folder, ann, bob, waiting, ended, pasted)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("house")
    (folder / "draftgauge").mkdir()
    with FileLock(folder / "draftgauge" / "cpu.lock"), login_site(folder, HF_HUB_OFFLINE="1") as site:
        yield play(_move_in(site, folder))


def heard(session: Session) -> str:
    """Everything that the session was ever sent, to look for what must not be in it."""
    return b"".join(session.heard).decode(errors="replace")


async def look(house: House, login: str, page: str, query: str = "") -> str:
    """Everything that somebody is sent who opens an address."""
    async with Session.open(house.site.url, page, query, login=login, keep=True) as session:
        assert session.errors == []
        return heard(session)


async def press(session: Session, widget: str) -> None:
    """Press a button by its id alone, whether or not this page has one."""
    await session._run(WidgetState(id=widget, trigger_value=True))


async def press_everything(url: str, path: str, login: str) -> list[str]:
    """Press every button of a page, the disabled ones too, each in a tab of its own; their labels."""
    page, _, query = path.partition("?")
    async with Session.open(url, page, query, login=login) as session:
        labels = [label for label in dict.fromkeys(button.label for button in session.elements("button")) if label != "Sign out"]
    for label in labels:
        async with Session.open(url, page, query, login=login) as session:
            await press(session, session.find("button", label).id)
            assert session.errors == []
    return labels


def status(address: str, method: str = "GET", data: bytes | None = None, **headers: str) -> int:
    """The status of an answer."""
    request = urllib.request.Request(address, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def put(tab: Session, session_id: str, token: str | None = None) -> int:
    """Put a file into a tab, its own or another's; the status of the answer."""
    body = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x.txt"\r\n\r\nx\r\n--b--\r\n'
    headers = {"Cookie": f"{COOKIE}={tab.cookie}; {tab.login}", "Content-Type": "multipart/form-data; boundary=b"}
    headers["X-Xsrftoken"] = tab.cookie if token is None else token
    return status(f"{tab.url}/_stcore/upload_file/{session_id}/{uuid.uuid4()}", "PUT", body, **headers)


async def made(tab: Session, label: str) -> str:
    """The address of a download that the server makes now."""
    button = tab.find("download_button", label)
    wanted = BackMsg()
    wanted.backend_operation_request.request_id = request = uuid.uuid4().hex
    wanted.backend_operation_request.session_id = tab._session_id
    wanted.backend_operation_request.deferred_file.file_id = button.deferred_file_id
    return (await tab._ask(wanted, request)).backend_operation_response.deferred_file.url


def test_nobody_opens_another_s_run_whatever_the_address(house: House) -> None:
    share = house.of(house.ended, "share_id")

    async def bob() -> None:
        for page, query in (
            ("measure", f"run={house.ended}"),
            ("measure", f"run={house.waiting}&more=prompts"),
            ("gamma", f"run={house.ended}"),
            ("memory_cost", f"run={house.ended}"),
            ("side_by_side", f"run={house.ended}"),
            ("side_by_side", f"from={house.ended}"),
            ("runs", f"compare={house.ended},example"),
        ):
            seen = await look(house, house.bob, page, query)
            assert SECRET not in seen, (page, query)
            assert share not in seen, (page, query)
        assert "There is no such run here" in await look(house, house.bob, "measure", f"run={house.waiting}")
        shown = await look(house, house.bob, "measure", f"run={share}&more=prompts")
        assert "Add to the 8 prompts" in shown or "Share and export" in shown
        assert SECRET not in shown
        assert "Share and export" in await look(house, house.ann, "measure", f"run={house.ended}"), "Ann herself sees it"

    play(bob())


@pytest.mark.parametrize("name", ["{pasted}", "user-{account}-{pasted}", "-{pasted}", "%", "../{pasted}"])
def test_nobody_reads_what_another_has_pasted(house: House, name: str) -> None:
    account = house.of(house.ended, "person").removeprefix("user-")
    address = name.format(pasted=house.pasted, account=account)

    async def both() -> None:
        assert SECRET not in await look(house, house.bob, "measure", f"pasted={address}")
        assert SECRET not in await look(house, house.bob, "side_by_side", f"text={address}")
        assert (SECRET in await look(house, house.ann, "measure", f"pasted={address}")) is (name == "{pasted}")

    play(both())


def test_whatever_somebody_presses_changes_nothing_of_others(house: House) -> None:
    """Every button of every page and of Ann's shared links, the disabled ones too; and those of Ann's own pages by their ids."""
    before = house.rows()
    links = [house.of(run_id, "share_id") for run_id in (house.waiting, house.ended)]
    pressed: list[str] = []

    async def bob() -> None:
        for path in (*PATHS, *(f"measure?run={link}" for link in links)):
            pressed.extend(await press_everything(house.site.url, path, house.bob))
        async with Session.open(house.site.url, "measure", f"run={house.waiting}", login=house.ann) as ann:
            cancel, fragments = ann.find("button", "Cancel").id, set(ann._timers)
            async with Session.open(house.site.url, "measure", f"run={links[0]}", login=house.bob, keep=True) as other:
                await press(other, cancel)
                for fragment in fragments:
                    await other._send(fragment=fragment)
                await other.go("runs")
                assert other.errors == []
                assert house.waiting not in heard(other)
            assert fragments

    play(bob())
    assert {"Cancel", "Remove and compact", "Restore all deleted", "Measure", "Run side by side"} <= set(pressed)
    assert house.rows() == before


def test_without_a_login_a_websocket_gets_nothing_either(house: House) -> None:
    """Nor with one that was signed elsewhere, is for another site, stands in the wrong cookie, or is of an account that is not listed."""
    claims = {"is_logged_in": True, "email": ANN, "email_verified": True, "sub": "1", "iss": house.site.provider.url, "origin": house.site.url}
    tokens = dict(part.split("=", 1) for part in house.ann.split("; "))["_streamlit_user_tokens"]

    def signed(secret: str, **more: str) -> str:
        return f"_streamlit_user={create_signed_value(secret, '_streamlit_user', json.dumps(claims | more)).decode()}"

    async def strangers() -> None:
        assert "Signed in as" in await look(house, signed(COOKIE_SECRET), ""), "as Streamlit itself signs it"
        for login, title, pages in (
            ("", LOGIN, PATHS),
            (signed("another secret of another server"), LOGIN, ["runs"]),
            (signed(COOKIE_SECRET, origin="https://elsewhere.example.com"), LOGIN, ["runs"]),
            (f"_streamlit_user={tokens}", LOGIN, ["runs"]),
            (await house.site.sign_in(EVE), NOT_LISTED, ["measure"]),
            (await house.site.sign_in(MAX), NOT_LISTED, ["measure"]),
        ):
            for page in pages:
                async with Session.open(house.site.url, page, f"run={house.ended}", login=login, keep=True) as session:
                    assert [heading.body for heading in session.elements("heading")] == [title]
                    assert [button.label for button in session.elements("button")] == ["Sign in" if title == LOGIN else "Sign out"]
                    assert not session._timers
                    assert "Share and export" not in heard(session)

    play(strangers())


def test_files_are_for_those_who_may_come_in(house: House) -> None:
    """Downloads by their address, which stay while others draw pages, and uploads into an open tab."""

    async def everybody() -> None:
        eve = await house.site.sign_in(EVE)
        async with Session.open(house.site.url, "measure", f"run={house.ended}", login=house.ann) as ann:
            address = await made(ann, "Whole run")
            async with Session.open(house.site.url, login=house.bob) as busy:
                for page in ("runs", "memory_cost", "runs"):
                    await busy.go(page)
            assert [status(house.site.url + address, Cookie=login) for login in (house.ann, eve, "")] == [200, 403, 403]
            for login, taken in ((house.ann, 204), (eve, 403), ("", 403)):
                async with Session.open(house.site.url, login=login) as tab:
                    assert put(tab, tab._session_id) == taken
            async with Session.open(house.site.url, login=house.bob) as bob:
                assert put(bob, str(uuid.uuid4())) == 400, "no such tab"
                assert put(bob, bob._session_id, token="") == 403
                assert put(bob, bob._session_id, token=new_cookie(house.site.url)) == 403
                assert put(bob, ann._session_id) == 204, "of no use: no page asks for a file of this name"

    play(everybody())


def test_the_login_page_has_its_fonts(house: House) -> None:
    fonts = [file.name for file in (Path(streamlit.__file__).parent / "static" / "static" / "media").iterdir()]
    assert fonts
    assert {status(f"{house.site.url}/static/media/{name}") for name in fonts[:3]} == {200}


def test_an_open_tab_is_taken_over_by_nobody(house: House) -> None:
    """A browser may come back to its tab by the tab's id; another person with that id gets a tab of their own, and Ann keeps hers."""

    async def takeover() -> None:
        async with Session.open(house.site.url, "runs", login=house.ann) as ann:
            for login in (house.bob, ""):
                cookie = new_cookie(house.site.url)
                async with connect(
                    house.site.url.replace("http", "ws") + "/_stcore/stream",
                    subprotocols=[Subprotocol("streamlit"), Subprotocol(cookie), Subprotocol(ann._session_id)],
                    origin=Origin(house.site.url),
                    additional_headers={"Cookie": f"{COOKIE}={cookie}; {login}"},
                ) as socket:
                    other = Session(house.site.url, socket, cookie, login=login, keep=False)
                    await other._run()
                    assert other._session_id != ann._session_id
                    other._listener.cancel()
            await ann.go("start" if "start" in ann.pages else "")
            assert ann.errors == []

    play(takeover())


def test_a_page_of_another_site_gets_no_websocket(house: House) -> None:
    async def foreign(origin: str, host: str = "") -> None:
        headers = {"Host": host} if host else {}
        address = house.site.url.replace("http", "ws") + "/_stcore/stream"
        async with connect(address, subprotocols=[Subprotocol("streamlit")], origin=Origin(origin), additional_headers=headers):
            pass

    async def sites() -> None:
        for origin in ("http://evil.example.com", "null", house.site.url.replace("localhost", "localhost.evil.example.com")):
            with pytest.raises(InvalidStatus) as refused:
                await foreign(origin)
            assert refused.value.response.status_code == 403

    play(sites())


def test_messages_that_no_page_needs_do_not_reach_streamlit() -> None:
    """Of anybody: it would empty everybody's caches, name files of its folder, and write into it."""
    operations = [BackMsg(), BackMsg(), BackMsg()]
    operations[0].backend_operation_request.install_skills.SetInParent()
    operations[1].backend_operation_request.dismiss_skills_nudge.SetInParent()
    operations[2].backend_operation_request.deferred_file.file_id = "x"
    needed = [BackMsg(stop_script=True), operations[2]]
    sent = [BackMsg(clear_cache=True), needed[0], BackMsg(load_git_info=True), *operations]
    arriving = iter([{"type": "websocket.receive", "bytes": data} for data in (*(each.SerializeToString() for each in sent), b"\xff\xff")])
    arrived: list[bytes] = []

    async def receive() -> Message:
        return next(arriving, {"type": "websocket.disconnect"})

    async def streamlit(scope: Scope, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] == "websocket.receive":
            arrived.append(message["bytes"])

    async def send(message: Message) -> None:
        raise AssertionError(message)

    play(Gate(streamlit)({"type": "websocket", "path": "/_stcore/stream"}, receive, send))
    assert arrived == [*(each.SerializeToString() for each in needed), b"\xff\xff"], "what is no message is Streamlit's to refuse"


@pytest.mark.parametrize(
    "path",
    [
        "/media/../secrets.toml",
        "/media/..%2f..%2fetc%2fpasswd",
        "/static/..%2f..%2f..%2fsecrets.toml",
        "/static/%2e%2e/%2e%2e/server.py",
        "/app/static/..%2fsecrets.toml",
        "/component/..%2f..%2fsecrets.toml",
        "/_stcore/bidi-components/x/..%2f..%2fsecrets.toml",
        "//secrets.toml",
        "/.streamlit/secrets.toml",
        "/_stcore/agent/interact",
    ],
)
def test_no_path_leads_out_of_what_is_served(house: House, path: str) -> None:
    """The path is sent as it stands; libraries would tidy it up."""
    connection = http.client.HTTPConnection("localhost", int(house.site.url.rpartition(":")[2]), timeout=20)
    connection.request("GET", path, headers={"Cookie": house.ann})
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    assert answer.status in (400, 403, 404, 405) or b"<title>Streamlit</title>" in said, "else the empty page, as for any address"


@pytest.mark.parametrize(
    "target", ["folder:../../etc", "folder:/etc/passwd", "gguf:../../../etc/passwd", "../../etc/passwd", "demo:../target", "file:///etc/passwd"]
)
def test_no_model_is_named_outside_the_roots(house: House, target: str) -> None:
    async def bob() -> None:
        for page in ("pair", "measure", "memory_cost", "side_by_side"):
            seen = await look(house, house.bob, page, f"target={target}&model={target}")
            assert "root:x:" not in seen

    play(bob())


def test_a_callback_of_somebody_else_s_sign_in_signs_nobody_in(house: House) -> None:
    """Without the state that this browser was given, a code is worth nothing."""
    jar = CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    asked = {"redirect_uri": house.site.provider.back_to, "state": "made-up", "nonce": "x", "code_challenge": "x", "scope": "openid"}
    asked |= {"response_type": "code", "client_id": "draftgauge", "code_challenge_method": "S256"}
    back = house.site.provider.sign_in(asked, ANN)
    with opener.open(back, timeout=20) as answer:
        assert answer.url == f"{house.site.url}/"
    assert not [cookie for cookie in jar if cookie.name.startswith("_streamlit_user") and cookie.value]


@pytest.mark.parametrize("spoils", [{}, {"nonce": "another"}, {"aud": "another client"}, {"iss": "https://elsewhere.example.com"}, {"exp": 1}])
def test_an_identity_token_that_is_not_right_signs_nobody_in(house: House, spoils: dict[str, object]) -> None:
    """Of another sign-in, for another client, of another provider, out of time, or (without `spoils`) signed by somebody else."""
    provider = house.site.provider
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider, "spoils", spoils)
        patch.setattr(provider, "signs_with", None if spoils else RSAKey.generate_key(2048))
        assert "_streamlit_user" not in play(house.site.sign_in(ANN))
    assert "_streamlit_user" in play(house.site.sign_in(ANN))
