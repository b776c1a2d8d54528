"""Which pair the memory page is about, and what is known of both models: from a run, from the address, or the first shipped pair.

Sizes of shipped models are there at once, without network; other models are asked for at the planner's door, which never waits.
"""

from dataclasses import dataclass

import streamlit as st

from core import builtin, demo, pair
from core.address import address
from core.errors import InvalidInput
from core.memory import CacheProfile
from core.model_info import ModelInfo, Weights
from core.planner import Failed, Ready
from core.runs import ModelRef
from core.ui import look
from core.ui.desk import planner, settings

PICKED = "_memory_pair"
ROLES = ("target", "draft")
DEMO_NAMES = {"demo:target": demo.TARGET.name, "demo:draft": demo.DRAFT.name}
FIRST = ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.2-1B")
LOOK_AGAIN_S = 0.7


@dataclass(frozen=True)
class Side:
    """One model: its sizes once known, else why they are awaited, or a sentence why there are none."""

    address: str
    name: str
    profile: CacheProfile | None = None
    weights: Weights | None = None
    waiting: str = ""
    problem: str = ""


def side(text: str) -> Side:
    """What is known of the model at an address by now; asks for what is not."""
    shipped = next((model for model in builtin.models() if model.address == text), None)
    if shipped:
        return Side(text, text.rsplit("/", 1)[-1], shipped.profile)
    name = DEMO_NAMES.get(text) or text.split("@")[0].rsplit("/", 1)[-1].rsplit(":", 1)[-1] or text
    described = planner().ask("describe", {"model": text})
    if isinstance(described, Failed):
        return Side(text, name, problem=described.sentence)
    if not isinstance(described, Ready):
        return Side(text, name, waiting=described.why)
    info = ModelInfo.model_validate(described.data)
    if not info.config:
        return Side(text, name, problem=info.refusal or "It has no configuration, so its sizes cannot be told.")
    profiled = planner().ask("profile", {"config": info.config})
    if isinstance(profiled, Failed):
        return Side(text, name, problem=profiled.sentence)
    if not isinstance(profiled, Ready):
        return Side(text, name, waiting=profiled.why)
    return Side(text, name, CacheProfile.from_json(profiled.data), info.weights)


def of_run(ref: ModelRef) -> Side:
    """The model of a run, under the name it was measured with."""
    try:
        found = side(address(ref))
    except InvalidInput as error:
        return Side(ref.path, ref.name, problem=str(error))
    return Side(found.address, ref.name, found.profile, found.weights, found.waiting, found.problem)


def from_address() -> bool:
    """Whether the address names a pair and no run."""
    return "run" not in st.query_params and any(role in st.query_params for role in ROLES)


def pickers() -> tuple[Side, Side]:
    """Two pickers, written to the address: what lies here, then the built-in models; any Hub address can be typed."""
    state = st.session_state
    listed = [*(address(ref) for ref in pair.available(settings())), *(model.address for model in builtin.models())]
    first = dict(zip(ROLES, FIRST, strict=True))
    picked: dict[str, str] = {}
    columns = st.columns(2, gap="medium")
    for role, column in zip(ROLES, columns, strict=True):
        key = f"_memory_{role}"
        if key not in state:
            state[key] = st.query_params.get(role) or state.get(PICKED, first)[role]
        with column:
            chosen = st.selectbox(
                role.capitalize(),
                list(dict.fromkeys([*listed, state[key] or first[role]])),
                key=key,
                accept_new_options=True,
                help="Choose a model, or type a Hub address such as Qwen/Qwen3-0.6B.",
            )
        picked[role] = (chosen or first[role]).strip()
        if st.query_params.get(role) != picked[role]:
            st.query_params[role] = picked[role]
    state[PICKED] = picked
    return side(picked["target"]), side(picked["draft"])


def way_on(run: str | None) -> tuple[str, str, str, dict[str, str] | None]:
    """The next step, as `look.next_step` takes it; `run`: one with a speedup."""
    if run:
        return "See which draft length to deploy, and why.", "gamma", "Choose gamma", {"run": run}
    return "Replace the what-if speedup with a measurement of your own prompts.", "measure", "Measure", None


def unknown(sides: tuple[Side, Side]) -> None:
    """The page while sizes are missing: what is awaited, looked at again by itself, or what went wrong, with a second try."""
    problems = [side for side in sides if side.problem]
    if problems:
        look.headline("The memory of this pair cannot be told")
        for broken in problems:
            st.error(f"**{look.plain(broken.name)}.** {look.plain(broken.problem)}", icon=":material/error:")
        st.button("Try again", icon=":material/refresh:", on_click=_again, args=(tuple(broken.address for broken in problems),))
        return
    look.headline("Sizing the pair")
    st.fragment(_poll, run_every=LOOK_AGAIN_S)(sides)


def _poll(sides: tuple[Side, Side]) -> None:
    """Only this much is drawn again while something is awaited."""
    awaited = [(known.name, found.waiting) for known in sides if (found := side(known.address)).waiting]
    if not awaited:
        st.rerun()
    for name, why in awaited:
        look.note(f":material/hourglass_empty: {look.plain(name)}: {look.plain(why)}")


def _again(addresses: tuple[str, ...]) -> None:
    for text in addresses:
        described = planner().ask("describe", {"model": text}, again=True)
        if isinstance(described, Ready) and described.data.get("config"):
            planner().ask("profile", {"config": described.data["config"]}, again=True)
