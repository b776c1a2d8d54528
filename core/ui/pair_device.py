"""For what the estimate is made: this machine's device to begin with, any known GPU, and the longest text; all in the address."""

from collections.abc import Iterable

import streamlit as st

from core import prices
from core.advice import Traffic
from core.candidates import Setting
from core.devices import CPU, gpu
from core.runs import DeviceInfo
from core.ui.desk import desk

DEVICE, PROMPT, ANSWER = "on", "prompt_tokens", "answer_tokens"
LONGEST = 10_000_000


def choose() -> Setting:
    """A button that unfolds the assumptions; what they are."""
    known = {row.name: gpu(row.name, row.bandwidth_bytes_per_s / 1e9) for row in prices.gpus()} | {CPU.name: CPU}
    begin = beginning(desk()[0].devices(), known)
    with st.popover("Assumptions", icon=":material/tune:", width="content"):
        name = st.selectbox(
            "Estimate for",
            list(known),
            index=list(known).index(begin),
            key=DEVICE,
            bind="query-params",
            help="Cost and speedup are estimated for this device, with Transformers. Nothing is measured yet.",
        )
        prompt = _tokens("Longest prompt, tokens", PROMPT)
        answer = _tokens("Longest answer, tokens", ANSWER)
    return Setting(known[name], Traffic(prompt or 0, answer or 0) if prompt or answer else None)


def _tokens(label: str, key: str) -> int | None:
    """A length, or None where none is stated: then nothing is said about contexts."""
    return st.number_input(label, 1, LONGEST, None, step=100, key=key, bind="query-params", placeholder="not stated")


def beginning(devices: Iterable[DeviceInfo], known: Iterable[str]) -> str:
    """The known kind that this machine's GPU belongs to, by the model in its name (H100); a CPU where there is no GPU or it is not known."""
    names = [device.name.casefold() for device in devices if device.id != "cpu"]
    fits = (kind for kind in known if any(kind.removeprefix("RTX ").split()[0].casefold() in name for name in names))
    return next(fits, CPU.name)
