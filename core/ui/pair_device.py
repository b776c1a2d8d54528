"""For what the estimate is made: this machine's device to begin with, any known GPU, and the traffic; all in the address."""

from collections.abc import Iterable

import streamlit as st

from core import prices
from core.advice import Traffic
from core.candidates import Setting
from core.devices import CPU, gpu
from core.measured import DeviceInfo
from core.ui.desk import desk

DEVICE, DRAFT_DEVICE, PROMPT, ANSWER, BATCH = "on", "draft_on", "prompt_tokens", "answer_tokens", "batch"
SAME = "Same device"
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
        beside = st.selectbox(
            "Draft runs on", [SAME, *known], key=DRAFT_DEVICE, bind="query-params", help="Measurements here put both on one device, as is best."
        )
        prompt = _number("Longest prompt, tokens", PROMPT)
        answer = _number("Longest answer, tokens", ANSWER)
        batch = _number("Requests in one batch", BATCH)
    traffic = Traffic(prompt or 0, answer or 0, batch or 1) if prompt or answer or batch else None
    return Setting(known[name], traffic, known.get(beside) if beside != name else None)


def _number(label: str, key: str) -> int | None:
    """A count, or None where none is stated: then nothing is said that depends on it."""
    return st.number_input(label, 1, LONGEST, None, step=1 if key == BATCH else 100, key=key, bind="query-params", placeholder="not stated")


def place(setting: Setting) -> str:
    """Where the pair runs, in words."""
    return setting.device.name + (f", draft on {setting.draft_device.name}" if setting.draft_device else "")


def beginning(devices: Iterable[DeviceInfo], known: Iterable[str]) -> str:
    """The known kind that this machine's GPU belongs to, by the model in its name (H100); a CPU where there is no GPU or it is not known."""
    names = [device.name.casefold() for device in devices if device.id != "cpu"]
    fits = (kind for kind in known if any(kind.removeprefix("RTX ").split()[0].casefold() in name for name in names))
    return next(fits, CPU.name)
