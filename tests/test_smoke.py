"""Smoke tests of a tiny pair: what the worker reports, what the result says, and where such runs are not shown."""

from datetime import UTC, datetime

import pytest
import torch

from core import demo
from core.errors import NotMeasured
from core.measured import Dtype, Generation
from core.policies import FixedGamma, Plain
from core.runs import Progress, Prompt, Run, RunSpec, Stage
from core.settings import Settings
from core.sink import StoreSink, fraction
from core.smoke import POLICY, TOKENS, smoke_result
from core.store import Store
from core.worker.measure import measure
from tests.apps import ok, open_page, texts
from tests.models import spec_of, write_pair
from tests.test_measure import Kept

REFS = (demo.TARGET, demo.DRAFT)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> RunSpec:
    """Three prompts and long answers, of which the test needs one prompt and eight tokens."""
    return spec_of(write_pair(tmp_path_factory.mktemp("pair")), 3, 100).model_copy(update={"extent": "smoke"})


def run_of(generations: tuple[Generation, ...], dtype: Dtype = "float32") -> Run:
    spec = RunSpec(target=REFS[0], draft=REFS[1], prompts=(Prompt(text="x"),), dtype=dtype, extent="smoke")
    return Run(id="smoke", spec=spec, status="done", created=datetime.now(UTC), generations=generations)


def answers(tokens: int, rounds: tuple[int, ...], first_difference: int | None = None) -> tuple[Generation, ...]:
    common = {"purpose": "smoke", "block": 0, "prompt": 0, "tokens": tokens, "total_s": 1.0, "first_token_s": 0.1}
    equal = first_difference is None
    return (
        Generation(policy=Plain(), equal=True, **common),
        Generation(policy=FixedGamma(4), rounds=rounds, equal=equal, first_difference=first_difference, **common),
    )


def test_a_smoke_test_writes_eight_tokens_twice_and_no_more(tiny: RunSpec, store: Store, settings: Settings):
    torch.set_num_threads(1)
    sink = Kept()
    measure(tiny, sink, settings)
    plain, assisted = sink.generations
    assert (plain.purpose, plain.policy, plain.tokens, plain.rounds) == ("smoke", Plain(), TOKENS, ())
    assert (assisted.purpose, assisted.policy, assisted.tokens, assisted.equal) == ("smoke", POLICY, TOKENS, True)
    assert sum(assisted.rounds) == TOKENS
    assert (sink.traces, sink.pass_times, len(sink.environments)) == ({}, [], 1)
    assert sink.stages == [("load", 0, 2), ("smoke", 0, 2), ("smoke", 1, 2), ("smoke", 2, 2)]
    result = smoke_result(run_of(tuple(sink.generations)))
    assert (result.equal, result.tokens, result.rounds) == (True, 8, len(assisted.rounds))
    assert result.accepted == 8 - len(assisted.rounds) > 0
    assert result.passed


def test_a_pair_that_accepts_nothing_is_told_from_one_that_does(tmp_path_factory, settings: Settings):
    """Noise as large as the weights: the draft guesses."""
    sink = Kept()
    measure(spec_of(write_pair(tmp_path_factory.mktemp("noise"), noise=50.0)).model_copy(update={"extent": "smoke"}), sink, settings)
    result = smoke_result(run_of(tuple(sink.generations)))
    assert (result.equal, result.accepted, result.rounds, result.passed) == (True, 0, 8, False)
    assert result.sentence == (
        "Eight tokens came out equal, plain and assisted, but nothing that was drafted was accepted: the pair runs but will hardly be faster."
    )


@pytest.mark.parametrize(
    ("run", "accepted", "passed", "sentence"),
    [
        (run_of(answers(8, (5, 3))), 6, True, "Eight tokens came out equal, plain and assisted; 6 of 8 were drafted."),
        (run_of(answers(3, (1, 2))), 1, True, "Three tokens came out equal, plain and assisted; 1 of 3 was drafted."),
        (
            run_of(answers(1, (1,))),
            0,
            False,
            "One token came out equal, plain and assisted, and the answer ends there, so that nothing could be drafted. Try another prompt.",
        ),
        (
            run_of(answers(8, (5, 3), first_difference=2)),
            6,
            False,
            "Token 3 differs between plain and assisted decoding. In float32 both should write the same; "
            "do not rely on this pair before you know why.",
        ),
        (
            run_of(answers(8, (5, 3), first_difference=0), "bfloat16"),
            6,
            False,
            "Token 1 differs between plain and assisted decoding. In bfloat16 two nearly equal choices can round either way, "
            "so this need not be an error; a smoke test in float32 tells.",
        ),
    ],
)
def test_the_result_says_what_happened(run: Run, accepted: int, passed: bool, sentence: str):
    result = smoke_result(run)
    assert (result.accepted, result.passed, result.sentence) == (accepted, passed, sentence)


def test_a_test_that_ended_early_has_no_result():
    with pytest.raises(NotMeasured, match="ended before both answers were written"):
        smoke_result(run_of(answers(8, (5, 3))[:1]))


def test_smoke_tests_are_not_among_the_recent_runs(store: Store, spec: RunSpec):
    tricky = Prompt(text='{"extent":"smoke"}')
    full = [store.add(spec), store.add(spec.model_copy(update={"prompts": (tricky,)}))]
    smoke = store.add(spec.model_copy(update={"extent": "smoke"}))
    assert [run.id for run in store.recent(10)] == full[::-1]
    assert [run.id for run in store.recent(1)] == full[1:]
    assert store.get(smoke).spec.extent == "smoke"
    assert store.queued() == [*full, smoke]


