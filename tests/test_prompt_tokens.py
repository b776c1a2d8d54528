"""Token counts and previews equal what Transformers itself makes of the prompts; which prompts are left out, and why."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from core import chat, demo
from core.errors import InvalidInput, ModelError
from core.memory_cache import CacheProfile, LayerCache
from core.plan.prompt_tokens import prompt_preview, prompt_tokens
from core.plan_child import ROOT
from core.prompt_draft import Draft, Upload, keys
from core.prompt_rows import Room, judge
from core.runs import Message, Prompt
from core.settings import Settings
from tests.hub_models import ID
from tests.hub_server import HubServer
from tests.models import TEXTS, tokenizer_of

TEMPLATE = (
    "{{ bos_token }}{%- for message in messages %}{% if message.role == 'tool' %}{{ raise_exception('No tools here') }}{% endif %}"
    "<|{{ message['role'] }}|>\n{{ message['content'] | trim }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
HOSTILE = "$x$ <b> **y** \x1b[31m مرحبا <|endoftext|> \U0001f600"
CHAT = Prompt(
    text="And why?",
    messages=(
        Message(role="system", content="Be brief. "),
        Message(role="user", content="What is a draft?"),
        Message(role="assistant", content="A small model."),
        Message(role="user", content="And why?"),
    ),
)
PROMPTS = [*(Prompt(text=text, label="x") for text in (*TEXTS, HOSTILE, "  two spaces\n")), CHAT]


@pytest.fixture
def chatty(settings: Settings) -> Path:
    """A model folder whose tokenizer has a chat template, and adds a token at the beginning by itself."""
    folder = settings.model_roots[0] / "chatty"
    shutil.copytree(demo.TARGET.path, folder)
    tokenizer = tokenizer_of(list(TEXTS))
    tokenizer.add_special_tokens({"bos_token": "<s>", "additional_special_tokens": ["<|user|>", "<|assistant|>", "<|system|>"]})
    from tokenizers.processors import TemplateProcessing

    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", tokenizer.bos_token_id)])
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


def job(model: str, chat_template: bool, prompts: list[Prompt]) -> dict[str, Any]:
    return {"model": model, "prompts": [prompt.model_dump(mode="json") for prompt in prompts], "chat_template": chat_template}


def seen(model: str, chat_template: bool, prompt: Prompt) -> dict[str, Any]:
    return {"model": model, "prompt": prompt.model_dump(mode="json"), "chat_template": chat_template}


def turns(prompt: Prompt) -> list[dict[str, str]]:
    return [turn.model_dump() for turn in prompt.messages] or [{"role": "user", "content": prompt.text}]


def test_counts_of_the_demo_are_those_of_the_library(settings: Settings) -> None:
    library = AutoTokenizer.from_pretrained(demo.TARGET.path)
    counted = prompt_tokens(job("demo:target", False, PROMPTS), settings)
    assert counted == {"tokens": [len(library(prompt.text)["input_ids"]) for prompt in PROMPTS], "problems": [""] * len(PROMPTS)}
    assert min(counted["tokens"]) > 1
    for prompt in PROMPTS:
        found = prompt_preview(seen("demo:target", False, prompt), settings)
        assert found == {"text": prompt.text, "tokens": len(library(prompt.text)["input_ids"]), "unknown": 0}


def test_counts_and_text_with_the_template_are_those_of_the_library(settings: Settings, chatty: Path) -> None:
    library = AutoTokenizer.from_pretrained(chatty)
    counted = prompt_tokens(job("folder:chatty", True, PROMPTS), settings)
    for prompt, tokens in zip(PROMPTS, counted["tokens"], strict=True):
        ids = library.apply_chat_template(turns(prompt), add_generation_prompt=True, return_dict=False)
        text = library.apply_chat_template(turns(prompt), add_generation_prompt=True, tokenize=False)
        assert tokens == len(ids)
        assert chat.ids(library, prompt, True) == ids
        assert prompt_preview(seen("folder:chatty", True, prompt), settings) == {"text": text, "tokens": tokens, "unknown": 0}
    text = prompt_preview(seen("folder:chatty", True, CHAT), settings)["text"]
    assert text.startswith("<s><|system|>\nBe brief.<|endoftext|>\n<|user|>\nWhat is a draft?")
    assert text.endswith("<|user|>\nAnd why?<|endoftext|>\n<|assistant|>\n")


def test_without_the_template_the_tokenizers_own_special_tokens_are_shown(settings: Settings, chatty: Path) -> None:
    library = AutoTokenizer.from_pretrained(chatty)
    counted = prompt_tokens(job("folder:chatty", False, PROMPTS), settings)
    assert counted["tokens"] == [len(library(prompt.text)["input_ids"]) for prompt in PROMPTS]
    assert prompt_preview(seen("folder:chatty", False, PROMPTS[0]), settings)["text"] == "<s>" + TEXTS[0]
    assert prompt_preview(seen("folder:chatty", False, CHAT), settings)["text"] == "<s>And why?"


def test_a_template_that_refuses_a_prompt_says_so_for_that_one(settings: Settings, chatty: Path) -> None:
    tools = Prompt(text="b", messages=(Message(role="tool", content="a"), Message(role="user", content="b")))
    counted = prompt_tokens(job("folder:chatty", True, [PROMPTS[0], tools]), settings)
    assert counted["tokens"][0] > 5
    assert counted["tokens"][1] is None
    assert counted["problems"] == ["", "The model's chat template refuses this prompt (No tools here). Change it, or switch the chat template off."]
    with pytest.raises(InvalidInput, match="No tools here"):
        prompt_preview(seen("folder:chatty", True, tools), settings)


def test_a_tokenizer_written_anew_is_read_anew(settings: Settings, chatty: Path) -> None:
    before = prompt_tokens(job("folder:chatty", True, PROMPTS[:1]), settings)["tokens"][0]
    library = AutoTokenizer.from_pretrained(chatty)
    library.chat_template = "{{ messages[0].content }}"
    library.save_pretrained(chatty)
    after = prompt_tokens(job("folder:chatty", True, PROMPTS[:1]), settings)["tokens"][0]
    assert after == len(library(TEXTS[0], add_special_tokens=False)["input_ids"]) < before


@pytest.mark.parametrize(
    ("model", "template", "words"),
    [
        ("demo:target", True, "Demo target has no chat template"),
        ("folder:gone", False, "no model folder"),
        ("folder:broken", False, "could not be loaded"),
    ],
)
def test_models_that_cannot_count_get_a_sentence(settings: Settings, model: str, template: bool, words: str) -> None:
    broken = settings.model_roots[0] / "broken"
    shutil.copytree(demo.TARGET.path, broken)
    (broken / "tokenizer.json").write_text("{")
    with pytest.raises((ModelError, InvalidInput), match=words):
        prompt_tokens(job(model, template, PROMPTS[:1]), settings)


def test_a_hub_model_is_counted_without_its_weights(hub: HubServer, settings: Settings) -> None:
    """In a process of its own, as the planner runs it."""
    code = """
