"""Who wrote a token, in words and in CSS: one style for the pages, the player and exported files.

Weight and line carry the meaning without colour: tint and underline = drafted and accepted, bold on a tint = the target's correction,
bold and dotted = the target's bonus, dashed = copied from earlier text by prompt lookup, struck through = proposed and rejected.
Plain answers have no style: a column all in one colour says nothing.
"""

from dataclasses import fields, replace
from typing import Literal

from core.palette import LIGHT, Palette

Writer = Literal["draft", "copied", "target", "bonus", "rejected"]
LABELS: dict[Writer, str] = {
    "draft": "drafted, accepted",
    "copied": "copied, accepted",
    "target": "target's correction",
    "bonus": "target's bonus",
    "rejected": "drafted, rejected",
}
NAMES = tuple(field.name for field in fields(Palette) if isinstance(getattr(LIGHT, field.name), str))
"""The palette's single colours."""
VARIABLES = replace(LIGHT, **{name: f"var(--{name})" for name in NAMES})
"""A palette whose single colours are CSS variables, for documents that follow the reader's own theme."""


def variables(palette: Palette) -> str:
    """Declarations that give the variables of `VARIABLES` their colours."""
    return "".join(f"--{name}:{getattr(palette, name)};" for name in NAMES)


def rules(palette: Palette) -> str:
    """CSS for text (.tk), legend (.lg) and ruler (.rl)."""
    return f""".tk{{font:400 .94rem/1.9 "Source Code Pro",monospace;white-space:pre-wrap;overflow-wrap:anywhere;color:{palette.ink};margin:0}}
.tk span,.lg b{{padding:2px 0}}
.draft{{background:{palette.draft_tint};box-shadow:inset 0 -2px {palette.draft_soft}}}
.copied{{background:{palette.free};text-decoration:underline dashed {palette.formula} 2px;text-underline-offset:4px}}
.target{{background:{palette.target_tint};color:{palette.target};font-weight:700}}
.bonus{{color:{palette.target};font-weight:700;text-decoration:underline dotted 2px;text-underline-offset:4px}}
.rejected{{color:{palette.rejected};text-decoration:line-through}}
.lg{{display:flex;flex-wrap:wrap;gap:.4rem 1.5rem;font-size:.87rem;color:{palette.muted}}}
.lg b{{font:500 .87rem "Source Code Pro",monospace;color:{palette.ink};margin-right:.45rem;padding:2px 4px}}
.lg b.target,.lg b.bonus{{color:{palette.target};font-weight:700}}
.lg b.rejected{{color:{palette.rejected}}}
.rl{{display:flex;flex-wrap:wrap;gap:8px;margin:.25rem 0 0}}
.rl div{{display:flex;gap:1px;border-bottom:1.5px solid {palette.axis};padding-bottom:3px}}
.rl i{{width:7px;height:12px;border-radius:1px;display:block;box-sizing:border-box;box-shadow:none}}
.rl .draft{{background:{palette.draft}}}
.rl .copied{{background:{palette.formula}}}
.rl .target,.rl .bonus{{background:{palette.target}}}
.rl .rejected{{background:none;border:1px solid {palette.rejected}}}"""
