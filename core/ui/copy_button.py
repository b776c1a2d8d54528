"""A quiet button that copies a text; `core.ui.memory_copy` is the page's primary one. Both share how it is done."""

from streamlit.components.v2 import component

from core.ui.memory_copy import CSS, HTML, JS

QUIET = """
button { color: var(--st-text-color); background: var(--st-background-color); border-color: var(--st-border-color); }
button:hover { filter: none; border-color: var(--st-primary-color); }
"""
_button = component("draftgauge_copy_quiet", html=HTML, css=CSS + QUIET, js=JS)


def show(text: str, label: str, key: str) -> None:
    """Copies `text` as it is."""
    _button(data={"text": text, "label": label}, key=key, width="content", height="content")
