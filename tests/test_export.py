"""What leaves this machine: runs without texts, whole runs as JSON, tables as CSV."""

import csv
import dataclasses
import io
import json
import tomllib
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from core import demo, export_csv, privacy, side
from core.analysis import Analysis, analyse, summary
from core.columns import FOR_PEOPLE
from core.errors import InvalidInput, NotMeasured
from core.export_json import digits, to_json
from core.imports_json import from_json
from core.measured import Difference
from core.policies import Drafting, FixedGamma, Plain
from core.prompts import check
from core.record import Imported, Step
from core.runs import Lane, Message, Prompt, Run
from core.trace import repeated_share
from core.version import VERSION
from tests import side_runs, synthetic
from tools import make_schema

ROOT = Path(__file__).resolve().parents[1]
SECRET = "the secret recipe"


def with_secrets(run: Run) -> Run:
    """Its prompts, answers, steps and note all say the secret."""
    prompts = tuple(
        prompt.model_copy(update={"text": f"{SECRET} {at}", "messages": (Message(role="user", content=SECRET),)})
        for at, prompt in enumerate(run.spec.prompts)
    )
    traces = tuple(dataclasses.replace(trace, pieces=(SECRET,) * len(trace.answer)) for trace in run.traces)
    steps = (Step(lane=0, at_s=0.1, tokens=(70_001, 70_002), pieces=(SECRET, "x"), rejected=(SECRET,), drafted=2, accepted=1),)
    spec = run.spec.model_copy(update={"prompts": prompts})
    return run.model_copy(update={"spec": spec, "traces": traces, "steps": steps, "note": SECRET, "tags": ("quiet",)})


def answers(run: Run) -> tuple[object, ...]:
    """Everything that pages show as a number."""
    found = analyse(run)
    assert isinstance(found, Analysis)
    table = found.table.drop(columns=["steps", "cost", "measured_plain", "measured_assisted"]).to_dict("records")
    prompts = found.per_prompt(found.advice.policy).drop(columns="begins").to_dict("records")
    return repr(table), repr(prompts), found.alpha, repr(found.costs), found.advice.verdict, found.advice.policy, found.advice.speedup


@pytest.mark.parametrize("make", [lambda: synthetic.run(), lambda: synthetic.run(sampled=True), demo.example_run], ids=["greedy", "sampled", "demo"])
def test_predictions_without_texts_equal_those_of_the_whole_run(make):
    run = make()
    assert answers(privacy.without_texts(run)) == answers(run)


def test_nothing_that_was_said_is_left():
    run = with_secrets(synthetic.run(prompts=3, tokens=24))
    hidden = privacy.without_texts(run)
    dumped = hidden.model_dump_json() + repr(hidden.traces)
    assert SECRET not in dumped
    assert "70001" not in dumped
    assert all(prompt.withheld and not prompt.messages for prompt in hidden.spec.prompts)
    assert [prompt.label for prompt in hidden.spec.prompts] == [prompt.label for prompt in run.spec.prompts]
    assert (hidden.note, hidden.tags) == ("", ("quiet",))
    assert [len(trace.pieces) for trace in hidden.traces] == [24] * 3
    wrong = hidden.traces[0].accept == 0
    assert (hidden.traces[0].draft_choice[wrong] == privacy.UNKNOWN_ID).all()
    assert not privacy.has_texts(hidden)
    assert privacy.has_texts(run)
    assert privacy.without_texts(hidden).spec == hidden.spec, "a second time changes nothing"


@given(st.lists(st.integers(0, 2), max_size=60), st.integers(1, 4))
def test_repeats_show_exactly_the_repeated_stretches(ids: list[int], n: int):
    tokens = np.array(ids, np.int32)
    hidden = privacy.repeats(tokens, n)
    assert repeated_share(hidden, n) == repeated_share(tokens, n)
    grams, secret = ([tuple(each[at : at + n].tolist()) for at in range(len(ids) - n + 1)] for each in (tokens, hidden))
    assert [grams.index(gram) for gram in grams] == [secret.index(gram) for gram in secret]
    alone = [at for at in range(len(ids)) if not any(grams.count(gram) > 1 for gram in grams[max(0, at - n + 1) : at + 1])]
    assert all(hidden.tolist().count(hidden[at]) == 1 for at in alone), "a token outside of repeated stretches says nothing"


