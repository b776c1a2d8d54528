"""llama.cpp's own records: the server's log, the output of llama-speculative, and `timings` of its responses.

Log: "draft acceptance rate = 0.57576 (  171 accepted /   297 generated)" after each request, since June 2026 "draft acceptance = ... (...),
mean acceptance length = 2.92, acceptance rate per position = (0.805, 0.632, 0.483)", and lines of statistics since the server's start
with "#gen drafts", "#gen tokens", "#acc tokens" (tools/server/server-context.cpp, common/speculative.cpp; llama.cpp pull requests
14104, 24536). Program: n_draft, n_drafted, n_accept (examples/speculative). Responses: draft_n, draft_n_accepted (pull request
12603). llama.cpp's acceptance is accepted / generated drafts. It stops drafting where the draft is unsure (--draft-p-min), so that
alpha needs more than that ratio.
"""

import re
from collections.abc import Iterable

from core import translate
from core.errors import InvalidInput
from core.imports_counts import EXAMINED, Counts, Found, bounded_lines, checked, count, objects, one_length
from core.numbers import counted
from core.record import Imported
from core.translate import Reading

KEYS = {"draft_n", "draft_n_accepted"}
MARKS = ("draft acceptance", "n_drafted", "#gen drafts")
_REQUEST = re.compile(
    r"draft acceptance(?: rate)?\s*=\s*[\d.]+\s*\(\s*(\d{1,15})\s*accepted\s*/\s*(\d{1,15})\s*generated\s*\)"
    r"(?:.*?per pos(?:ition)? = \(([\d., ]*)\))?"
)
_STATISTICS = re.compile(r"statistics\s+(\S{1,60}):")
_STATISTIC = re.compile(r"#(gen drafts|gen tokens|acc tokens)\s*=\s*(\d{1,15})\b")
_PROGRAM = re.compile(r"\b(n_draft|n_drafted|n_accept)\s*=\s*(\d{1,15})\b")

Positions = tuple[float, ...]


def has_timings(values: Iterable[object]) -> bool:
    """Whether a response of llama.cpp's server that drafted is in these JSON values."""
    return any(set(each) >= KEYS for value in values for each in objects(value))


def from_timings(values: Iterable[object], gamma: int | None = None) -> Found:
    """From the server's responses, added up; gamma: --draft-max. Raises InvalidInput when one cannot be, or nothing was drafted."""
    total, number = Counts(0, 0), 0
    for value in values:
        for record in objects(value):
            if set(record) >= KEYS:
                number += 1
                total += Counts(
                    count(record["draft_n_accepted"], f"Response {number}: draft_n_accepted"), count(record["draft_n"], f"Response {number}: draft_n")
                )
    return _found(checked(total, f"{counted(number, 'response')} of llama.cpp"), counted(number, "response"), gamma, None)


def from_log(text: str, gamma: int | None = None) -> Found:
    """From its log or its program's output; gamma: --draft-max, where the log does not say it. Raises InvalidInput without counts."""
    lines = list(bounded_lines(text))
    program = {name: int(value) for line in lines for name, value in _PROGRAM.findall(line)}
    if {"n_drafted", "n_accept"} <= set(program):
        total = Counts(program["n_accept"], program["n_drafted"])
        return _found(checked(total, "llama-speculative"), "one run of llama-speculative", program.get("n_draft") or gamma, None)
    requests = [(int(hit), int(drafted), _positions(rates)) for line in lines for hit, drafted, rates in _REQUEST.findall(line)]
    since_start = _since_start(lines)
    if not requests and since_start is None:
        raise InvalidInput("There is no line with accepted and generated drafts. Paste llama.cpp's 'draft acceptance' lines.")
    if since_start is not None and not requests:
        return _found(checked(since_start, "llama.cpp's statistics"), "its statistics since the start", gamma, None)
    total = Counts(sum(hit for hit, _, _ in requests), sum(drafted for _, drafted, _ in requests))
    if since_start is not None and (since_start.accepted, since_start.drafted) == (total.accepted, total.drafted):
        total = since_start  # the same requests, with the number of their rounds
    return _found(checked(total, "llama.cpp's log"), counted(len(requests), "request"), gamma, _together(requests))


def _since_start(lines: list[str]) -> Counts | None:
    """The last statistics of every way of drafting, added up; None without any."""
    latest: dict[str, dict[str, int]] = {}
    for line in lines:
        name, values = _STATISTICS.search(line), {key: int(value) for key, value in _STATISTIC.findall(line)}
        if name is not None and len(values) == 3:
            latest[name[1]] = values
    if not latest:
        return None
    drafts, drafted, accepted = (sum(values[key] for values in latest.values()) for key in ("gen drafts", "gen tokens", "acc tokens"))
    return Counts(accepted, drafted, drafts)


def _found(total: Counts, of: str, gamma: int | None, positions: Positions | None) -> Found:
    definition = f"llama.cpp's draft acceptance of {of} is accepted / generated, {total.ratio:.3f}."
    steady = total.rounds is not None and positions is not None and total.drafted == total.rounds * len(positions)
    reading = _alpha(total, gamma, positions, steady=steady)
    if reading is None:
        how = "Alpha is not known: it takes the rates per position, which newer versions log, or the length that every round drafts."
    elif positions is not None:
        how = f"{EXAMINED} Here: {reading.how}, from rates of three digits."
    else:
        how = f"Alpha follows from {reading.how}; rounds that stopped early (--draft-p-min) make it too low."
    known = len(positions) if steady and positions is not None else gamma
    imported = Imported(
        source="llama_cpp",
        alpha=None if reading is None else reading.alpha,
        gamma=one_length([known or 0]),
        accepted=total.accepted,
        drafted=total.drafted,
        rounds=total.rounds,
        definition=f"{definition} {how}",
    )
    return Found(imported)


def _alpha(total: Counts, gamma: int | None, positions: Positions | None, *, steady: bool) -> Reading | None:
    if positions is not None:
        return translate.alpha_from_positions(positions, gamma=len(positions) if steady else None)
    return None if gamma is None else translate.alpha_from_utilisation(total.ratio, gamma)


def _positions(text: str) -> Positions:
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if not all(re.fullmatch(r"[01]\.\d{1,9}", part) for part in parts):
        raise InvalidInput(f"{text[:60]!r} are no rates per position. Paste llama.cpp's line as it is.")
    return tuple(float(part) for part in parts)


def _together(requests: list[tuple[int, int, Positions]]) -> Positions | None:
    """Rates per position over all requests, each weighted by its rounds; None where one does not say them.

    A request's rounds are its accepted tokens / the sum of its rates; where none was accepted, its drafted tokens / the positions.
    """
    if not all(rates for _, _, rates in requests):
        return None
    weights = [hit / sum(rates) if sum(rates) else drafted / len(rates) for hit, drafted, rates in requests]
    longest = max(len(rates) for _, _, rates in requests)
    padded = [(*rates, *[0.0] * (longest - len(rates))) for _, _, rates in requests]
    if not sum(weights):
        return None
    return tuple(sum(weight * rates[place] for weight, rates in zip(weights, padded, strict=True)) / sum(weights) for place in range(longest))
