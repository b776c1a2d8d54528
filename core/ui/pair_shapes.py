"""Time a pair from its configs: both architectures with random weights, on a device of this machine, before any weights are downloaded."""

from typing import get_args

import streamlit as st

from core import encoders, shapes
from core.candidates import Candidate, Model, View
from core.errors import NotMeasured
from core.estimate_time import guessed_speed
from core.history import Query
from core.measured import DeviceInfo, Dtype
from core.planner import Failed
from core.runs import ModelRef, Run
from core.shapes_ask import default_dtype, from_configs, seconds
from core.ui import desk, look, numbers, shapes_estimate
from core.ui.frame import page_path
from core.usable import encodes

WHAT = (
    "What a pass costs depends on shapes, not on values. So both models are built here with random weights, and c, v(n) and memory are measured "
    "before any weights are downloaded. How often the draft is right stays unknown: it says which acceptance you would need."
)
EXPERTS = "is a mixture of experts: which experts a token wakes depends on values, so its v(n) with random weights can differ from the real one."
BYTES: dict[Dtype, int] = {"float32": 4, "bfloat16": 2, "float16": 2}


def show(view: View) -> None:
    """The choice, the button with its time, what to know, and what came of it before."""
    look.note(WHAT)
    with st.container(horizontal=True):
        draft = _draft(view)
        device, dtype = _where(desk.desk()[0].devices())
    refusal = _refusal(view.target, draft.model, device, dtype)
    known = [ref for model in (view.target, draft.model) if (ref := _ref(model)) is not None]
    spec = from_configs(known[0], known[1], device.id, dtype) if len(known) == 2 else None
    with st.container(horizontal=True, vertical_alignment="center"):
        disabled = bool(refusal) or spec is None or desk.read_only()
        pressed = st.button("Time this pair from its configs", icon=":material/speed:", key="time_configs", disabled=disabled)
        look.note(look.plain(refusal) if refusal else _how_long(view.target, draft.model, device.id, dtype))
    if pressed and spec is not None:
        desk.submit(spec)
    for said in _cautions(view.target, draft):
        look.note(f":material/info: {look.plain(said)}")
    if spec is not None:
        _before(spec.target, spec.draft)


def _draft(view: View) -> Candidate:
    if len(view.drafts) == 1:
        return view.drafts[0]
    names = [draft.model.address for draft in view.drafts]
    chosen = st.selectbox("Draft", names, key="time_draft", width=320)
    return view.drafts[names.index(chosen)]


def _where(devices: list[DeviceInfo]) -> tuple[DeviceInfo, Dtype]:
    """The fastest device to begin with, and the format in which models are measured there."""
    found = {device.id: device for device in devices} or {"cpu": DeviceInfo(id="cpu", name="CPU")}
    chosen = st.selectbox("Device", list(found), format_func=lambda key: f"{key}, {found[key].name}", key="time_device", width=320)
    formats = [default_dtype(chosen), *(name for name in get_args(Dtype) if name != default_dtype(chosen))]
    return found[chosen], st.selectbox("Number format", formats, key=f"time_dtype_{chosen == 'cpu'}", width=160) or formats[0]


def _ref(model: Model) -> ModelRef | None:
    return model.usable.ref if model.usable else None


def _refusal(target: Model, draft: Model, device: DeviceInfo, dtype: Dtype) -> str:
    """Why the pair cannot be timed, a sentence; "" where it can, as far as it is known."""
    for model, role in ((target, "target"), (draft, "draft")):
        if model.refusal:
            return model.refusal
        if model.problem:
            return f"The {role} cannot be read, so it cannot be built: {model.problem}"
        if model.usable is None:
            return f"The {role} is still being read."
        if encodes(model.usable.config):
            return encoders.timed(model.name, str(model.usable.config.get("model_type")))
        if isinstance(model.profile, Failed):
            return f"{model.name} is not built, because its sizes are not known: {model.profile.sentence}"
        if model.sizes and any(layer.kind in ("linear", "recurrent") for layer in model.sizes.per_layer):
            return f"{model.name} keeps a running state, so rejected tokens cannot be undone, and the library refuses it."
    held = [model.sizes.parameters * BYTES[dtype] for model in (target, draft) if model.sizes]
    if device.free_bytes is not None and sum(held) > device.free_bytes:
        return (
            f"The weights would take {numbers.file_size(sum(held))} in {dtype}, and {device.id} has {numbers.file_size(device.free_bytes)} free. "
            "Choose a smaller number format or another device."
        )
    return ""


