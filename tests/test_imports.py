"""What comes from elsewhere: whole runs, engines' own records, two numbers; and files that want to do harm."""

import gzip
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from core import imports
from core.analysis import Analysis, Unfinished, analyse, summary
from core.errors import DraftgaugeError, InvalidInput
from core.export_json import to_json
from core.imports import is_record, preview, read, to_run
from core.imports_json import EDITED, LARGEST_BYTES, from_json
from core.plan.import_run import import_run
from core.prompt_files import keep
from core.record import Imported
from core.settings import Settings
from core.store import Store
from tests import synthetic

WHOLE = to_json(synthetic.run(prompts=2, tokens=12), texts=True)
SAMPLED = to_json(synthetic.run(prompts=1, tokens=6, sampled=True))
SLOWEST_S = 5.0


def known(text: str, **more: Any) -> Imported:
    run = read("record.txt", text.encode(), **more)
    assert run.imported is not None
    assert is_record(run)
    return run.imported


def changed(*path: str | int, to: Any = None, source: bytes = WHOLE) -> bytes:
    """The document with another value at a place, or without it."""
    document = json.loads(source)
    *outer, last = path
    place = document
    for name in outer:
        place = place[name]
    if to is ...:
        del place[last]
    else:
        place[last] = to
    return json.dumps(document).encode()


# Whole runs.


def test_an_edited_file_is_marked_and_a_reformatted_one_is_not():
    edited = from_json(changed("run", "spec", "seed", to=7), "a.json")
    assert edited.imported == Imported(source="draftgauge", definition=EDITED, reference="a.json")
    assert preview(edited).warning == EDITED
    assert preview(from_json(json.dumps(json.loads(WHOLE), indent=3, sort_keys=True).encode())).warning == ""
    assert preview(from_json(gzip.compress(WHOLE))).facts[2] == ("prompts", "2, with their texts")


