"""The report and the summary: complete, escaped, without texts unless asked for, and made by a job for the page."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from markdown_it import MarkdownIt

from core import builtin, demo
from core.analysis import Analysis, analyse
from core.errors import InvalidInput
from core.memory_gain import usd
from core.plan.report import report as job
from core.report_html import PLOTLY, body, report, whole
from core.report_memory import Model, served
from core.runs import ModelRef, Run
from core.settings import Settings
from core.store import Store
from core.summary_markdown import summary
from tests import synthetic

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
PAIR = tuple(Model(builtin.find(address).profile) for address in ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.2-1B"))


def analysed(run: Run) -> Analysis:
    found = analyse(run)
    assert isinstance(found, Analysis)
    return found


@pytest.fixture(scope="module")
def example() -> Analysis:
    return analysed(demo.example_run())


@pytest.fixture(scope="module")
def page(example: Analysis) -> str:
    return body(example, memory=served(example, *PAIR), link="http://localhost:8501/measure?run=example")


def figures(page: str) -> dict[str, dict]:
    found = re.findall(r'<script type="application/json" id="figure-(\w+)">(.*?)</script>', page)
    return {key: json.loads(text) for key, text in found}


def test_it_says_what_the_page_says(page: str):
    assert re.search(r'<h1>Draft 4 tokens at a time: <span class="faster">1\.54x the speed of plain</span></h1>', page)
    for said in ("[1.52, 1.55] on these prompts", "[1.41, 1.67] for traffic like these", "confirmed", "Demo target", "AMD EPYC, float32, greedy"):
        assert said in page
    headings = re.findall(r"<h2>(.*?)</h2>", page)
    wanted = ["By kind of prompt", "Setting to deploy", "Memory and money", "Limits", "How to read this", "Provenance"]
    assert headings == wanted
    assert "num_assistant_tokens = 4" in page
    assert 'href="http://localhost:8501/measure?run=example"' in page


def test_every_chart_is_in_it_with_its_numbers(page: str, example: Analysis):
    drawn = figures(page)
    assert list(drawn) == ["curve", "map", "ranking", "memory", "growth"]
    assert all(f'data-chart="{key}" role="img" aria-label="' in page for key in drawn)
    replay = next(trace for trace in drawn["curve"]["data"] if trace.get("name") == "replay, 95 %")
    assert replay["hovertemplate"].startswith("<b>")
    assert f"{example.replay.mid[3]:.2f}x" in page
    spots = [trace for trace in drawn["map"]["data"] if trace.get("marker", {}).get("symbol") == "diamond"]
    assert [(trace["x"][0], trace["y"][0]) for trace in spots] == [(pytest.approx(example.costs.c), pytest.approx(example.alpha.value))]


def test_the_money_is_that_of_the_memory_page(page: str, example: Analysis):
    price = served(example, *PAIR).price
    assert price is not None
    saving = price.usd_per_gpu_hour * 720 * (1 - 1 / example.advice.speedup)
    assert f"it saves {usd(saving)} a month" in page
    assert "not on the H100 SXM; there it may be another" in page


def test_only_its_own_scripts_may_run_and_nothing_is_fetched(page: str):
    file = whole(page)
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', file)
    assert policy is not None
    allowed = policy[1].replace("&#39;", "'")
    assert allowed.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in allowed
    scripts = re.findall(r"<script>(.*?)</script>", file, re.DOTALL)
    assert len(scripts) == 2
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    assert re.findall(r"sha256-([^']+)'", allowed) == digests
    assert not re.search(r'(src|href)="(?!http://localhost:8501/measure\?run=example)', page)
    assert len(scripts[0]) > 4_000_000
    assert PLOTLY not in file


def hostile() -> Run:
    run = synthetic.run()
    ref = ModelRef(source="hub", name=HOSTILE, path="a/b")
    prompts = tuple(prompt.model_copy(update={"label": HOSTILE, "text": f"{HOSTILE} {PLOTLY}"}) for prompt in run.spec.prompts)
    assert run.environment is not None
    return run.model_copy(
        update={
            "spec": run.spec.model_copy(update={"target": ref, "draft": ref, "prompts": prompts, "stop": (HOSTILE,)}),
            "environment": run.environment.model_copy(update={"device_name": HOSTILE, "platform": HOSTILE}),
            "traces": tuple(replace(trace, pieces=(HOSTILE,) * len(trace.pieces)) for trace in run.traces),
        }
    )


def test_texts_of_others_stay_text():
    page = body(analysed(hostile()), texts=True, memory=HOSTILE, link="javascript:alert(1)")
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "javascript:" not in page
    assert page.count(PLOTLY) == 1, "a prompt could take the place of Plotly"


def test_prompts_and_answers_only_if_asked_for():
    run = synthetic.run()
    marked = run.model_copy(
        update={
            "spec": run.spec.model_copy(update={"prompts": tuple(p.model_copy(update={"text": "SECRET-PROMPT"}) for p in run.spec.prompts)}),
            "traces": tuple(replace(trace, pieces=("SECRET-ANSWER",) * len(trace.pieces)) for trace in run.traces),
            "note": "SECRET-NOTE",
        }
    )
    found = analysed(marked)
    assert "SECRET" not in body(found)
    assert "SECRET" not in summary(found, "")
    with_texts = body(found, texts=True)
    assert with_texts.count("SECRET-PROMPT") == len(run.spec.prompts)
    assert "SECRET-ANSWER" in with_texts
    assert "SECRET-NOTE" not in with_texts


def test_bad_news_and_what_is_missing_are_said():
    off = analysed(synthetic.run(c=0.60, best=1))
    page = report(off, memory="The sizes are missing. Ask for them.")
    assert '<span class="slower">0.99x the speed of plain</span>' in page
    assert "These settings leave drafting off" in page
    assert "The sizes are missing. Ask for them." in page
    assert list(figures(page)) == ["curve", "map", "ranking"]
    ended = analysed(synthetic.run(status="cancelled", prompts=6).model_copy(update={"disturbed": True}))
    early = body(ended)
    assert "Not decided yet" in early
    assert "This run was cancelled before its end" in early
    assert "Something else used the machine" in early
    assert "too few prompts for an interval" in early.lower()


def test_the_job_makes_the_same_from_the_store(settings: Settings, store: Store):
    run_id = synthetic.keep(store, synthetic.run())
    asked = {"run": run_id, "texts": False, "link": "", "made": "2026-01-02", "missing": "no sizes"}
    made = job(asked, settings)
    assert made == body(analysed(store.get(run_id, traces=True)), memory="no sizes", made="2026-01-02")
    sized = [{"profile": model.profile.to_json(), "weights": None} for model in PAIR]
    assert list(figures(job(asked | {"run": "example", "models": sized}, settings)))[-1] == "growth"
    with pytest.raises(InvalidInput, match="no run"):
        job(asked | {"run": "nowhere"}, settings)
    with pytest.raises(InvalidInput):
        job(asked | {"run": synthetic.keep(store, synthetic.run().model_copy(update={"generations": (), "passes": ()}))}, settings)


def test_the_summary_has_the_verdict_the_settings_and_the_link(example: Analysis):
    text = summary(example, "https://gauge.example/measure?run=a b)|x")
    assert text.startswith("### Draft 4 tokens at a time: 1.54x the speed of plain\n")
    html = MarkdownIt("commonmark").enable("table").render(text)
    assert html.count("<tr>") == 7
    assert "<strong>Fixed gamma 4</strong></td>\n<td>1.55x</td>\n<td>1.54x</td>\n<td>[1.52, 1.55]</td>\n<td>2.49</td>" in html
    assert '<a href="https://gauge.example/measure?run=a%20b%29%7Cx">The run in Draftgauge</a>' in html
    assert "AMD EPYC" in html


def test_the_summary_escapes_what_others_named():
    run = hostile()
    name = "a|b`c`\n# d @someone <b>"
    run = run.model_copy(update={"spec": run.spec.model_copy(update={"target": ModelRef(source="hub", name=name, path="x")})})
    text = summary(analysed(run), "javascript:alert(1)")
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert "a|b'c' # d @someone &lt;b&gt;</code>" in html
    assert "<script" not in html
    assert "<img" not in html
    assert "<a " not in html
    assert html.count("<h1") == 0


def test_the_day_it_was_made_is_today_unless_given(example: Analysis):
    assert f"{datetime.now(UTC):%Y-%m-%d}" in body(example).rpartition("<footer")[2]
