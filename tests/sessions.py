"""A browser tab without its drawing: a session of the app over Streamlit's own websocket protocol, for tests and benchmarks with many of them.

It keeps the elements of the page, sends what was set back with every click as the browser does, asks fragments again at their interval, and
knows the cookie by which the server tells browsers apart. Not covered: what the browser itself takes to draw, and scripts in iframes.
"""

import asyncio
import contextlib
import time
import urllib.request
import uuid
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin, Subprotocol

T = TypeVar("T")

COOKIE = "_streamlit_xsrf"
PATIENCE_S = 60.0
VALUES = {
    "button": "trigger_value",
    "text_area": "string_value",
    "text_input": "string_value",
    "number_input": "double_value",
    "selectbox": "string_value",
    "checkbox": "bool_value",
    "button_group": "string_array_value",
    "dataframe": "string_value",
}
"""Which field of a widget's state holds its value, by kind of element."""


class Session:
    """One tab. `errors` collects what must not happen; `heard` every message as bytes, only where `keep` is on."""

    def __init__(self, url: str, socket: ClientConnection, cookie: str, *, login: str, keep: bool) -> None:
        self.url, self.cookie, self.login, self.page, self.query = url, cookie, login, "", ""
        self.errors: list[str] = []
        self.heard: list[bytes] = []
        self.pages: dict[str, str] = {}
        self._keep = keep
        self._whole_began = False
        self._run_id = self._session_id = ""
        self._socket = socket
        self._elements: dict[tuple[int, ...], tuple[Element, str, str]] = {}
        self._values: dict[str, WidgetState] = {}
        self._timers: dict[str, asyncio.Task[None]] = {}
        self._answers: dict[str, asyncio.Future[ForwardMsg]] = {}
        self._finished = asyncio.Event()
        self._listener = asyncio.create_task(self._listen())

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, url: str, page: str = "", query: str = "", *, cookie: str = "", login: str = "", keep: bool = False
    ) -> AsyncIterator["Session"]:
        """A tab at an address, once its first page is there. cookie: of a browser that was here before. login: its further cookies."""
        cookie = cookie or await asyncio.to_thread(new_cookie, url)
        socket = await connect(
            url.replace("http", "ws", 1) + "/_stcore/stream",
            subprotocols=[Subprotocol("streamlit"), Subprotocol(cookie)],
            origin=Origin(url),
            additional_headers={"Cookie": f"{COOKIE}={cookie}; {login}"},
            max_size=None,
            ping_interval=None,
        )
        session = cls(url, socket, cookie, login=login, keep=keep)
        try:
            session.query = query
            await session._run(page_name=page)
            yield session
        finally:
            await session._close()

    # What a person does; each returns the seconds until the page stands still again.

    async def go(self, page: str, query: str = "") -> float:
        """Follow a link to a page of the navigation, by its path; "" is the start page."""
        self._values.clear()
        self.page, self.query = self.pages[page], query
        return await self._run()

    async def click(self, label: str) -> float:
        """Press a button."""
        return await self._run(self._state("button", label, True))

    async def press(self, label: str) -> None:
        """Press a button and do not wait."""
        await self._send(self._state("button", label, True))

    async def set(self, kind: str, label: str, value: Any) -> float:
        """Change a widget of a kind of `VALUES` by its label; a dataframe's label is its alternative text."""
        state = self._state(kind, label, value)
        self._values[state.id] = state
        return await self._run()

    async def upload(self, label: str, name: str, data: bytes) -> float:
        """Give a file to an uploader."""
        box = self.find("file_uploader", label)
        wanted = BackMsg()
        wanted.file_urls_request.request_id = request = uuid.uuid4().hex
        wanted.file_urls_request.file_names.append(name)
        wanted.file_urls_request.session_id = self._session_id
        urls = (await self._ask(wanted, request)).file_urls_response.file_urls[0]
        await asyncio.to_thread(self._put, urls.upload_url, name, data)
        state = WidgetState(id=box.id)
        info = state.file_uploader_state_value.uploaded_file_info.add()
        info.name, info.size, info.file_id = name, len(data), urls.file_id
        info.file_urls.CopyFrom(urls)
        self._values[state.id] = state
        return await self._run()

    async def download(self, label: str) -> bytes:
        """What a download button gives."""
        button = self.find("download_button", label)
        wanted = BackMsg()
        wanted.backend_operation_request.request_id = request = uuid.uuid4().hex
        wanted.backend_operation_request.session_id = self._session_id
        wanted.backend_operation_request.deferred_file.file_id = button.deferred_file_id
        answer = (await self._ask(wanted, request)).backend_operation_response
        if answer.error_msg:
            raise AssertionError(answer.error_msg)
        return await asyncio.to_thread(self._get, answer.deferred_file.url)

    async def until(self, words: str, within_s: float = PATIENCE_S) -> None:
        """Wait until the page says something."""
        ends = time.monotonic() + within_s
        while words not in self.text():
            assert time.monotonic() < ends, f"{words!r} did not appear; the page says {self.text()[:2000]!r}"
            await asyncio.sleep(0.05)

    # What a person sees.

    def elements(self, kind: str) -> Iterator[Any]:
        """Everything of a kind on the page, as Streamlit's messages, from top to bottom."""
        for path in sorted(self._elements):
            element = self._elements[path][0]
            if element.WhichOneof("type") == kind:
                yield getattr(element, kind)

    def find(self, kind: str, label: str) -> Any:
        """The one of this kind and label; raises AssertionError with what there is."""
        found = list(self.elements(kind))
        names = [each.alt if kind == "dataframe" else each.label for each in found]
        fitting = [each for each, name in zip(found, names, strict=True) if name.startswith(label)]
        assert fitting, f"no {kind} {label!r} among {names}; errors: {self.errors}"
        return fitting[0]

    def text(self) -> str:
        """What the page says, in its markup."""
        kinds = ("heading", "markdown", "alert", "html", "code", "text", "progress")
        return "\n".join(str(getattr(each, "body", "") or getattr(each, "text", "") or each) for kind in kinds for each in self.elements(kind))

    def _state(self, kind: str, label: str, value: Any) -> WidgetState:
        found = self.find(kind, label)
        assert not getattr(found, "disabled", False), f"{label!r} is disabled"
        state = WidgetState(id=found.id)
        if kind == "button_group":
            state.string_array_value.data.extend(value)
        else:
            setattr(state, VALUES[kind], value)
        return state

    async def _run(self, trigger: WidgetState | None = None, *, page_name: str = "") -> float:
        began = time.perf_counter()
        self._finished.clear()
        self._whole_began = False
        await self._send(trigger, page_name=page_name)
        await asyncio.wait_for(self._finished.wait(), PATIENCE_S)
        return time.perf_counter() - began

    async def _send(self, trigger: WidgetState | None = None, *, page_name: str = "", fragment: str = "") -> None:
        message = BackMsg()
        state = message.rerun_script
        state.query_string, state.page_script_hash, state.page_name = self.query, self.page, page_name
        state.fragment_id, state.is_auto_rerun = fragment, bool(fragment)
        state.context_info.timezone, state.context_info.locale, state.context_info.color_scheme = "UTC", "en", "light"
        state.context_info.url = f"{self.url}/{page_name}"
        state.widget_states.widgets.extend(self._values.values())
        if trigger is not None:
            state.widget_states.widgets.append(trigger)
        with contextlib.suppress(ConnectionClosed):  # the listener tells of it
            await self._socket.send(message.SerializeToString())

    async def _ask(self, message: BackMsg, request: str) -> ForwardMsg:
        answer = self._answers[request] = asyncio.get_running_loop().create_future()
        await self._socket.send(message.SerializeToString())
        return await asyncio.wait_for(answer, PATIENCE_S)

    async def _listen(self) -> None:
        try:
            async for data in self._socket:
                assert isinstance(data, bytes)
                if self._keep:
                    self.heard.append(data)
                message = ForwardMsg()
                message.ParseFromString(data)
                self._take(message)
        except ConnectionClosed as closed:
            self.errors.append(f"the server closed the connection: {closed}")
            self._finished.set()

    def _take(self, message: ForwardMsg) -> None:
        kind = message.WhichOneof("type") or ""
        match kind:
            case "new_session":
                self._run_id = message.metadata.run.script_run_id
                self._session_id = message.new_session.initialize.session_id
                if not message.metadata.run.fragment_ids:
                    self._stop_timers()
                    self._whole_began = True
            case "navigation":
                self.page = message.navigation.page_script_hash
                self.pages = {"" if page.is_default else page.url_pathname: page.page_script_hash for page in message.navigation.app_pages}
            case "page_info_changed":
                self.query = message.page_info_changed.query_string
            case "delta":
                self._place(message)
            case "auto_rerun":
                self._ask_again(message.auto_rerun.fragment_id, message.auto_rerun.interval)
            case "script_finished":
                self._settle(message)
            case _:
                self._hear(kind, message)

    def _hear(self, kind: str, message: ForwardMsg) -> None:
        """Answers, and what must not happen."""
        if kind == "file_urls_response":
            self._answers[message.file_urls_response.response_id].set_result(message)
        elif kind == "backend_operation_response":
            self._answers[message.backend_operation_response.request_id].set_result(message)
        elif kind == "page_not_found" or message.session_event.HasField("script_compilation_exception"):
            self.errors.append(f"{kind}: {message.session_event.script_compilation_exception.message}")

    def _place(self, message: ForwardMsg) -> None:
        path = tuple(message.metadata.delta_path)
        if message.delta.WhichOneof("type") != "new_element":
            return
        element = message.delta.new_element
        if element.WhichOneof("type") == "exception":
            self.errors.append(f"{element.exception.type}: {element.exception.message}")
        self._elements[path] = (element, self._run_id, message.delta.fragment_id)

    def _settle(self, message: ForwardMsg) -> None:
        """Drop what the run that has ended did not draw again; a fragment's run draws only its own part.

        A fragment never runs amid a whole run, so that its end tells of the whole one's too: on a busy server Streamlit loses that one's message.
        """
        whole, part = ForwardMsg.FINISHED_SUCCESSFULLY, ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY
        run, fragments = message.metadata.run.script_run_id, set(message.metadata.run.fragment_ids)
        if message.script_finished not in (whole, part):
            return
        for path, (_, drawn, fragment) in list(self._elements.items()):
            if drawn != run and (message.script_finished == whole or fragment in fragments):
                del self._elements[path]
        if message.script_finished == whole or self._whole_began:
            self._finished.set()

    def _ask_again(self, fragment: str, interval_s: float) -> None:
        if fragment in self._timers:
            self._timers[fragment].cancel()
        self._timers[fragment] = asyncio.create_task(self._again(fragment, interval_s))

    async def _again(self, fragment: str, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            await self._send(fragment=fragment)

    def _stop_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    async def _close(self) -> None:
        self._stop_timers()
        self._listener.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._listener
        await self._socket.close()

    def _put(self, path: str, name: str, data: bytes) -> None:
        bound = uuid.uuid4().hex
        head = f'--{bound}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\nContent-Type: application/json\r\n\r\n'
        request = urllib.request.Request(self.url + path, head.encode() + data + f"\r\n--{bound}--\r\n".encode(), method="PUT")
        request.add_header("Content-Type", f"multipart/form-data; boundary={bound}")
        request.add_header("Cookie", f"{COOKIE}={self.cookie}; {self.login}")
        request.add_header("X-Xsrftoken", self.cookie)
        with urllib.request.urlopen(request, timeout=PATIENCE_S):
            pass

    def _get(self, path: str) -> bytes:
        request = urllib.request.Request(self.url + path, headers={"Cookie": self.login})
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return bytes(answer.read())


def play(scenario: Coroutine[Any, Any, T]) -> T:
    """Run what several sessions do to its end, in a thread of its own: in the main one a browser test's loop may still be open."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, scenario).result()


def new_cookie(url: str) -> str:
    """The cookie that the server gives a browser it does not know."""
    with urllib.request.urlopen(f"{url}/_stcore/health", timeout=PATIENCE_S) as answer:
        return str(answer.headers["Set-Cookie"]).partition(";")[0].partition("=")[2]
