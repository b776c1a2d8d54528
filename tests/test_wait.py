"""How long a waiting run will wait, in seconds and in words."""

from datetime import UTC, datetime, timedelta

import pytest

from core import shapes_ask, wait, ways_ask
from core.estimate_time import Speed, estimate_time
from core.policies import FixedGamma, Plain
from core.runs import Lane, Progress, Run, RunSpec

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPEED = Speed(target_s=0.01, draft_s=0.001, load_bytes=0.7e9, origin="measured")


def test_each_kind_of_run_takes_its_own_time(spec: RunSpec) -> None:
    """Loading takes 2 s and a second for 0.7 GB."""
    lanes = tuple(Lane(policy=policy) for policy in (Plain(), FixedGamma(2), FixedGamma(4)))
    tokens = [5, 5]
    assert wait.run_seconds(spec, tokens, SPEED) == estimate_time(spec, tokens, SPEED).total_s
    assert wait.run_seconds(spec.model_copy(update={"extent": "smoke"}), tokens, SPEED) == pytest.approx(3 + 16 * 0.01)
    assert wait.run_seconds(spec.model_copy(update={"extent": "side_by_side", "lanes": lanes}), tokens, SPEED) == pytest.approx(3 + 3 * 8 * 0.01)
    ways = spec.model_copy(update={"extent": "ways", "lanes": lanes})
    assert wait.run_seconds(ways, tokens, SPEED) == ways_ask.seconds(ways, tokens, SPEED)
    shapes = spec.model_copy(update={"extent": "shapes", "batches": (1, 4), "cache_lengths": (64,)})
    assert wait.run_seconds(shapes, tokens, SPEED) == shapes_ask.seconds(shapes, SPEED)


@pytest.mark.parametrize(
    ("elapsed_s", "fraction", "download_s", "whole_s", "left_s"),
    [(30, 0.5, 0, 1000, 30), (30, 0.5, 10, None, 20), (30, 0.05, 0, 100, 70), (30, 0.05, 0, 20, 0), (30, 0.0, 0, None, None)],
)
def test_what_is_left_follows_the_run_s_own_pace(
    spec: RunSpec, elapsed_s: float, fraction: float, download_s: float, whole_s: float | None, left_s: float | None
) -> None:
    progress = Progress(stage="timing", fraction=fraction, download_s=download_s)
    run = Run(id="a", spec=spec, status="running", created=NOW, started=NOW, progress=progress)
    assert wait.remaining_seconds(run, whole_s, NOW + timedelta(seconds=elapsed_s)) == left_s
    assert wait.remaining_seconds(run.model_copy(update={"started": None}), whole_s, NOW) == whole_s


@pytest.mark.parametrize(
    ("place", "seconds", "said"),
    [
        (1, [], "next in the queue"),
        (1, [None], "next in the queue"),
        (1, [38.0], "next in the queue, about 40 seconds"),
        (2, [38.0, 200.0], "2nd in the queue, about 4 minutes"),
        (3, [38.0, None, 20.0], "3rd in the queue, more than 1 minute"),
        (11, [3.0], "11th in the queue, about 10 seconds"),
        (22, [5400.0 * 2], "22nd in the queue, about 3.0 hours"),
    ],
)
def test_a_place_in_words(place: int, seconds: list[float | None], said: str) -> None:
    assert wait.words(place, seconds) == said


@pytest.mark.parametrize(
    ("number", "said"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (12, "12th"), (13, "13th"), (21, "21st"), (113, "113th")]
)
def test_ordinals(number: int, said: str) -> None:
    assert wait.ordinal(number) == said
