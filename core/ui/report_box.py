"""A run's report as one HTML file, made by a short job when somebody asks for it, and its summary for a pull request."""

from datetime import UTC, datetime
from typing import Any

import streamlit as st

from core.analysis import Analysis
from core.planner import Answer, Failed, Ready, Waiting
from core.report_html import NOT_SIZED, whole
from core.runs import Run
from core.summary_markdown import summary
from core.ui import link_box, look, memory_pair
from core.ui.desk import planner
from core.ui.kept_download import kept
from core.version import VERSION

ASKED = "_report_asked"
LOOK_AGAIN_S = 0.7


def show(analysis: Analysis, *, texts: bool) -> None:
    """Both, for a run with a speedup; `texts`: the report holds prompts and answers."""
    run = analysis.run
    link = link_box.link(st.context.url, run.id if texts or not run.share_id else run.share_id)
    asked = st.session_state.get(ASKED) == (run.id, texts)
    answer = _answer(run, link, texts=texts) if asked else None
    with st.container(horizontal=True, vertical_alignment="center"):
        if isinstance(answer, Ready):
            _download(run, str(answer.data))
        else:
            wait = isinstance(answer, Waiting)
            st.button("Report (HTML)", key="make_report", icon=":material/article:", disabled=wait, on_click=_ask, args=(run.id, texts))
        name = f"draftgauge-{run.id}-summary.md"
        made = kept(lambda: summary(analysis, link), name, "text/markdown")
        st.download_button("Summary (Markdown)", made, name, "text/markdown", icon=":material/notes:", on_click="ignore", key="download_summary")
    if isinstance(answer, Failed):
        st.error(look.plain(answer.sentence), icon=":material/error:")
    if isinstance(answer, Waiting):
        st.fragment(_poll, run_every=LOOK_AGAIN_S)(run, link, texts)
    look.note("The report is one file for people without Draftgauge, for the screen and for paper. The summary fits a pull request.")


def _download(run: Run, body: str) -> None:
    name = f"draftgauge-{run.id}-report.html"
    data = kept(lambda: whole(body), name, "text/html")
    st.download_button("Download the report (HTML)", data, name, "text/html", icon=":material/download:", on_click="ignore", key="download_report")


def _ask(run_id: str, texts: bool) -> None:
    st.session_state[ASKED] = (run_id, texts)


def _poll(run: Run, link: str, texts: bool) -> None:
    """Only this much is drawn again while the report is made."""
    answer = _answer(run, link, texts=texts)
    if not isinstance(answer, Waiting):
        st.rerun()
    look.note(f":material/hourglass_empty: The report: {look.plain(answer.why)}")


def _answer(run: Run, link: str, *, texts: bool) -> Answer:
    """The report without Plotly once it is made, first of all the sizes of both models."""
    sides = [memory_pair.of_run(ref) for ref in (run.spec.target, run.spec.draft)]
    if waits := next((side.waiting for side in sides if side.waiting), ""):
        return Waiting(f"sizes of the models, {waits}")
    wanted: dict[str, Any] = {"run": run.id, "texts": texts, "link": link, "made": f"{datetime.now(UTC):%Y-%m-%d}", "version": VERSION}
    if all(side.profile for side in sides):
        wanted["models"] = [
            {"profile": side.profile.to_json(), "weights": side.weights.model_dump() if side.weights else None} for side in sides if side.profile
        ]
    else:
        problem = next((f"{side.name}: {side.problem}" for side in sides if side.problem), "")
        wanted["missing"] = f"{NOT_SIZED} {problem}".strip()
    return planner().ask("report", wanted)
