"""vLLM's own records: acceptance per request, the /metrics page, and log lines.

Per request: `metrics.speculative_decoding` of responses, with `--per-request-spec-decode-metrics summary` or `detailed`
(docs/features/speculative_decoding/acceptance_metrics.md, vLLM pull request 48915). /metrics and log lines: counters of all requests
since the server's start, or of an interval (vllm/v1/spec_decode/metrics.py). vLLM's acceptance rate is accepted / drafted, its mean
acceptance length 1 + accepted / drafts, its rate per position the share of drafts that accepted at least that many.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from core import translate
from core.errors import InvalidInput
from core.imports_counts import EXAMINED, LONGEST_ROUND, MOST, NUMBER, Counts, Found, bounded_lines, checked, count, counts_of, objects, one_length
from core.numbers import counted
from core.record import Imported

KEYS = {"num_draft_tokens", "num_accepted_draft_tokens", "num_spec_steps"}
PREFIX = "vllm:spec_decode_num_"
LOG = "SpecDecoding metrics"
_LINE = re.compile(
    rf"^{PREFIX}(drafts|draft_tokens|accepted_tokens|accepted_tokens_per_pos)(?:_total)?(?:\{{(.*)\}})?\s+({NUMBER})(?:\s+[0-9]{{1,20}})?\s*$"
)
_LABEL = re.compile(r'\b(\w+)="((?:[^"\\]|\\.)*)"')
_LOGGED = re.compile(r"SpecDecoding metrics:.*?Accepted: (\d{1,15}) tokens, Drafted: (\d{1,15}) tokens, Per-position acceptance rate: ([\d., ]+)")


def has_requests(values: Iterable[object]) -> bool:
    """Whether any request's acceptance is in these JSON values."""
    return any(set(each) >= KEYS for value in values for each in objects(value))


def from_requests(values: Iterable[object]) -> Found:
    """All requests added up. Raises InvalidInput when one contradicts itself, or nothing was drafted."""
    found = [each for value in values for each in objects(value)]
    records = [each for each in found if set(each) >= KEYS]
    models = {str(each["model"])[:200] for each in found if isinstance(each.get("model"), str) and "choices" in each}
    total = Counts(0, 0, 0, 0)
    for number, record in enumerate(records, 1):
        total += _request(record, f"Request {number}")
    total = checked(total, f"{counted(len(records), 'request')} of vLLM")
    how = (
        "exact, because the length of every round is known"
        if total.exact
        else "at least that, because rounds that were cut short count as rejections"
    )
    definition = f"vLLM's draft acceptance rate of {counted(len(records), 'request')} is accepted / drafted, {total.ratio:.3f}. {EXAMINED}"
    definition += f" It is {how}." if total.alpha is not None else " Without a histogram it cannot be told which drafts were examined."
    imported = Imported(
        source="vllm",
        alpha=total.alpha,
        gamma=total.gamma,
        accepted=total.accepted,
        drafted=total.drafted,
        rounds=total.rounds,
        definition=definition,
    )
    return Found(imported, models.pop() if len(models) == 1 else "")


def _request(record: Mapping[str, Any], where: str) -> Counts:
    accepted, drafted, steps = (
        count(record[name], f"{where}: {name}") for name in ("num_accepted_draft_tokens", "num_draft_tokens", "num_spec_steps")
    )
    longest = record.get("num_spec_tokens")
    lengths = frozenset[int]() if longest is None else frozenset({count(longest, f"{where}: num_spec_tokens")})
    rows = _rows(record, where)
    if rows is not None:
        if sum(sum(row) for row in rows.values()) != steps or _accepted(rows) != accepted:
            raise InvalidInput(f"{where}: its rounds do not add up to {steps:,} rounds with {accepted:,} accepted tokens. Record it again.")
        return Counts(accepted, drafted, steps, sum(sum(row[:length]) for length, row in rows.items()), True, lengths)
    if record.get("acceptance_histogram") is None or longest is None:
        return Counts(accepted, drafted, steps, None, True, lengths)
    histogram = counts_of(record["acceptance_histogram"], f"{where}: acceptance_histogram")
    if sum(histogram) != steps or _accepted({longest: histogram}) != accepted:
        raise InvalidInput(f"{where}: its histogram does not add up to {steps:,} rounds with {accepted:,} accepted tokens. Record it again.")
    return Counts(accepted, drafted, steps, sum(histogram[:longest]), drafted == steps * longest, lengths)


def _rows(record: Mapping[str, Any], where: str) -> dict[int, list[int]] | None:
    """Rounds by how many tokens they drafted and then accepted, where the record tells both."""
    by_length = record.get("acceptance_histogram_by_draft_length")
    if isinstance(by_length, dict):
        named = cast("dict[str, object]", by_length)
        rows = {int(length): counts_of(row, f"{where}: row {length[:9]}") for length, row in named.items() if re.fullmatch(r"[0-9]{1,9}", length)}
        if len(rows) == len(named) and all(len(row) == length + 1 for length, row in rows.items()):
            return rows
        raise InvalidInput(f"{where}: acceptance_histogram_by_draft_length has a row that does not fit its draft length. Record it again.")
    if record.get("per_step_accepted") is None or record.get("per_step_drafted") is None:
        return None
    accepted, drafted = (counts_of(record[name], f"{where}: {name}") for name in ("per_step_accepted", "per_step_drafted"))
    if len(accepted) != len(drafted) or any(hit > length or length > LONGEST_ROUND for hit, length in zip(accepted, drafted, strict=True)):
        raise InvalidInput(f"{where}: per_step_accepted does not fit per_step_drafted. Record it again.")
    rows = {length: [0] * (length + 1) for length in set(drafted)}
    for hit, length in zip(accepted, drafted, strict=True):
        rows[length][hit] += 1
    return rows


