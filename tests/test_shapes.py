"""What follows from timed passes: ratios by batch and length, the alpha that a speedup needs, and when checking is dear."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import shapes, shapes_ask, theory
from core.errors import InvalidInput, NotMeasured
from core.estimate_time import Speed
from core.landscape import GAMMAS, landscape
from core.runs import Placement
from core.timing import LoopCosts
from tests import priced, shape_runs

BATCHES, LENGTHS = (1, 2, 4, 8, 16), (128, 2048)
costly = st.floats(0, 3)
risen = st.lists(st.floats(0, 0.5), min_size=20, max_size=20).map(lambda steps: 1 + np.cumsum(steps))


@given(wanted=st.floats(1.01, 4), c=costly, verify=risen, overhead=costly)
def test_the_alpha_needed_is_the_speedup_s_inverse(wanted: float, c: float, verify: np.ndarray, overhead: float):
    found = theory.alpha_needed(wanted, c, verify=verify, overhead=overhead)
    best = theory.speedup(1.0, np.arange(1, 21), c, verify, overhead).max()
    if found is None:
        assert best < wanted
        return
    assert theory.speedup(found.alpha, found.gamma, c, verify[found.gamma - 1], overhead) == pytest.approx(wanted, rel=1e-9)
    below = theory.speedup(max(0.0, found.alpha - 1e-6), np.arange(1, 21), c, verify, overhead)
    assert below.max() < wanted, "no other length needs less"


def test_a_free_draft_that_is_checked_for_free_needs_what_the_series_says():
    """1 + a + ... + a^20 = 1.2 is nearly 1 / (1 - a) = 1.2."""
    assert theory.alpha_needed(1.2, 0.0) == pytest.approx((1 / 6, 20), rel=1e-6)
    assert theory.alpha_needed(1.2, 1.0) is None, "a draft as dear as its target"
    assert theory.alpha_needed(2.0, 0.0, [1]) == theory.NeededAlpha(1.0, 1)
    with pytest.raises(ValueError, match="gammas is empty"):
        theory.alpha_needed(1.2, 0.1, [])


def test_every_combination_has_its_own_ratios():
    found = shapes.results(shape_runs.run(batches=BATCHES, lengths=LENGTHS))
    assert (found.batches, found.lengths) == (BATCHES, LENGTHS)
    for cell in found.cells:
        assert cell.verify == pytest.approx(shape_runs.verify(5, cell.batch, cell.cache_tokens))
        assert cell.c == pytest.approx(shape_runs.D1 + shape_runs.BATCH_SLOPE * (cell.batch - 1))
    assert (found.base.batch, found.base.cache_tokens) == (1, 128)
    assert found.costs.plain_step_s == shape_runs.STEP_S
    assert found.costs.verify[list(shapes.WIDTHS)] == pytest.approx([shape_runs.verify(width, 1, 128) for width in shapes.WIDTHS])
    assert (found.costs.draft_next, found.costs.draft_first) == pytest.approx((shape_runs.D1, shape_runs.D2))
    assert (found.costs.round_overhead, found.costs.token_overhead) == (0.0, 0.0)


def test_checking_is_dear_where_a_free_draft_that_is_always_right_would_not_double_the_speed():
    """v(5) above 2.5, which means a slope above 0.375: 0.0628 + 0.03 (batch - 1) after 128 tokens, 0.2548 + ... after 2,048."""
    found = shapes.results(shape_runs.run(batches=BATCHES, lengths=LENGTHS))
    assert shapes.CHECKED / shapes.DEAR == 2.0
    assert found.dear == {128: [16], 2048: [8, 16]}
    said = shapes.says(found)
    assert said.startswith("Checking is no longer cheap at batch 16 after 128 tokens, at batch 8 and 16 after 2,048 tokens. It counts as cheap up to")
    assert "v(5) = 2.5" in said
    assert shapes.says(shapes.results(shape_runs.run())).startswith("Checking stays cheap wherever it was timed.")


def test_a_real_draft_s_price_is_what_the_alpha_needed_pays():
    costs = shapes.results(shape_runs.run()).costs
    found = shapes.needed(costs)
    assert found is not None
    price = shape_runs.verify(found.gamma + 1, 1, 128) + shape_runs.D2 + (found.gamma - 1) * shape_runs.D1
    assert theory.tokens_per_round(found.alpha, found.gamma) == pytest.approx(shapes.WANTED * price)
    loop = dataclasses.replace(costs, round_overhead=0.1, token_overhead=0.02)
    dearer = shapes.needed(shapes.with_loop(costs, loop))
    assert dearer is not None
    assert dearer.alpha > found.alpha
    assert shapes.with_loop(costs, None) is costs


def test_the_column_is_the_map_s():
    """At a c that is the middle of one of the map's columns, with the same v and overhead."""
    land = landscape()
    costs = dataclasses.replace(shapes.results(shape_runs.run()).costs, draft_next=float(land.c[6]), draft_first=float(land.c[6]) + 0.05)
    found, whole = shapes.column(costs), landscape(costs.verify_up_to(len(GAMMAS))[1:], costs.overhead)
    assert found.speedup == pytest.approx(whole.speedup[:, 6])
    assert found.gamma.tolist() == whole.gamma[:, 6].tolist()


