"""The settings to deploy: the Transformers scripts are run as they stand and draft as was recorded; the others say what they cannot do."""

import json
import shlex
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from core import demo
from core.acceptance import alpha_greedy_draft
from core.analysis import Analysis, analyse
from core.decoding import Decoding
from core.deploy import EngineSettings, answer, settings_for
from core.errors import InvalidInput
from core.policies import Confidence, Drafting, FixedGamma, Heuristic, Oracle, Plain, Policy, PromptLookup, TransformersDefault
from core.record import Imported
from core.replay import rounds_drawn, rounds_of
from core.runs import ModelRef, Run
from core.script import Service, script
from tests import synthetic

HARNESS = """
import json, runpy, sys
import torch
from transformers.generation.streamers import BaseStreamer

torch.set_num_threads(1)


class Counter(BaseStreamer):
    def __init__(self):
        self.rounds = []

    def put(self, value):
        self.rounds.append(value.numel())

    def end(self):
        pass


job = json.loads(sys.argv[1])
found = {}
for file in job["scripts"]:
    sys.argv = [file]
    left = runpy.run_path(file)
    found[file] = {"said": left["text"], "warpers": [type(each).__name__ for each in left["options"].get("logits_processor", [])], "rounds": []}
    for prompt in job["prompts"]:
        counter = Counter()
        left["target"].generate(**left["inputs_for"](prompt), **left["options"], streamer=counter)
        found[file]["rounds"].append(counter.rounds[1:])
print("FOUND", json.dumps(found))
"""
GREEDY: dict[str, Policy] = {
    "fixed": FixedGamma(4),
    "default": TransformersDefault(),
    "confident": Confidence(0.5, 8),
    "heuristic": Heuristic(persistent=False),
    "carried": Heuristic(),
    "lookup": PromptLookup(5),
    "off": Plain(),
}
SAMPLED = {
    "sampled": Decoding(sample=True, temperature=0.7, top_p=0.9),
    "once": Decoding(sample=True, temperature=0.7, top_k=40, top_p=0.9, warpers_once=True, draft_temperature=0.5),
}
PROMPTS = 3


@dataclass(frozen=True)
class Ran:
    """What the scripts did: rounds by name and prompt, and what each printed."""

    rounds: dict[str, list[list[int]]]
    said: dict[str, str]
    warpers: dict[str, list[str]]


@pytest.fixture(scope="module")
def example() -> Analysis:
    found = analyse(demo.example_run())
    assert isinstance(found, Analysis)
    return found