def test_a_record_stays_a_record_when_it_travels_on():
    run = to_run(Imported(source="vllm", alpha=0.5, definition="so"), "big", "small")
    back = from_json(to_json(run), "b.json")
    assert back.imported == run.imported
    assert back.spec == run.spec


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (WHOLE[:-200], "not whole JSON .* cut off"),
        (WHOLE[: len(WHOLE) // 2], "not whole JSON"),
        (changed("version", to=2), "version 2; this Draftgauge reads version 1. Update"),
        (changed("version", to="one"), "version: "),
        (changed("format", to="x"), "nothing here that can be imported"),
        (b'"draftgauge-run"', "no run of Draftgauge"),
        (changed("run", "spec", to=...), r"run.spec: field required"),
        (changed("sha256", to=...), "sha256: field required"),
        (changed("run", "evil", to=1), "run.evil: extra"),
        (changed("run", "traces", to="anything"), "run.traces does not belong there"),
        (changed("run", "generations", 3, "total_s", to=1e308), r"run.generations\[3\].total_s is a number that no measurement gives"),
        (WHOLE.replace(b'"total_s": ', b'"total_s": 1e999', 1), "JSON|number"),
        (WHOLE.replace(b'"total_s": ', b'"total_s": NaN, "x": ', 1), "not whole JSON"),
        (changed("run", "generations", 0, "total_s", to="inf"), r"run.generations\[0\].total_s: "),
        (changed("run", "generations", 0, "total_s", to=-1.0), "first token"),
        (changed("run", "generations", 0, "prompt", to=9), r"run.generations\[0\].prompt is 9, and there are 2 prompts"),
        (changed("run", "generations", 1, "rounds", to=[1, 2]), r"run.generations\[1\].rounds do not add up to its 12 tokens"),
        (changed("run", "generations", 1, "policy", "limit", to=10**9), "drafts 1,000,000,000 tokens at a time"),
        (changed("run", "generations", 1, "policy", "limit", to=0), "cannot be imported: A draft length of 0"),
        (changed("run", "passes", 0, "target", "1", "median_s", to=0.0), r"run.passes\[0\].target.1.median_s is 0 seconds"),
        (changed("run", "passes", 0, "target", "1", to=...), "lacks the passes over one token"),
        (changed("run", "passes", 0, "target_one_s", "5", to=...), "lacks the one-token passes"),
        (changed("run", "passes", 0, "target", "99999999", to={"median_s": 1.0, "iqr_s": 0.0, "n": 1}), "lacks the one-token passes"),
        (changed("run", "status", to="running"), "only runs that have ended"),
        (changed("run", "created", to="2025-01-02T03:04:05"), "no date with a time zone"),
        (changed("run", "id", to="../../etc"), "run.id is no id"),
        (changed("run", "spec", "group", to="%"), "group"),
        (changed("run", "spec", "stop", to=["x"] * 17), "run.spec.stop are 17; at most 16"),
        (changed("run", "tags", to=["t"] * 21), "run.tags are 21"),
        (changed("run", "tags", to=["t" * 41]), r"run.tags\[0\] has 41 characters"),
        (changed("run", "note", to="n" * 10_001), "run.note has 10,001 characters"),
        (changed("run", "error", to="e" * 20_001), "run.error is a text of 20,001 characters"),
        (changed("run", "environment", "device_name", to="d" * 1_001), "run.environment.device_name has 1,001 characters"),
        (changed("run", "environment", "peak_bytes", to=-1), "run.environment.peak_bytes is -1"),
        (changed("run", "imported", to={"source": "vllm", "alpha": 0.5}), "run.imported.source is vllm, which measures nothing"),
        (changed("run", "imported", to={"source": "draftgauge", "accepted": 3, "drafted": 2}), "accepts 3 of 2 drafted tokens"),
        (changed("run", "spec", "max_new_tokens", to=10**6), "max_new_tokens is 1,000,000"),
        (changed("traces", 0, "accept", to=[0.5]), r"traces\[0\].accept has 1 values for 12 answer tokens"),
        (changed("traces", 0, "accept", 2, to=1.5), r"traces\[0\].accept\[2\]: .* less than or equal to 1, not 1.5"),
        (changed("traces", 0, "pieces", to=[]), r"traces\[0\].pieces has 0 values"),
        (changed("traces", 0, "budget", to=3), "answer of 12 tokens in a budget of 3"),
        (changed("traces", 0, "tails", "position", to=[99] * 4), "position|values"),
        (changed("traces", 0, "tails", "width", to=3), "rows that are not 3 wide"),
        (changed("traces", 0, "lookup", "2", "matched", to=[9] * 12), "more matches than candidates"),
        (changed("traces", 0, "lookup", "x", to={"candidates": [], "matched": []}), "where an n-gram size belongs"),
        (changed("traces", 0, "sampled", "stop_rejected", "2", to=[0.0] * 6, source=SAMPLED), "threshold from 0 to 1"),
        (changed("traces", 0, "sampled", "overlap", to=[0.5], source=SAMPLED), "overlap has 1 values"),
        (changed("run", "steps", to=[{"lane": 0, "at_s": 0.1, "tokens": [1], "pieces": ["a"]}]), r"steps\[0\].lane is 0, and there are 0 lanes"),
        (b'{"format": "draftgauge-run", "run": ' + b"[" * 100_000, "not whole JSON"),
        (b'{"format": "draftgauge-run", "run": ' + b"1" * 400_000 + b"}", "JSON|number|integer"),
        (gzip.compress(WHOLE)[:-40], "damaged|not whole JSON"),
        (b"\x1f\x8b not gzip", "damaged gzip"),
    ],
)
def test_a_run_that_cannot_be_is_refused_with_the_place(content: bytes, sentence: str):
    begun = time.monotonic()
    with pytest.raises(InvalidInput, match=sentence) as refused:
        read("a.json", content)
    assert len(str(refused.value)) < 600
    assert time.monotonic() - begun < SLOWEST_S


def test_200_mb_are_refused_before_they_are_read_and_before_they_are_unpacked():
    begun = time.monotonic()
    with pytest.raises(InvalidInput, match="200 MB"):
        read("big.json", bytes(200_000_000))
    with pytest.raises(InvalidInput, match="more than 100 MB"):
        read("bomb.json.gz", gzip.compress(bytes(LARGEST_BYTES + 10), compresslevel=1))
    assert time.monotonic() - begun < SLOWEST_S


