"""Comparison of runs: planted differences are named exactly, cautions follow from them, and the paired test is a ratio of sums."""

import itertools
from math import log
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import columns as col
from core import compare_figures, comparison, theory
from core.analysis import Analysis, analyse
from core.compare_figures import Line, Point
from core.compare_runs import labels, paired, quantities
from core.decoding import Decoding
from core.figures import Band, Confirmed
from core.landscape import GAMMAS
from core.measured import Carried, Environment
from core.palette import DARK, LIGHT, Palette
from core.policies import FixedGamma
from core.privacy import without_texts
from core.record import Imported
from core.runs import Lane, Message, ModelRef, Prompt, Run, RunSpec
from tests import synthetic
from tests.test_figures import contrast, layout

BOTH = pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
DRAWN = {"Temperature", "Top-k", "Top-p", "Warpers on the draft", "Draft temperature"}
OF_EQUAL_PROMPTS = {"Order of the prompts", "Labels"}

PLANTS: dict[str, tuple[str, Any]] = {
    "spec.target.name": ("Target", "other_model"),
    "spec.target.source": ("Target, place", "gguf"),
    "spec.target.path": ("Target, place", "/elsewhere/big_model"),
    "spec.target.revision": ("Target, revision", "abc123"),
    "spec.draft.name": ("Draft", "other_draft"),
    "spec.draft.source": ("Draft, place", "gguf"),
    "spec.draft.path": ("Draft, place", "/elsewhere/small_model"),
    "spec.draft.revision": ("Draft, revision", "def456"),
    "spec.max_new_tokens": ("Most new tokens", 65),
    "spec.device": ("Device", "cuda:0"),
    "spec.dtype": ("Number format", "bfloat16"),
    "spec.seed": ("Seed", 7),
    "spec.extent": ("Kind of run", "side_by_side"),
    "spec.lanes": ("Columns", (Lane(policy=FixedGamma(3)),)),
    "spec.order": ("Order of the columns", (1, 0)),
    "spec.reference": ("Predicted from run", "abc"),
    "spec.chat_template": ("Chat template", True),
    "spec.stop": ("Stop strings", ("END",)),
    "spec.confirm_s": ("Time for confirmation", 5.0),
    "spec.random_weights": ("Passes that were timed", True),
    "spec.batches": ("Passes that were timed", (1, 4)),
    "spec.cache_lengths": ("Passes that were timed", (64, 1024)),
    "spec.decoding.sample": ("Decoding", False),
    "spec.decoding.temperature": ("Temperature", 0.8),
    "spec.decoding.top_k": ("Top-k", 40),
    "spec.decoding.top_p": ("Top-p", 0.95),
    "spec.decoding.repetition_penalty": ("Repetition penalty", 1.1),
    "spec.decoding.warpers_once": ("Warpers on the draft", True),
    "spec.decoding.draft_temperature": ("Draft temperature", 0.3),
    "environment.host": ("Host", "otherhost"),
    "environment.device": ("Device", "cuda:1"),
    "environment.device_name": ("Device name", "Other GPU"),
    "environment.platform": ("Platform", "Plan 9"),
    "environment.python": ("Python", "3.12.1"),
    "environment.torch": ("PyTorch", "2.9"),
    "environment.transformers": ("Transformers", "5.25.0"),
    "environment.dtype": ("Number format", "float16"),
    "environment.attention": ("Attention", "eager"),
    "environment.threads": ("Threads", 8),
    "environment.scikit_learn": ("scikit-learn", True),
    "environment.target_parameters": ("Target, parameters", 13_700_001),
    "environment.draft_parameters": ("Draft, parameters", 1_200_001),
    "environment.target_layers": ("Target, layers", 33),
    "environment.draft_layers": ("Draft, layers", 2),
    "environment.plain": ("Plain decoding, the rival", "static cache, compiled"),
    "environment.draft_attention": ("Attention", "eager"),
    "environment.target_quantization": ("Target's weights", "bitsandbytes, 8 bits"),
    "environment.draft_quantization": ("Draft's weights", "gptq"),
    "environment.target_devices": ("Target's devices", ("cuda:0", "cuda:1")),
    "environment.draft_devices": ("Draft's devices", ("cuda:2",)),
    "environment.carried": ("Calibration of the loop", Carried(draft="x", round_overhead=0.1, token_overhead=0.1)),
    "prompts.text": ("Prompts", None),
    "prompts.messages": ("Prompts", None),
    "prompts.order": ("Order of the prompts", None),
    "prompts.labels": ("Labels", None),
}
NO_SETTINGS = {
    "spec.prompts",  # planted below "prompts."
    "spec.group",  # which runs belong together changes no result
    "spec.placement",  # what it came to stands in the environment
    "environment.device_peak_bytes",
    "environment.encoder_decoder",  # follows from the target
    "environment.notes",  # sentences on what the other fields say
    "environment.compile_failed",  # the rival that it led to is a setting
    "environment.target_bytes",  # what was measured is no setting
    "environment.draft_bytes",
    "environment.peak_bytes",
    "environment.target_peak_bytes",
    "environment.draft_peak_bytes",
}


