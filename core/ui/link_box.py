"""A run's permanent address, to be copied: the run itself, or the same run without prompts and answers."""

from urllib.parse import urlencode, urlsplit, urlunsplit

import streamlit as st

from core.runs import Run
from core.ui import copy_button, desk, look


def show(run: Run, *, texts: bool) -> None:
    """The address and a button that copies it."""
    chosen = run.id if texts or not run.share_id or not run.spec.prompts else run.share_id
    address = link(st.context.url, chosen)
    with st.container(horizontal=True, vertical_alignment="center"):
        copy_button.show(address, "Copy link", "copy_link")
        st.code(address, language=None, wrap_lines=True)
    if chosen == desk.EXAMPLE:
        look.note("Every Draftgauge shows its bundled example at this address.")
    elif not run.spec.prompts:
        look.note("The permanent address of this run, for whoever can open this server.")
    elif texts:
        look.note("Whoever can open this server sees the run with its prompts and answers there.")
    else:
        look.note("Whoever can open this server sees this run there, without its prompts and answers. The link hides no other run.")


def link(here: str | None, run_id: str) -> str:
    """The address of a run on the page that is open at `here`; from the server's root where that is not known."""
    parts = urlsplit(here or "/measure")
    return urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode({"run": run_id}), ""))
