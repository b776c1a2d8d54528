"""Measure: choose a pair and prompts, watch it run, read the result. Addressed by ?run=id, or ?group=id for several drafts; &more adds prompts."""

import streamlit as st

from core import pair
from core.address import address, resolve
from core.errors import InvalidInput
from core.runs import ModelRef, RunSpec
from core.ui import begin_note, decoding_box, group_page, look, more_prompts, pair_pick, prompt_source, run_page, ways_form
from core.ui.desk import desk, load, read_only, run_id, settings, submit
from core.ui.frame import frame, page_path

frame()
store, _ = desk()
group = group_page.group_id()
if group:
    group_page.show(group)
    st.stop()
chosen = run_id()
if chosen:
    run = load(chosen)
    if more_prompts.asked():
        more_prompts.show([run])
    else:
        run_page.show(run)
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
        refs.extend(resolve(text, settings()) for text in (target, *drafts) if text)  # one by one: the target stays known beside a wrong draft
    except InvalidInput as error:
        st.error(look.plain(str(error)), icon=":material/error:")
    st.page_link(page_path("pair"), label="See what fits before you measure", icon=":material/join_inner:")
    if len(offered) == 2:
        look.note("Only the bundled pair is on this machine. Name folders of your own models in the setting `DRAFTGAUGE_MODEL_ROOTS`.")
    st.subheader("Settings", anchor=False)
    how = decoding_box.settings_box(refs[0] if target and refs else None, store.devices())
with right:
    st.subheader("Prompts", anchor=False)
    found = prompt_source.prompt_source(target or "", drafts, how.typed.max_new_tokens, chat_template=how.chat_template)
    found = prompt_source.first_of(found)
    st.subheader("Ways to draft", anchor=False)
    asked = ways_form.form(refs[0], refs[1:], how, found) if target and drafts and len(refs) == 1 + len(drafts) else ways_form.NOTHING

specs: list[RunSpec] = []
if found and asked.ready and how.ready:
    try:
        specs = asked.specs(how, refs[0], found)
    except InvalidInput as error:
        st.error(look.plain(str(error)), icon=":material/error:")
with st.container(horizontal=True, vertical_alignment="center"):
    if st.button(asked.label, type="primary", icon=":material/timer:", disabled=not specs or read_only()):
        submit(*specs)
    if specs:
        begin_note.show(specs)
    elif not (target and drafts):
        look.note("Choose a target and at least one draft.")
