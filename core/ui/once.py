"""What a server makes once and keeps until it ends, whatever a browser asks.

Not `st.cache_resource`: Streamlit lets every browser clear that for all (the key C, or one message), and a second bench beside the first,
which still holds the data folder, would be refused.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """Calls `make` for whoever asks first and gives everybody the same; what raises is tried again by the next one."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: list[T] = []

    def __call__(self) -> T:
        """What was made."""
        with self._lock:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]

    def made(self) -> tuple[T, ...]:
        """What was made, if anything was."""
        return tuple(self._made)

    def clear(self) -> None:
        """Forget it, without closing it; for tests."""
        with self._lock:
            self._made.clear()
