"""What this installation measures on: devices with their memory, and the versions that the numbers depend on."""

import platform
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import streamlit as st

from core.measured import DeviceInfo
from core.ui import look

PACKAGES = ("torch", "transformers", "tokenizers", "streamlit")


def show(devices: Sequence[DeviceInfo]) -> None:
    """One line per device, one for the versions; before the first worker has started a sentence says so."""
    with st.container(border=True):
        st.markdown("**This machine**")
        for device in devices:
            st.markdown(f":material/developer_board: {look.plain(device.name)} {look.code(device.id)}  \n:small[:gray[{_memory(device)}]]")
        if not devices:
            look.note("The devices appear here once the worker has started, a few seconds after the app.")
        look.note(look.plain(", ".join([f"Python {platform.python_version()}", *map(_package, PACKAGES)])))


def _memory(device: DeviceInfo) -> str:
    if device.memory_bytes is None:
        return "The system does not say how much memory it has."
    free = "" if device.free_bytes is None else f", {device.free_bytes / 2**30:,.1f} GiB of it free when the worker started"
    return f"{device.memory_bytes / 2**30:,.1f} GiB{free}"


@cache
def _package(name: str) -> str:
    """Kept, because every look at it reads and parses the package's whole description."""
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} not installed"
