"""Navigation, and the first line of every page.

Because `pages/` lies beside `app.py`, a cold link to `/measure` runs that page without the router.
`frame()` notices, registers the navigation and starts over; warm runs and a page run by itself (as
in tests) go straight on. Then it lets in who may look (`core.ui.door`). The router turns what a page
could not handle itself, such as an unusable data folder, into a sentence.
"""

from pathlib import Path

import streamlit as st
from streamlit.navigation.page import Page
from streamlit.runtime.scriptrunner import get_script_run_ctx

from core.errors import DraftgaugeError, StoreError
from core.markdown import plain
from core.settings import Settings
from core.ui import door
from core.ui.heap import set_aside

ROOT = Path(__file__).resolve().parents[2]
LOGO = Path(__file__).with_name("logo.svg")
ICON = Path(__file__).with_name("icon.svg")  # a Material icon here would be fetched from the network
PAGES = {
    "start": ("Start", ":material/home:"),
    "pair": ("Pair", ":material/join_inner:"),
    "measure": ("Measure", ":material/timer:"),
    "gamma": ("Choose gamma", ":material/ssid_chart:"),
    "memory_cost": ("Memory and cost", ":material/memory:"),
    "side_by_side": ("Side by side", ":material/splitscreen_right:"),
    "runs": ("Runs", ":material/history:"),
}


def route() -> None:
    """Run the page that the address names; the body of `app.py`."""
    page = _navigation()
    st.session_state["_framed"] = st.session_state["_routed"] = True
    try:
        page.run()
    except DraftgaugeError as error:
        _stopped(error)
    finally:
        set_aside()


def frame() -> None:
    """First line of every page; see the module's docstring."""
    state = st.session_state
    if not state.pop("_framed", False) and not state.get("_routed"):
        _navigation()
        context = get_script_run_ctx()
        if context and Path(context.main_script_path).name == "app.py":
            state["_routed"] = True
            st.rerun()
    from core.ui.desk import settings  # here, because the desk draws links to pages and so needs this module

    door.guard(settings())
    door.sign_out(settings())
    _say_if_read_only(settings())


def _say_if_read_only(settings: Settings) -> None:
    """One line that explains every disabled button."""
    if settings.read_only:
        why = "Runs can be looked at, compared and exported here; they are measured, edited and imported in an installation of your own."
        st.markdown(f":orange-badge[:material/visibility: read-only] :small[:gray[{why}]]")


def page_path(name: str) -> str:
    """A page as `st.switch_page` and `st.page_link` want it; absolute, so that it holds from any main script."""
    return str(ROOT / "pages" / f"{name}.py")


def _stopped(error: DraftgaugeError) -> None:
    """The whole page in one sentence, when it cannot be shown."""
    st.title("The data folder cannot be used" if isinstance(error, StoreError) else "This page cannot be shown", anchor=False)
    st.error(plain(str(error)), icon=":material/folder_off:")
    st.button("Try again", icon=":material/refresh:")


def _navigation() -> Page:
    st.set_page_config("Draftgauge", page_icon=ICON, layout="wide")
    st.logo(LOGO, size="large")
    pages = [st.Page(page_path(name), title=title, icon=icon, default=name == "start") for name, (title, icon) in PAGES.items()]
    return st.navigation(pages, position="top")