def test_side_by_side_ids_show_only_where_columns_agree():
    def step(lane: int, *tokens: int) -> Step:
        return Step(lane=lane, at_s=0.0, tokens=tokens, pieces=("a",) * len(tokens))

    run = synthetic.run(prompts=1, tokens=8).model_copy(update={"steps": (step(0, 5), step(1, 5, 6), step(0, 6), step(0, 7), step(1, 9), step(0, 5))})
    hidden = privacy.without_texts(run).steps
    columns = [[token for each in hidden if each.lane == lane for token in each.tokens] for lane in (0, 1)]
    assert [each.lane for each in hidden] == [0, 1, 0, 0, 1, 0]
    assert [a == b for a, b in zip(*columns, strict=False)] == [True, True, False]
    assert len(set(columns[0])) == 4, "the 5 that stands twice is not seen to be the same"


def test_hashes_match_within_one_installation_and_tell_nothing_to_others(tmp_path: Path):
    here, there = privacy.installation_key(tmp_path / "here"), privacy.installation_key(tmp_path / "there")
    assert privacy.installation_key(tmp_path / "here") == here
    assert len(here) == privacy.KEY_BYTES
    assert [file.name for file in (tmp_path / "here").iterdir()] == [privacy.KEY_FILE]
    one, two = synthetic.run(prompts=2), synthetic.run("other", prompts=3)
    assert privacy.without_texts(one, here).spec.prompts == privacy.without_texts(two, here).spec.prompts[:2]
    assert privacy.without_texts(one, here).spec.prompts[0] != privacy.without_texts(one, there).spec.prompts[0]
    assert len({prompt.text for prompt in privacy.without_texts(two, here).spec.prompts}) == 3


def test_withheld_prompts_are_never_measured():
    with pytest.raises(InvalidInput, match="withheld"):
        check([Prompt(text="[text withheld: 00]", withheld=True)])