@pytest.fixture(scope="module")
def ran(example: Analysis, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """All scripts, one after the other in one process, each as it stands; then the run's first prompts with what a script leaves behind."""
    folder = tmp_path_factory.mktemp("scripts")
    codes = {name: settings_for(example, policy)[0].code for name, policy in GREEDY.items()}
    codes |= {name: script(Service(demo.TARGET, demo.DRAFT, FixedGamma(4), how, "float32", "cpu")) for name, how in SAMPLED.items()}
    codes["cut"] = script(Service(demo.TARGET, demo.DRAFT, FixedGamma(4), stop=("a",)))
    for name, code in codes.items():
        (folder / f"{name}.py").write_text(code)
    files = {name: str(folder / f"{name}.py") for name in codes}
    job = {"scripts": list(files.values()), "prompts": [prompt.text for prompt in example.run.spec.prompts[:PROMPTS]]}
    done = subprocess.run([sys.executable, "-c", HARNESS, json.dumps(job)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.rpartition("FOUND ")[2])
    by_name = {name: found[file] for name, file in files.items()}
    return Ran(*({name: each[part] for name, each in by_name.items()} for part in ("rounds", "said", "warpers")))


@pytest.mark.parametrize("name", ["fixed", "default"])
def test_the_script_drafts_as_was_recorded(name: str, example: Analysis, ran: Ran):
    confirmed = {g.prompt: list(g.rounds) for g in example.run.generations if g.purpose == "confirmation" and g.policy == GREEDY[name]}
    assert ran.rounds[name] == [confirmed[at] for at in range(PROMPTS)]
    assert max(max(rounds) for rounds in ran.rounds[name]) > 1, "nothing was ever accepted"


@pytest.mark.parametrize("name", ["confident", "heuristic", "lookup"])
def test_the_script_drafts_as_was_replayed(name: str, example: Analysis, ran: Ran):
    policy = GREEDY[name]
    for trace, rounds in zip(example.run.traces, ran.rounds[name], strict=False):
        replayed = rounds_drawn(trace, policy) if isinstance(policy, Drafting) else rounds_of(trace, policy)
        assert rounds == [each.emitted for each in replayed]


def test_a_carried_draft_length_goes_on_from_call_to_call(ran: Ran):
    """The script itself has written one answer before the first prompt, so its first call does not begin at the start."""
    assert ran.rounds["carried"] != ran.rounds["heuristic"]
    assert [sum(rounds) for rounds in ran.rounds["carried"]] == [sum(rounds) for rounds in ran.rounds["fixed"]]


def test_leaving_it_off_writes_token_by_token_and_the_same_text(ran: Ran):
    assert {count for rounds in ran.rounds["off"] for count in rounds} == {1}
    assert len({ran.said[name] for name in GREEDY}) == 1
    assert len(ran.said["off"]) > 20


def test_sampled_scripts_draft_with_the_processors_that_were_asked_for(ran: Ran):
    assert ran.warpers["once"] == ["TemperatureLogitsWarper", "TopKLogitsWarper", "TopPLogitsWarper"]
    assert ran.warpers["sampled"] == []
    assert max(count for name in SAMPLED for rounds in ran.rounds[name] for count in rounds) > 1


def test_an_answer_is_cut_at_a_stop_string_that_the_library_cannot_stop_at(ran: Ran):
    assert "a" in ran.said["fixed"]
    assert ran.said["cut"] == ran.said["fixed"].split("a")[0]


def engine(found: Analysis, name: str, policy: Policy | None = None) -> EngineSettings:
    return next(each for each in settings_for(found, policy) if each.engine == name)


def flags(found: Analysis, name: str, policy: Policy | None = None) -> list[str]:
    return shlex.split(engine(found, name, policy).code)


def analysed(run: Run) -> Analysis:
    found = analyse(run)
    assert isinstance(found, Analysis)
    return found


def after(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


def test_the_recommended_length_in_every_engine(example: Analysis):
    assert example.advice.policy == FixedGamma(4)
    vllm = flags(example, "vLLM")
    assert vllm[:3] == ["vllm", "serve", demo.TARGET.path]
    assert json.loads(after(vllm, "--speculative-config")) == {"method": "draft_model", "model": demo.DRAFT.path, "num_speculative_tokens": 4}
    sglang = flags(example, "SGLang")
    assert (after(sglang, "--speculative-num-steps"), after(sglang, "--speculative-num-draft-tokens")) == ("4", "5")
    llama = flags(example, "llama.cpp")
    assert (after(llama, "-m"), after(llama, "-md")) == ("TARGET.gguf", "DRAFT.gguf")
    assert (after(llama, "--spec-draft-n-max"), after(llama, "--spec-draft-p-min")) == ("4", "0")
    assert "GGUF" in " ".join(engine(example, "llama.cpp").notes)
    assert engine(example, "TGI").code == ""
    assert answer(example) == "Draft 4 tokens at a time: 1.54x the speed of plain, measured."
    assert [each.executed for each in settings_for(example)] == [True, False, False, False, False]
    assert all(each.source.startswith("https://") and each.seen == "2026-11-30" for each in settings_for(example))


def test_a_threshold_goes_to_its_nearest_where_there_is_none(example: Analysis):
    policy = Confidence(0.5, 8)
    best = example.best_fixed
    assert f"Always {best} tokens a round: vLLM has no setting for up to 8, stop below 0.5" in engine(example, "vLLM", policy).does
    assert json.loads(after(flags(example, "vLLM", policy), "--speculative-config"))["num_speculative_tokens"] == best
    assert after(flags(example, "SGLang", policy), "--speculative-num-steps") == str(best)
    llama = engine(example, "llama.cpp", policy)
    assert (after(shlex.split(llama.code), "--spec-draft-n-max"), after(shlex.split(llama.code), "--spec-draft-p-min")) == ("8", "0.5")
    assert any("throws the first token below the threshold away" in note for note in llama.notes)
    assert any("scikit-learn" in note for note in engine(example, "Transformers", policy).notes)
    assert engine(example, "Transformers", policy).does.endswith("as replayed, not run yet.")


def test_prompt_lookup_in_every_engine(example: Analysis):
    policy = PromptLookup(5, 3)
    config = json.loads(after(flags(example, "vLLM", policy), "--speculative-config"))
    assert config == {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
    assert after(flags(example, "SGLang", policy), "--speculative-algorithm") == "NGRAM"
    assert after(flags(example, "llama.cpp", policy), "--spec-ngram-simple-size-m") == "5"
    assert flags(example, "TGI", policy)[-2:] == ["--speculate", "5"]
    assert "assistant_model" not in engine(example, "Transformers", policy).code


def test_leave_it_off_starts_every_engine_plain():
    found = analysed(synthetic.run(c=0.60, best=1))
    assert found.advice.verdict == "leave_off"
    assert answer(found).startswith("These settings leave drafting off")
    for each in settings_for(found):
        assert "--spec" not in each.code
        assert "draft" not in each.code
        assert "assistant" not in each.code
        assert each.off == ""
        assert each.code


def test_under_sampling_an_engine_that_drafts_greedily_has_another_alpha():
    found = analysed(synthetic.run(sampled=True))
    greedy = alpha_greedy_draft(found.run).value
    assert np.isclose(found.alpha.on_text - greedy, synthetic.GREEDY_LESS, atol=0.02)
    notes = engine(found, "vLLM").notes
    assert any(f"expect an alpha of {greedy:.2f}" in note and f"not the {found.alpha.value:.2f}" in note for note in notes)
    assert any("probabilistic" in note for note in notes)
    assert any('{"temperature": 0.7, "top_p": 0.9, "top_k": -1}' in note for note in notes)
    assert any('"top_k": 0, "min_p": 0' in note for note in engine(found, "llama.cpp").notes)
    code = engine(found, "Transformers").code
    assert '"do_sample": True,' in code
    assert '"top_k": 0,' in code


def test_revisions_are_kept_and_names_are_quoted():
    run = synthetic.run()
    ref = ModelRef(source="hub", name="a b", path="a b; rm -rf /", revision="abc")
    found = analysed(run.model_copy(update={"spec": run.spec.model_copy(update={"target": ref, "draft": ref})}))
    vllm = flags(found, "vLLM", FixedGamma(3))
    assert vllm[2] == ref.path
    assert after(vllm, "--revision") == "abc"
    assert json.loads(after(vllm, "--speculative-config"))["revision"] == "abc"
    assert after(flags(found, "SGLang", FixedGamma(3)), "--speculative-draft-model-revision") == "abc"


def test_an_imported_run_does_not_claim_that_its_folders_are_here(example: Analysis):
    assert "runs on this machine" in engine(example, "Transformers").notes[-1]
    there = analysed(example.run.model_copy(update={"imported": Imported(source="draftgauge")}))
    assert "put yours in their place" in engine(there, "Transformers").notes[-1]


def test_the_oracle_cannot_be_deployed(example: Analysis):
    with pytest.raises(InvalidInput, match="oracle"):
        settings_for(example, Oracle())
