"""Measure: choose a pair and prompts, watch it run, read the result. A run is addressed by ?run=id."""

import streamlit as st

from core import demo, pair
from core.errors import DraftgaugeError
from core.runs import Dtype, RunSpec
from core.ui import live, look, prompt_box, report, result
from core.ui.desk import ALIVE, analysis, desk, forget_run, load, run_id, settings
from core.ui.frame import frame, page_path

DTYPES: list[Dtype] = ["float32", "bfloat16", "float16"]

frame()
store, bench = desk()
chosen = run_id()

if chosen:
    run = load(chosen)
    result.pair_header(run)
    if run.status in ALIVE:
        look.headline("Measuring" if run.status == "running" else "Waiting to be measured")
        live.watch(chosen)
    else:
        report.show(analysis(run))
    with st.container(horizontal=True):
        if run.status == "done" and st.button("Choose gamma", type="primary", icon=":material/ssid_chart:"):
            st.switch_page(page_path("gamma"), query_params={"run": chosen})
        st.button("New measurement", icon=":material/add:", on_click=forget_run)
    look.next_step("See the whole curve, and what the library's default would give.", "gamma", "Choose gamma", {"run": chosen})
    st.stop()

look.headline(
    "Measure a pair",
    "The target answers every prompt, the draft is tried on the same text, and the best settings are really run against plain decoding.",
)
models, words = st.columns([2, 3], gap="large")
with models:
    st.subheader("Models", anchor=False)
    refs = pair.available(settings())
    target = st.selectbox("Target", refs, index=refs.index(demo.TARGET), format_func=lambda ref: ref.name, key="target", persist_state="session")
    draft = st.selectbox("Draft", refs, index=refs.index(demo.DRAFT), format_func=lambda ref: ref.name, key="draft_model", persist_state="session")
    if len(refs) == 2:
        look.note("Only the bundled pair is here. Name folders of your own models in the setting `DRAFTGAUGE_MODEL_ROOTS`.")
    st.subheader("Settings", anchor=False)
    devices = {device.id: device.name for device in store.devices()} or {"cpu": "CPU"}
    device = st.selectbox("Device", list(devices), format_func=lambda key: f"{key}, {devices[key]}", key="device", persist_state="session")
    dtype = st.selectbox(
        "Number format", DTYPES, key="dtype", persist_state="session", help="Greedy answers are equal to plain decoding in float32 only."
    )
    with st.container(horizontal=True):
        tokens = st.number_input(
            "Most new tokens", value=64, step=16, key="tokens", persist_state="session", help="Per prompt. Shorter answers end by themselves."
        )
        seed = st.number_input(
            "Seed", value=0, step=1, key="seed", persist_state="session", help="Orders the timed runs; the same seed gives the same rounds."
        )
with words:
    st.subheader("Prompts", anchor=False)
    source = st.segmented_control(
        "Prompts", ["bundled", "pasted"], default="bundled", required=True, key="prompts", bind="query-params", label_visibility="collapsed"
    )
    if source == "pasted":
        found = prompt_box.prompt_box()
    else:
        found = demo.prompts()
        st.markdown(f"**{prompt_box.count(found)}**")
        with st.expander("Read them"):
            for prompt in found:
                st.code(prompt.text, language=None, wrap_lines=True)
    most = (
        st.number_input(
            "Number of prompts", min_value=1, value=max(1, len(found)), step=1, help="The first so many. 24 or more give a useful interval."
        )
        if found
        else 0
    )
    if found and most < 8:
        look.note("Below 8 prompts no interval for other traffic is shown.")

if st.button("Measure", type="primary", icon=":material/timer:", disabled=not found):
    try:
        spec = RunSpec(target=target, draft=draft, prompts=found[:most], max_new_tokens=tokens, device=device, dtype=dtype, seed=seed)
        st.query_params["run"] = bench.submit(spec)
    except DraftgaugeError as error:
        st.error(look.plain(str(error)), icon=":material/error:")
    else:
        st.rerun()
if not found:
    look.note("Paste at least one prompt to measure.")