def test_other_json_is_no_run():
    with pytest.raises(InvalidInput, match='no "format"'):
        from_json(b"{}")


def test_hostile_text_is_only_text():
    text = "<script>alert(1)</script> $x$ =cmd [a](http://x) \u202e"
    run = from_json(changed("run", "spec", "target", "name", to=text))
    assert run.spec.target.name == text


def test_the_summary_is_computed_anew_and_not_believed():
    found = analyse(synthetic.run())
    assert isinstance(found, Analysis)
    claimed = {"verdict": "use", "policy": "x", "speedup": 9.0, "low": 8.0, "high": 10.0, "confirmed": True, "alpha": 2.0, "c": -1.0}
    whole = to_json(found.run, texts=True)
    assert from_json(changed("run", "summary", to=claimed, source=whole)).summary == summary(found)
    assert from_json(whole).summary is None
    assert from_json(changed("run", "passes", to=[], source=changed("run", "summary", to=claimed, source=whole))).summary is None


def test_packed_records_and_a_byte_order_mark_are_read():
    mark = b"\xef\xbb\xbf"
    assert read("a.json", mark + WHOLE).spec == from_json(WHOLE).spec
    assert read("a.log.gz", gzip.compress(mark + b"alpha 0.7, c 0.1")).imported == read("a.log.gz", b"alpha 0.7, c 0.1").imported


PATHS = st.sampled_from(["accept", "confidence", "answer", "rounds", "tokens", "median_s", "total_s", "width", "position", "limit", "n", "budget"])


@limits(max_examples=60, deadline=None)
@given(st.data())
def test_a_run_with_anything_changed_is_read_whole_or_refused(data: st.DataObject):
    """What is read can be analysed without an exception; what cannot be raises a sentence."""
    content = bytearray(data.draw(st.sampled_from([WHOLE, SAMPLED])))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.sampled_from([b"9", b"-", b"0", b"null", b"]", b"1e5", b'"', b"\xff", b","]))
    try:
        run = from_json(bytes(content))
    except DraftgaugeError:
        return
    assert isinstance(analyse(run), Analysis | Unfinished)


@limits(max_examples=60, deadline=None)
@given(st.data(), PATHS, st.sampled_from([-1, 0, 1, 10**6, 2**31, 2**60, 1e-300, 0.5, 1e12, None, "x", [], {}, True]))
def test_a_run_with_any_value_replaced_is_read_whole_or_refused(data: st.DataObject, name: str, value: Any):
    document = json.loads(data.draw(st.sampled_from([WHOLE, SAMPLED])))
    places = [place for place in imports.imports_vllm.objects(document) if name in place]
    if not places:
        return
    chosen: Any = data.draw(st.sampled_from(places))
    if isinstance(chosen[name], list) and chosen[name] and data.draw(st.booleans()):
        chosen[name][data.draw(st.integers(0, len(chosen[name]) - 1))] = value
    else:
        chosen[name] = value
    try:
        run = from_json(json.dumps(document).encode())
    except DraftgaugeError:
        return
    assert isinstance(analyse(run), Analysis | Unfinished)


SEEDS = [
    "vllm:spec_decode_num_drafts_total 4",
    "SpecDecoding metrics: Accepted: 1 tokens, Drafted: 3 tokens, Per-position acceptance rate: 0.9, 0.1",
    "draft acceptance = 0.5 ( 1 accepted / 2 generated), acceptance rate per position = (0.5)",
    '{"num_draft_tokens": 3, "num_accepted_draft_tokens": 1, "num_spec_steps": 1, "num_spec_tokens": 3, "acceptance_histogram": [0, 1, 0, 0]}',
    '{"draft_n": 3, "draft_n_accepted": 9}',
    "n_draft = 0 n_drafted = 1 n_accept = 0",
    "alpha nan c -1e999 gamma 0.5",
    "statistics x: #gen drafts = 0, #acc drafts = 0, #gen tokens = 0, #acc tokens = 0",
]


@limits(max_examples=150, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.lists(st.one_of(st.sampled_from(SEEDS), st.text(max_size=30)), max_size=5).map(lambda parts: "\n".join(parts).encode()),
    ),
    st.sampled_from([None, 1, 5]),
)
def test_any_bytes_are_read_or_refused(content: bytes, gamma: int | None):
    try:
        run = read("x", content, gamma=gamma)
    except DraftgaugeError:
        return
    assert preview(run).facts


