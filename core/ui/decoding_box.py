"""The settings of a measurement: how the service decodes, its chat template, its stop strings, and where it is measured.

Everything is kept in the session and in the address, but for stop strings, which are text and kept in the session alone. What is typed
is judged by `core.typed`; a value that cannot be used gets a sentence and stays where it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import streamlit as st

from core import demo
from core.address import address
from core.measured import DeviceInfo, Dtype
from core.model_info import ModelInfo
from core.placement import words as placed
from core.planner import Answer, Failed, Ready, Waiting
from core.runs import ModelRef, Placement, Prompt, RunSpec
from core.typed import MOST_TOP_K, Typed
from core.ui import desk, look, numbers
from core.ui.placement_box import placement_box

GREEDY, SAMPLING = "Greedy", "Sampling"
LOOK_AGAIN_S = 1.0
KEPT: dict[str, Any] = {"persist_state": "session", "bind": "query-params"}
USUAL = Typed()
LONGEST_STOPS = 20_000
"""Characters of the box that are taken from a browser at all."""

STOP_HELP = (
    "One per line; \\n stands for a line break. The library cannot stop there with a draft: real runs write on, and only the recorded answers, "
    "from which everything is replayed, are cut there."
)
ONCE_HELP = (
    "Transformers applies temperature, top-k and top-p twice on the draft. Once leaves the answers' distribution as it is and changes how "
    "much is accepted."
)


@dataclass(frozen=True)
class Settings:
    """What was chosen. ready: whether it can be measured as it stands."""

    typed: Typed
    device: str
    dtype: Dtype
    chat_template: bool
    placement: Placement
    ready: bool

    def spec(self, target: ModelRef, draft: ModelRef, prompts: tuple[Prompt, ...], group: str = "") -> RunSpec:
        """The run of one pair. Only when ready."""
        typed = self.typed
        return RunSpec(
            target=target,
            draft=draft,
            prompts=prompts,
            max_new_tokens=typed.max_new_tokens,
            device=self.device,
            dtype=self.dtype,
            seed=typed.seed,
            decoding=typed.decoding,
            chat_template=self.chat_template,
            stop=typed.stops,
            group=group,
            confirm_s=typed.confirm_s,
            placement=self.placement,
        )


def settings_box(target: ModelRef | None, devices: Sequence[DeviceInfo], *, measures: bool = True) -> Settings:
    """All settings, most important first; the rarer ones are folded, and named in a line when they are set.

    measures: with what only a measurement has, stop strings and the time for the confirmation.
    """
    info = _described(target)
    model = _model(info)
    sample = _decoding(model)
    chat_template = _chat_template(target, info)
    tokens, device, dtype = _where(devices)
    where = placement_box(target, model, device, dtype, devices)
    typed = _typed(sample, tokens, measures)
    for problem in typed.problems:
        st.error(look.plain(problem), icon=":material/error:")
    if not typed.problems:
        _set_apart(typed)
    ready = where.ready and not typed.problems and not isinstance(info, Waiting)
    return Settings(typed, device, dtype, chat_template, where.placement, ready)


def words(spec: RunSpec) -> str:
    """How a run decodes, and what is special about its placement: "greedy, chat template, 2 stop strings, target in 4 bits"."""
    stop = [numbers.counted(len(spec.stop), "stop string")] if spec.stop else []
    special = [placed(spec.placement)] if placed(spec.placement) else []
    return ", ".join([spec.decoding.words(), *(["chat template"] if spec.chat_template else []), *stop, *special])


def _decoding(model: ModelInfo | None) -> bool:
    how = "As your service decodes: acceptance and cost depend on it. Greedy takes the likeliest token every time."
    st.session_state.setdefault("decoding", GREEDY)
    chosen = st.segmented_control("Decoding", [GREEDY, SAMPLING], required=True, key="decoding", help=how, **KEPT)
    if chosen != SAMPLING:
        return False
    own = own_decoding(model)
    if own:
        said = ", ".join(f"{name.replace('_', '-')} {value:g}" for name, value in own.items())
        label, why = f"Take the model's own: {said}", "From the target's generation config."
        st.button(label, icon=":material/tune:", key="own_decoding", help=why, on_click=_take, args=(own,))
    with st.container(horizontal=True):
        _number("Temperature", "temperature", USUAL.temperature, 0.1, "%.2f", "Below 1 sharper, above 1 flatter. Without it a service has 1.")
        _number("Top-k", "top_k", USUAL.top_k, 10, None, "Only the so many likeliest tokens; 0 for all. Transformers itself has 50.")
        _number("Top-p", "top_p", USUAL.top_p, 0.05, "%.2f", "Only the likeliest tokens of together this probability; 1 for all.")
    return True


def _number(label: str, key: str, usual: float | None, step: float, form: str | None, meaning: str, **how: Any) -> None:
    """A field that takes any number, so that a wrong one can be answered with a sentence; read through the session."""
    st.session_state.setdefault(key, usual)
    st.number_input(label, value=None if usual is None else "min", step=step, format=form, key=key, help=meaning, **KEPT, **how)


def own_decoding(model: ModelInfo | None) -> dict[str, float]:
    """How the target's makers sample, where its generation config says that they do, in numbers that can be meant."""
    config = model.generation_config if model else {}
    if not config.get("do_sample"):
        return {}
    given = {name: config.get(name) for name in ("temperature", "top_k", "top_p")}
    numbers = {name: value for name, value in given.items() if isinstance(value, int | float) and not isinstance(value, bool)}
    return {name: value for name, value in numbers.items() if 0 <= value <= MOST_TOP_K}


