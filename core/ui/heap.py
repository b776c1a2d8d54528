"""Keeps Python's full garbage collections short: no other session is served meanwhile.

A full collection looks at everything that lives, and the libraries of this app make that a tenth of a second. What modules hold never becomes
garbage, so it is set aside once they are read (`gc.freeze`), again when a page has read further ones. What else lives at such a moment is set
aside too: it is freed when nothing refers to it, and only a circle of references in it would stay. (Streamlit's own collection after every run
of a page is switched off in `.streamlit/config.toml`.)
"""

import gc
import sys
import threading


class SetAside:
    """Does it once for every growth of the loaded modules."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._modules = 0

    def __call__(self) -> None:
        """Set aside what lives, where modules were read since the last time."""
        with self._lock:
            if len(sys.modules) > self._modules:
                gc.collect()
                gc.freeze()
                self._modules = len(sys.modules)


set_aside = SetAside()