def changed(record: Any, path: list[str], value: Any) -> Any:
    first, *rest = path
    return record.model_copy(update={first: changed(getattr(record, first), rest, value) if rest else value})


def plant(run: Run, path: str) -> Run:
    prompts = run.spec.prompts
    first = prompts[0]
    others = {
        "prompts.text": (first.model_copy(update={"text": first.text + " more"}), *prompts[1:]),
        "prompts.messages": (first.model_copy(update={"messages": (Message(role="user", content="hi"),)}), *prompts[1:]),
        "prompts.order": prompts[::-1],
        "prompts.labels": (first.model_copy(update={"label": "another"}), *prompts[1:]),
    }
    return changed(run, ["spec", "prompts"], others[path]) if path in others else changed(run, path.split("."), PLANTS[path][1])


def bare(run_id: str = "a", sampled: bool = True) -> Run:
    """A run without results, whose settings have something in them."""
    prompts = tuple(Prompt(text=f"prompt {at}", label="code" if at % 2 else "chat") for at in range(4))
    spec = synthetic.spec(prompts).model_copy(update={"decoding": synthetic.SAMPLING if sampled else Decoding()})
    return Run(id=run_id, spec=spec, created=synthetic.run().created, environment=synthetic.environment(), status="done")


def names(rows: list[comparison.Row]) -> list[str]:
    return [row.name for row in rows]


def differing(*runs: Run, baseline: int = 0) -> list[comparison.Row]:
    return comparison.differences(comparison.rows(runs, baseline))


@given(st.sets(st.sampled_from(sorted(PLANTS)), max_size=8), st.integers(0, 2))
@settings(max_examples=150, deadline=None)
def test_planted_differences_are_named_exactly(planted: set[str], where: int):
    runs = [bare("a"), bare("b"), bare("c")]
    for path in sorted(planted):
        runs[where] = plant(runs[where], path)
    expected = {PLANTS[path][0] for path in planted}
    if "spec.decoding.sample" in planted:
        expected |= DRAWN
    if "Prompts" in expected:
        expected -= OF_EQUAL_PROMPTS
    compared = comparison.rows(runs, baseline=(where + 1) % 3)
    rows = comparison.differences(compared)
    assert set(names(rows)) == expected
    assert len(names(rows)) == len(expected)
    assert all(row.others == comparison.LETTERS[where] for row in rows)
    assert comparison.gaps(compared) == ("", [])
    every = {*names(rows), *names(comparison.same(compared))}
    assert expected | every == every, "each setting is either different or shared"
    topics = {row.topic for row in rows if row.topic}
    found = comparison.cautions(compared)
    assert {caution.topic for caution in found} == topics
    assert {name: others for caution in found for name, others in zip(caution.names, caution.others, strict=True)} == {
        row.name: row.others for row in rows if row.topic
    }
    more = [row for row in rows if row.topic and row.name != "Prompts"]
    assert comparison.confounded(compared) == (comparison.LETTERS[where] if more else "")