def test_what_did_not_fit_and_what_was_not_reached_say_so():
    found = shapes.results(shape_runs.run(batches=(1, 2, 4), lengths=(128,), problems={(4, 128): "The memory of cuda:0 did not suffice."}))
    assert [cell.costs is None for cell in found.cells] == [False, False, True]
    assert found.cell(4, 128).problem == "The memory of cuda:0 did not suffice."
    assert (found.cell(4, 128).verify, found.cell(4, 128).c, found.cell(4, 128).dear) == (None, None, False)
    early = shapes.results(shape_runs.run(batches=(1, 2), timed=1, status="cancelled"))
    assert [cell.problem for cell in early.cells] == ["", *["The run ended before it."] * 3]
    with pytest.raises(NotMeasured, match="ended before any pass was timed"):
        shapes.results(shape_runs.run(timed=0))


def test_passes_alone_are_those_of_a_measurement_without_its_loop():
    run = priced.run()
    alone, measured = shapes.passes_alone(run.passes[0]), LoopCosts.from_run(run)
    assert (alone.round_overhead, alone.token_overhead, alone.calibration_error) == (0.0, 0.0, None)
    assert alone.draft_next / alone.draft_first == pytest.approx(measured.draft_next / measured.draft_first)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"batches": ()}, "There is no batch size to time. Ask for at least one."),
        ({"cache_lengths": (0,)}, "0 is no cache length that can be timed. Choose between 1 and 1,000,000."),
        ({"batches": (1, 300)}, "300 is no batch size"),
        ({"batches": (1, 1)}, "The same batch size is asked for twice (1, 1)."),
        ({"batches": tuple(range(1, 22)), "cache_lengths": (1, 2)}, "42 combinations of batch and length are too many."),
        ({"placement": Placement(quantization="4bit")}, "cannot be quantised here"),
        ({"placement": Placement(spread=True)}, "cannot be spread over several devices here"),
    ],
)
def test_what_cannot_be_timed_is_refused_before_it_waits(changes: dict[str, object], says: str):
    spec = shape_runs.run().spec
    shapes_ask.check(spec)
    with pytest.raises(InvalidInput) as refused:
        shapes_ask.check(spec.model_copy(update=changes))
    assert says in str(refused.value)


def test_larger_batches_keep_the_pair_and_its_weights():
    run = shape_runs.run("abc")
    wider = shapes_ask.wider(run)
    assert (wider.random_weights, wider.reference, wider.batches) == (True, "", (1, 2, 4, 8, 16))
    assert max(wider.cache_lengths) > max(run.spec.cache_lengths)
    measured = shapes_ask.wider(priced.run())
    assert (measured.extent, measured.random_weights, measured.reference, measured.prompts) == ("shapes", False, priced.run().id, ())
    shapes_ask.check(measured)


def test_the_estimate_of_time_grows_with_what_is_asked():
    run, speed = shape_runs.run(), Speed(0.05, 0.01, 1e8, "guess")
    one, wide = shapes_ask.seconds(run.spec, speed), shapes_ask.seconds(shapes_ask.wider(run), speed)
    assert 8 < one < 40
    assert 5 * one < wide < 60 * one
    assert shapes_ask.seconds(run.spec, dataclasses.replace(speed, target_s=0.5)) > 3 * one
