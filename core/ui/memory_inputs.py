"""The fields of the memory page: kept in the address, read strictly, a sentence for each value that cannot be used.

Mostly text fields, because a link may hold anything and other widgets drop it silently. Choices and sliders are
compared with the address before their widget can drop it. What is typed stays when the page is left.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

import streamlit as st

from core import cost, memory_gain, prices
from core.errors import InvalidInput
from core.memory import ENGINES, KV_DTYPES, CacheProfile, Engine, GpuMemory, ModelMemory, model_memory
from core.memory_figures import GIB
from core.memory_fit import DEFAULT_OVERHEAD_BYTES, MOST_SEQUENCES, WeightDtype
from core.memory_served import DEFAULT_CONTEXT, DEFAULT_GAMMA, DEFAULT_GPU, DEFAULT_SEQUENCES, DEFAULT_UTILISATION, Setting
from core.model_info import Weights
from core.prices import Price
from core.ui import look, memory_typed
from core.ui.memory_pair import Side

T = TypeVar("T")
AS_STORED = "as stored"
WEIGHTS = (AS_STORED, "float32", "bfloat16", "float16", "fp8", "int8", "int4")
MOST_CONTEXT = 100_000_000
MOST_GAMMA = 64
MOST_GIB = 10_000
ONE_PRICE = 1
WHAT_IF = 1.3


@dataclass
class Complaints:
    """Sentences about values that cannot be used, in the order of the fields."""

    sentences: list[str] = field(default_factory=list)

    def read(self, reader: Callable[[], T]) -> T | None:
        """What `reader` gives; None, and its sentence kept, where it raises InvalidInput."""
        try:
            return reader()
        except InvalidInput as error:
            self.sentences.append(str(error))
            return None

    def show(self) -> None:
        """One box with every sentence; nothing when all is well."""
        if self.sentences:
            st.error("\n\n".join(look.plain(sentence) for sentence in self.sentences), icon=":material/error:")


@dataclass(frozen=True)
class Load:
    """The controls above the bar; gpu is None where its memory is not known, the numbers where they cannot be used.

    what_if: the speedup of the slider, 1 where a run takes its place.
    """

    gpu_name: str
    gpu: GpuMemory | None
    gpu_note: str
    gpu_known: bool
    context: int | None
    sequences: int | None
    utilisation: float
    what_if: float


@dataclass(frozen=True)
class Assumptions:
    """How the pair is served; None where a value cannot be used."""

    engine: Engine
    kv_dtype: str
    weights: str
    overhead_bytes: int | None
    gamma: int | None


@dataclass(frozen=True)
class Money:
    """What an hour of ONE GPU costs (None: no price), where that comes from, the month, another currency, and plain tokens/s as typed.

    spoilt: a price or a month was typed that cannot be used.
    """

    usd_per_hour: float | None
    offer: Price | None
    hours: float
    currency: str
    rate: float | None
    tokens_per_s: float | None
    spoilt: bool = False


def text(label: str, key: str, start: str = "", *, tip: str = "", hint: str = "", width: int | None = None) -> str:
    """A text field, in the address and kept when the page is left."""
    st.session_state.setdefault(key, start)
    shown = st.text_input(
        label,
        key=key,
        help=tip or None,
        placeholder=hint or None,
        width=width or "stretch",
        max_chars=60,
        bind="query-params",
        persist_state="session",
    )
    return shown.strip()


def choice(label: str, key: str, options: Sequence[str], complaints: Complaints, *, tip: str = "") -> str:
    """One of `options`, the first to begin with, in the address; another value there is named before it is dropped."""
    asked = st.query_params.get(key)
    if asked is not None and asked not in options:
        complaints.sentences.append(f"{label}: the address asks for {asked[:40]!r}, which is not in the list. {options[0]} is used.")
    if st.session_state.get(key) not in options:
        st.session_state[key] = options[0]
    return st.selectbox(label, options, key=key, help=tip or None, bind="query-params", persist_state="session")


def slider(label: str, key: str, low: float, high: float, start: float, complaints: Complaints, *, width: int, tip: str = "") -> float:
    """A slider in the address with two decimals; a value there outside its range is named before it is moved into it."""
    asked = st.query_params.get(key)
    if asked is not None and complaints.read(lambda: memory_typed.number(label, asked, low, high)) is None:
        complaints.sentences[-1] += f" {start:g} is used."
        st.query_params.pop(key)
    st.session_state.setdefault(key, start)
    return st.slider(label, low, high, step=0.01, format="%.2f", key=key, width=width, help=tip or None, bind="query-params", persist_state="session")


def gpu(complaints: Complaints, device: str) -> tuple[str, GpuMemory | None, str, bool]:
    """Name, memory, where the memory comes from and whether it was read on such a GPU. An unknown GPU is taken with a memory that is typed.

    device: begin with this one, if known.
    """
    names = [known.name for known in prices.gpus()]
    begin = next((name for name in names if memory_gain.same_gpu(device, name)), DEFAULT_GPU)
    current = str(st.session_state.get("gpu") or st.query_params.get("gpu") or begin).strip() or begin
    st.session_state.setdefault("gpu", begin)
    name = st.selectbox(
        "GPU",
        list(dict.fromkeys([*names, current])),
        key="gpu",
        width=220,
        accept_new_options=True,
        bind="query-params",
        persist_state="session",
        help="Choose one, or type the name of another and then its memory.",
    )
    name = (name or begin).strip() or begin
    known = prices.find_gpu(name)
    if known:
        return known.name, GpuMemory(known.name, known.planning_bytes, f"{known.label_gb} GB"), known.planning_note, known.usable_bytes is not None
    typed = text("Its memory, GiB", "gpu_gib", width=140, tip="Usable memory as nvidia-smi or the driver reports it.", hint="for example 79.1")
    shown = name[:60]
    if not typed:
        complaints.sentences.append(f"The GPU {shown!r} is not in the list. Type its usable memory in GiB, or choose one from the list.")
        return shown, None, "", False
    gib = complaints.read(lambda: memory_typed.number(f"The memory of {shown!r}", typed, 0.1, MOST_GIB, "GiB"))
    return shown, None if gib is None else GpuMemory(shown, int(gib * GIB)), f"{typed} GiB usable, as typed.", False


def load(limit: int | None, subject: str, complaints: Complaints, *, device: str, what_if: bool) -> Load:
    """The row of controls. limit: the target's longest context; one that was typed for another pair (`subject`) is cut to it.

    device: where a run was measured. what_if: whether a speedup must be chosen, because there is no run.
    """
    state = st.session_state
    start = min(DEFAULT_CONTEXT, limit or DEFAULT_CONTEXT)
    if limit and state.get("_memory_subject") not in (None, subject) and _tokens(state.get("context", "")) > limit:
        state["context"] = f"{limit:,}"
    state["_memory_subject"] = subject
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        name, memory, note, read = gpu(complaints, device)
        context = text("Context, tokens", "context", f"{start:,}", width=150, tip="Prompt and answer of one request together.")
        sequences = text("Sequences", "sequences", str(DEFAULT_SEQUENCES), width=120, tip="Requests that are served at the same time.")
        share = slider(
            "Usable share",
            "share",
            0.5,
            1.0,
            DEFAULT_UTILISATION,
            complaints,
            width=200,
            tip="The share of the GPU's memory that the engine may take.",
        )
        speedup = 1.0
        if what_if:
            tip = "What if: speedup of decoding over plain, at one request at a time. A run takes the slider's place."
            speedup = slider("Speedup, what-if", "speedup", 0.25, 6.0, WHAT_IF, complaints, width=200, tip=tip)
    most = limit or MOST_CONTEXT
    tokens = complaints.read(lambda: memory_typed.whole("The context", context, 1, MOST_CONTEXT, "tokens"))
    if tokens is not None and tokens > most:
        complaints.sentences.append(f"A context of {tokens:,} tokens is beyond the target's limit of {most:,}. Type at most that.")
        tokens = None
    count = complaints.read(lambda: memory_typed.whole("Sequences", sequences, 1, MOST_SEQUENCES))
    return Load(name, memory, note, read, tokens, count, share, speedup)


def _tokens(typed: str) -> int:
    """A context as typed; 0 where it cannot be read, which is said elsewhere."""
    return Complaints().read(lambda: memory_typed.whole("The context", typed, 1, MOST_CONTEXT)) or 0


def assumptions(complaints: Complaints, gamma: int | None) -> Assumptions:
    """Engine, formats, overhead and draft length; `gamma` is what a run recommends."""
    columns = st.columns(5, gap="medium")
    with columns[0]:
        engine = choice(
            "Engine", "engine", ["vLLM", *(name for name in ENGINES if name != "vLLM")], complaints, tip="Engines differ in what they keep."
        )
    with columns[1]:
        kv_dtype = choice("Cache format", "kv", ["bfloat16", *(name for name in KV_DTYPES if name != "bfloat16")], complaints)
    with columns[2]:
        tip = "As stored: the files' own bytes where they are known, else bfloat16. The others: parameters x format."
        weights = choice("Weights", "weights", WEIGHTS, complaints, tip=tip)
    with columns[3]:
        tip = "Activations, CUDA context and graphs. An 8B model in vLLM took 2.4 to 3.1 GiB (vLLM issue 10517, pull request 10511)."
        overhead = text("Overhead, GiB", "overhead", f"{DEFAULT_OVERHEAD_BYTES / GIB:g}", tip=tip)
    with columns[4]:
        start = str(gamma or DEFAULT_GAMMA)
        drafted = text("Draft length, tokens", "gamma", hint=start, tip="Logits, and copies of running states, grow with it.") or start
    gib = complaints.read(lambda: memory_typed.number("The overhead", overhead, 0, MOST_GIB, "GiB"))
    length = complaints.read(lambda: memory_typed.whole("The draft length", drafted, 1, MOST_GAMMA, "tokens"))
    return Assumptions(cast(Engine, engine), kv_dtype, weights, None if gib is None else int(gib * GIB), length)


def setting(asked: Load, served: Assumptions, target: Side, draft: Side) -> Setting | None:
    """The pair as it is to be served; None while a size or a usable value is missing."""
    numbers = (asked.context, asked.sequences, served.overhead_bytes, served.gamma)
    if target.profile is None or draft.profile is None or None in numbers:
        return None
    context, sequences, overhead, gamma = (cast(int, number) for number in numbers)
    big, small = _memory(target.profile, target.weights, served), _memory(draft.profile, draft.weights, served)
    return Setting(big, small, context, sequences, asked.utilisation, overhead, served.engine, gamma)


def _memory(profile: CacheProfile, weights: Weights | None, served: Assumptions) -> ModelMemory:
    if served.weights == AS_STORED:
        return model_memory(profile, weights, kv_dtype=served.kv_dtype)
    return model_memory(profile, dtype=cast(WeightDtype, served.weights), kv_dtype=served.kv_dtype)


def offer_name(price: Price) -> str:
    """An offer in words: Lambda, 8x H100 SXM, 31.92 USD."""
    return f"{price.provider}, {price.instance or price.gpu}, {price.usd_per_hour:,.2f} USD"


def money(table: Sequence[Price], gpu_name: str, complaints: Complaints, measured: float | None) -> Money:
    """Offer or own price, hours, currency and rate, plain tokens/s; `measured` is the run's on this GPU."""
    offers = sorted(prices.find(table, gpu_name), key=lambda price: price.gpus != ONE_PRICE)
    columns = st.columns([2, 1, 1, 1, 1, 1], gap="medium")
    with columns[0]:
        offer = _offer(offers, complaints)
    with columns[1]:
        typed = text("Or your price", "price", tip="USD per hour of ONE GPU; it takes the offer's place.", hint="USD per hour")
    with columns[2]:
        hours = text("Hours a month", "hours", f"{cost.HOURS_PER_MONTH:g}")
    with columns[3]:
        code = text("Other currency", "currency", tip="Its three letters, such as EUR; needs a rate.", hint="EUR")
    with columns[4]:
        rate = text("Rate per USD", "rate", tip="How much of the other currency one USD buys.", hint="for example 0.9")
    with columns[5]:
        hint = f"{measured:,.1f} measured" if measured else "not measured"
        speed = text("Plain tokens/s", "tokens_s", tip="Without the draft, one request at a time; yours goes before the measured one.", hint=hint)
    own = complaints.read(lambda: cost.parse_amount(typed, "price", prices.MOST_USD_PER_HOUR)) if typed else None
    month = complaints.read(lambda: memory_typed.number("Hours a month", hours, 1, cost.MOST_HOURS, "hours"))
    spoilt = month is None or bool(typed and own is None)
    letters, per_usd = _other_currency(code, rate, complaints)
    tokens_s = complaints.read(lambda: memory_typed.number("Plain tokens/s", speed, 0.001, 1e6)) if speed else None
    listed = offer.usd_per_gpu_hour if offer else None
    return Money(None if spoilt else own or listed, None if own else offer, month or cost.HOURS_PER_MONTH, letters, per_usd, tokens_s, spoilt)


def _offer(offers: list[Price], complaints: Complaints) -> Price | None:
    if not offers:
        st.selectbox("Offer", ["no price in the table"], disabled=True, key="no_offer")
        return None
    named = {offer_name(price): price for price in offers}
    return named[choice("Offer", "offer", list(named), complaints, tip="Single GPUs first, then the cheapest per GPU. The price is the instance's.")]


def _other_currency(code: str, rate: str, complaints: Complaints) -> tuple[str, float | None]:
    """Currency and rate when both are usable; one without the other is a sentence."""
    if not code and not rate:
        return "", None
    if not code or not rate:
        complaints.sentences.append("Another currency needs its three letters and a rate, such as EUR and 0.9. Type both or neither.")
        return "", None
    letters = complaints.read(lambda: memory_typed.currency(code))
    per_usd = complaints.read(lambda: cost.parse_amount(rate, "rate", unit="such as 0.9"))
    return (letters, per_usd) if letters and per_usd else ("", None)
