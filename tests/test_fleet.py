"""The fleet against cases worked by hand, and against what must hold for any traffic."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import batch, fleet
from core.batch import Drafting, Serving
from core.errors import InvalidInput
from core.fleet import Traffic
from core.intervals import Interval

TRAFFIC = Traffic(requests_per_day=86_400, prompt_tokens=100, output_tokens=100)
SERVING = Serving(tokens_per_s=100, prompt_tokens_per_s=1000, sequences=64, knee_tokens=100, cache_share=0.01)
DRAFTING = Drafting(speedup=2, drafted_per_round=4, tokens_per_round=3, sequences=48, interval=Interval(1.8, 2.2), prompt_share=0.5)
NOTHING_DRAFTED = Drafting(speedup=1, drafted_per_round=0, tokens_per_round=1, sequences=64)

traffics = st.builds(
    Traffic,
    requests_per_day=st.floats(1, 1e8),
    prompt_tokens=st.floats(0, 1e4),
    output_tokens=st.floats(1, 4000),
    peak_factor=st.floats(1, 20),
    busy_share=st.floats(0.1, 1),
    least_tokens_per_s=st.sampled_from([0.0, 5.0, 50.0]),
)
servings = st.builds(
    Serving,
    tokens_per_s=st.floats(1, 500),
    prompt_tokens_per_s=st.floats(100, 1e5),
    sequences=st.integers(1, 300),
    knee_tokens=st.floats(1, 1000),
    cache_share=st.floats(0, 0.5),
    pass_prices=st.sampled_from([(), ((5.0, 1.3),), ((2.0, 1.1), (9.0, 1.05), (21.0, 3.0))]),
)


@st.composite
def draftings(draw, serving):
    drafted = draw(st.floats(0, 20))
    tokens = 1 + draw(st.floats(0, 1)) * drafted
    speedup = draw(st.floats(0.2, 1)) * tokens
    interval = Interval(speedup * draw(st.floats(0.5, 1)), speedup * draw(st.floats(1, 2)))
    curve = draw(st.sampled_from([(), ((8.0, 1.1),), ((4.0, 1.5), (32.0, 0.8))]))
    return Drafting(speedup, drafted, tokens, draw(st.integers(1, serving.sequences)), interval, draw(st.floats(0, 1)), curve)


cases = servings.flatmap(lambda serving: st.tuples(traffics, st.just(serving), draftings(serving)))


def plain(found):
    assert found.plain is not None
    return found.plain


def drafted(found):
    assert found.drafted is not None
    return found.drafted


def test_one_request_at_a_time_by_hand():
    # plain: 0.1 s prompt + 1 s answer; drafted: 0.15 s + 0.5 s; peak 2 requests a second, 80 % busy
    found = fleet.plan(TRAFFIC, replace(SERVING, sequences=1), replace(DRAFTING, sequences=1))
    assert (plain(found).gpus, plain(found).exact) == (3, pytest.approx(2 * 1.1 / 0.8))
    assert (drafted(found).gpus, drafted(found).exact) == (2, pytest.approx(2 * 0.65 / 0.8))
    assert (plain(found).reader_tokens_per_s, drafted(found).reader_tokens_per_s) == (pytest.approx(100), pytest.approx(200))
    assert (plain(found).speedup, drafted(found).speedup) == (1, 2)
    assert found.gpus_interval == (math.ceil(2 * (0.15 + 1 / 2.2) / 0.8), math.ceil(2 * (0.15 + 1 / 1.8) / 0.8)) == (2, 2)


def test_a_batch_by_hand():
    # 50 sequences: plain pass 1 + 0.49; verify pass of 250 tokens is beyond the knee: 2.5 + 0.49; r = 3 / 2 - 1
    assert batch.pass_price(SERVING, np.array([50.0]), 1)[0] == pytest.approx(1.49)
    assert batch.pass_price(SERVING, np.array([50.0]), 5)[0] == pytest.approx(2.99)
    assert batch.speedup_at(SERVING, DRAFTING, np.array([50.0]))[0] == pytest.approx(2 * 1.5 / (2.99 / 1.49 + 0.5))


def test_gain_of_one_sequence_is_as_measured_and_falls_to_the_bound():
    held = np.array([1.0, 2, 4, 8, 16, 32, 64, 10_000_000])
    gain = batch.speedup_at(replace(SERVING, cache_share=0.0), DRAFTING, held)
    assert gain[0] == 2
    assert (np.diff(gain) <= 1e-12).all()
    assert gain[-1] == pytest.approx(3 / (5 + 0.5))


def test_long_contexts_keep_the_gain_for_longer():
    held = np.array([64.0])
    short, long = (batch.speedup_at(replace(SERVING, cache_share=share), DRAFTING, held)[0] for share in (0.0, 0.2))
    assert long > short


def test_measured_prices_of_passes_are_used_never_fall_and_go_on_in_line():
    serving = replace(SERVING, cache_share=0.0, knee_tokens=1000, pass_prices=((5, 1.2), (9, 1.1), (21, 2.0)))
    prices = batch.pass_price(serving, np.array([1.0, 5, 7, 9, 21, 41]), 1)
    assert prices.tolist() == pytest.approx([1, 1.2, 1.2, 1.2, 2.0, 3.0])


def test_measured_batches_replace_the_model():
    drafting = replace(DRAFTING, batch_curve=((16, 1.3), (4, 1.7)))
    got = batch.speedup_at(SERVING, drafting, np.array([1.0, 4, 8, 16, 40]))
    assert got[:4].tolist() == pytest.approx([2, 1.7, 1.5, 1.3])
    model = batch.speedup_at(SERVING, DRAFTING, np.array([16.0, 40]))
    assert got[4] == pytest.approx(1.3 * model[1] / model[0])


@given(traffics, servings)
def test_nothing_drafted_and_no_memory_taken_is_the_baseline(traffic, serving):
    found = fleet.plan(traffic, serving, replace(NOTHING_DRAFTED, sequences=serving.sequences))
    assert found.drafted == found.plain
    assert found.crossover.kind == "never"


@given(traffics, servings)
def test_a_measured_gain_of_one_everywhere_is_the_baseline(traffic, serving):
    flat = Drafting(1, 4, 3, serving.sequences, batch_curve=((float(max(2, serving.sequences)), 1.0),))
    found = fleet.plan(traffic, serving, flat)
    assert found.drafted == found.plain


@given(cases, st.floats(1, 100))
def test_more_traffic_never_needs_fewer_gpus(case, factor):
    traffic, serving, drafting = case
    less, more = (
        fleet.plan(replace(traffic, requests_per_day=day), serving, drafting) for day in (traffic.requests_per_day, traffic.requests_per_day * factor)
    )
    for before, after in ((less.plain, more.plain), (less.drafted, more.drafted)):
        assert (before is None) == (after is None)
        assert before is None or after is None or 1 <= before.gpus <= after.gpus
    assert less.crossover == more.crossover


@given(cases)
def test_interval_holds_the_gpus_and_the_saving(case):
    traffic, serving, drafting = case
    found = fleet.plan(traffic, serving, drafting)
    if found.gpus_interval is not None:
        assert found.gpus_interval[0] <= drafted(found).gpus <= found.gpus_interval[1]
    money = fleet.monthly(found, 4.29, gpus_per_instance=2)
    if money is not None and money.saving_interval is not None:
        assert money.saving_interval.low <= money.saving_usd <= money.saving_interval.high


@given(cases)
def test_a_draft_that_takes_more_memory_never_needs_fewer_gpus(case):
    traffic, serving, drafting = case
    small, large = (fleet.plan(traffic, serving, replace(drafting, sequences=held)) for held in (drafting.sequences, 1))
    assert large.drafted is None or drafted(small).exact <= large.drafted.exact + 1e-9


@given(cases)
def test_crossover_is_where_gpu_time_is_equal(case):
    traffic, serving, drafting = case
    held, _, whole_request = fleet.gains(traffic, serving, drafting)
    cross = fleet.crossover(traffic, serving, drafting)
    if cross.kind == "slower":
        assert cross.sequences is not None
        assert whole_request[cross.sequences - 1] <= 1
        assert (whole_request[: cross.sequences - 1] > 1).all()
    else:
        assert (whole_request[0] <= 1) == (cross.kind == "never")
        assert cross.kind == "never" or (whole_request > 1).all()
    assert held.tolist() == list(range(1, drafting.sequences + 1))


def test_crossover_by_load():
    # 3 tokens per round, r = 0.5: equal when the verify pass costs 2.5 plain passes, at 5 B / 100 = 2.5
    cross = fleet.crossover(replace(TRAFFIC, prompt_tokens=0), replace(SERVING, cache_share=0.0), replace(DRAFTING, sequences=64))
    assert (cross.kind, cross.sequences) == ("slower", 50)
    assert cross.requests_per_day == pytest.approx(50 * 100 / 100 * 86_400 / 2)


def test_lost_memory_alone_can_end_the_gain():
    cross = fleet.crossover(replace(TRAFFIC, prompt_tokens=0), replace(SERVING, cache_share=0.0), replace(DRAFTING, sequences=2))
    assert (cross.kind, cross.sequences) == ("memory", 2)
    assert cross.requests_per_day == pytest.approx(2 * 2 * 100 / 100 * 86_400 / 2)


def test_a_long_prompt_that_the_draft_reads_too_may_never_pay():
    assert fleet.crossover(replace(TRAFFIC, prompt_tokens=100_000), SERVING, DRAFTING).kind == "never"
    assert fleet.crossover(TRAFFIC, replace(SERVING, sequences=1), replace(DRAFTING, sequences=1)) == ("always", None, None)


def test_readers_may_need_the_draft():
    found = fleet.plan(replace(TRAFFIC, least_tokens_per_s=150), SERVING, DRAFTING)
    assert found.plain is None
    assert drafted(found).reader_tokens_per_s >= 150
    assert fleet.monthly(found, 4.29) is None
    assert fleet.plan(replace(TRAFFIC, least_tokens_per_s=190), SERVING, DRAFTING).gpus_interval is None


def test_readers_speed_limits_the_requests_held():
    free, held = (fleet.plan(replace(TRAFFIC, least_tokens_per_s=speed), SERVING, DRAFTING) for speed in (0, 40))
    assert plain(free).sequences == 64
    assert plain(held).sequences < 64
    assert plain(held).reader_tokens_per_s >= 40


def test_money_buys_whole_instances():
    found = fleet.plan(TRAFFIC, replace(SERVING, sequences=1), replace(DRAFTING, sequences=1))
    assert fleet.monthly(found, 1.0) == (3 * 720, 2 * 720, 720, (720, 720))
    assert fleet.monthly(found, 8.0, gpus_per_instance=8) == (5760, 5760, 0, (0, 0))
    money = fleet.monthly(fleet.plan(TRAFFIC, SERVING, replace(DRAFTING, interval=None)), 1.0)
    assert money is not None
    assert money.saving_interval is None


def test_estimates_of_knee_cache_and_ceiling():
    assert batch.knee_tokens(100, 8e9, 989e12) == pytest.approx(0.5 * 989e12 / (2 * 8e9 * 100))
    assert batch.knee_tokens(1000, 1e12, 1e12) == 1
    assert batch.cache_share(15e9, 5e9) == 0.25
    assert batch.ceiling_tokens_per_s(3.35e12, 16e9, 0.75e9) == 200


def test_every_number_is_written_out():
    written = fleet.assumptions(TRAFFIC, SERVING, replace(DRAFTING, batch_curve=((8, 1.5),)))
    values = [item.value for item in written if item.value is not None]
    plain = [value for record in (TRAFFIC, SERVING, DRAFTING) for value in vars(record).values() if isinstance(value, int | float)]
    assert sorted(values) == sorted(plain)
    assert all(item.name and item.why for item in written)
    assert "measured at 1, 8 sequences" in next(item.why for item in written if item.name == "Speedup")


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (lambda: replace(TRAFFIC, requests_per_day=0), "requests_per_day is 0"),
        (lambda: replace(TRAFFIC, requests_per_day=math.inf), "inf"),
        (lambda: replace(TRAFFIC, prompt_tokens=-1), "prompt_tokens is -1"),
        (lambda: replace(TRAFFIC, output_tokens=math.nan), "output_tokens is nan"),
        (lambda: replace(TRAFFIC, peak_factor=0.5), "peak_factor is 0.5"),
        (lambda: replace(TRAFFIC, busy_share=1.2), "busy_share is 1.2"),
        (lambda: replace(SERVING, tokens_per_s=0), "tokens_per_s is 0"),
        (lambda: replace(SERVING, sequences=0), "sequences is 0"),
        (lambda: replace(SERVING, sequences=10**9), "sequences is 1000000000"),
        (lambda: replace(SERVING, knee_tokens=0.5), "knee_tokens is 0.5"),
        (lambda: replace(SERVING, cache_share=1), "cache_share is 1"),
        (lambda: replace(SERVING, pass_prices=((1, 1.0),)), "pass_prices has a value at 1"),
        (lambda: replace(SERVING, pass_prices=((5, math.nan),)), "pass_prices at 5 is nan"),
        (lambda: replace(DRAFTING, speedup=0), "speedup is 0"),
        (lambda: replace(DRAFTING, speedup=3.4, interval=None), "speedup is 3.4"),
        (lambda: replace(DRAFTING, tokens_per_round=5.5), "tokens_per_round is 5.5"),
        (lambda: replace(DRAFTING, interval=Interval(2.1, 2.2)), "2.1 to 2.2"),
        (lambda: replace(DRAFTING, batch_curve=((4, 1.2), (4, 1.3))), "two values"),
        (lambda: replace(DRAFTING, sequences=0), "sequences is 0"),
        (lambda: fleet.plan(TRAFFIC, SERVING, replace(DRAFTING, sequences=65)), "65 sequences with the draft"),
        (lambda: fleet.monthly(fleet.plan(TRAFFIC, SERVING, DRAFTING), 1.0, gpus_per_instance=0), "gpus_per_instance is 0"),
        (lambda: fleet.monthly(fleet.plan(TRAFFIC, SERVING, DRAFTING), -1.0), "-1.0"),
        (lambda: batch.knee_tokens(100, 0, 1e12), "active_parameters is 0"),
        (lambda: batch.cache_share(0, 1), "weight_bytes is 0"),
        (lambda: batch.ceiling_tokens_per_s(math.nan, 1, 1), "nan"),
    ],
)
def test_impossible_input_names_the_value(call, value):
    with pytest.raises(InvalidInput, match=re.escape(value)):
        call()
