"""The columns of a side-by-side run while it is written: figures, text and ruler of each, as plain HTML.

One piece of HTML per column, so that ten repaints a second change text and nothing else: no element comes or goes while a column is
written. All foreign text is escaped (`core.ui.tokens`). A finished run is shown by the player (`core.player`).
"""

import html
from collections.abc import Sequence

from core import numbers
from core.palette import Palette
from core.player import lane_detail, lane_name
from core.record import Step
from core.runs import Run
from core.side import LaneFigures, figures, written
from core.ui import tokens

LEAST_PX = 220
"""Height of a column's text before there is any, so that short answers do not move what is below."""


def column(palette: Palette, run: Run, lane: int, steps: Sequence[Step], state: str, *, rejected: bool = False) -> str:
    """One column. steps: its own so far; state: "writing", "done", or a sentence that says what it waits for."""
    found, answer = figures(steps), written(steps, run.spec.lanes[lane].policy)
    title = f"<h3>{html.escape(lane_name(run, lane))} <small>{html.escape(lane_detail(run.spec.lanes[lane]))}</small></h3>"
    cursor = '<i class="cursor"></i>' if state == "writing" else ""
    text = tokens.streamed(answer, rejected=rejected).removesuffix("</div>") + f"{cursor}</div>"
    assisted = lane > 0
    ruled = tokens.ruler(palette, tokens.of_written(answer)) if assisted and answer else ""
    lines = f'<p class="side-note">{html.escape(_pace(found, assisted, state))}</p><p class="side-note">{html.escape(_shares(found, assisted))}</p>'
    return f'{_style(palette)}<div class="side" data-lane="{lane}">{title}{_figures(found)}<div class="side-text">{text}</div>{lines}{ruled}</div>'


def _figures(found: LaneFigures) -> str:
    rate, first = found.tokens_per_s, found.first_token_s
    rows = (
        ("Tokens", f"{found.tokens:,}"),
        ("Time", seconds(found.seconds) if found.tokens else ""),
        ("Tokens/s", f"{rate:,.{0 if rate >= 100 else 1}f}" if rate else ""),
        ("First token", seconds(first) if first is not None else ""),
    )
    cells = "".join(f"<div><dt>{label}</dt><dd>{value or '&nbsp;'}</dd></div>" for label, value in rows)
    return f'<dl class="side-figures">{cells}</dl>'


def seconds(value: float) -> str:
    """A stretch of a call: 43 ms, 0.79 s, 12.4 s."""
    return f"{value * 1000:.0f} ms" if value < 0.1 else f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def _pace(found: LaneFigures, assisted: bool, state: str) -> str:
    if not found.rounds:
        return state if state != "writing" else "Reading the prompt"
    per_round = found.tokens_per_round or 0.0
    counted = numbers.counted(found.rounds, "round" if assisted else "step")
    said = f"{counted}, {per_round:.2f} {'tokens' if assisted else 'token'} per {'round' if assisted else 'step'}"
    if assisted:
        said += f"; {_proposed(found)}"
    return f"{said}; still writing" if state == "writing" else said


def _proposed(found: LaneFigures) -> str:
    """In the words of the player (player.js)."""
    if not found.drafted:
        return "nothing proposed"
    acceptance = "" if found.acceptance is None else f"acceptance {found.acceptance:.2f}, "
    counts = f"{numbers.counted(found.drafted, 'token')} proposed, {found.examined:,} examined, {found.accepted:,} accepted"
    return f"{counts}: {acceptance}utilisation {found.utilisation:.2f}"


def _shares(found: LaneFigures, assisted: bool) -> str:
    """The split of time where passes were timed; a line of its own all the same, so that nothing moves when it comes."""
    if not assisted or found.shares is None or not found.verify_s:
        return "\u00a0"
    draft, verify = (round(100 * share) for share in found.shares[:2])
    return f"draft {draft} %, verify {verify} %, rest {100 - draft - verify} % of the time"


def _style(palette: Palette) -> str:
    """Streamlit pales what a rerun has not reached yet; ten times a second on a busy machine that would be a flicker."""
    own = f""".side h3{{font-size:1.05rem;font-weight:600;margin:0;padding:0;letter-spacing:0}}
.side h3 small{{font-size:.9rem;font-weight:400;color:{palette.muted}}}
.side dl,.side dt,.side dd,.side dl div{{margin-left:0;padding:0}}
.stElementContainer[data-stale=true]:has(.side){{opacity:1;transition:none}}
.side-figures{{display:grid;grid-template-columns:repeat(4,1fr);gap:.4rem;margin:.7rem 0}}
.side-figures dt{{font-size:.87rem}}
.side-figures dd{{font-size:1.5rem;font-weight:500;margin:0;font-variant-numeric:tabular-nums;white-space:nowrap}}
.side-text{{min-height:{LEAST_PX}px;tab-size:4}}
.side-note{{font-size:.87rem;color:{palette.muted};margin:.5rem 0 0;font-variant-numeric:tabular-nums}}
.cursor{{display:inline-block;width:.55em;height:1.1em;background:{palette.ink};vertical-align:text-bottom}}
@media(max-width:500px){{.side-figures dd{{font-size:1.2rem}}.side-text{{min-height:{LEAST_PX // 2}px}}}}"""
    return tokens.style(palette).replace("</style>", f"{own}\n</style>")