def same(a: Run, b: Run) -> bool:
    """Equal in every field, arrays with their types included; where it was imported from aside."""
    a, b = (run.model_copy(update={"imported": None, "share_id": ""}) for run in (a, b))
    traces = [[repr(dataclasses.asdict(trace)) for trace in run.traces] for run in (a, b)]
    return a.model_dump_json() == b.model_dump_json() and traces[0] == traces[1]


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Synthetic runs with everything that a run can hold."""
    sampled = draw(st.booleans())
    prompts = draw(st.integers(1, 3))
    run = synthetic.run(prompts=prompts, tokens=draw(st.integers(2, 12)), sampled=sampled, alpha=draw(st.floats(0.2, 1)))
    texts = draw(st.lists(st.text(max_size=20), min_size=prompts, max_size=prompts))
    spec = run.spec.model_copy(
        update={
            "prompts": tuple(Prompt(text=text, messages=(Message(role="user", content=text),)) for text in texts),
            "lanes": (Lane(policy=Plain()), Lane(policy=Drafting(4), ensemble_weight=0.5)),
            "order": (1, 0),
            "stop": ("\n",),
        }
    )
    lane = st.builds(
        Step,
        lane=st.integers(0, 1),
        at_s=st.just(draw(st.floats(0, 9))),
        tokens=st.just((1, 2)),
        pieces=st.tuples(st.text(), st.text()),
        drafted=st.just(3),
        accepted=st.integers(0, 2),
        rejected=st.tuples(st.text()),
        draft_s=st.floats(0, 1),
    )
    chances = arrays(np.float32, len(run.traces[0].answer), elements=st.floats(0, 1, width=32))
    traces = tuple(dataclasses.replace(each, confidence=draw(chances)) for each in run.traces)
    if not sampled and draw(st.booleans()):
        tails = traces[0].tails
        assert tails is not None
        holes = tails.confidence.copy()
        holes[:, 3:] = np.nan
        traces = (dataclasses.replace(traces[0], tails=dataclasses.replace(tails, confidence=holes), ended="eos"), *traces[1:])
    if draw(st.booleans()):
        traces = (dataclasses.replace(traces[0], tails=None, lookup=None, budget=99, ended="stop"), *traces[1:])
    changes = {
        "spec": spec,
        "traces": traces[: draw(st.integers(0, prompts))],
        "steps": tuple(draw(st.lists(lane, max_size=3))),
        "status": draw(st.sampled_from(["done", "failed", "cancelled", "interrupted"])),
        "error": draw(st.text(max_size=20)),
        "note": draw(st.text(max_size=20)),
        "tags": tuple(draw(st.lists(st.text(max_size=9), max_size=2))),
        "edition": draw(st.integers(0, 9)),
        "disturbed": draw(st.booleans()),
        "differences": (Difference(prompt=0, policy=FixedGamma(2), token=1, dtype="float32", margin=draw(st.floats(0, 1))),),
    }
    run = run.model_copy(update=changes)
    found = analyse(run)
    return run.model_copy(update={"summary": summary(found)}) if isinstance(found, Analysis) and draw(st.booleans()) else run


@settings(max_examples=40, deadline=None)
@given(runs())
def test_what_is_exported_comes_back_equal(run: Run):
    back = from_json(to_json(run, texts=True), "a.json")
    assert same(back, run)
    assert back.imported == Imported(source="draftgauge", reference="a.json")
    assert [each.accept.dtype for each in back.traces] == [np.float32] * len(run.traces)
    hidden = from_json(to_json(run))
    assert not any(prompt.text in (was.text, "") for prompt, was in zip(hidden.spec.prompts, run.spec.prompts, strict=True))


@given(arrays(np.float32, 8, elements=st.floats(width=32, allow_infinity=False)))
def test_numbers_of_32_bits_are_written_short_and_exact(values):
    written = digits(values)
    assert np.array_equal(np.array(written, np.float32), values, equal_nan=True)
    assert digits(np.array([0.1, 1 / 3], np.float32)) == [0.1, 0.33333334]


def test_the_file_says_what_it_is_and_keeps_the_share_address_at_home():
    run = synthetic.run(prompts=2, tokens=4).model_copy(update={"share_id": "cafe"})
    found = json.loads(to_json(run))
    assert (found["format"], found["version"], found["program"], found["texts"]) == ("draftgauge-run", 1, "0.1.0", False)
    assert found["run"]["share_id"] == ""
    assert found["traces"][0]["accept"] == run.traces[0].accept.tolist()
    assert len(found["traces"]) == 2


def test_a_run_that_is_still_measured_is_not_exported():
    with pytest.raises(NotMeasured, match="running"):
        to_json(synthetic.run(status="running"))


def test_the_program_writes_its_own_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == VERSION


def read(data: bytes) -> list[dict[str, str]]:
    """A CSV as a spreadsheet reads it."""
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def test_csv_per_policy_has_the_numbers_of_the_analysis():
    found = analyse(synthetic.run())
    assert isinstance(found, Analysis)
    rows = read(export_csv.per_policy(found))
    assert list(rows[0]) == list(export_csv.PER_POLICY) == list(FOR_PEOPLE)
    assert len(rows) == len(found.table)
    row = next(row for row in rows if row["setting"] == "fixed gamma 4")
    assert float(row["speedup"]) == found.row(FixedGamma(4))["speedup"], "to the last digit"
    assert float(row["measured"]) == found.row(FixedGamma(4))["measured"]
    assert next(row for row in rows if row["setting"] == "fixed gamma 7")["measured"] == ""


def test_csv_per_prompt_also_for_a_run_without_times():
    run = with_secrets(synthetic.run(prompts=3, tokens=24))
    rows = read(export_csv.per_prompt(analyse(run), texts=True))
    assert [row["label"] for row in rows] == ["code", "docs", "chat"]
    assert rows[0]["begins"] == f"{SECRET} 0"
    assert float(rows[1]["alpha"]) == float(run.traces[1].accept.mean(dtype=np.float64))
    assert float(rows[0]["predicted_speedup"]) > 1
    early = read(export_csv.per_prompt(analyse(run.model_copy(update={"passes": ()}))))
    assert [row["predicted_speedup"] for row in early] == [""] * 3
    assert list(early[0]) == list(export_csv.PER_PROMPT)
    assert SECRET not in str(early)


@pytest.mark.parametrize("sampled", [False, True])
def test_csv_per_token(sampled: bool):
    run = synthetic.run(prompts=2, tokens=16, sampled=sampled)
    rows = read(export_csv.per_token(run, texts=True))
    assert list(rows[0]) == list(export_csv.PER_TOKEN)
    assert len(rows) == 32
    assert np.array_equal(np.array([float(row["accept"]) for row in rows[16:]], np.float32), run.traces[1].accept)
    assert [row["token_id"] for row in rows[:16]] == [str(token) for token in run.traces[0].answer]
    assert run.traces[0].lookup is not None
    assert rows[0]["lookup_2_candidates"] == str(run.traces[0].lookup[2].candidates[0])
    assert rows[0]["lookup_3_candidates"] == ""
    known = run.traces[0].sampled
    assert rows[0]["overlap"] == ("" if known is None else repr(digits(known.overlap)[0]))
    assert (known is not None) == sampled
    hidden = read(export_csv.per_token(run))
    assert {(row["token_id"], row["text"], row["draft_choice"]) for row in hidden} == {("", "", "")}
    assert hidden[3]["accept"] == rows[3]["accept"]


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-2", "@SUM(A1)", "\uff1d1", "\tx", "\rx", "\nx"])
def test_a_cell_never_begins_a_formula(text: str):
    run = synthetic.run(prompts=1, tokens=4)
    run = run.model_copy(update={"traces": (dataclasses.replace(run.traces[0], pieces=(text, 'a"b', "c,d", "-")),)})
    data = export_csv.per_token(run, texts=True)
    assert [row["text"] for row in read(data)] == [f"'{text}", 'a"b', "c,d", "'-"]
    assert export_csv.cell(-1.5) == -1.5, "a number stays a number"


@given(st.lists(st.text(), min_size=1, max_size=5))
def test_csv_keeps_every_text(texts: list[str]):
    rows = read(export_csv.table({"text": ""}, [{"text": text} for text in texts if "\0" not in text]))
    assert [row["text"].removeprefix("'") for row in rows] == [text.removeprefix("'") for text in texts if "\0" not in text]


def test_the_schema_is_up_to_date_and_describes_what_is_written():
    assert make_schema.PLACE.read_text(encoding="utf-8") == make_schema.schema(), "run: python tools/make_schema.py"
    assert make_schema.TABLES.read_text(encoding="utf-8") == make_schema.tables(), "run: python tools/make_schema.py"
    described = json.loads(make_schema.schema())
    jsonschema.Draft202012Validator.check_schema(described)
    validator = jsonschema.Draft202012Validator(described)
    for run in (synthetic.run(prompts=1, tokens=6), synthetic.run(prompts=1, tokens=6, sampled=True), demo.example_run()):
        assert [error.message for error in validator.iter_errors(json.loads(to_json(run)))] == []
    broken = json.loads(to_json(synthetic.run(prompts=1, tokens=6)))
    broken["traces"][0]["accept"][0] = 2
    assert "2 is greater than the maximum of 1" in [error.message for error in validator.iter_errors(broken)]


@pytest.mark.parametrize(
    "make", [lambda: side_runs.run(differ_at=9, margin=0.0001), lambda: side_runs.run(sampled=True, lookup=True), demo.side_example]
)
def test_a_side_by_side_run_says_the_same_without_texts_and_after_a_journey(make):
    run = make()
    hidden = from_json(to_json(run))
    assert from_json(to_json(run, texts=True)).steps == run.steps
    for lane in range(len(run.spec.lanes)):
        assert side.comparison(hidden, lane) == side.comparison(run, lane)
        assert side.lane_figures(hidden, lane) == side.lane_figures(run, lane)
        assert side.speedup(hidden, lane) == side.speedup(run, lane)
    assert {piece for step in hidden.steps for piece in (*step.pieces, *step.rejected)} == {privacy.HIDDEN}
