"""One run as a row of the list: what each column says, and the little picture of its interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from urllib.parse import quote

import pandas as pd

from core.analysis import sentence_case
from core.history import Entry, Kind
from core.palette import Palette
from core.record import Source, Summary
from core.ui import numbers

BAR, SIZE = "Interval", "Size, MB"
ALL = (
    "When", "Target", "Draft", "Answer", "Speedup", BAR, "These prompts", "Traffic", "alpha", "c", "Device", "Number format",
    "Took, s", "Tags", "Note", "Kind", "Status", SIZE, "Id",
)  # fmt: skip
USUAL = ("When", "Target", "Draft", "Answer", "Speedup", BAR, "alpha", "c", "Device", "Tags")
VERDICTS = {"use": "use", "leave_off": "leave off", "undecided": "not decided"}
KINDS: dict[Kind, str] = {
    "measured": "measured",
    "ways": "several ways",
    "side_by_side": "side by side",
    "shapes": "passes timed",
    "imported": "imported",
}
SOURCES: dict[Source, str] = {
    "draftgauge": "another machine",
    "alpha_c": "two numbers",
    "vllm": "vLLM",
    "vllm_prometheus": "vLLM's metrics",
    "llama_cpp": "llama.cpp",
    "published": "a publication",
}
_WIDTH, _HEIGHT, _MARGIN = 200, 26, 8


@dataclass(frozen=True)
class Scale:
    """The speedups at both ends of every picture of a page, on a log scale; 1 lies between them."""

    low: float
    high: float

    @classmethod
    def of(cls, summaries: Sequence[Summary]) -> "Scale":
        """Wide enough for all of these."""
        low = min((min(ends(each)) for each in summaries), default=1.0)
        high = max((max(ends(each)) for each in summaries), default=1.0)
        return cls(min(0.9, low) * 0.97, max(1.1, high) * 1.03)

    def x(self, speedup: float) -> float:
        """Pixels from the left."""
        share = log(speedup / self.low) / log(self.high / self.low)
        return _MARGIN + share * (_WIDTH - 2 * _MARGIN)


def ends(found: Summary) -> tuple[float, ...]:
    """Both ends of every interval of an answer."""
    return (found.low, found.high, *(found.traffic or ()))


def table(entries: Sequence[Entry], palette: Palette, sizes: dict[str, int]) -> pd.DataFrame:
    """One row per run with all columns. sizes: bytes by run id, where they are known."""
    scale = scale_of(entries)
    rows = [_row(entry, palette, scale) | {SIZE: sizes[entry.id] / 1e6 if entry.id in sizes else None} for entry in entries]
    return pd.DataFrame(rows, columns=list(ALL))


def scale_of(entries: Sequence[Entry]) -> Scale:
    """The scale of a page."""
    return Scale.of([entry.summary for entry in entries if entry.summary])


def _row(entry: Entry, palette: Palette, scale: Scale) -> dict[str, object]:
    found = entry.summary
    return {
        "When": numbers.when(entry.created),
        "Target": entry.target,
        "Draft": entry.draft,
        "Answer": answer(entry),
        "Speedup": entry.speedup,
        BAR: picture(found, palette, scale) if found else None,
        "These prompts": numbers.interval((found.low, found.high)) if found and found.low < found.high else "",
        "Traffic": numbers.interval(found.traffic) if found else "",
        "alpha": entry.alpha,
        "c": entry.c,
        "Device": entry.device,
        "Number format": entry.dtype,
        "Took, s": entry.duration_s,
        "Tags": list(entry.tags),
        "Note": entry.note,
        "Kind": KINDS[entry.kind],
        "Status": entry.status,
        "Id": entry.id,
    }


def answer(entry: Entry) -> str:
    """What came of a run, in a few words; empty for a measurement whose answer has not been kept yet."""
    if entry.status != "done":
        return sentence_case(entry.status)
    if entry.summary:
        return in_short(entry.summary)
    if entry.imported:
        return f"From {SOURCES[entry.imported.source]}"
    return sentence_case(KINDS[entry.kind]) if entry.kind in ("side_by_side", "ways", "shapes") else ""


def in_short(found: Summary) -> str:
    """A stored answer without its number: Use: fixed gamma 4."""
    return f"{sentence_case(VERDICTS[found.verdict])}: {found.policy}{'' if found.confirmed else ', predicted'}"


def picture(found: Summary, palette: Palette, scale: Scale) -> str:
    """Both intervals beside the line at 1x, as the address of a drawing.

    Bar: on these prompts; thin line: for traffic like them. Diamond: confirmed; dot: predicted.
    """
    middle, at, one = _HEIGHT / 2, scale.x(found.speedup), scale.x(1.0)
    outer = found.traffic or (found.low, found.high)
    colour = palette.draft_soft if outer[0] > 1 else palette.diverging[1] if outer[1] < 1 else palette.rejected
    mark = (
        f'<path d="M{at:.1f} {middle - 5}l5 5l-5 5l-5 -5z" fill="{palette.ink}"/>'
        if found.confirmed
        else f'<circle cx="{at:.1f}" cy="{middle}" r="4" fill="{palette.draft}"/>'
    )
    drawing = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}">'
        f'<line x1="{one:.1f}" x2="{one:.1f}" y1="0" y2="{_HEIGHT}" stroke="{palette.break_even}" stroke-width="1.25"/>'
        f"{_bar(*outer, 2, colour, scale)}{_bar(found.low, found.high, 8, colour, scale)}{mark}</svg>"
    )
    return f"data:image/svg+xml;utf8,{quote(drawing)}"


def _bar(low: float, high: float, height: int, colour: str, scale: Scale) -> str:
    left, right = scale.x(low), scale.x(high)
    return f'<rect x="{left:.1f}" y="{(_HEIGHT - height) / 2}" width="{max(1.0, right - left):.1f}" height="{height}" fill="{colour}"/>'
