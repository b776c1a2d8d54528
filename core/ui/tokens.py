"""Tokens as escaped spans, coloured by who wrote them, and the ruler of rounds.

Every text is escaped here and shown verbatim; nothing passes through Markdown. Weight and line carry
the meaning without colour: tint and underline = drafted and accepted, bold on a tint = the target's
correction, bold and dotted = the target's bonus, struck through = drafted and rejected.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from core.palette import Palette
from core.rounds import Round

Writer = Literal["draft", "target", "bonus", "rejected"]
LABELS: dict[Writer, str] = {
    "draft": "drafted, accepted",
    "target": "target's correction",
    "bonus": "target's bonus",
    "rejected": "drafted, rejected",
}


@dataclass(frozen=True)
class Token:
    """One token of an answer: its text, who wrote it, in which round, and how many drafts were rejected there."""

    text: str
    writer: Writer
    round: int
    rejected: int = 0


def tokens(pieces: Sequence[str], rounds: Sequence[Round]) -> list[Token]:
    """An answer's N pieces split into its rounds; the last token of each round is the target's own."""
    out: list[Token] = []
    for number, part in enumerate(rounds, 1):
        own = part.start + part.accepted
        out += [Token(piece, "draft", number) for piece in pieces[part.start : own]]
        out.append(Token(pieces[own], "target" if part.rejected else "bonus", number, part.drafted - part.accepted))
    return out


def style(palette: Palette) -> str:
    """The rules for text, legend and ruler."""
    return f"""<style>
.tk{{font:400 .94rem/1.9 "Source Code Pro",monospace;white-space:pre-wrap;overflow-wrap:anywhere;color:{palette.ink};margin:0}}
.tk span,.lg b{{padding:2px 0}}
.draft{{background:{palette.draft_tint};box-shadow:inset 0 -2px {palette.draft_soft}}}
.target{{background:{palette.target_tint};color:{palette.target};font-weight:700}}
.bonus{{color:{palette.target};font-weight:700;text-decoration:underline dotted 2px;text-underline-offset:4px}}
.rejected{{color:{palette.rejected};text-decoration:line-through}}
.lg{{display:flex;flex-wrap:wrap;gap:.4rem 1.5rem;font-size:.87rem;color:{palette.muted}}}
.lg b{{font:500 .87rem "Source Code Pro",monospace;color:{palette.ink};margin-right:.45rem;padding:2px 4px}}
.lg b.target,.lg b.bonus{{color:{palette.target};font-weight:700}}
.rl{{display:flex;flex-wrap:wrap;gap:8px;margin:.25rem 0 0}}
.rl div{{display:flex;gap:1px;border-bottom:1.5px solid {palette.axis};padding-bottom:3px}}
.rl i{{width:7px;height:12px;border-radius:1px;display:block;box-sizing:border-box;box-shadow:none}}
.rl .draft{{background:{palette.draft}}}
.rl .target,.rl .bonus{{background:{palette.target}}}
.rl .rejected{{background:none;border:1px solid {palette.rejected}}}
</style>"""


def legend(palette: Palette) -> str:
    """What the colours in the text mean."""
    keys = "".join(f'<span><b class="{writer}">token</b>{LABELS[writer]}</span>' for writer in ("draft", "target", "bonus"))
    return f'{style(palette)}<div class="lg">{keys}</div>'


def text(palette: Palette, run: Sequence[Token]) -> str:
    """The answer as spans."""
    spans = "".join(
        f'<span class="{token.writer}" title="round {token.round}: {LABELS[token.writer]}">{html.escape(token.text)}</span>' for token in run
    )
    return f'{style(palette)}<div class="tk">{spans}</div>'


def ruler(palette: Palette, run: Sequence[Token]) -> str:
    """One group per round: accepted, then the target's own, then what was thrown away (hollow)."""
    groups: dict[int, list[Writer]] = {}
    for token in run:
        row = groups.setdefault(token.round, [])
        row.append(token.writer)
        row.extend(("rejected",) * token.rejected)
    cells = "".join(_group(number, row) for number, row in groups.items())
    return f'{style(palette)}<div class="rl" role="img" aria-label="Accepted drafts in each of {len(groups)} rounds">{cells}</div>'


def _group(number: int, row: list[Writer]) -> str:
    accepted, rejected = row.count("draft"), row.count("rejected")
    boxes = "".join(f'<i class="{writer}"></i>' for writer in row)
    return f'<div title="round {number}: {accepted} accepted of {accepted + rejected}">{boxes}</div>'