def _take(own: dict[str, float]) -> None:
    """What the model does not say is left off, but for top-k, which the library then sets to 50."""
    for name, off in (("temperature", 1.0), ("top_k", 50), ("top_p", 1.0)):
        st.session_state[name] = type(off)(own.get(name, off))


def _chat_template(target: ModelRef | None, info: Answer | None) -> bool:
    """A switch of its own for each target, on where there is a template; off, with the reason, where there is none or nobody knows yet."""
    model = _model(info)
    if model and model.chat_template:
        meaning = "Each prompt is put into the target's own template as a user's turn. Off, the model reads the bare text."
        key = f"chat_template {address(model.ref)}"
        st.session_state.setdefault(key, True)
        return st.toggle("Chat template", key=key, help=meaning, **KEPT)
    st.toggle("Chat template", value=False, disabled=True, key="no_chat_template")
    if isinstance(info, Waiting) and target:
        look.note(f":material/hourglass_empty: Looking whether the target has one: {look.plain(info.why)}")
        st.fragment(_look_again, run_every=LOOK_AGAIN_S)(target)
    elif isinstance(info, Failed):
        look.note(f"Off, because the target could not be read: {look.plain(info.sentence)}")
    elif target:
        look.note("Off: the target has no chat template, so it reads the bare text.")
    return False


def _described(target: ModelRef | None) -> Answer | None:
    """What is known of the target; the bundled one is known to have no template."""
    if target is None or target == demo.TARGET or target == demo.DRAFT:
        return None
    return desk.planner().ask("describe", {"model": address(target)})


def _look_again(target: ModelRef) -> None:
    """Nothing to see; starts the page over when the answer is there."""
    if not isinstance(_described(target), Waiting):
        st.rerun()


def _model(info: Answer | None) -> ModelInfo | None:
    return ModelInfo.model_validate(info.data) if isinstance(info, Ready) else None


def _where(devices: Sequence[DeviceInfo]) -> tuple[int, str, Dtype]:
    names = {device.id: device.name for device in devices} or {"cpu": "CPU"}
    with st.container(horizontal=True):
        device = st.selectbox("Device", list(names), format_func=lambda key: f"{key}, {names[key]}", key="device", **KEPT)
        exact = "Greedy answers are equal to plain decoding in float32 only; 16 bits round differently in batches and checks."
        dtype = st.selectbox("Number format", get_args(Dtype), key="dtype", help=exact, **KEPT)
        short = "Per prompt. Answers that end by themselves are shorter."
        st.session_state.setdefault("tokens", USUAL.max_new_tokens)
        tokens = st.number_input("Most new tokens", step=8, key="tokens", help=short, **KEPT)
    return int(tokens), device, dtype


def _typed(sample: bool, tokens: int, measures: bool) -> Typed:
    """The folded settings, and everything typed."""
    with st.expander(f"More: {'stop strings, ' if measures else ''}repetition penalty, seed, draft temperature"):
        if measures:
            how: dict[str, Any] = {"height": 80, "max_chars": LONGEST_STOPS, "placeholder": "One per line, such as \\n\\n"}
            st.text_area("Stop strings", key="stop", help=STOP_HELP, persist_state="session", **how)
            look.note("The library cannot stop there with a draft: recorded answers are cut there, real runs write on.")
        with st.container(horizontal=True):
            _number(
                "Repetition penalty", "repetition_penalty", USUAL.repetition_penalty, 0.05, "%.2f", "Above 1 against repeating; acts on greedy too."
            )
            _number("Seed", "seed", USUAL.seed, 1, None, "Draws the answers under sampling, and the prompts for calibration. Same seed, same rounds.")
            if measures:
                most = "Plain and the best settings are really run until the interval is tight, or this time is over. 0: nothing is confirmed."
                _number("Confirm, seconds", "confirm_s", USUAL.confirm_s, 15.0, "%.0f", most)
        if sample:
            st.toggle("Warpers once on the draft", key="warpers_once", help=ONCE_HELP, **KEPT)
            own = "Another temperature for the draft alone; empty for the target's. The answers' distribution stays the same."
            _number("Draft temperature", "draft_temperature", None, 0.1, "%.2f", own, placeholder="as target")
    kept = st.session_state
    names = (
        "temperature",
        "top_k",
        "top_p",
        "repetition_penalty",
        "warpers_once",
        "draft_temperature",
        "seed",
        *(("stop", "confirm_s") if measures else ()),
    )
    given = {name: kept[name] for name in names if name in kept}
    return Typed(sample=sample, max_new_tokens=tokens, **given)


def _set_apart(typed: Typed) -> None:
    """What is set among the folded, because it is not seen there."""
    set_ = [numbers.counted(len(typed.stops), "stop string")] if typed.stops else []
    set_ += [f"seed {typed.seed}"] if typed.seed else []
    set_ += [f"{numbers.duration(typed.confirm_s)} for the confirmation"] if typed.confirm_s != USUAL.confirm_s else []
    look.note(f"Decodes: {', '.join([typed.decoding.words(), *set_])}.")
