"""Navigation, and the first line of every page.

Because `pages/` lies beside `app.py`, a cold link to `/measure` runs that page without the router.
`frame()` notices, registers the navigation and starts over; warm runs and a page run by itself (as
in tests) go straight on. It also turns an unusable data folder into a sentence.
"""

from pathlib import Path

import streamlit as st
from streamlit.navigation.page import Page
from streamlit.runtime.scriptrunner import get_script_run_ctx

ROOT = Path(__file__).resolve().parents[2]
LOGO = Path(__file__).with_name("logo.svg")
ICON = Path(__file__).with_name("icon.svg")  # a Material icon here would be fetched from the network
PAGES = {
    "start": ("Start", ":material/home:"),
    "measure": ("Measure", ":material/timer:"),
    "gamma": ("Choose gamma", ":material/ssid_chart:"),
}


def route() -> None:
    """Run the page that the address names; the body of `app.py`."""
    page = _navigation()
    st.session_state["_framed"] = st.session_state["_routed"] = True
    page.run()


def frame() -> None:
    """First line of every page; see the module's docstring."""
    state = st.session_state
    if state.pop("_framed", False) or state.get("_routed"):
        return
    context = get_script_run_ctx()
    if context and Path(context.main_script_path).name == "app.py":
        _navigation()
        state["_routed"] = True
        st.rerun()


def page_path(name: str) -> str:
    """A page as `st.switch_page` and `st.page_link` want it."""
    return f"pages/{name}.py"


def _navigation() -> Page:
    st.set_page_config("Draftgauge", page_icon=ICON, layout="wide")
    st.logo(LOGO, size="large")
    pages = [st.Page(ROOT / page_path(name), title=title, icon=icon, default=name == "start") for name, (title, icon) in PAGES.items()]
    return st.navigation(pages, position="top")