@pytest.mark.parametrize(
    "unit",
    [
        "SpecDecoding metrics: ",
        "draft acceptance = 1 (",
        "statistics x: #gen drafts = 1, ",
        "n_draft = 1 ",
        "vllm:spec_decode_num_drafts{",
        "1",
        " ",
        "\n",
        "alpha ",
    ],
)
def test_no_text_makes_it_slow(unit: str):
    begun = time.monotonic()
    for content in (unit * (200_000 // len(unit)), (unit * 100 + "\n") * (2_000 // len(unit)), "vllm:spec_decode_num_drafts " + unit * 3_000):
        with pytest.raises(InvalidInput):
            read("x", content.encode())
    assert time.monotonic() - begun < SLOWEST_S


# vLLM.

SUMMARY = {
    "mean_acceptance_length": 1.2325581395348837,
    "draft_acceptance_rate": 0.07751937984496124,
    "acceptance_histogram": [39, 1, 0, 3],
    "num_spec_steps": 43,
    "num_accepted_draft_tokens": 10,
    "num_draft_tokens": 129,
    "num_spec_tokens": 3,
}
"""From vLLM's documentation of its acceptance metrics."""


def response(**more: Any) -> str:
    return json.dumps({"model": "big", "choices": [], "metrics": {"speculative_decoding": SUMMARY | more}})


def test_vllm_request_of_full_rounds_gives_alpha_exactly():
    found = known(response())
    assert (found.source, found.gamma, found.accepted, found.drafted, found.rounds) == ("vllm", 3, 10, 129, 43)
    assert found.alpha == 10 / (10 + 40), "40 rounds ended in a rejection, 3 accepted everything"
    assert "exact" in found.definition
    assert read("x", response().encode()).spec.target.name == "big"


def test_vllm_requests_add_up_as_lines_and_as_a_stream():
    lines = f"{response()}\n{response()}"
    stream = f"data: {response()}\n\ndata: [DONE]\n"
    assert (known(lines).accepted, known(lines).rounds) == (20, 86)
    assert known(stream).accepted == 10


def test_vllm_rounds_cut_short_give_a_lower_bound_unless_their_lengths_are_known():
    short = {"num_draft_tokens": 100}
    assert known(response(**short)).alpha == 10 / 50
    assert "at least" in known(response(**short)).definition
    rows = {"1": [10, 1], "3": [29, 0, 0, 3]}
    exact = known(response(num_draft_tokens=107, acceptance_histogram_by_draft_length=rows))
    assert exact.alpha == 10 / (10 + 39)
    assert "exact" in exact.definition
    steps = {
        "num_spec_steps": 3,
        "num_accepted_draft_tokens": 3,
        "num_draft_tokens": 6,
        "per_step_accepted": [2, 1, 0],
        "per_step_drafted": [3, 1, 2],
    }
    detailed = known(response(**steps, acceptance_histogram=[1, 1, 1, 0]))
    assert detailed.alpha == 3 / (3 + 2)


def test_vllm_request_without_histogram_has_no_alpha():
    found = known(response(acceptance_histogram=None))
    assert found.alpha is None
    assert "cannot be told" in found.definition


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"acceptance_histogram": [1, 1, 0, 3]}, "does not add up to 43 rounds"),
        ({"num_draft_tokens": -1}, "no count"),
        ({"num_draft_tokens": True}, "no count"),
        ({"num_draft_tokens": 5}, "10 accepted of 5"),
        ({"per_step_accepted": [1], "per_step_drafted": []}, "does not fit"),
        ({"acceptance_histogram_by_draft_length": {"3": [1]}}, "does not fit its draft length"),
    ],
)
def test_vllm_request_that_contradicts_itself_is_refused(more: dict[str, Any], sentence: str):
    with pytest.raises(InvalidInput, match=sentence):
        known(response(**more))


