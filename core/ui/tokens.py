"""Tokens as escaped spans, coloured by who wrote them, and the ruler of rounds.

Every text is escaped here and shown verbatim; nothing passes through Markdown. `core.token_style` says what the styles mean.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass

from core.palette import Palette
from core.rounds import Round
from core.side import Written
from core.token_style import LABELS, Writer, rules


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
    return f"<style>\n{rules(palette)}\n</style>"


def legend(palette: Palette, writers: Sequence[Writer] = ("draft", "target", "bonus")) -> str:
    """What the colours in the text mean."""
    keys = "".join(f'<span><b class="{writer}">token</b>{LABELS[writer]}</span>' for writer in writers)
    return f'{style(palette)}<div class="lg">{keys}</div>'


def text(palette: Palette, run: Sequence[Token]) -> str:
    """The answer as spans."""
    spans = "".join(
        f'<span class="{token.writer}" title="round {token.round}: {LABELS[token.writer]}">{html.escape(token.text)}</span>' for token in run
    )
    return f'{style(palette)}<div class="tk">{spans}</div>'


def streamed(run: Sequence[Written], *, rejected: bool = False) -> str:
    """An answer that is still being written, without its style: the exact text, one span per token in assisted columns.

    rejected: with what each round threw away struck through behind what it wrote. Right-to-left lines stand on their own side.
    """
    return f'<div class="tk" dir="auto" style="unicode-bidi:plaintext">{"".join(_streamed(token, rejected) for token in run)}</div>'


def _streamed(token: Written, rejected: bool) -> str:
    text = html.escape(token.text)
    if token.writer == "plain":
        return text
    away = html.escape("".join(token.rejected))
    said = f"; thrown away: {away}" if away else ""
    own = f'<span class="{token.writer}" title="round {token.round}: {LABELS[token.writer]}{said}">{text}</span>'
    return f'{own}<span class="rejected">{away}</span>' if rejected and away else own


def of_written(run: Sequence[Written]) -> list[Token]:
    """The tokens of a side-by-side column, for the ruler."""
    return [Token(token.text, "bonus" if token.writer == "plain" else token.writer, token.round, len(token.rejected)) for token in run]


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
    accepted, rejected = row.count("draft") + row.count("copied"), row.count("rejected")
    boxes = "".join(f'<i class="{writer}"></i>' for writer in row)
    return f'<div title="round {number}: {accepted} accepted of {accepted + rejected}">{boxes}</div>'
