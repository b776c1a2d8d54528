"""The form of a side-by-side run: pair, prompt, how it decodes, the assisted column, and one more column on request."""

import streamlit as st

from core import demo, numbers
from core.address import address, resolve
from core.analysis import Analysis
from core.errors import DraftgaugeError, InvalidInput
from core.policies import Policy
from core.runs import ModelRef, Prompt, Run, RunSpec
from core.side_ask import side_by_side
from core.ui import decoding_box, look, pair_pick, placement_box, side_address, side_lanes, side_prompt
from core.ui.desk import analysis, desk, read_only, settings

TAKEN_FROM = "_side_from"


def show(reference: Run | None) -> RunSpec | None:
    """The form; what to run once its button was pressed."""
    if reference is not None and (side_address.FROM in st.query_params or not st.session_state.get(pair_pick.TARGET_KEY)):
        take(reference)
    if reference is None and side_address.FROM in st.query_params:
        look.note(":material/info: The address names a measurement that is not here or has not finished, so the form begins without it.")
    left, right = st.columns([3, 2], gap="large")
    with right:
        st.subheader("Models", anchor=False)
        offered = pair_pick.offered(settings())
        target, draft = _pair(offered)
        st.subheader("Settings", anchor=False)
        asked = decoding_box.settings_box(target, desk()[0].devices(), measures=False)
    with left:
        st.subheader("Prompt", anchor=False)
        prompt = side_prompt.prompt_box(_prompts(reference), chat_template=asked.chat_template)
        st.subheader("Assisted column", anchor=False)
        recommended = _recommended(reference, target, draft)
        lane = side_lanes.assisted(recommended, target, draft, sample=asked.typed.sample)
        more = side_lanes.third(offered, target, draft, sample=asked.typed.sample)
    ready = bool(target and draft and prompt and lane and more is not None and asked.ready)
    pressed = _button(ready=ready, known=recommended is not None)
    if not (pressed and target and draft and prompt and lane and more is not None):
        return None
    spec = asked.spec(target, draft, (prompt,))
    return side_by_side(spec, (lane, *more), _reference_id(reference, spec))


def _button(*, ready: bool, known: bool) -> bool:
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button("Run side by side", type="primary", icon=":material/play_arrow:", disabled=not ready or read_only())
        predicted = " It predicts this prompt too." if known else " Begin from a measurement of this pair to have a prediction beside it."
        look.note(f"Plain and assisted are written one after the other, in an order drawn at random.{predicted}")
    return pressed


def _pair(offered: list[str]) -> tuple[ModelRef | None, ModelRef | None]:
    """Target and the first draft of the pickers; a sentence where one cannot be used."""
    target, drafts = pair_pick.pickers(offered, begin=("demo:target", "demo:draft"))
    if len(drafts) > 1:
        look.note(f"{numbers.counted(len(drafts), 'draft')} are chosen; the first is used here, another can have the third column.")
    found = [_resolved(text) for text in (target, drafts[0] if drafts else None)]
    return found[0], found[1]


def _resolved(text: str | None) -> ModelRef | None:
    if not text:
        return None
    try:
        return resolve(text, settings())
    except InvalidInput as error:
        st.error(look.plain(str(error)), icon=":material/error:")
        return None


def again(run: Run) -> None:
    """A side-by-side run back into the form, with everything that it was asked. A callback."""
    _take_settings(run.spec)
    side_lanes.put(run.spec.lanes[1:])
    side_prompt.take(run.spec.prompts[0])
    _begin(run)


def proceed(run: Run) -> None:
    """The same with the answer added, for the next turn. A callback."""
    again(run)
    side_prompt.proceed(run)


def _begin(run: Run) -> None:
    """Open the form, with the measurement that the run began from; its settings are not taken again."""
    st.session_state[TAKEN_FROM] = run.spec.reference
    side_address.begin_from(run.spec.reference)


def take(reference: Run) -> None:
    """Pair, decoding and device of a measurement into the form, once for each that is begun from."""
    if st.session_state.get(TAKEN_FROM) == reference.id:
        return
    st.session_state[TAKEN_FROM] = reference.id
    st.session_state.pop(side_lanes.ASSISTED_KEY, None)  # so that the recommended policy is chosen again
    _take_settings(reference.spec)
    if not side_prompt.is_own():
        side_prompt.take(_prompts(reference)[0])


def _take_settings(spec: RunSpec) -> None:
    state = st.session_state
    pair_pick.choose(address(spec.target), [address(spec.draft)])
    how = spec.decoding
    state["decoding"] = decoding_box.SAMPLING if how.sample else decoding_box.GREEDY
    for name in ("temperature", "top_k", "top_p", "repetition_penalty", "warpers_once", "draft_temperature"):
        state[name] = getattr(how, name)
    for name, value in {"seed": spec.seed, "tokens": spec.max_new_tokens, "device": spec.device, "dtype": spec.dtype}.items():
        state[name] = value
    state[f"chat_template {address(spec.target)}"] = spec.chat_template
    placement_box.take(spec)


def _prompts(reference: Run | None) -> tuple[Prompt, ...]:
    """The prompts that can be read of the measurement, else the bundled ones."""
    readable = tuple(prompt for prompt in reference.spec.prompts if not prompt.withheld) if reference else ()
    return readable or demo.prompts()


def _recommended(reference: Run | None, target: ModelRef | None, draft: ModelRef | None) -> Policy | None:
    """The recommended setting of the measurement, while its own pair is chosen."""
    if reference is None or (reference.spec.target, reference.spec.draft) != (target, draft):
        return None
    try:
        found = analysis(reference)
    except DraftgaugeError:
        return None
    return found.advice.policy if isinstance(found, Analysis) else None


def _reference_id(reference: Run | None, spec: RunSpec) -> str:
    """The measurement whose prices hold for this run; "" where the pair, device, number format or placement is another one."""
    if reference is None:
        return ""
    alike = [(each.target, each.draft, each.device, each.dtype, each.placement) for each in (reference.spec, spec)]
    return reference.id if alike[0] == alike[1] else ""
