"""What others wrote is worked on in bounded time and memory, and a sentence says which of the two it was."""

import contextlib
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer, LlamaConfig

from core import bounded as bounded_module
from core import chat, demo
from core.bench import Bench
from core.bounded import FIRST_TO_GO, GIB, OutOfBounds, bounded
from core.errors import DeviceError, InvalidInput
from core.plan_child import PlanChild
from core.runs import Prompt, RunSpec
from core.settings import Settings
from core.store import Store
from core.worker import fit
from core.worker.loading import Key
from core.worker.places import Place
from tests import jobs
from tests.benches import job, under_way, worker_pid

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded by Linux")
PROMPT = Prompt(text="Why?")


def test_a_block_that_takes_too_long_is_interrupted_and_the_next_one_is_not():
    def for_ever() -> None:
        while True:
            with contextlib.suppress(Exception):  # as libraries do
                time.sleep(0.01)

    began = time.monotonic()
    with pytest.raises(OutOfBounds, match=r"took longer than 0\.2 seconds"), bounded(GIB, 0.2):
        for_ever()
    assert time.monotonic() - began < 5
    with bounded(GIB, 0.2):
        pass
    time.sleep(0.3)
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def test_a_block_that_asks_for_too_much_memory_is_refused_and_afterwards_there_is_as_much_as_before():
    with pytest.raises(OutOfBounds, match=r"asked for more than 0\.2 GiB of memory"), bounded(GIB // 5, 5):
        bytearray(GIB // 4)
    assert len(bytearray(GIB // 4)) == GIB // 4


def test_other_errors_pass_through_and_a_library_that_gives_up_is_said():
    class PanicException(BaseException):
        """What PyO3 calls its own."""

    with pytest.raises(KeyboardInterrupt), bounded(GIB, 5):
        raise KeyboardInterrupt
    with pytest.raises(OutOfBounds, match=r"made its library give up \(out of range\)"), bounded(GIB, 5):
        raise PanicException("out of range")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(demo.DRAFT.path)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", r"took longer than 0\.5 seconds"),
        ("{{ 'a' * 10 ** 10 }}", r"asked for more than 0\.2 GiB of memory"),
        ("{% set ns = namespace(x='a' * 9) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}", r"asked for more than|longer than"),
        ("{{ '%9999999999d' % 1 }}", r"asked for more than|refuses this prompt"),
        ("{{ 'a' * 5000000 }}", "it writes 5,000,000 characters"),
        ("{{ 9 ** (9 ** 9) }}", r"took longer than 0\.5 seconds"),
        ("{{ '\\ud800' }}", "surrogates not allowed"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ messages.append({}) }}", "unsafe"),
        ("{% include '/etc/passwd' %}", "no loader"),
        ("{% if %}", "Expected an expression"),
    ],
)
def test_a_hostile_chat_template_ends_in_a_sentence(tokenizer: Any, template: str, words: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chat, "LONGEST_S", 0.5)
    monkeypatch.setattr(chat, "MOST_MEMORY_BYTES", GIB // 5)
    monkeypatch.setattr(tokenizer, "chat_template", template)
    began = time.monotonic()
    with pytest.raises(InvalidInput, match=rf"^The model's chat template refuses this prompt \(.*({words})"):
        chat.ids(tokenizer, PROMPT, True)
    assert time.monotonic() - began < 5
    assert chat.ids(tokenizer, PROMPT, False) == list(tokenizer("Why?")["input_ids"])


def test_a_config_of_a_trillion_weights_is_refused_before_anything_is_allocated():
    config = LlamaConfig(hidden_size=10**6, intermediate_size=10**6, num_hidden_layers=1, num_attention_heads=1_000, num_key_value_heads=1_000)
    key = Key(Place(Path("m")), "cpu", "float32")
    with pytest.raises(DeviceError, match=r"^The weights take [\d,.]+ GB in float32, and cpu has .* free"):
        fit.check_room([(key, config, "target")])
    assert fit.weights_bytes(key, config, "target") > 4 * 7 * 10**12


def test_an_interruption_that_is_lost_comes_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bounded_module, "AGAIN_S", 0.2)
    began = time.monotonic()
    with pytest.raises(OutOfBounds, match=r"^took longer than 0\.2 seconds$"), bounded(GIB, 0.2):
        loses_one()
    assert 0.4 <= time.monotonic() - began < 5
    time.sleep(0.5)  # nothing comes after the block


def loses_one() -> None:
    with contextlib.suppress(BaseException):
        endless()
    endless()


def endless() -> None:
    while True:
        pass


@pytest.fixture
def nobody_watches_collections() -> Iterator[None]:
    """Hypothesis times garbage collections, and an interruption in its callback would be lost, with a warning, until the next one."""
    kept = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = kept


@pytest.mark.usefixtures("nobody_watches_collections")
def test_a_config_of_endless_layers_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fit, "LONGEST_S", 1.0)
    config = LlamaConfig(hidden_size=64, num_hidden_layers=10**6, num_attention_heads=1, num_key_value_heads=1)
    with pytest.raises(DeviceError, match="Building the draft as its config says took longer than 1 seconds"):
        fit.check_room([(Key(Place(Path("m")), "cpu", "float32"), config, "draft")])


def test_the_worker_and_the_jobs_are_ended_before_the_server_when_memory_runs_out(bench: Bench, store: Store, spec: RunSpec, settings: Settings):
    run_id = bench.submit(job(spec, jobs.SLEEP))
    under_way(store, run_id)
    assert first_in(worker_pid(settings, run_id)) >= FIRST_TO_GO
    child = PlanChild(settings)
    try:
        assert "is no model" in child.do("core.plan.describe:describe", {"model": ""}, 30, threading.Event())["error"]
        assert child._process is not None
        assert first_in(child._process.pid) >= FIRST_TO_GO
    finally:
        child.stop()
    assert first_in(os.getpid()) < FIRST_TO_GO


def first_in(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())
