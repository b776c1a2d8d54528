"""Runs: everything that was measured or imported, to find, compare, note down and delete. `?compare=id,id&baseline=id` compares."""

from dataclasses import replace

import streamlit as st

from core.ui import compare_page, import_box, look, numbers, published_list, runs_actions, runs_filter, runs_live, runs_note, runs_storage, runs_table
from core.ui.desk import EXAMPLE, desk, read_only
from core.ui.frame import frame, page_path

frame()
store, _ = desk()
compared = st.query_params.get("compare", "")
if compared:
    st.page_link(page_path("runs"), label="All runs", icon=":material/arrow_back:")
    compare_page.show([run_id for run_id in compared.split(",") if run_id], st.query_params.get("baseline", ""))
    st.stop()

choices = store.choices()
if choices.total:
    look.headline("Runs", f":small[:gray[{numbers.counted(choices.total, 'run')} that ended; each has a permanent link.]]")
else:
    look.headline("No runs yet", "What you measure appears here and stays: to look at, to compare, to share.")
runs_live.show()
runs_actions.undo()
if choices.total:
    asked = runs_filter.show(choices)
    found = store.history(asked.query)
    actions, listed, below = st.container(), st.container(), st.container()
    with below:
        at = runs_filter.pager(found.pages)
    if at:
        found = store.history(replace(asked.query, page=at))
    if found.total:
        with listed:
            chosen = runs_table.show(found.entries, asked.columns)
        with actions:
            runs_actions.show(chosen)
        if len(chosen) == 1:
            runs_note.show(chosen[0], choices.tags)
    else:
        with listed:
            st.markdown("No run is like that.")
            st.button("Show all runs", icon=":material/filter_list_off:", on_click=runs_filter.clear)
    if asked.filtered and found.total:
        with below:
            look.note(f"{found.total:,} of {numbers.counted(choices.total, 'run')} are listed.")
import_box.show()
published_list.show()
runs_storage.show()
if read_only():
    look.next_step("See what the bundled example gives at every draft length.", "gamma", "Open the example", {"run": EXAMPLE})
else:
    look.next_step("Measure another pair, or the same one with other prompts.", "measure", "Measure")
