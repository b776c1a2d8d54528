"""Start: the question, three ways in, one real answer to look at, and the last runs."""

import streamlit as st

from core import demo
from core.analysis import Analysis
from core.errors import StoreError
from core.runs import RunSpec
from core.ui import device_card, look, numbers, result, situations_table, start_flow, start_questions, start_tour
from core.ui.desk import EXAMPLE, analysis, desk, forget_run, load, read_only, submit
from core.ui.frame import frame, page_path

SHOWN = 8

frame()
store, _ = desk()
st.title("Which draft model, how many tokens, and what do you really gain?", anchor=False)
st.markdown(
    "A small draft model proposes tokens, your target model checks them. Whether that pays is measured here, on your machine and with your "
    "prompts. :small[:gray[Every number says how it is known: confirmed by real runs, replayed from a trace, or a formula.]]"
)
st.space("xsmall")

measure, show, explore = (column.container(border=True, height="stretch") for column in st.columns(3, gap="medium"))
with measure:
    st.markdown("**Measure a pair**")
    st.markdown("Two small trained models and their prompts come along: one click measures them, and the answer is a page like the example below.")
    look.note("Less than two minutes on two CPU cores, no download")
    if st.button("Measure the demo pair", type="primary", icon=":material/timer:", disabled=read_only()):
        submit(RunSpec(target=demo.TARGET, draft=demo.DRAFT, prompts=demo.prompts()))
    st.page_link(page_path("pair"), label="Choose your own models", icon=":material/join_inner:")
with show:
    st.markdown("**Show the trade-off**")
    st.markdown("A curve, a map and every policy side by side, from a run that was really measured.")
    look.note("Opens at once")
    if st.button("Open the example", icon=":material/ssid_chart:"):
        st.switch_page(page_path("gamma"), query_params={"run": EXAMPLE})
    st.page_link(page_path("side_by_side"), label="Watch plain and assisted race", icon=":material/splitscreen_right:")
with explore:
    st.markdown("**Explore without a model**")
    st.markdown("Move acceptance and cost, and watch where drafting stops paying.")
    look.note("No model, no measurement")
    if st.button("Try what-if values", icon=":material/tune:"):
        forget_run()
        st.switch_page(page_path("gamma"))

st.space("small")
try:
    example = analysis(load(EXAMPLE))
except StoreError as error:
    st.error(look.plain(str(error)), icon=":material/error:")
else:
    if isinstance(example, Analysis):
        result.pair_header(example.run, "Example run")
        left, right = st.columns([3, 2], gap="large")
        with left:
            result.curve(example, "example_curve")
        with right:
            result.verdict_card(example)

runs = store.recent(SHOWN)
st.subheader("Your runs", anchor=False)
unreadable = store.unreadable(SHOWN)
if not runs and not unreadable:
    look.note("None yet. A measured run appears here and stays; each has a permanent link.")
if unreadable:
    look.note(f"{numbers.counted(unreadable, 'run')} cannot be read: damaged, or of another version of Draftgauge.")
for run in runs:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.page_link(
            page_path("measure"), label=f"**{look.plain(result.pair_name(run))}**", icon=result.STATUS_ICONS[run.status], query_params={"run": run.id}
        )
        count = numbers.counted(len(run.spec.prompts), "prompt")
        look.note(f"{numbers.when(run.created)}, {look.plain(run.spec.device)}, {count}, {result.outcome(run)}")
st.page_link(page_path("runs"), label="All runs: search, compare, export, import", icon=":material/history:")

left, right = st.columns([3, 2], gap="large")
with left:
    st.subheader("A tour in two minutes", anchor=False)
    start_tour.show()
with right:
    st.subheader("Where it runs", anchor=False)
    device_card.show(store.devices())
st.subheader("Which draft in which situation", anchor=False)
situations_table.show(next((run for run in runs if run.summary), None))
left, right = st.columns([3, 2], gap="large")
with left:
    st.subheader("Questions people ask", anchor=False)
    start_questions.show()
with right:
    st.subheader("Four questions before you deploy", anchor=False)
    start_flow.show()
look.next_step("See which drafts fit your own target, before anything is downloaded.", "pair", "Choose a pair")
