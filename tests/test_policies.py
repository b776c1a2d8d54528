"""Policies to Transformers' settings and back, and their names."""

from inspect import signature

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import GenerationConfig
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

from core import policies as p
from core.errors import InvalidInput

draftings = st.builds(p.Drafting, st.integers(1, 40), st.sampled_from(["constant", "heuristic", "heuristic_transient"]), st.floats(0, 1))
lookups = st.builds(p.PromptLookup, st.integers(1, 40), st.integers(1, 5))


@given(st.one_of(draftings, lookups, st.just(p.Plain())))
def test_round_trip(policy):
    assert p.from_transformers(p.to_transformers(policy)) == policy


@given(st.one_of(draftings, lookups))
def test_the_names_are_the_library_s(policy):
    settings = p.to_transformers(policy)
    config = GenerationConfig(**settings)
    assert {name: getattr(config, name) for name in settings} == settings


def test_the_default_is_the_library_s():
    defaults = GenerationConfig._get_default_generation_params()
    assert {name: defaults[name] for name in p.to_transformers(p.TransformersDefault())} == p.to_transformers(p.TransformersDefault())
    assert signature(PromptLookupCandidateGenerator).parameters["max_matching_ngram_size"].default == p.DEFAULT_NGRAM


def test_unset_values_take_the_library_s_defaults():
    assert p.from_transformers({"num_assistant_tokens_schedule": "heuristic"}) == p.Drafting(20, "heuristic", 0.4)
    assert p.from_transformers({"num_assistant_tokens": 5, "assistant_confidence_threshold": None}) == p.Drafting(5, "constant", 0.4)
    assert p.from_transformers({"prompt_lookup_num_tokens": 10}) == p.PromptLookup(10)


def test_presets():
    assert p.FixedGamma(3) == p.Drafting(3, "constant", 0.0)
    assert p.Heuristic() == p.Drafting(5, "heuristic", 0.0)
    assert p.Heuristic(20, persistent=False, threshold=0.4) == p.Drafting(20, "heuristic_transient", 0.4)
    assert p.Confidence() == p.TransformersDefault()


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (p.Plain(), "plain"),
        (p.FixedGamma(3), "fixed gamma 3"),
        (p.TransformersDefault(), "the library's default (20, 0.4)"),
        (p.Confidence(0.6, 12), "up to 12, stop below 0.6"),
        (p.Heuristic(), "heuristic from 5"),
        (p.Heuristic(20, persistent=False, threshold=0.4), "heuristic from 20, stop below 0.4, new in each call"),
        (p.PromptLookup(10), "prompt lookup of 10, n-gram 2"),
        (p.Oracle(), "oracle"),
    ],
)
def test_describe(policy, name):
    assert p.describe(policy) == name


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (lambda: p.FixedGamma(0), "0"),
        (lambda: p.Confidence(1.5), "1.5"),
        (lambda: p.Confidence(float("nan")), "nan"),
        (lambda: p.PromptLookup(0), "0"),
        (lambda: p.from_transformers({"num_assistant_tokens_schedule": "linear"}), "linear"),
        (lambda: p.from_transformers({"num_assistant_tokens": "many"}), "many"),
        (lambda: p.to_transformers(p.Oracle()), "oracle"),
    ],
)
def test_impossible_settings(call, value):
    with pytest.raises(InvalidInput, match=value):
        call()
