"""Downloads that are made when somebody asks for them, and stay until the browser has them.

Streamlit 1.67 drops such a file once two runs of anybody's pages have ended: on a busy server that can be before the browser has asked for it.
A file that belongs to a page stays as long as the page does, so it is entered there as well.
"""

import threading
from collections.abc import Callable

from streamlit import runtime
from streamlit.runtime.scriptrunner import add_script_run_ctx, get_script_run_ctx


def kept(make: Callable[[], bytes | str], name: str, mime: str) -> Callable[[], bytes]:
    """What makes the file, for a download button of the page that is being drawn, with the same name and MIME type as the button's."""
    context = get_script_run_ctx()

    def made() -> bytes:
        found = make()
        data = found.encode() if isinstance(found, str) else found
        if runtime.exists():
            thread = threading.Thread(target=_enter, args=(data, name, mime), name="draftgauge-download")
            add_script_run_ctx(thread, context)
            thread.start()
            thread.join()
        return data

    return made


def _enter(data: bytes, name: str, mime: str) -> None:
    """In a thread that belongs to the page, as Streamlit asks the thread whose file it is."""
    runtime.get_instance().media_file_mgr.add(data, mime, f"kept {name}", name, is_for_static_download=True)
