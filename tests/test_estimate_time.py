"""The time before the start: from the last run's speed or a guess, growing with what is asked, and near what the demo really took."""

import pytest

from core import demo
from core.decoding import Decoding
from core.estimate_time import Speed, estimate_time, guessed_speed, known_speed
from core.runs import RunSpec
from tests import priced, synthetic

SPEED = Speed(target_s=0.010, draft_s=0.001, load_bytes=7e8, origin="measured")


def spec(**changes):
    return RunSpec(target=demo.TARGET, draft=demo.DRAFT, prompts=demo.prompts(), max_new_tokens=40, **changes)


def test_stages_add_up_and_come_in_order():
    found = estimate_time(spec(), [130] * 24, SPEED)
    assert list(found.stages) == ["load", "plain", "draft", "timing", "calibrating", "confirming"]
    assert found.total_s == pytest.approx(sum(found.stages.values()))
    assert found.stages["load"] == pytest.approx(3.0)
    assert found.stages["plain"] == pytest.approx(0.010 * (2 * 40 * 3.5 + 24 * 130 / 12))
    assert found.stages["calibrating"] == pytest.approx(3 * 8.0 * (24 + 130 / 12) * 0.010)
    assert found.origin == "measured"


def test_what_is_known_already_costs_nothing():
    known = estimate_time(spec(), [130] * 24, SPEED, known_answers=24, loaded=True)
    assert (known.stages["load"], known.stages["plain"]) == (0.0, 0.0)
    half = estimate_time(spec(), [130] * 24, SPEED, known_answers=12)
    assert 0 < half.stages["plain"] < estimate_time(spec(), [130] * 24, SPEED).stages["plain"]


def test_a_further_draft_pays_for_its_own_reading_and_passes_alone():
    first = estimate_time(spec(confirm_s=0), [130] * 24, SPEED, known_answers=24, loaded=True)
    further = estimate_time(spec(confirm_s=0), [130] * 24, SPEED, known_answers=24, loaded=True, further=True)
    assert further.stages["calibrating"] == 0.0
    reading_s = 24 * 130 / 12 * 0.001
    assert further.stages["timing"] == pytest.approx((20 + 130 / 12) * 0.010 + 40 * 0.001 + reading_s)
    assert further.stages["confirming"] < first.stages["confirming"] / 5
    assert further.stages["draft"] < first.stages["draft"]
    assert further.total_s < first.total_s / 3


def test_without_confirmation_only_the_second_cache_length_is_left_and_sampling_reads_with_both_models():
    assert estimate_time(spec(confirm_s=0), [130] * 24, SPEED).stages["confirming"] == pytest.approx(3.0)
    assert estimate_time(spec(confirm_s=9), [130] * 24, SPEED).stages["confirming"] == pytest.approx(12.0)
    sampled = estimate_time(spec(decoding=Decoding(sample=True)), [130] * 24, SPEED)
    assert sampled.stages["draft"] == pytest.approx(2 * 24 * 170 / 12 * 0.010)


def test_the_newest_run_of_the_pair_gives_its_speed():
    run = synthetic.run()
    found = known_speed([run], run.spec)
    assert found is not None
    assert found.target_s == pytest.approx(synthetic.PLAIN_S, rel=0.02)
    assert found.draft_s == pytest.approx(0.1 * synthetic.PLAIN_S, rel=0.02)
    assert found.load_bytes == 4 * (13_700_000 + 1_200_000)
    assert known_speed([run], run.spec.model_copy(update={"dtype": "bfloat16"})) is None
    assert known_speed([priced.run()], priced.run().spec) is None  # recorded without an environment


def test_a_guess_is_called_one_and_follows_size_and_device():
    cpu, gpu = (guessed_speed(device, "float32", (1e9, 20), (1e8, 10)) for device in ("cpu", "cuda:1"))
    assert cpu.origin == gpu.origin == "guess"
    assert cpu.target_s == pytest.approx(0.4 + 0.002)
    assert gpu.target_s == pytest.approx(4e9 / 700e9 + 0.012)
    assert guessed_speed("cpu", "bfloat16", (1e9, 0), (1e8, 0)).target_s == pytest.approx(0.2)


def test_the_demo_is_estimated_within_a_factor_of_two_of_what_the_bundled_example_took():
    """It was measured when answers were written one by one and everything was confirmed twice, so only the calibration compares."""
    run = demo.example_run()
    speed = known_speed([run], run.spec)
    assert speed is not None
    tokens = [trace.prompt_tokens for trace in run.traces]
    took_s = sum(g.total_s for g in run.generations if g.purpose == "calibration") * 24 / 40
    assert took_s / 2 < estimate_time(run.spec, tokens, speed).stages["calibrating"] < took_s * 2