import json, sys
from core.plan.prompt_tokens import prompt_tokens
from core.plan_child import ROOT
from core.settings import Settings
from tests.hub_models import ID
from tests.hub_server import HubServer
print(json.dumps(prompt_tokens(json.loads(sys.argv[2]), Settings.model_validate_json(sys.argv[1]))))
"""
    environment = os.environ | {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "", "HF_HOME": str(settings.data)}
    command = [sys.executable, "-c", code, settings.model_dump_json(), json.dumps(job(ID, False, PROMPTS))]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True, text=True)
    library = AutoTokenizer.from_pretrained(demo.TARGET.path)
    assert json.loads(done.stdout)["tokens"] == [len(library(prompt.text)["input_ids"]) for prompt in PROMPTS]
    assert not list(settings.data.rglob("*.safetensors"))


def test_duplicates_and_long_prompts_are_left_out_with_the_reason() -> None:
    prompts = [Prompt(text="a"), Prompt(text="b"), Prompt(text="a", label="again"), Prompt(text="c"), CHAT, Prompt(text="d")]
    rows = judge(prompts, [216, 217, 216, None, 9, 0], Room(256), 40, problems=["", "", "", "refused", "", ""])
    assert [row.include for row in rows] == [True, False, False, False, True, False]
    assert [row.usable for row in rows] == [True, False, True, False, True, False]
    assert [row.reason for row in rows] == [
        "",
        "Left out: with 40 new tokens it needs 257, and the pair holds 256",
        "Same as 1",
        "refused",
        "Its last turn alone; the turns before it need the chat template",
        "Left out: it has no tokens",
    ]
    assert [row.number for row in rows] == [1, 2, 3, 4, 5, 6]


def sizes(context: int | None, source: int | None = None, cross: int = 0) -> CacheProfile:
    return CacheProfile("made", "Made", 1, 1, 0, 10, 8, context, (LayerCache("full", cross_bytes_per_source_token=cross),), source_context=source)


def test_behind_an_encoder_prompt_and_answer_have_a_text_each() -> None:
    prompts = [Prompt(text="a"), Prompt(text="b")]
    assert Room.of([sizes(256), sizes(128), sizes(None)]) == Room(text=128)
    bart = Room.of([sizes(64, 64, cross=8), sizes(128, 32, cross=8)])
    assert bart == Room(prompt=32, answer=63)
    assert [row.reason for row in judge(prompts, [32, 33], bart, 63)] == ["", "Left out: it has 33 tokens, and the pair's encoders read 32"]
    said = "Left out: 64 new tokens are asked for, and the pair's decoders hold 63"
    assert [row.reason for row in judge(prompts, [32, 2], bart, 64)] == [said, said]
    t5 = Room.of([sizes(None, None, cross=8)])
    assert [row.usable for row in judge(prompts, [10**6, 1], t5, 10**6)] == [True, True]


def test_nothing_is_too_long_while_tokens_or_context_are_unknown() -> None:
    prompts = [Prompt(text="a"), CHAT]
    assert [row.include for row in judge(prompts, None, Room(10), 40)] == [True, True]
    assert [row.include for row in judge(prompts, [10**6, 5], Room(), 40)] == [True, True]
    assert judge(prompts, None, Room(10), 40, chat_template=True)[1].reason == ""


def test_a_draft_is_saved_whole_and_changes_stay_with_their_prompts() -> None:
    prompts = [Prompt(text="a"), Prompt(text="b"), Prompt(text="a")]
    draft = Draft(pasted="a\nb\0\na", upload=Upload(name="x <b>", file="0" * 64)).changed(
        keys(prompts), {1: {"Include": False, "Label": " code "}, 2: {"Include": True}, 0: {"Label": None}}
    )
    assert Draft.read(draft.saved()) == draft
    assert "\0" not in draft.saved()
    moved = [Prompt(text="new"), *prompts]
    rows = judge(moved, None, Room(), 0)
    included = [draft.is_included(key, row) for key, row in zip(keys(moved), rows, strict=True)]
    assert included == [True, True, False, True]
    assert [draft.labelled(key, prompt).label for key, prompt in zip(keys(moved), moved, strict=True)] == ["", "", "code", ""]
    too_long = judge(prompts, [99, 99, 99], Room(50), 1)
    assert not draft.is_included(keys(prompts)[2], too_long[2]), "what cannot be measured cannot be included"


def test_text_that_was_saved_by_itself_is_what_was_pasted() -> None:
    assert Draft.read('{"prompt": "a"}') == Draft(pasted='{"prompt": "a"}')
    assert Draft.read(None) == Draft.read("") == Draft()
