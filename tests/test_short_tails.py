"""Tails that are followed only while the draft is sure enough say the same at every threshold from there on, and bounds below."""

import numpy as np
import pytest
import torch

from core.policies import Confidence, FixedGamma, Plain
from core.replay import replay_prompt
from core.worker.generate import run_policy
from core.worker.tracing import trace
from tests.models import spec_of, write_pair
from tests.pairs import load_pair

LEAST = 0.3


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """Of the same answer: followed to the end, and while the draft is at least 0.3 sure."""
    pair = load_pair(spec_of(write_pair(tmp_path_factory.mktemp("pair"), noise=0.1)))
    prompt = torch.tensor([[40, 41, 42, 43, 44]])
    answer = run_policy(pair, prompt, Plain(), 60).tokens
    return [trace(pair, prompt, answer, 60, least=least) for least in (0.0, LEAST)]


def test_short_tails_are_the_beginnings_of_the_full_ones(traces):
    full, short = (one.tails for one in traces)
    sure = traces[0].confidence[full.position] >= LEAST
    assert 0 < sure.sum() < len(sure)
    assert short.position.tolist() == full.position[sure].tolist()
    for expected, found in zip(full.confidence[sure], short.confidence, strict=True):
        recorded = ~np.isnan(found)
        count = int(recorded.sum())
        assert recorded[:count].all()
        np.testing.assert_allclose(found[:count], expected[:count], atol=1e-5)
        assert (found[: count - 1] >= LEAST).all()
        assert count == 20 or found[count - 1] < LEAST or np.isnan(expected[count:]).all()
    assert np.isnan(short.confidence).sum() > np.isnan(full.confidence[sure]).sum()


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8])
def test_thresholds_from_there_on_are_replayed_as_with_full_tails(traces, threshold):
    full, short = (replay_prompt(one, Confidence(threshold, 12)) for one in traces)
    assert (short.rounds, short.drafted, short.drafted_low) == (full.rounds, full.drafted, full.drafted_low)
    assert full.drafted == full.drafted_low


def test_below_there_are_bounds_and_a_fixed_length_needs_no_tail(traces):
    full, short = (replay_prompt(one, Confidence(0.1, 12)) for one in traces)
    assert short.rounds == full.rounds
    assert short.drafted_low <= full.drafted_low <= full.drafted <= short.drafted
    assert short.drafted_low < short.drafted
    full, short = (replay_prompt(one, FixedGamma(4)) for one in traces)
    assert (short.rounds, short.drafted) == (full.rounds, full.drafted)
