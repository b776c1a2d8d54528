"""Side by side: one prompt, plain and assisted beside each other, live and as a replay. Addressed by ?run=id, or ?from=id of a measurement."""

import streamlit as st

from core import privacy
from core.errors import DraftgaugeError
from core.ui import export_box, look, result, side_address, side_done, side_form, side_live, side_prompt
from core.ui.desk import ALIVE, EXAMPLE, load, queue, side_example
from core.ui.frame import frame

frame()
chosen = side_address.run_id()
if chosen:
    run = side_example() if chosen == EXAMPLE else load(chosen)
    if run.spec.extent != "side_by_side":
        side_address.begin_from(chosen)
        st.rerun()
    side_address.look_at(chosen)
    if run.status in ALIVE:
        result.pair_header(run)
        side_live.watch(run)
        st.stop()
    side_done.show(run, "Recorded example" if chosen == EXAMPLE else "")
    with st.container(horizontal=True):
        st.button("New side by side", icon=":material/add:", on_click=side_address.begin_from, args=(run.spec.reference,))
        if privacy.has_texts(run):
            st.button("Change and run again", icon=":material/tune:", on_click=side_form.again, args=(run,))
        if privacy.has_texts(run) and run.status == "done":
            st.button("Continue", icon=":material/forum:", on_click=side_form.proceed, args=(run,), help=side_prompt.HELP)
        side_done.download(run)
    if chosen != EXAMPLE:
        export_box.show(run)
    if run.spec.reference:
        look.next_step("See whether this prompt is typical of your traffic.", "gamma", "Choose gamma", {"run": run.spec.reference})
    else:
        look.next_step("Measure this pair on your own prompts: one prompt says little about traffic.", "measure", "Measure")
    st.stop()

look.headline("Watch plain and assisted side by side", "One prompt, the same answer, and every token coloured by who wrote it.")
reference = side_address.reference()
asked = side_form.show(reference)
if asked:
    try:
        side_address.look_at(queue(asked))
        st.rerun()
    except DraftgaugeError as error:
        st.error(look.plain(str(error)), icon=":material/error:")
st.space("small")
side_done.example()
if reference:
    look.next_step("Look again at what this pair was measured to gain.", "gamma", "Choose gamma", {"run": reference.id})
else:
    look.next_step("Measure a pair first, to have its recommended setting and a prediction here.", "measure", "Measure")
