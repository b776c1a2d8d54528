"""How long a waiting run will wait, in seconds and in words."""

import pytest

from core import shapes_ask, wait, ways_ask
from core.estimate_time import Speed, estimate_time
from core.policies import FixedGamma, Plain
from core.runs import Lane, Progress, RunSpec, Stage

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


STAGES: dict[Stage, float] = {"load": 10, "plain": 20, "timing": 10, "confirming": 60}


@pytest.mark.parametrize(
    ("stage", "done", "total", "elapsed_s", "left_s"),
    [
        ("queued", 0, 0, 0, 100),
        ("load", 0, 1, 7, 93),
        ("load", 0, 1, 30, 90 * 1.1),
        ("plain", 1, 4, 16, 84),
        ("plain", 1, 4, 12, 85),
        ("timing", 0, 2, 5, 70),
        ("timing", 1, 2, 36, 64),
        ("timing", 1, 2, 60, 60 * 1.2),
        ("confirming", 5, 10, 70, 30),
        ("confirming", 10, 10, 90, 0),
        ("download", 3, 9, 80, 100),
    ],
)
def test_what_is_left_follows_the_steps_and_the_clock_between_them(stage: Stage, done: int, total: int, elapsed_s: float, left_s: float) -> None:
    """Also where answers are known, so that a stage takes no time; a run that is slower than expected is taken to stay so."""
    assert wait.remaining_seconds(Progress(stage=stage, done=done, total=total), elapsed_s, STAGES) == pytest.approx(left_s)


def test_what_is_left_falls_steadily_where_all_goes_as_expected() -> None:
    left, now_s = [], 0.0
    for stage, expected_s in STAGES.items():
        for done in range(5):
            for moment in range(4):
                at_s = now_s + expected_s * (done + moment / 4) / 5
                left.append(at_s + (wait.remaining_seconds(Progress(stage=stage, done=done, total=5), at_s, STAGES) or 0.0))
        now_s += expected_s
    assert left == pytest.approx([100.0] * 80)


@pytest.mark.parametrize(("fraction", "left_s"), [(0.5, 30), (0.75, 10), (0.05, None), (0.0, None)])
def test_without_an_expectation_a_run_s_own_pace_tells(fraction: float, left_s: float | None) -> None:
    assert wait.remaining_seconds(Progress(stage="timing", fraction=fraction), 30, None) == left_s


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
