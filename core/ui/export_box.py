"""Share and export a run that has ended: its link, the whole run as JSON, and tables as CSV; without prompts and answers unless asked for.

Nothing is computed before somebody clicks; what is downloaded comes from the analysis that the page shows already.
"""

import re
from collections.abc import Callable

import streamlit as st

from core import export_csv, privacy
from core.analysis import Analysis
from core.export_json import to_json
from core.runs import Run
from core.ui import desk, link_box, look, report_box
from core.ui.kept_download import kept

TEXTS = "export_texts"
WITHOUT = "Off: every number stays, texts do not: a prompt becomes a hash, and the note is left out. Labels, tags, stop strings and names stay."


def show(run: Run) -> None:
    """The section at the end of a run's page."""
    found = desk.analysis(run)
    whole = found.run.model_copy(update=run.model_dump(include={"tags", "note", "edition"}))
    st.subheader("Share and export", anchor=False)
    texts = _texts(whole)
    with st.container(horizontal=True):
        _download("Whole run", "json", run, lambda: to_json(whole, texts=texts, key=privacy.installation_key(desk.settings().data)))
        if whole.traces:
            _download("Per prompt", "csv", run, lambda: export_csv.per_prompt(found, texts=texts))
            _download("Per token", "csv", run, lambda: export_csv.per_token(whole, texts=texts))
        if isinstance(found, Analysis):
            _download("Per policy", "csv", run, lambda: export_csv.per_policy(found))
    if isinstance(found, Analysis):
        report_box.show(found, texts=texts)
    tables = " Tables (CSV) open in a spreadsheet." if whole.traces else ""
    look.note(f"Another Draftgauge can import the whole run on its page Runs.{tables}")
    link_box.show(run, texts=texts)


def _texts(run: Run) -> bool:
    """Whether texts may leave: only if somebody says so, and never from a Draftgauge that only shows runs."""
    if not run.spec.prompts:
        return False
    if desk.settings().read_only or not privacy.has_texts(run):
        look.note("Prompts and answers are not in it: tokens are counted, and prompts stand as hashes. Labels, tags, stop strings and names are.")
        return False
    st.toggle("With prompts and answers", key=TEXTS, help=WITHOUT)
    return bool(st.session_state[TEXTS])


def _download(label: str, kind: str, run: Run, make: Callable[[], bytes]) -> None:
    pair = re.sub(r"[^a-z0-9]+", "-", f"{run.spec.target.name} {run.spec.draft.name}".lower()).strip("-")[:80]
    name = f"draftgauge-{pair}-{run.id}-{label.lower().replace(' ', '-')}.{kind}"
    icon = ":material/data_object:" if kind == "json" else ":material/table:"
    mime = "application/json" if kind == "json" else "text/csv"
    st.download_button(
        f"{label} ({kind.upper()})", kept(make, name, mime), file_name=name, mime=mime, icon=icon, on_click="ignore", key=f"download_{label}"
    )
