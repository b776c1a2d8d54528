"""Runs that timed passes, made of chosen prices, so that tests can assert what follows from them. For tests only."""

from datetime import UTC, datetime, timedelta

from core.measured import PassTimes, Sample
from core.runs import ModelRef, Progress, Run, RunSpec
from core.shapes import FEW_WIDTHS, WIDTHS
from tests import synthetic

STEP_S, SLOPE, D1, D2 = 0.020, 0.05, 0.15, 0.20
"""A plain step of one text; what a token more costs in a pass; the draft's passes; the last three in plain steps."""
BATCH_SLOPE, LENGTH_SLOPE = 0.03, 0.0001
"""What a text more adds to `SLOPE` and to d1, and a cached token to `SLOPE`."""


def slope(batch: int, length: int) -> float:
    return SLOPE + BATCH_SLOPE * (batch - 1) + LENGTH_SLOPE * length


def verify(width: int, batch: int = 1, length: int = 0) -> float:
    """v(batch x width) after `length` tokens."""
    return 1 + slope(batch, length) * (width - 1)


def passes(batch: int, length: int, *, problem: str = "") -> PassTimes:
    if problem:
        return PassTimes(cache_tokens=length, target={}, draft={}, target_one_s={}, target_one_beside_draft_s={}, batch=batch, problem=problem)
    step_s, first = STEP_S * (1 + 0.1 * (batch - 1)), batch == 1
    widths, d1 = WIDTHS if first else FEW_WIDTHS, D1 + BATCH_SLOPE * (batch - 1)

    def sample(ratio: float) -> Sample:
        return Sample(median_s=step_s * ratio, iqr_s=step_s * ratio * 0.01, n=9)

    return PassTimes(
        cache_tokens=length,
        target={width: sample(verify(width, batch, length)) for width in widths},
        draft={1: sample(d1), 2: sample(d1 + D2 - D1)},
        target_one_s=dict.fromkeys(widths, step_s),
        target_one_beside_draft_s={1: step_s, 2: step_s},
        batch=batch,
        target_prefill_s=0.3 if first else None,
        draft_prefill_s=0.04 if first else None,
    )


def run(
    run_id: str = "shapes",
    *,
    batches: tuple[int, ...] = (1,),
    lengths: tuple[int, ...] = (128, 512),
    status: str = "done",
    random_weights: bool = True,
    notes: tuple[str, ...] = (),
    problems: dict[tuple[int, int], str] | None = None,
    timed: int | None = None,
    target: ModelRef | None = None,
    draft: ModelRef | None = None,
) -> Run:
    """A run over these combinations. problems: what was not timed, and why; timed: only the first so many were reached."""
    plain = synthetic.spec(())
    spec = RunSpec(
        target=target or plain.target,
        draft=draft or plain.draft,
        prompts=(),
        extent="shapes",
        random_weights=random_weights,
        batches=batches,
        cache_lengths=lengths,
    )
    made = [passes(batch, length, problem=(problems or {}).get((batch, length), "")) for length in lengths for batch in batches]
    created = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
    where = synthetic.environment().model_copy(
        update={"notes": notes, "target_bytes": 55_000_000, "draft_bytes": 4_800_000, "peak_bytes": 700_000_000}
    )
    return Run(
        id=run_id,
        spec=spec,
        status=status,  # pyright: ignore[reportArgumentType]
        progress=Progress(stage="done", done=1, total=1, fraction=1.0),
        created=created,
        started=created + timedelta(seconds=1),
        finished=created + timedelta(seconds=31),
        environment=where,
        passes=tuple(made[:timed]),
    )
