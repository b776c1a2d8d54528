"""What a run in several ways gives to a ranking: one row per draft model and per way without one, each at its best setting as really run.

A way whose text is not the target's own, or not proven to be, is no row but a sentence. Speedups are ratios to plain decoding, decode only.
"""

from core import way_words
from core.group_rows import Contender, Row, keys
from core.policies import Drafting, OwnHeads, Plain, PromptLookup
from core.runs import Lane, ModelRef, Run
from core.way_calls import beside_plain
from core.way_results import WayResult, results
from core.ways import choice, proven

Contestant = tuple[str, ModelRef | None]
"""The kind of policy, and the model that drafts."""


def way_rows(run: Run) -> tuple[list[Row], list[str]]:
    """The rows, and sentences about ways that are left out."""
    found: dict[Contestant, list[WayResult]] = {}
    left_out: list[str] = []
    for way in results(run):
        lane = run.spec.lanes[way.lane]
        if isinstance(lane.policy, Plain):
            continue
        if proven(run, way):
            found.setdefault((lane.policy.kind, _draft(run, lane)), []).append(way)
        elif way.decode:
            left_out.append(f"{way_words.title(way.draft, lane.policy)}: {way_words.why_not(way)}")
    rows = (_row(run, tuple(ways), draft) for (_, draft), ways in found.items())
    return [row for row in rows if row], left_out


def _draft(run: Run, lane: Lane) -> ModelRef | None:
    heads = isinstance(lane.policy, OwnHeads) and lane.policy.method == "dflash"
    return lane.draft or run.spec.draft if isinstance(lane.policy, Drafting) or heads else None


def _row(run: Run, ways: tuple[WayResult, ...], draft: ModelRef | None) -> Row | None:
    """The best of these settings, its interval wide enough for having been chosen; None where none was timed."""
    answer = choice(run, ways)
    if answer.lane is None or answer.speed is None:
        return None
    policy, timed, names = run.spec.lanes[answer.lane].policy, beside_plain(run, answer.lane), keys(run)
    plain_s, own_s = (timed.by_prompt(seconds, len(names)) for seconds in (timed.plain_s, timed.own_s))
    contender = Contender(
        kind="lookup" if isinstance(policy, PromptLookup) else "way",
        run_id=run.id,
        draft=draft,
        policy=policy,
        speedup=answer.speed.value,
        confirmed=True,
        on_these_prompts=answer.speed.these,
        for_traffic=answer.speed.traffic,
        verdict=answer.verdict,
        against_best=1.0,
        between=None,
        shared=0,
        reasons=(*answer.reasons[:2], "Measured only: it was really run, and nothing can be replayed for other settings."),
        measured_only=True,
    )
    return Row(contender, {names[at]: (float(plain_s[at]), float(own_s[at])) for at in range(len(names)) if own_s[at] > 0})
