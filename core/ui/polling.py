"""A part of a page that is drawn again and again while something is awaited, and says itself what is wrong.

Reruns of a fragment do not pass the router, so errors are told here. So is what keeps every run from going on, such as a full disk: the
run that ended meanwhile still counts as running, and only its server knows.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec

import streamlit as st

from core.errors import DraftgaugeError
from core.ui import look
from core.ui.desk import desk

P = ParamSpec("P")


def polled(every_s: float | None) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Makes a function a fragment that is drawn again every so many seconds; None: only when something in it is used."""

    def fragment(draw: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(draw)  # Streamlit tells fragments apart by their names
        def told(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                if trouble := desk()[1].trouble():
                    st.error(look.plain(trouble), icon=":material/error:")
                draw(*args, **kwargs)
            except DraftgaugeError as error:
                st.error(look.plain(str(error)), icon=":material/error:")

        return st.fragment(told, run_every=every_s)

    return fragment
