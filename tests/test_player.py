"""The replay document: what is in it and what is not, and that no text of a run can become anything but text."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import streamlit
from hypothesis import given
from hypothesis import strategies as st

from core import side
from core.errors import NotMeasured
from core.player import STREAMLIT_SIZES, escaped, lane_detail, lane_name, player
from core.policies import FixedGamma, Plain, PromptLookup, TransformersDefault
from core.privacy import without_texts
from core.record import Step
from core.runs import Lane, ModelRef, Prompt, Run
from tests import side_runs

HOSTILE = "</script><script>alert(1)</script><!-- $x$ <b> & \u2028\u2029 $data"
JSONS = st.recursive(st.text() | st.integers() | st.booleans(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


class Document(HTMLParser):
    """The contents of scripts, styles and title, and the content policy."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.inside: list[tuple[str, str]] = []
        self.policy = ""
        self.open = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"] or ""
        self.open = tag in ("script", "style", "title")
        if self.open:
            self.inside.append((f"{tag} {found.get('type', '')}".strip(), ""))

    def handle_endtag(self, tag: str) -> None:
        self.open = False

    def handle_data(self, data: str) -> None:
        if self.open:
            name, before = self.inside.pop()
            self.inside.append((name, before + data))

    def of(self, name: str) -> list[str]:
        return [text for each, text in self.inside if each == name]


def content(text: str) -> dict[str, Any]:
    (data,) = Document(text).of("script application/json")
    return json.loads(data)


def hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def renamed(run: Run, name: str, prompt: str) -> Run:
    model = ModelRef(source="folder", name=name, path="")
    return run.model_copy(update={"spec": run.spec.model_copy(update={"target": model, "draft": model, "prompts": (Prompt(text=prompt),)})})


@given(JSONS)
def test_any_content_comes_back_and_cannot_end_its_element(value: object):
    text = escaped(value)
    assert json.loads(text) == value
    assert text.isascii()
    assert not set("<>&") & set(text)


def test_the_recorded_steps_are_in_the_document():
    run = side_runs.run(lookup=True)
    for place, lane in enumerate(content(player(run))["lanes"]):
        steps = side.steps_of(run.steps, place)
        assert [step[:5] for step in lane["steps"]] == [[s.at_s, s.drafted, s.accepted, s.draft_s, s.verify_s] for s in steps]
        assert "".join(piece for step in lane["steps"] for piece in step[6]) == "".join(side_runs.TEXT)
        assert [step[7] for step in lane["steps"]] == [list(s.rejected) for s in steps]
        assert [step[8] for step in lane["steps"]] == [len(s.rejected) for s in steps]
        assert lane["end"] == run.generations[-1 - place].total_s
        assert lane["tokens"] == len(side_runs.TEXT)
    assert [[step[5] for step in lane["steps"][:2]] for lane in content(player(run))["lanes"]] == [["p", "p"], ["t", "t"], ["b", "cct"]]


@pytest.mark.parametrize(("run", "texts"), [(side_runs.run(lookup=True), False), (without_texts(side_runs.run(lookup=True)), True)])
def test_without_texts_none_is_in_the_document(run: Run, texts: bool):
    text = player(run, texts=texts)
    found = content(text)
    assert found["texts"] is False
    assert found["prompt"] == []
    assert all(step[6:8] == [[], []] for lane in found["lanes"] for step in lane["steps"])
    assert found["lanes"][1]["tokens"] == len(side_runs.TEXT)
    assert not re.search("Explain|Literally|guesses|oracle|withheld|\u25af|u25af", text)


@pytest.mark.parametrize("theme", ["light", "dark", "auto"])
def test_the_policy_allows_this_style_and_these_scripts_and_nothing_else(theme: Any):
    found = Document(player(side_runs.run(), theme=theme))
    (script,), (style,) = found.of("script"), found.of("style")
    assert found.policy == (
        f"default-src 'none'; script-src {hashed(script)} '{STREAMLIT_SIZES}'; style-src {hashed(style)}; base-uri 'none'; form-action 'none'"
    )
    assert ("prefers-color-scheme" in style) is (theme == "auto")
    assert ("--paper:#12151C" in style) is (theme != "light")
    assert ("--paper:#FFFFFF" in style) is (theme != "dark")


def test_the_policy_knows_the_script_that_streamlit_adds():
    (file,) = (Path(streamlit.__file__).parent / "static/static/js").glob("IFrame.*.js")
    text = file.read_text(encoding="utf-8")
    name, added = re.search(r"(\w)=`streamlit:iframe:setSize`", text), re.search(r"`<script>(.*?)<\\/script>`", text, re.DOTALL)
    assert name
    assert added
    assert hashed(added[1].replace(f"${{{name[1]}}}", "streamlit:iframe:setSize")) == f"'{STREAMLIT_SIZES}'"


