"""Compiled plain decoding: the library compiles once for all prompts of a run, and a compiler that fails is told and costs no run.

On a CPU the library compiles only when it is told to, here with the backend "eager", which captures without generating code.
"""

import pytest
import torch
from torch._dynamo.utils import counters
from transformers import CompileConfig

from core.worker import rival
from core.worker.calls import plain_arguments
from core.worker.generate import timed_generate
from core.worker.inputs import encode_prompts
from core.worker.loading import too_much
from core.worker.models import Pair
from core.worker.room import out_of_memory
from tests.models import spec_of, write_pair
from tests.pairs import load_pair


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory):
    torch.set_num_threads(1)
    return spec_of(write_pair(tmp_path_factory.mktemp("pair")), max_new_tokens=8)


@pytest.fixture
def pair(spec) -> Pair:
    return load_pair(spec)


def test_a_longer_prompt_is_not_compiled_anew(pair, spec):
    how = CompileConfig(backend="eager")
    vars(how).update(mode=None, _compile_all_devices=True)
    prompts = sorted(encode_prompts(pair, spec), key=lambda prompt: prompt.shape[1])
    assert prompts[0].shape[1] < prompts[-1].shape[1]
    arguments = plain_arguments("static cache, compiled", prompts, spec.max_new_tokens)
    torch._dynamo.reset()
    counters.clear()
    for prompt in prompts:
        compiled = timed_generate(pair, prompt, spec.max_new_tokens, compile_config=how, **arguments)
        assert compiled.tokens.tolist() == timed_generate(pair, prompt, spec.max_new_tokens).tokens.tolist()
    assert counters["stats"]["unique_graphs"] == 1
    torch._dynamo.reset()


def test_on_a_cpu_there_is_one_kind(pair, spec):
    assert rival.fastest_plain(pair, encode_prompts(pair, spec), spec) == rival.Rival("dynamic cache", "")


def test_a_compiler_that_fails_leaves_the_other_kind_and_its_reason(pair, spec, monkeypatch: pytest.MonkeyPatch):
    def seconds(_pair: Pair, _prompts: object, _spec: object, kind: str) -> float:
        if kind == "dynamic cache":
            return 1.0
        raise RuntimeError("Failed to find C compiler. Please specify via CC environment variable.\nmore")

    monkeypatch.setattr(rival, "offers_compiled", lambda _pair: True)
    monkeypatch.setattr(rival, "seconds", seconds)
    found = rival.fastest_plain(pair, encode_prompts(pair, spec), spec)
    assert found == rival.Rival("dynamic cache", "Failed to find C compiler. Please specify via CC environment variable.")
    monkeypatch.setattr(rival, "seconds", lambda *asked: {"dynamic cache": 1.0}.get(asked[-1], 0.5))
    assert rival.fastest_plain(pair, encode_prompts(pair, spec), spec) == rival.Rival("static cache, compiled", "")


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 8.00 GB)"), True),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."),
            True,
        ),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_what_counts_as_too_little_memory(error: Exception, is_memory: bool):
    assert out_of_memory(error) is is_memory


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB, and so on",
            "2.00 GiB more could not be had.",
        ),
        (
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4000000000000 bytes.",
            "3,725.29 GiB more could not be had.",
        ),
        ("CUDA error: out of memory\nCompile with TORCH_USE_CUDA_DSA", "CUDA error: out of memory."),
    ],
)
def test_what_could_not_be_had_is_a_sentence(error: str, said: str):
    assert too_much(RuntimeError(error)) == said
