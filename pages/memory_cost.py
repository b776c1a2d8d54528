"""Memory and cost: what the draft takes of a GPU, and what it gives back in money. For a run (?run=id), or for any pair without measuring."""

from functools import partial

import streamlit as st

from core import memory_gain, memory_served, prices
from core.analysis import Analysis
from core.ui import look, memory_fleet, memory_inputs, memory_money, memory_pair, memory_prices, memory_show, result
from core.ui.desk import ALIVE, EXAMPLE, analysis, desk, forget_run, load, run_id
from core.ui.frame import frame

frame()
desk()
complaints = memory_inputs.Complaints()
seen: Analysis | None = None
waits = device = ""
chosen = None if memory_pair.from_address() else run_id()
if chosen:
    run = load(chosen)
    with st.container(horizontal=True, vertical_alignment="center"):
        result.pair_header(run, "Example run" if chosen == EXAMPLE else "")
        st.button("Another pair", icon=":material/swap_horiz:", type="tertiary", on_click=forget_run)
    found = None if run.status in ALIVE else analysis(run)
    if isinstance(found, Analysis):
        seen = found
    else:
        waits = found.missing if found else "The run is still being measured."
    device = run.environment.device_name if run.environment else ""
    target, draft = memory_pair.of_run(run.spec.target), memory_pair.of_run(run.spec.draft)
else:
    target, draft = memory_pair.pickers()
if target.profile is None or draft.profile is None:
    memory_pair.unknown((target, draft))
    look.next_step(*memory_pair.way_on(None))
    st.stop()
top, controls, body, details = st.container(), st.container(), st.container(), st.container()

with controls:
    asked = memory_inputs.load(target.profile.context, f"{target.address} {draft.address}", complaints, device=device, what_if=seen is None)
gain = memory_gain.of_run(seen) if seen else memory_gain.what_if(asked.what_if)
measured = gain.plain_tokens_per_s if memory_gain.same_gpu(gain.device, asked.gpu_name) else None

with details:
    fleet_place, layers_place = st.container(), st.container()
    with st.expander("Prices and assumptions"):
        st.markdown("**How the pair is served**")
        served = memory_inputs.assumptions(complaints, memory_gain.gamma(seen))
        look.note(f"{look.plain(asked.gpu_name)}: {look.plain(asked.gpu_note)}")
        st.markdown("**What an hour costs**")
        money_place = st.container()
        st.markdown("**Price table**")
        table = memory_prices.editor()
        with money_place:
            money = memory_inputs.money(table, asked.gpu_name, complaints, measured)

setting = memory_inputs.setting(asked, served, target, draft)
answer = complaints.read(partial(memory_served.fitted, setting, asked.gpu)) if setting and asked.gpu else None
with controls:
    complaints.show()
if setting is None or asked.gpu is None or answer is None:
    with top:
        look.headline("Correct a value to see what the draft takes")
    look.next_step(*memory_pair.way_on(chosen if seen else None))
    st.stop()

value = complaints.read(partial(memory_gain.worth, gain, money.usd_per_hour, money.hours)) if money.usd_per_hour else None
speed = money.tokens_per_s or measured
named = [(target.name, "target", setting.target), (draft.name, "draft", setting.draft)]
with top:
    facts, note = memory_money.facts(answer, gain, value, money), memory_money.origin_note(gain, asked.gpu_name, waits)
    look.headline(memory_gain.headline(answer, gain, value), f"{facts}\n\n:small[:gray[{note}]]" if note else facts)
with body:
    memory_show.bar(answer)
    left, right = st.columns([3, 2], gap="large")
    with left:
        memory_show.curve(setting, asked.gpu)
    with right:
        st.markdown("**What it costs and what it saves**")
        memory_money.figures(answer, gain, value, money, speed)
        memory_money.notes(answer, value, money)
        memory_show.badges(setting)
        if not asked.gpu_known:
            look.note(look.plain(asked.gpu_note))
    st.subheader("Per sequence and token", anchor=False)
    memory_show.models(named, answer)
    for note in (*answer.notes, *memory_show.encoder_notes(named)):
        look.note(look.plain(note))
    other = (money.currency, money.rate)
    price = memory_money.basis(money, asked.gpu_name)
    memory_money.stakeholders(memory_gain.sentence((target.name, draft.name), answer, gain, value, other, price))
with fleet_place:
    folded = st.expander("Fleet: requests per day to GPUs", expanded=memory_fleet.in_address(), on_change="rerun")
    if folded.open:
        with folded:
            gpu = prices.find_gpu(asked.gpu_name)
            memory_fleet.show(memory_fleet.Facts(target.name, setting, answer, gain, money, gpu, seen, speed))
with layers_place:
    folded = st.expander("Layers, one by one", on_change="rerun")
    if folded.open:
        with folded:
            memory_show.layers(named)

look.next_step(*memory_pair.way_on(chosen if seen else None))
