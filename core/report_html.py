"""The report of a run: one HTML file for people who will not open the dashboard, complete without any network.

Plotly's own script is inside once, so the charts stay interactive; they are the pages' figures on light paper. Prints to A4 or
Letter. A Content-Security-Policy in the file lets only its own two scripts run (by their hashes, no `unsafe-eval`; tried with all the
charts) and nothing be fetched. Every text of foreign origin is escaped by the template. Prompts and answers are left out unless asked for.
`body` is what takes time to compute; `whole` only puts Plotly in.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from core import numbers, provenance, verdict
from core.analysis import Analysis
from core.palette import LIGHT, Palette
from core.placement import format_words
from core.reading import how_to_read
from core.report_figures import Chart, charts, memory_charts
from core.report_memory import Served, assumptions
from core.report_memory import sentence as memory_sentence
from core.report_tables import Table, by_label, figures_of, limits, policies, setting, texts_of
from core.version import VERSION

FOLDER = Path(__file__).parent / "report"
FONTS = '"Source Sans 3", "Source Sans", system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif'
PLOTLY = "<plotly>"
"""Where Plotly's script goes; no text in a report can hold it, because < is escaped in all of them."""
NOT_SIZED = "The sizes of both models were not at hand. Open Memory and cost for this run, and make the report again."


@dataclass(frozen=True)
class Drawn:
    """A chart as the template places it: its figure as JSON that cannot end a script, its words, and the table behind it."""

    key: str
    figure: Markup
    alt: str
    height: int
    table: Table | None


def report(analysis: Analysis, *, texts: bool = False, memory: Served | str = NOT_SIZED, link: str = "", made: str = "") -> str:
    """The whole file. memory: the pair as served, or a sentence why that is missing; link: address of the run; made: the day, "" for today."""
    return whole(body(analysis, texts=texts, memory=memory, link=link, made=made))


def whole(body: str) -> str:
    """A report's body with Plotly put in, as the file that is handed out."""
    return body.replace(PLOTLY, get_plotlyjs(), 1)


def body(analysis: Analysis, *, texts: bool = False, memory: Served | str = NOT_SIZED, link: str = "", made: str = "") -> str:
    """The file without Plotly, some hundred kilobytes; arguments as for `report`."""
    run, advice = analysis.run, analysis.advice
    sized = isinstance(memory, Served)
    drawn = {chart.key: _drawn(chart) for chart in [*charts(analysis), *(memory_charts(memory) if sized else [])]}
    draw = (FOLDER / "draw.js").read_text("utf-8")
    return _template().render(
        policy=_policy(draw),
        style=Markup((FOLDER / "style.css").read_text("utf-8").replace("FONTS", FONTS)) + _colours(LIGHT),
        draw=Markup(draw),
        plotly=Markup(PLOTLY),
        run=run,
        title=f"{run.spec.target.name} with {run.spec.draft.name}",
        header=_header(analysis),
        headline=Markup(verdict.sentence(advice, _mark)),
        facts=verdict.facts(analysis),
        origin=verdict.origin(analysis),
        formula=verdict.formula(analysis),
        reasons=verdict.reasons(analysis),
        cautions=_cautions(analysis),
        figures=figures_of(analysis),
        drawn=drawn,
        policies=policies(analysis),
        labels=by_label(analysis),
        setting=setting(analysis),
        memory_sentence=memory_sentence(analysis, memory) if sized else memory,
        assumptions=assumptions(analysis, memory) if sized else (),
        limits=limits(analysis),
        reading=how_to_read(sampled=run.spec.decoding.sample),
        provenance=provenance.rows(run),
        fit=provenance.fit(analysis.costs),
        texts=texts_of(run) if texts else (),
        link=link if link.startswith(("http://", "https://")) else "",
        made=made or f"{datetime.now(UTC):%Y-%m-%d}",
        version=VERSION,
    )


@cache
def _template() -> Any:
    return Environment(loader=FileSystemLoader(FOLDER), autoescape=True, trim_blocks=True, lstrip_blocks=True).get_template("report.html")


def _policy(draw: str) -> str:
    """Only these two scripts, inline styles (Plotly writes some), and pictures that the charts make of themselves."""
    scripts = " ".join(f"'sha256-{_digest(text)}'" for text in (get_plotlyjs(), draw))
    return f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _drawn(chart: Chart) -> Drawn:
    fig = go.Figure(chart.figure).update_layout(font_family=FONTS, hoverlabel_font_family=FONTS)
    text = str(fig.to_json()).replace("<", "\\u003c")
    return Drawn(chart.key, Markup(text), chart.alt, int(fig.layout.height), chart.table)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType, reportAttributeAccessIssue]


def _mark(text: str, tone: verdict.Tone) -> str:
    return f'<span class="{tone}">{escape(text)}</span>'


def _colours(palette: Palette) -> Markup:
    """The palette as CSS variables."""
    names = ("ink", "muted", "grid", "axis", "paper", "target", "target_tint", "draft", "draft_tint", "danger_text", "break_even", "free")
    return Markup("\n:root { " + " ".join(f"--{name.replace('_', '-')}: {getattr(palette, name)};" for name in names) + " }")


def _header(analysis: Analysis) -> str:
    """Whose numbers these are, in a line."""
    spec, where = analysis.run.spec, analysis.run.environment
    device = where.device_name if where else spec.device
    prompts = f"{numbers.counted(len(spec.prompts), 'prompt')}, at most {numbers.counted(spec.max_new_tokens, 'token')} each"
    return f"{device}, {format_words(spec)}, {spec.decoding.words()}. {prompts}. Measured {numbers.when(analysis.run.created)}."


def _cautions(analysis: Analysis) -> Sequence[str]:
    """What a reader must know before the numbers; nothing when all is well."""
    run = analysis.run
    found: list[str] = []
    if run.status != "done":
        found.append(f"This run was {run.status} before its end; what it had measured until then is shown.")
    if run.imported is not None:
        found.append("This run was measured on another machine and imported.")
    if parted := len(verdict.differing(run)):
        found.append(
            f"{parted} of {len(verdict.assisted(run))} assisted answers differ from plain decoding; the run's page says where and how nearly."
        )
    if run.disturbed:
        found.append("Something else used the machine while this run was timed; the times are less certain than usual.")
    return found