def test_every_field_of_the_records_is_a_setting_or_named_as_none():
    known = {path.split(".")[0] + "." + path.split(".")[1] for path in PLANTS if "." in path} | NO_SETTINGS
    assert {f"spec.{name}" for name in RunSpec.model_fields} <= known
    assert {f"environment.{name}" for name in Environment.model_fields} <= known
    deeper = {tuple(path.split(".")[1:]) for path in PLANTS}
    assert {("decoding", name) for name in Decoding.model_fields} <= deeper
    assert {(role, name) for role in ("target", "draft") for name in ModelRef.model_fields} <= deeper
    assert set(Prompt.model_fields) == {"text", "label", "messages", "withheld"}


@pytest.mark.parametrize(
    ("paths", "topics"),
    [
        (["environment.device_name"], ["machine"]),
        (["spec.dtype"], ["precision"]),
        (["environment.torch", "environment.transformers"], ["versions"]),
        (["prompts.text"], ["prompts"]),
        (["spec.decoding.temperature"], ["temperature"]),
        (["spec.decoding.sample"], ["decoding", "temperature"]),
        (["spec.seed"], ["seed"]),
        (["environment.plain"], ["rival"]),
        (["spec.target.name"], ["target"]),
        (["spec.draft.name", "prompts.labels", "prompts.order", "spec.confirm_s", "spec.target.path"], []),
    ],
)
def test_a_difference_forbids_what_depends_on_it(paths: list[str], topics: list[str]):
    other = bare("b")
    for path in paths:
        other = plant(other, path)
    found = comparison.cautions(comparison.rows([bare(), other]))
    assert [caution.topic for caution in found] == topics


def test_what_does_nothing_in_greedy_decoding_is_no_difference():
    greedy, other = bare(sampled=False), bare("b", sampled=False)
    for path in ("spec.decoding.temperature", "spec.decoding.top_k", "spec.decoding.top_p", "spec.decoding.warpers_once"):
        other = plant(other, path)
    assert differing(greedy, other) == []
    seeded = differing(greedy, plant(other, "spec.seed"))
    assert names(seeded) == ["Seed"]
    assert comparison.cautions(seeded) == [], "no token of a greedy answer is drawn"


def test_the_seed_of_a_greedy_run_is_no_reason_to_distrust_a_sampled_one():
    rows = differing(bare(), plant(bare("b", sampled=False), "spec.seed"))
    assert "Seed" in names(rows)
    assert "seed" not in {caution.topic for caution in comparison.cautions(rows)}


def test_what_a_run_does_not_record_is_neither_different_nor_shared():
    blank = bare("b").model_copy(update={"environment": None})
    rows = comparison.rows([bare(), blank])
    unknown = {row.name for row in rows if row.unknown}
    assert {"Host", "PyTorch", "Threads", "Device name"} <= unknown
    assert "Device" not in unknown, "what was asked for is known"
    assert not unknown & set(names(comparison.same(rows)))
    assert comparison.differences(rows) == comparison.cautions(rows) == []
    letters, missing = comparison.gaps(rows)
    assert letters == "B"
    assert {"Host", "PyTorch"} <= set(missing)
    known = comparison.rows([blank, bare(), plant(bare("c"), "environment.torch")])
    [torch] = comparison.differences(known)
    assert (torch.name, torch.others, torch.unknown) == ("PyTorch", "C", "A"), "the known ones are compared with each other"