@pytest.mark.parametrize(
    ("stage", "timed"),
    [("load", False), ("download", False), ("smoke", False), ("plain", True), ("draft", True), ("timing", True), ("confirming", True)],
)
def test_timing_is_known_while_a_run_is_timed(store: Store, spec: RunSpec, stage, timed: bool):
    run_id = store.add(spec)
    assert not store.timing()
    store.claim(run_id, "here", 1)
    store.progress(run_id, Progress(stage=stage))
    assert store.timing() is timed
    store.finish(run_id, "done")
    assert not store.timing()


def test_the_time_of_a_download_is_kept_apart(store: Store, spec: RunSpec, monkeypatch: pytest.MonkeyPatch):
    run_id = store.add(spec)
    store.claim(run_id, "here", 1)
    sink = StoreSink(store, run_id)
    now = 100.0
    monkeypatch.setattr("core.sink.time.monotonic", lambda: now)
    told: list[Progress] = []
    steps: list[tuple[float, Stage, int]] = [(100.0, "download", 0), (107.0, "download", 5), (110.0, "load", 0), (130.0, "plain", 1)]
    for now, stage, done in steps:  # noqa: B007
        sink.stage(stage, done, 9)
        sink.flush()
        told.append(store.get(run_id).progress)
    assert [progress.download_s for progress in told] == [0.0, 7.0, 10.0, 10.0]
    assert [progress.fraction for progress in told] == [0.0, 0.0, 0.0, fraction("plain", 1, 9)]
    assert (told[1].done, told[1].total) == (5, 9)


def test_runs_that_were_stored_before_these_fields_can_be_read():
    run = demo.example_run()
    assert '"extent"' not in (demo.FOLDER / "example" / "run.json").read_text()
    assert (run.spec.extent, run.progress.download_s, run.status) == ("full", 0.0, "done")
    assert RunSpec.model_validate_json(run.spec.model_dump_json(exclude={"extent"})) == run.spec


def keep(store: Store, generations: tuple[Generation, ...], error: str = "") -> str:
    """A smoke test of the demo pair, measured and ended."""
    run_id = store.add(run_of(()).spec)
    store.claim(run_id, "here", 1)
    store.generations(run_id, generations)
    store.finish(run_id, "failed" if error else "done", error)
    return run_id


@pytest.mark.usefixtures("app_site")
def test_the_page_of_a_smoke_test_says_the_result_and_leads_to_the_measurement(store: Store):
    app = open_page("measure", run=keep(store, answers(8, (5, 3))))
    assert app.title[0].value == "The pair runs"
    assert "Eight tokens came out equal, plain and assisted; 6 of 8 were drafted. This says nothing about speed." in texts(app).replace("\\", "")
    assert "Smoke test: one prompt, eight tokens." in texts(app)
    assert [button.label for button in app.button] == ["Measure this pair", "New measurement"]
    form = ok(app.button[0].click().run())
    assert form.title[0].value == "Measure a pair"
    assert form.selectbox(key="picked_target").value == "demo:target"
    assert form.multiselect(key="picked_drafts").value == ["demo:draft"]


@pytest.mark.usefixtures("app_site")
@pytest.mark.parametrize(
    ("generations", "error", "title"),
    [
        (answers(8, (1,) * 8), "", "The pair runs, but nothing was accepted"),
        (answers(8, (5, 3), first_difference=2), "", "Plain and assisted answers differ"),
        ((), "The model is made of wood.", "The smoke test has no result"),
    ],
)
def test_the_page_of_a_smoke_test_that_did_not_pass(store: Store, generations: tuple[Generation, ...], error: str, title: str):
    app = open_page("measure", run=keep(store, generations, error))
    assert app.title[0].value == title
    assert error in texts(app).replace("\\", "")


@pytest.mark.usefixtures("app_site")
def test_a_smoke_test_is_no_measurement_elsewhere(store: Store):
    run_id = keep(store, answers(8, (5, 3)))
    assert "None yet" in texts(open_page("start"))
    assert "eight tokens say nothing about speed" in texts(open_page("gamma", run=run_id))


@pytest.mark.usefixtures("app_site")
def test_a_download_is_shown_while_it_lasts(store: Store, spec: RunSpec):
    hub = demo.TARGET.model_copy(update={"source": "hub", "path": "tiny/target"})
    run_id = store.add(spec.model_copy(update={"target": hub}))
    store.claim(run_id, "here", 1)
    store.progress(run_id, Progress(stage="download", done=1_500_000_000, total=6_000_000_000, download_s=4.0))
    app = open_page("measure", run=run_id)
    assert app.title[0].value == "Downloading"
    assert [(bar.proto.text, bar.proto.value) for bar in app.get("progress")] == [("**Downloading what is missing**, 1.50 of 6.00 GB", 25)]
    assert "keep the machine quiet" not in texts(app)
    assert "The target writes its answers" in texts(app)
    assert "eight tokens" not in texts(app)
    store.progress(run_id, Progress(stage="plain", done=1, total=2, fraction=0.15, download_s=4.0))
    later = open_page("measure", run=run_id)
    assert "keep the machine quiet" in texts(later)
    assert ":green[:material/check_circle:] Downloading what is missing" in texts(later)