def metrics(drafts: float, drafted: float, accepted: float, *positions: float, model: str = "big") -> str:
    label = f'engine="0",model_name="{model}"'
    rows = [("num_drafts_total", label, drafts), ("num_draft_tokens_total", label, drafted), ("num_accepted_tokens_total", label, accepted)]
    rows += [("num_accepted_tokens_per_pos_total", f'{label},position="{place}"', value) for place, value in enumerate(positions)]
    body = "\n".join(f"vllm:spec_decode_{name}{{{labels}}} {value}" for name, labels, value in rows)
    return (
        f"# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.\n{body}\nvllm:spec_decode_num_drafts_created{{{label}}} 1.7e+09\n"
    )


def test_vllm_counters():
    found = known(metrics(1000.0, 3000.0, 1500.0, 800.0, 500.0, 200.0))
    assert (found.source, found.gamma, found.rounds, found.accepted, found.drafted) == ("vllm_prometheus", 3, 1000, 1500, 3000)
    assert found.alpha == pytest.approx(1500 / (1500 + 800))
    assert "0.500" in found.definition
    two = known(metrics(1000.0, 3000.0, 1500.0, 800.0, 500.0, 200.0) * 2)
    assert (two.rounds, two.alpha) == (2000, found.alpha)
    short = known(metrics(1000.0, 2500.0, 1500.0, 800.0, 500.0, 200.0))
    assert short.gamma is None
    assert "at least" in short.definition
    alone = known(metrics(1000.0, 1000.0, 700.0))
    assert (alone.alpha, alone.gamma) == (pytest.approx(0.7), 1)
    assert known(metrics(1000.0, 1500.0, 700.0)).alpha is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (metrics(10, 30, 15) + metrics(10, 30, 15, model="other"), "2 models"),
        (metrics(0, 0, 0), "nothing was drafted"),
        (metrics(10, 30, 31), "31 accepted of 30"),
        (metrics(10, 30, 15, 9, 9, 9), "do not add up"),
        (metrics(10, 30.5, 15), "no whole number"),
        ("vllm:spec_decode_num_drafts_total 5", "lacks vllm:spec_decode_num_draft_tokens_total"),
    ],
)
def test_vllm_counters_that_cannot_be_are_refused(text: str, sentence: str):
    with pytest.raises(InvalidInput, match=sentence):
        known(text)


def test_vllm_log_lines_add_up():
    line = (
        "INFO 01-02 [metrics.py:97] SpecDecoding metrics: Mean acceptance length: 2.00, Accepted throughput: 1.00 tokens/s, Drafted throughput: 2.00 "
        "tokens/s, Accepted: {} tokens, Drafted: {} tokens, Per-position acceptance rate: {}, Avg Draft acceptance rate: 50.0%\n"
    )
    found = known(line.format(100, 200, "0.700, 0.300") + line.format(60, 600, "0.200, 0.000"))
    assert (found.gamma, found.accepted, found.drafted, found.rounds) == (2, 160, 800, 400)
    shares = (0.25 * 0.7 + 0.75 * 0.2, 0.25 * 0.3)
    assert found.alpha == pytest.approx(sum(shares) / (sum(shares) + 1 - shares[1]))
    assert known(line.format(100, 201, "0.700, 0.300")).alpha is None


# llama.cpp.

OLD = "slot print_timing: id  0 | task 0 |\ndraft acceptance rate = 0.57576 (  171 accepted /   297 generated)\n"
NEW = """0.06.896.015 I slot print_timing: id  1 | task 0 | draft acceptance = 0.64479 (  167 accepted /   259 generated), mean acceptance length =  2.92, acceptance rate per position = (0.805, 0.632, 0.483)
0.06.896.057 I statistics     draft-eagle3: #calls(b,g,a) =    1     87     87, #gen drafts =     87, #acc drafts =    70, #gen tokens =    259, #acc tokens =   167, #mean acc len = 2.92, #acc rate/pos = (0.805, 0.632, 0.483), dur(b,g,a) = 0.005, 325.555, 0.114 ms
"""  # noqa: E501 - as printed, in llama.cpp's pull request 24536


