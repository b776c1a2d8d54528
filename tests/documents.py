"""Valid documents of every kind that `tests.parsers` reads, small, for fuzzing to begin with."""

import functools
import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

from core import demo, prices
from core.export_json import to_json
from core.prompt_draft import Draft
from core.trace_file import pack_traces
from tests import synthetic
from tests.supplies import random_trace


def packed(*values: object) -> list[bytes]:
    return [json.dumps(value).encode() for value in values]


TEXT = "a draft proposes"
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Why?"}]}]
LINES = [{"prompt": "Once", "label": "prose"}, {"text": "def add(a, b):"}, {"messages": CHAT, "label": "chat"}]
VLLM = """vllm:spec_decode_num_drafts_total{engine="0",model_name="big"} 100.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="big"} 300.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="big"} 120.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="big",position="0"} 70.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="big",position="1"} 50.0
"""
VLLM_LOG = "SpecDecoding metrics: Mean acceptance length: 2.20, Accepted throughput: 1.0 tokens/s, Accepted: 120 tokens, Drafted: 200 tokens, "
VLLM_LOG += "Per-position acceptance rate: 0.700, 0.500, Avg Draft acceptance rate: 60.0%"
VLLM_REQUEST = {"model": "big", "choices": [], "metrics": {"speculative_decoding": {}}}
VLLM_COUNTS = {"num_draft_tokens": 6, "num_accepted_draft_tokens": 3, "num_spec_steps": 2, "num_spec_tokens": 3}
VLLM_STEPS = VLLM_COUNTS | {"per_step_accepted": [1, 2], "per_step_drafted": [3, 3], "acceptance_histogram": [0, 1, 1, 0]}
LLAMA = "draft acceptance rate = 0.57576 (  171 accepted /   297 generated), acceptance rate per position = (0.805, 0.632, 0.483)\n"
LLAMA += "statistics draft: #calls = 3, #gen drafts = 99, #gen tokens = 297, #acc tokens = 171\nn_draft = 8\nn_drafted = 80\nn_accept = 40\n"
HUB = {
    "id": "acme/target",
    "sha": "a" * 40,
    "downloads": 3,
    "gated": "manual",
    "pipeline_tag": "text-generation",
    "lastModified": "2026-01-02T03:04:05.000Z",
    "tags": ["license:mit"],
    "siblings": [{"rfilename": "config.json"}, {"rfilename": "model.safetensors", "size": 8}],
    "cardData": {"license": ["mit"], "license_name": "x"},
    "safetensors": {"parameters": {"F32": 8}, "total": 8},
}
WORD_LEVEL = json.dumps(
    {
        "version": "1.0",
        "added_tokens": [{"id": 3, "content": "<end>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "_"},
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\s+"}, "behavior": "Isolated", "invert": False},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "[UNK]": 2}, "unk_token": "[UNK]"},
    }
).encode()
BYTE_PAIRS = json.dumps(
    json.loads(WORD_LEVEL)
    | {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"], "dropout": None, "unk_token": None, "byte_fallback": False}}
).encode()
UNIGRAM = json.dumps(json.loads(WORD_LEVEL) | {"model": {"type": "Unigram", "unk_id": 0, "vocab": [["a", -1.0], ["b", -2.0]]}}).encode()
TOKENIZER_CONFIG = packed(
    {
        "tokenizer_class": "LlamaTokenizer",
        "bos_token": "<s>",
        "eos_token": {"content": "</s>"},
        "added_tokens_decoder": {"3": {"content": "<end>"}, "4": {"content": "<more>"}},
        "extra_special_tokens": ["<x>"],
        "chat_template": [{"name": "default", "template": "{{ messages }}"}],
    }
)
TENSORS = packed(
    {
        "__metadata__": {"format": "pt"},
        "a.weight": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
        "b": {"dtype": "I8", "shape": [8], "data_offsets": [8, 16]},
    }
)
TEMPLATES = (
    b"{% for m in messages %}<|{{ m.role }}|>{{ m['content'] | trim }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}>{% endif %}",
    b"{% set ns = namespace(x=0) %}{% for i in range(3) %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ raise_exception('no') }}",
    b"{{ 'a' * 10 }}{{ messages | tojson(indent=2) }}{{ '%s' % 1 }}{{ '{}'.format(2) }}{{ [1, 2] | join(',') }}{{ 2 ** 3 }}",
)


@functools.cache
def runs() -> list[bytes]:
    return [to_json(synthetic.run(prompts=2, tokens=12), texts=True), to_json(synthetic.run(prompts=1, tokens=6, sampled=True))]


@functools.cache
def demo_file(name: str) -> bytes:
    return (Path(demo.DRAFT.path) / name).read_bytes()


@functools.cache
def gguf() -> bytes:
    """A head of each kind of value, two tensors of the simplest type, and their data."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def texts(*values: str) -> bytes:
        return struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))

    fields = {
        "general.architecture": struct.pack("<I", 8) + text("llama"),
        "general.alignment": struct.pack("<II", 4, 32),
        "llama.block_count": struct.pack("<II", 4, 1),
        "llama.rope.freq_base": struct.pack("<If", 6, 1e4),
        "tokenizer.ggml.model": struct.pack("<I", 8) + text("llama"),
        "tokenizer.ggml.tokens": texts("<s>", "a", "b", "[PAD3]"),
        "tokenizer.ggml.token_type": struct.pack("<IIQ4i", 9, 5, 4, 3, 1, 1, 1),
        "tokenizer.ggml.eos_token_id": struct.pack("<II", 4, 0),
        "tokenizer.chat_template": struct.pack("<I", 8) + text("{{ messages }}"),
    }
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, len(fields)) + b"".join(text(key) + value for key, value in fields.items())
    for at, name in enumerate(("token_embd.weight", "output_norm.weight")):
        head += text(name) + struct.pack("<IQIQ", 1, 8, 0, 32 * at)
    return head + bytes(-len(head) % 32) + bytes(64)


SEEDS: dict[str, Callable[[], Sequence[bytes]]] = {
    "pasted prompts": lambda: [b"one\ntwo", b"one\nmore\n---\ntwo", *packed(LINES, LINES[2]), b"\n".join(packed(*LINES))],
    "prompts .txt": lambda: [b"one\ntwo\n", b"a\nb\n\nc\nd\n", b"a\n---\nb\n"],
    "prompts .jsonl": lambda: [b"\n".join(packed(*LINES)), *packed(LINES[2])],
    "prompts .json": lambda: packed(LINES, {"data": LINES}, LINES[0]),
    "prompts .csv": lambda: [b'prompt,label\r\n"one, two",a\r\nthree,b\r\n', b"x;y\n1;a longer text\n", b"text\nalone\n"],
    "saved prompts": lambda: [Draft(pasted=TEXT, included={"a": True}, labels={"a": "b"}).saved().encode()],
    "tags": lambda: [b"fast\nfor Ann", b""],
    "run documents": runs,
    "engines' responses": lambda: packed(
        *(VLLM_REQUEST | {"metrics": {"speculative_decoding": counts}} for counts in (VLLM_COUNTS, VLLM_STEPS)),
        VLLM_COUNTS | {"acceptance_histogram_by_draft_length": {"3": [0, 1, 1, 0]}},
        {"timings": {"draft_n": 30, "draft_n_accepted": 12}},
    ),
    "engines' logs": lambda: [VLLM.encode(), VLLM_LOG.encode(), LLAMA.encode(), b"alpha 0.7, c 0.1, gamma 5", b"alpha,c\n0.7,0.1"],
    "another tool's output": lambda: [VLLM.encode(), VLLM_LOG.encode(), LLAMA.encode()],
    "stored traces": lambda: [pack_traces([random_trace(0), random_trace(1, rich=False)])],
    "safetensors headers": lambda: TENSORS,
    "safetensors files": lambda: [struct.pack("<Q", len(TENSORS[0])) + TENSORS[0] + bytes(16)],
    "GGUF vocabularies": lambda: [gguf()],
    "GGUF heads": lambda: [gguf()],
    "tokenizer.json": lambda: [WORD_LEVEL, BYTE_PAIRS, UNIGRAM],
    "tokenizer_config.json": lambda: TOKENIZER_CONFIG,
    "added_tokens.json": lambda: packed({"<end>": 3, "<x>": 9}),
    "vocab.json": lambda: packed({"a": 0, "b": 1}),
    "tokenizer.model": lambda: [b"YQ== 0\nYg== 1\n"],
    "config.json": lambda: [demo_file("config.json")],
    "generation_config.json": lambda: packed({"do_sample": True, "temperature": 0.6, "top_k": 20}),
    "index of shards": lambda: packed({"metadata": {}, "weight_map": {"a": "x-1.safetensors", "b": "x-2.safetensors"}}),
    "sizes of a config": lambda: [demo_file("config.json")],
    "chat templates": lambda: TEMPLATES,
    "answers of the Hub": lambda: packed(HUB, [HUB, HUB]),
    "addresses of models": lambda: [b"acme/target@main", b"demo:draft", b"https://huggingface.co/a/b/tree/main", b"folder:m", b"gguf:m/x.gguf"],
    "typed numbers": lambda: [b"8,192", b"12.0"],
    "typed amounts": lambda: [b"1234.5", b".5"],
    "typed currencies": lambda: [b"eur"],
    "own prices": lambda: [prices.to_csv(prices.load()[:3]).encode()],
}
"""By the reader's name in `tests.parsers`."""