def test_nothing_is_fetched():
    text = player(side_runs.run())
    assert set(re.findall(r"\w+://[^\s\"'`]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"url\(|@import|\bsrc=|href=|fetch\(|innerHTML|insertAdjacent|document\.write|eval\(", text)


def test_hostile_names_and_prompts_stay_text():
    text = player(renamed(side_runs.run(), HOSTILE, HOSTILE))
    found = Document(text)
    assert [name for name, _ in found.inside] == ["title", "style", "script application/json", "script"]
    assert content(text)["prompt"] == [["", HOSTILE]]
    assert content(text)["target"] == f"target {HOSTILE}"
    assert "<title>&lt;/script&gt;" in text


def test_a_run_without_tokens_says_so():
    with pytest.raises(NotMeasured, match="no tokens yet"):
        player(side_runs.run(status="running", steps=0))


@pytest.mark.parametrize(
    ("run", "begins", "warns"),
    [
        (side_runs.run(), "Same answer, ", ""),
        (side_runs.run(differ_at=20, margin=1e-4), "Same answer up to a near tie, ", "Assisted parts from plain at token 21, where rounding decides"),
        (side_runs.run(differ_at=20, margin=2.0), "Not the same answer, ", "by more than rounding explains (margin of both choices 2 in float32)"),
        (side_runs.run(differ_at=20), "Not the same answer, ", "whether rounding explains it was not found out"),
        (side_runs.run(sampled=True), "Two answers drawn at random, ", "drawn at random, so their texts need not be the same"),
        (side_runs.run(status="cancelled", steps=8), "Not finished", "This run was stopped; what it had written is shown."),
    ],
)
def test_the_headline_says_what_became_of_the_text(run: Run, begins: str, warns: str):
    found = content(player(run))
    assert found["headline"][0] == begins
    assert warns in found["warning"]
    assert bool(warns) is bool(found["warning"])
    assert found["wrong"] == ("more than rounding explains" in warns), "red is for a bug alone"


def test_the_headline_gives_the_speedup_of_decoding_and_its_colour():
    fast, slow = side_runs.run(c=0.05), side_runs.run(c=0.9)
    for run, tone in ((fast, "faster"), (slow, "slower")):
        decode, whole, found = side.speedup(run, 1), side.end_to_end(run, 1), content(player(run))
        assert found["headline"][1] == f"{decode:.2f}x the speed of plain"
        assert found["tone"] == tone
        assert found["facts"].endswith(f"{decode:.2f}x in decoding, {whole:.2f}x for the whole call.")
    assert found["facts"].startswith("Plain: 96 tokens in 96 steps. Assisted: 96 tokens in 37 rounds, ")


def test_an_unfinished_column_ends_where_it_was_stopped():
    run = side_runs.run(status="interrupted", steps=8)
    plain, assisted = content(player(run))["lanes"]
    assert plain["steps"] == []
    assert plain["end"] == 0
    assert assisted["end"] == run.steps[7].at_s
    assert len(assisted["steps"]) == 8


def test_columns_have_names_of_their_own():
    policies = (Plain(), FixedGamma(3), FixedGamma(8), PromptLookup(10))
    run = side_runs.run()
    run = run.model_copy(update={"spec": run.spec.model_copy(update={"lanes": tuple(Lane(policy=policy) for policy in policies)})})
    assert [lane_name(run, place) for place in range(4)] == ["Plain", "Fixed gamma 3", "Fixed gamma 8", "Prompt lookup"]
    twin = Lane(policy=FixedGamma(3), draft=ModelRef(source="folder", name="tiny", path=""))
    for third, names in (
        (twin, ["Fixed gamma 3, small_model", "Fixed gamma 3, tiny"]),
        (run.spec.lanes[1], ["Fixed gamma 3, column 2", "Fixed gamma 3, column 3"]),
    ):
        lanes = (Lane(policy=Plain()), Lane(policy=FixedGamma(3)), third)
        alike = run.model_copy(update={"spec": run.spec.model_copy(update={"lanes": lanes})})
        assert [lane_name(alike, place) for place in (1, 2)] == names
    other = Lane(policy=TransformersDefault(), draft=ModelRef(source="folder", name="tiny", path=""), ensemble_weight=0.4)
    assert lane_detail(other) == "target with tiny, the library's default (20, 0.4), lossy: the draft has weight 0.4"
    assert lane_detail(Lane(policy=PromptLookup(10))) == "target copying up to 10, n-gram 2"


def test_a_step_that_ended_in_an_accepted_draft_has_no_correction():
    run = side_runs.run()
    step = Step(lane=1, at_s=1.0, tokens=(1, 2), pieces=("a", "b"), drafted=1, accepted=1)
    found = content(player(run.model_copy(update={"steps": (*run.steps, step)})))
    assert found["lanes"][1]["steps"][-1][5] == "db"