def _accepted(rows: Mapping[int, list[int]]) -> int:
    return sum(hits * rounds for row in rows.values() for hits, rounds in enumerate(row))


def from_metrics(text: str) -> Found:
    """From the text of vLLM's /metrics page; engines of one model are added up. Raises InvalidInput when it lacks the counters."""
    sums: dict[str, float] = {}
    positions: dict[int, float] = {}
    models: set[str] = set()
    for name, labels, value in (found.groups() for line in bounded_lines(text) if (found := _LINE.match(line))):
        known = dict(_LABEL.findall(labels or ""))
        models.update([known["model_name"]] if "model_name" in known else [])
        if name == "accepted_tokens_per_pos":
            place = known.get("position", "")
            if not re.fullmatch(r"[0-9]{1,4}", place):
                raise InvalidInput(f'A counter per position has the label position="{place[:20]}". Paste the page as it is.')
            positions[int(place)] = positions.get(int(place), 0.0) + float(value)
        else:
            sums[name] = sums.get(name, 0.0) + float(value)
    if len(models) > 1:
        raise InvalidInput(f"The counters are of {len(models)} models ({', '.join(sorted(models))[:200]}). Keep the lines of one.")
    return Found(_from_sums(sums, positions), models.pop()[:200] if models else "")


def _from_sums(sums: Mapping[str, float], positions: Mapping[int, float]) -> Imported:
    missing = [f"{PREFIX}{name}_total" for name in ("drafts", "draft_tokens", "accepted_tokens") if name not in sums]
    if missing:
        raise InvalidInput(f"The page lacks {', '.join(missing)}. Paste vLLM's /metrics page of a server that drafts.")
    if any(value > MOST or value != int(value) for value in [*sums.values(), *positions.values()]):
        raise InvalidInput("A counter is no whole number of tokens. Paste vLLM's /metrics page as it is.")
    rounds = int(sums["drafts"])
    total = checked(Counts(int(sums["accepted_tokens"]), int(sums["draft_tokens"]), rounds), "vLLM's counters")
    whole, gamma = total.drafted % rounds == 0, total.drafted // rounds
    steady = whole and (not positions or gamma == len(positions))
    definition = f"vLLM's draft acceptance rate since the server's start is accepted / drafted, {total.ratio:.3f}."
    alpha, how = _alpha(total, positions, gamma if steady else None)
    return Imported(
        source="vllm_prometheus",
        alpha=alpha,
        gamma=one_length([gamma]) if steady else None,
        accepted=total.accepted,
        drafted=total.drafted,
        rounds=rounds,
        definition=f"{definition} {how}",
    )


def _alpha(total: Counts, positions: Mapping[int, float], gamma: int | None) -> tuple[float | None, str]:
    assert total.rounds is not None
    if positions:
        if sum(positions.values()) != total.accepted or sorted(positions) != list(range(len(positions))):
            raise InvalidInput("The counters per position do not add up to the accepted tokens. Paste vLLM's /metrics page as it is.")
        shares = tuple(positions[place] / total.rounds for place in sorted(positions))
        reading = translate.alpha_from_positions(shares, gamma=gamma)
        return reading.alpha, f"{EXAMINED} Here: {reading.how}."
    if gamma is None:
        return None, "Alpha is not known: rounds draft different numbers of tokens, and the counters per position are missing."
    reading = translate.alpha_from_utilisation(total.ratio, gamma)
    return reading.alpha, f"Alpha follows from {reading.how}."


def from_log(text: str) -> Found:
    """From vLLM's log lines, intervals added up. Raises InvalidInput without a whole line."""
    lines = [(int(hit), int(drafted), _shares(rates)) for line in bounded_lines(text) for hit, drafted, rates in _LOGGED.findall(line)]
    if not lines:
        raise InvalidInput("There is no whole line of vLLM's SpecDecoding metrics with counts and rates per position. Paste whole lines.")
    total = checked(Counts(sum(hit for hit, _, _ in lines), sum(drafted for _, drafted, _ in lines)), "vLLM's log")
    lengths = {len(shares) for _, _, shares in lines}
    gamma = lengths.pop() if len(lengths) == 1 else 0
    definition = f"vLLM's draft acceptance rate over {counted(len(lines), 'log line')} is accepted / drafted, {total.ratio:.3f}."
    if not gamma or any(drafted % gamma for _, drafted, _ in lines):
        how = "Alpha is not known: rounds draft different numbers of tokens, so that lines cannot be added up by position."
        imported = Imported(source="vllm", accepted=total.accepted, drafted=total.drafted, definition=f"{definition} {how}")
        return Found(imported)
    rounds = total.drafted // gamma
    together = tuple(min(1.0, sum(drafted * shares[place] for _, drafted, shares in lines) / total.drafted) for place in range(gamma))
    reading = translate.alpha_from_positions(together, gamma=gamma)
    imported = Imported(
        source="vllm",
        alpha=reading.alpha,
        gamma=gamma,
        accepted=total.accepted,
        drafted=total.drafted,
        rounds=rounds,
        definition=f"{definition} {EXAMINED} Here: {reading.how}, from rates of three digits.",
    )
    return Found(imported)


def _shares(text: str) -> tuple[float, ...]:
    parts = [part.strip() for part in text.strip(" ,").split(",")]
    if not all(re.fullmatch(r"[01]\.\d{1,9}", part) for part in parts):
        raise InvalidInput(f"{text[:60]!r} are no rates per position. Paste vLLM's line as it is.")
    return tuple(float(part) for part in parts)
