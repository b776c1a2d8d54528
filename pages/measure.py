"""Measure: choose a pair and prompts, watch it run, read the result. A run is addressed by ?run=id."""

import streamlit as st

from core import pair
from core.address import address, resolve
from core.errors import InvalidInput
from core.runs import Dtype, ModelRef, RunSpec
from core.ui import live, look, numbers, pair_pick, prompt_box, report, result
from core.ui.desk import ALIVE, EXAMPLE, analysis, desk, forget_run, load, run_id, settings, submit
from core.ui.frame import frame, page_path

DTYPES: list[Dtype] = ["float32", "bfloat16", "float16"]
SOURCES = {"bundled": "Bundled prompts", "pasted": "Pasted text"}

frame()
store, _ = desk()
chosen = run_id()


def take_pair(spec: RunSpec) -> None:
    """Go on to measure the pair of a smoke test."""
    forget_run()
    pair_pick.choose(address(spec.target), [address(spec.draft)])


if chosen:
    run = load(chosen)
    full = run.spec.extent == "full"
    result.pair_header(run, "Example run" if chosen == EXAMPLE else "")
    if run.status in ALIVE:
        live.watch(chosen)
        st.stop()
    report.show(analysis(run))
    with st.container(horizontal=True):
        if not full:
            st.button("Measure this pair", type="primary", icon=":material/timer:", on_click=take_pair, args=(run.spec,))
        elif run.status == "done" and st.button("Choose gamma", type="primary", icon=":material/ssid_chart:"):
            st.switch_page(page_path("gamma"), query_params={"run": chosen})
        if run.status != "done" and st.button(
            "Measure again" if full else "Try again",
            type="primary" if full else "secondary",
            icon=":material/replay:",
            help="The same models, prompts, settings.",
        ):
            submit(run.spec)
        st.button("New measurement", icon=":material/add:", on_click=forget_run)
    if full and run.status == "done":
        look.next_step("See the whole curve, and what the library's default would give.", "gamma", "Choose gamma", {"run": chosen})
    st.stop()

look.headline(
    "Measure a pair",
    "The target answers every prompt, the draft is tried on the same text, and the best settings are really run against plain decoding.",
)
left, right = st.columns([2, 3], gap="large")
with left:
    st.subheader("Models", anchor=False)
    offered = [address(ref) for ref in pair.available(settings())]
    target, drafts = pair_pick.pickers(offered, begin=("demo:target", "demo:draft"))
    refs: list[ModelRef] = []
    try:
        refs = [resolve(text, settings()) for text in (target, *drafts) if text]
    except InvalidInput as error:
        st.error(look.plain(str(error)), icon=":material/error:")
    st.page_link(page_path("pair"), label="See what fits before you measure", icon=":material/join_inner:")
    if len(offered) == 2:
        look.note("Only the bundled pair is on this machine. Name folders of your own models in the setting `DRAFTGAUGE_MODEL_ROOTS`.")
    st.subheader("Settings", anchor=False)
    devices = {device.id: device.name for device in store.devices()} or {"cpu": "CPU"}
    device = st.selectbox("Device", list(devices), format_func=lambda key: f"{key}, {devices[key]}", key="device", persist_state="session")
    exact = "Greedy answers are equal to plain decoding in float32 only."
    dtype = st.selectbox("Number format", DTYPES, key="dtype", persist_state="session", help=exact)
    with st.container(horizontal=True):
        short = "Per prompt. Answers that end by themselves are shorter."
        tokens = st.number_input("Most new tokens", value=40, step=8, key="tokens", persist_state="session", help=short)
        same = "Picks the prompts used for calibration; the same seed gives the same rounds."
        seed = st.number_input("Seed", value=0, step=1, key="seed", persist_state="session", help=same)
with right:
    st.subheader("Prompts", anchor=False)
    source = st.segmented_control(
        "Prompts",
        list(SOURCES),
        format_func=SOURCES.__getitem__,
        default="pasted" if prompt_box.is_open() else "bundled",
        required=True,
        key="source",
        persist_state="session",
        label_visibility="collapsed",
    )
    found = prompt_box.prompt_box() if source == "pasted" else prompt_box.bundled()
    if found:
        few = "The first so many. 24 or more give a useful interval."
        most = st.number_input("Number of prompts", min_value=1, max_value=len(found), value=len(found), step=1, help=few, width=260)
        found = found[:most]
        if most < 8:
            look.note("Below 8 prompts there is no interval for other traffic, and so no verdict.")
    else:
        look.note("Paste at least one prompt to measure.")

ready = bool(found and target and drafts and refs)
with st.container(horizontal=True, vertical_alignment="center"):
    label = f"Measure {numbers.counted(len(drafts), 'draft')}" if len(drafts) > 1 else "Measure"
    if st.button(label, type="primary", icon=":material/timer:", disabled=not ready):
        specs = [
            RunSpec(target=refs[0], draft=draft, prompts=found, max_new_tokens=tokens, device=device, dtype=dtype, seed=seed) for draft in refs[1:]
        ]
        submit(*specs)
    if len(drafts) > 1:
        look.note("One run per draft, one after the other.")
    elif not (target and drafts):
        look.note("Choose a target and at least one draft.")