def test_of_an_engines_record_only_its_source_and_names_are_known():
    record = bare("b").model_copy(update={"imported": Imported(source="vllm", alpha=0.7)})
    rows = comparison.rows([bare(), record])
    assert names(comparison.differences(rows)) == ["Source"]
    assert names(comparison.same(rows)) == ["Target", "Draft"]
    assert all(row.words[1] == "not known" for row in rows if row.name not in ("Source", "Target", "Draft"))
    both = comparison.rows([record, record])
    assert comparison.differences(both) == []
    assert names(comparison.same(both)) == ["Source", "Target", "Draft"]
    whole = bare("b").model_copy(update={"imported": Imported(source="draftgauge")})
    assert differing(bare(), whole) == [], "a whole run from another machine is a measurement"


def test_withheld_prompts_are_neither_equal_nor_different():
    rows = comparison.rows([bare(), without_texts(bare("b"), b"key"), plant(bare("c"), "prompts.text")])
    [prompts] = [row for row in rows if row.name == "Prompts"]
    assert (prompts.unknown, prompts.others) == ("B", "C")
    assert "texts withheld" in prompts.words[1]
    assert "prompts" in {caution.topic for caution in comparison.cautions(rows)}
    both = [without_texts(bare(), b"key"), without_texts(bare("b"), b"key")]
    assert comparison.gaps(comparison.rows(both)) == ("", []), "one installation's hashes can be matched"
    assert differing(*both) == []
    fewer = bare("b").model_copy(update={"spec": bare().spec.model_copy(update={"prompts": bare().spec.prompts[:3]})})
    assert names(differing(bare(), without_texts(fewer, b"key"))) == ["Prompts"], "another number of prompts is another set"


def test_nothing_of_a_prompt_is_shown():
    secret = bare().model_copy(update={"spec": bare().spec.model_copy(update={"prompts": (Prompt(text="TOP SECRET"),)})})
    shown = "".join(word for row in [*comparison.rows([bare(), secret]), *comparison.rows([secret, secret])] for word in row.words)
    assert "SECRET" not in shown


def traces(fig: go.Figure) -> list[Any]:
    return list(fig["data"])


def analysis(run: Run) -> Analysis:
    found = analyse(run)
    assert isinstance(found, Analysis)
    return found


@pytest.fixture(scope="module")
def cheap() -> Analysis:
    return analysis(synthetic.run("cheap", c=0.1))


@pytest.fixture(scope="module")
def dear() -> Analysis:
    return analysis(synthetic.run("dear", c=0.3, best=2, draft="dear"))


def test_the_paired_test_is_the_ratio_of_both_ratios_of_sums(cheap: Analysis, dear: Analysis):
    test = paired(dear, cheap)
    assert test.ratio
    rows = [seen.row(seen.advice.policy) for seen in (dear, cheap)]
    sums = [row[col.MEASURED_PLAIN].sum() / row[col.MEASURED_ASSISTED].sum() for row in rows]
    assert test.ratio == pytest.approx(sums[0] / sums[1])
    assert test.shared == 12
    assert test.says == "gains less"
    assert test.between
    assert test.between.low < sums[0] / sums[1] < test.between.high < 1
    turned = paired(cheap, dear)
    assert turned.ratio == pytest.approx(1 / test.ratio)
    assert turned.between == pytest.approx((1 / test.between.high, 1 / test.between.low))
    assert turned.says == "gains more"


def test_a_run_beside_itself_gains_as_much(cheap: Analysis):
    test = paired(cheap, cheap)
    assert (test.ratio, test.says) == (1.0, "gains as much")
    assert test.between == (1.0, 1.0)