def _how_long(target: Model, draft: Model, device: str, dtype: Dtype) -> str:
    if target.sizes is None or draft.sizes is None:
        return "How long it takes is not known before the models' sizes are."
    speed = guessed_speed(device, dtype, (target.sizes.active_parameters, target.sizes.layers), (draft.sizes.active_parameters, draft.sizes.layers))
    held = (target.sizes.parameters + draft.sizes.parameters) * BYTES[dtype]
    assert target.usable is not None
    assert draft.usable is not None
    spec = from_configs(target.usable.ref, draft.usable.ref, device, dtype)
    about = f"About {numbers.duration(seconds(spec, speed))} {look.ORIGINS['estimate']} a guess from sizes."
    return f"{about} Takes {numbers.file_size(held)} of memory for weights; nothing but config.json is downloaded."


def _cautions(target: Model, draft: Candidate) -> list[str]:
    """What makes the times unlike those in use, where it is known before."""
    said: list[str] = []
    for model in (target, draft.model):
        sizes, weights = model.sizes, model.usable.weights if model.usable else None
        if sizes and sizes.active_parameters < sizes.parameters:
            said.append(f"{model.name} {EXPERTS}")
        windows = [layer.window for layer in sizes.per_layer if layer.window] if sizes else []
        if windows:
            sees = f"{numbers.counted(len(windows), 'layer')} of {model.name} {'sees' if len(windows) == 1 else 'see'}"
            said.append(f"{sees} only the last {min(windows):,} tokens, so that longer caches cost them no more.")
        if weights and weights.quantisation:
            said.append(
                f"{model.name} is stored quantised ({weights.quantisation}); it is built unquantised, which takes more memory and other kernels."
            )
    if draft.verdict_value and not draft.verdict_value.native:
        said.append("Target and draft have other tokens. c leaves out what translating between them costs.")
    return said


def _before(target: ModelRef, draft: ModelRef) -> None:
    """The newest timing of this very pair, if there is one."""
    run = _newest(target, draft)
    if run is None:
        return
    try:
        found = shapes.results(run)
    except NotMeasured:
        return
    needed = shapes.needed(found.costs)
    where = run.environment.device_name if run.environment else run.spec.device
    says = f"{shapes.WANTED:g}x needs alpha {needed.alpha:.2f} or more" if needed else f"{shapes.WANTED:g}x is out of reach at any alpha"
    c, verify = numbers.cost(found.costs.draft_next), numbers.cost(float(found.costs.verify[shapes.CHECKED]))
    st.markdown(
        f"Timed {numbers.when(run.created)} on {look.plain(where)} in {run.spec.dtype}: c **{c}**, v({shapes.CHECKED}) **{verify}** "
        f"{look.ORIGINS['measured']}; {says}, with a loop that is free."
    )
    shapes_estimate.beside(run, found)
    st.page_link(page_path("measure"), label="Open the timing", icon=":material/open_in_full:", query_params={"run": run.id})


def _newest(target: ModelRef, draft: ModelRef) -> Run | None:
    store = desk.desk()[0]
    listed = store.history(Query(targets=(target.name,), drafts=(draft.name,), kinds=("shapes",), statuses=("done",)))
    for entry in listed.entries[:5]:
        run = store.get(entry.id)
        if run.spec.random_weights and (run.spec.target.path, run.spec.draft.path) == (target.path, draft.path):
            return run
    return None
