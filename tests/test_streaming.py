"""The stream of a lane's steps: exact texts, written while the lane goes on, and nothing lost however it ends."""

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import StoreError
from core.worker.listening import Heard
from core.worker.pieces import Pieces
from core.worker.streaming import EVERY_S, Stream
from core.worker.tracing import pieces
from tests.models import TEXTS, tokenizer_of


class Kept:
    """The part of a sink that a stream writes to."""

    def __init__(self):
        self.written = []

    def steps(self, steps):
        self.written += steps


def heard(*tokens, drafted=()) -> Heard:
    return Heard(0.0, list(tokens), list(drafted), 0.0, 0.0)


@pytest.fixture(scope="module")
def bytes_only():
    return tokenizer_of([*TEXTS, (Path(__file__).parent / "models.py").read_text()])


def test_steps_are_written_while_the_lane_goes_on(bytes_only):
    sink = Kept()
    ids = bytes_only("one two")["input_ids"]
    with Stream(sink.steps, 1, bytes_only) as stream:
        stream.tell(heard(*ids))
        time.sleep(3 * EVERY_S)
        assert [step.tokens for step in sink.written] == [tuple(ids)]
        stream.tell(heard(ids[0]))
    assert [step.lane for step in sink.written] == [1, 1]


def test_a_character_of_several_tokens_stands_with_its_last_one_and_nothing_is_lost(bytes_only):
    text = "a\U0001f680b 日本 $x$ <b>\t"
    ids, sink = bytes_only(text)["input_ids"], Kept()
    with Stream(sink.steps, 0, bytes_only) as stream:
        for token in ids:
            stream.tell(heard(token))
    pieces = [piece for step in sink.written for piece in step.pieces]
    assert "".join(pieces) == text
    assert "\U0001f680" in pieces
    assert pieces.count("") == len(ids) - sum(bool(piece) for piece in pieces) > 3
    cut, sink = bytes_only("a\U0001f680")["input_ids"][:-1], Kept()
    with Stream(sink.steps, 0, bytes_only) as stream:
        for token in cut:
            stream.tell(heard(token))
    assert "".join(piece for step in sink.written for piece in step.pieces) == bytes_only.decode(cut)


@settings(deadline=None, max_examples=30)
@given(ids=st.lists(st.integers(0, 383), min_size=1, max_size=200), text=st.text(max_size=60))
def test_pieces_in_any_portions_are_those_of_the_trace_and_the_whole_text(bytes_only, ids, text):
    ids = [*ids, *bytes_only(text)["input_ids"], *ids[:70]]
    reader, found = Pieces(bytes_only), []
    while len(found) < len(ids):
        found += reader.add(ids[len(found) :][: 1 + len(found) % 5])
    found[-1] += reader.rest()
    assert tuple(found) == pieces(bytes_only, np.array(ids, np.int32))
    assert "".join(found) == bytes_only.decode(ids)


def test_tokens_thrown_away_are_read_where_they_stood(bytes_only):
    right, wrong = bytes_only(" return")["input_ids"], bytes_only(" values")["input_ids"]
    sink = Kept()
    with Stream(sink.steps, 1, bytes_only) as stream:
        stream.tell(heard(*right, 7, drafted=[*right, *wrong]))
        stream.tell(heard(*right, 7, drafted=[*right, 7, *wrong]))
    assert "".join(sink.written[0].rejected) == " values"
    assert sink.written[1].rejected == ()


def test_a_lane_that_is_cut_short_leaves_what_it_wrote(bytes_only):
    class Cancelled(BaseException):
        pass

    sink = Kept()

    def cut_short():
        with Stream(sink.steps, 0, bytes_only) as stream:
            stream.tell(heard(5))
            raise Cancelled

    with pytest.raises(Cancelled):
        cut_short()
    assert len(sink.written) == 1


def test_a_store_that_fails_stops_the_lane(bytes_only):
    def full(steps):
        raise StoreError("The disk is full.")

    def write(rounds):
        for token in range(rounds):
            told.append(token)
            stream.tell(heard(token))
            time.sleep(EVERY_S / 4)

    told = []
    with pytest.raises(StoreError, match="full"), Stream(full, 0, bytes_only) as stream:
        write(100)
    assert len(told) < 100
    with pytest.raises(StoreError, match="full"), Stream(full, 0, bytes_only) as stream:
        write(1)