def test_only_common_prompts_are_paired_and_their_order_and_labels_do_not_matter(cheap: Analysis, dear: Analysis):
    run = dear.run
    keep = [11, 3, 7, 0, 1, 2, 4, 5, 6, 8]
    prompts = tuple(run.spec.prompts[at].model_copy(update={"label": "other"}) for at in keep)
    place = {at: number for number, at in enumerate(keep)}
    part = run.model_copy(
        update={
            "spec": run.spec.model_copy(update={"prompts": prompts}),
            "traces": tuple(run.traces[at] for at in keep),
            "draft_prefill_s": tuple(run.draft_prefill_s[at] for at in keep),
            "generations": tuple(g.model_copy(update={"prompt": place[g.prompt]}) for g in run.generations if g.prompt in place),
        }
    )
    test = paired(analysis(part), cheap)
    policy = analysis(part).advice.policy
    row, base = dear.row(policy), cheap.row(cheap.advice.policy)
    at = sorted(keep)
    sums = [one[col.MEASURED_PLAIN][at].sum() / one[col.MEASURED_ASSISTED][at].sum() for one in (row, base)]
    assert test.shared == 10
    assert test.ratio == pytest.approx(sums[0] / sums[1])


def test_a_predicted_side_adds_its_own_error(cheap: Analysis, dear: Analysis):
    unrun = dear.run.model_copy(update={"generations": tuple(g for g in dear.run.generations if g.purpose != "confirmation")})
    predicted = analysis(unrun)
    assert not predicted.advice.confirmed
    test = paired(predicted, cheap)
    half = predicted.row(predicted.advice.policy)[col.MODEL_HALF]
    assert test.between
    assert half > 0
    assert log(test.between.high / test.between.low) / 2 > half


def test_without_common_prompts_it_says_so(cheap: Analysis, dear: Analysis):
    spec = dear.run.spec
    other = spec.model_copy(update={"prompts": tuple(Prompt(text=f"strange {at}", label=p.label) for at, p in enumerate(spec.prompts))})
    test = paired(analysis(dear.run.model_copy(update={"spec": other})), cheap)
    assert (test.ratio, test.between, test.shared) == (None, None, 0)
    assert test.says == "cannot be tested: no prompt is in both"
    hidden = paired(analysis(without_texts(dear.run, b"key")), cheap)
    assert hidden.says == "cannot be tested: texts are withheld, so no prompt is known to be in both"


def test_five_common_prompts_have_a_ratio_and_no_test():
    one, other = (analysis(synthetic.run(str(c), c=c, prompts=5)) for c in (0.1, 0.3))
    test = paired(other, one)
    assert test.ratio
    assert test.between is None
    assert "fewer than 8 prompts" in test.says


def test_quantities_are_those_of_the_analysis_and_always_in_one_order(cheap: Analysis, dear: Analysis):
    assert [each.name for each in quantities(cheap)] == [each.name for each in quantities(dear)]
    values = {each.name: each for each in quantities(dear)}
    assert values["c, a drafted token in the loop"].value == pytest.approx(0.32, abs=0.01)
    assert values["v(5), target pass over 5 tokens"].value == pytest.approx(1.08, abs=0.001)
    assert values["v(2), target pass over 2 tokens"].value == pytest.approx(1.02, abs=0.001)
    assert values["Plain step"].value == pytest.approx(10, rel=0.02)
    assert values["alpha, acceptance"].value == dear.alpha.value
    assert values["Speedup of its best setting, these prompts"].bounds == dear.advice.on_these_prompts


def test_labels_have_their_own_alpha(cheap: Analysis):
    table = labels(cheap).set_index("label")
    assert table.loc["code", "prompts"] == 4
    assert table.loc["code", "alpha"] > table.loc["docs", "alpha"] > table.loc["chat", "alpha"]
    assert table.loc["code", "speedup"] > table.loc["chat", "speedup"]


# Charts.


@BOTH
def test_each_runs_hue_is_readable_and_none_is_like_another(palette: Palette):
    assert len(palette.runs) == comparison.MOST == len(comparison.LETTERS) == len(set(compare_figures.DASHES))
    for colour in palette.runs:
        assert contrast(colour, palette.paper) >= 4.5
        assert contrast(palette.paper, colour) >= 4.5
    meanings = [palette.target, palette.draft, palette.break_even, palette.formula, palette.danger_text, palette.other]
    assert all(_apart(one, other) > 100 for one, other in itertools.combinations(palette.runs, 2))
    assert all(_apart(one, other) > 60 for one, other in itertools.product(palette.runs, meanings))