def test_llama_cpp_old_log_needs_the_draft_length():
    found = known(OLD)
    assert (found.source, found.accepted, found.drafted, found.alpha, found.rounds) == ("llama_cpp", 171, 297, None, None)
    assert "not known" in found.definition
    given = known(OLD + OLD, gamma=1)
    assert (given.accepted, given.alpha, given.gamma) == (342, pytest.approx(171 / 297), 1)


def test_llama_cpp_new_log_tells_rates_per_position_and_rounds():
    found = known(NEW)
    assert (found.accepted, found.drafted, found.rounds, found.gamma) == (167, 259, 87, None)
    assert found.alpha == pytest.approx((0.805 + 0.632 + 0.483) / (0.805 + 0.632 + 0.483 + 1 - 0.483))
    assert "at least" in found.definition, "259 tokens in 87 rounds of 3: some were cut short"


def test_llama_cpp_program_and_responses():
    program = known("n_draft   = 16\nn_predict = 266\nn_drafted = 254\nn_accept  = 223\naccept    = 87.795%\n")
    assert (program.gamma, program.accepted, program.drafted) == (16, 223, 254)
    assert program.alpha is not None
    assert 0.95 < program.alpha < 1
    timings = json.dumps({"timings": {"predicted_n": 200, "draft_n": 347, "draft_n_accepted": 65}})
    assert (known(timings).accepted, known(timings).drafted, known(timings).alpha) == (65, 347, None)
    assert known(timings, gamma=16).gamma == 16


# Two numbers.


@pytest.mark.parametrize(
    "text", ["alpha 0.7, c 0.1", '{"alpha": 0.7, "c": 0.1}', "alpha = 0.7\nc = .1", "alpha,c\n0.7,0.1\n", "0.7 0.1", "\u03b1: 0.7 c: 0.1"]
)
def test_two_numbers(text: str):
    found = known(text)
    assert (found.source, found.alpha, found.c, found.gamma) == ("alpha_c", 0.7, 0.1, None)


def test_alpha_alone_and_gamma():
    found = known("acceptance 0.65 gamma 5")
    assert (found.alpha, found.c, found.gamma) == (0.65, None, 5)
    assert "c was not given" in found.definition


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("alpha 70, c 0.1", "alpha is 70; it is a share"),
        ("alpha 0.7, c -1", "c is -1"),
        ("alpha 0.7, c nan", "c is nan"),
        ("alpha 0.7 alpha 0.8", "given twice"),
        ("alpha 0.7 gamma 0.5", "gamma is 0.5"),
        ("hello", "nothing here that can be imported"),
        ("", "nothing here"),
        ("x" * 5_000 + " alpha 0.7", "nothing here"),
    ],
)
def test_numbers_that_cannot_be_are_refused(text: str, sentence: str):
    with pytest.raises(InvalidInput, match=sentence):
        known(text)


def test_a_record_fills_in_nothing_that_it_does_not_know():
    run = read("a.prom", metrics(1000.0, 3000.0, 1500.0).encode(), draft="small")
    assert (run.spec.target.name, run.spec.draft.name, run.spec.device, run.spec.prompts) == ("big", "small", "unknown", ())
    assert (run.environment, run.traces, run.generations, run.status) == (None, (), (), "done")
    assert isinstance(analyse(run), Unfinished)
    assert dict(preview(run).facts)["c"] == "not known"
    assert to_run(Imported(source="alpha_c"), "", " ").spec.draft.name == "unknown draft"


# The job.


def test_the_job_looks_first_and_imports_once_per_ticket(settings: Settings, store: Store):
    asked = {"file": keep(WHOLE, settings), "name": "a.json", "gamma": None}
    seen = import_run(asked | {"ticket": ""}, settings)
    assert (seen["run"], seen["preview"]["source"]) == ("", "draftgauge")
    one, two = (import_run(asked | {"ticket": ticket}, settings)["run"] for ticket in "ab")
    assert one != two, "the id of a run that is here already is not taken again"
    first, second = store.get(one, traces=True), store.get(two, traces=True)
    assert first.generations == second.generations == from_json(WHOLE).generations
    assert [len(trace.answer) for trace in second.traces] == [12, 12]
    shown = settings.model_copy(update={"read_only": True})
    with pytest.raises(InvalidInput, match="only shows runs"):
        import_run(asked | {"ticket": "c"}, shown)