def _apart(one: str, other: str) -> float:
    """Distance of two colours in RGB weighted by how the eye sees them (the "redmean" approximation)."""
    a, b = (np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)], dtype=float) for colour in (one, other))
    red = (a[0] + b[0]) / 2
    return float(np.sqrt(np.array([2 + red / 256, 4, 2 + (255 - red) / 256]) @ (a - b) ** 2))


def test_a_line_has_its_runs_hue_dash_and_letter_and_letters_do_not_cover_each_other():
    mid = theory.speedup(0.8, GAMMAS, 0.1)
    lines = [Line(place, comparison.LETTERS[place], Band(mid, mid - 0.1, mid + 0.1), [Confirmed(4, 1.5, 1.4, 1.6)]) for place in (0, 2, 5)]
    fig = compare_figures.curves(LIGHT, lines)
    by_name: dict[str, Any] = {trace.name: trace for trace in traces(fig) if trace.name}
    for line in lines:
        assert by_name[line.letter].line.color == LIGHT.runs[line.place] == by_name[f"{line.letter}, confirmed"].marker.color
        assert by_name[line.letter].line.dash == compare_figures.DASHES[line.place]
    assert by_name["A, confirmed"].marker.symbol == "diamond"
    low, high = layout(fig).yaxis.range
    ends = [annotation.y for annotation in layout(fig).annotations if annotation.text in ("<b>A</b>", "<b>C</b>", "<b>F</b>")]
    assert np.diff(sorted(ends)).min() >= 0.99 * compare_figures.APART * (high - low)
    assert "break-even 1x" in [annotation.text for annotation in layout(fig).annotations]


@given(st.floats(0.5, 6.0), st.floats(0.0, 0.2), st.floats(0.0, 0.5))
@settings(max_examples=40, deadline=None)
def test_lines_of_the_quadrant_lie_where_the_formula_reaches_their_speedup(level: float, slope: float, overhead: float):
    c, alpha, verify = np.geomspace(0.005, 2, 12), np.linspace(0, 1, 181), 1 + slope * GAMMAS
    speedup = compare_figures.best_speedup(alpha[:, None], c[None, :], verify, overhead)[1]
    found = compare_figures._alpha_at(level, alpha, speedup)
    for at in np.flatnonzero(~np.isnan(found)):
        best = theory.best_gamma(found[at], c[at], verify=list(verify), overhead=overhead)
        exact = float(theory.speedup(found[at], GAMMAS, c[at], verify, overhead).max())
        assert exact == pytest.approx(level, rel=0.02)
        assert best.speedup == pytest.approx(max(1.0, exact), rel=1e-6)


def test_the_quadrant_keeps_names_as_text_and_draws_what_lies_outside_at_its_edge():
    points = [Point(0, "A", "<b>x</b>", 0.1, 3.0), Point(1, "B", "y", 1.0, 0.02, measured=False)]
    fig = compare_figures.quadrant(DARK, points, 1.0, 0.0, "by Theorem 3.8")
    hover: dict[str, Any] = {(trace.hovertemplate or "")[:2]: trace for trace in traces(fig)}
    assert hover["A:"].hovertemplate.startswith("A: &lt;b&gt;x&lt;/b&gt;<br>alpha 0.10, c 3.000")
    assert hover["A:"].x[0] < compare_figures.C_RANGE[1]
    assert hover["B:"].marker.color == DARK.paper, "a ring: imported"
    assert "imported" in hover["B:"].hovertemplate
    assert layout(fig).yaxis.range[0] <= 0.1
    words = [annotation.text for annotation in layout(fig).annotations]
    assert {"break-even 1x", "2x", "slower than plain"} <= set(words)
