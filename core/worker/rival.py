"""Which plain decoding a draft has to beat: on CUDA the library may compile plain decoding over a static cache, assisted never.

Both are tried on one prompt and the faster one is the rival of the whole run. Compiling asks for more than the library does (a C compiler,
Triton, memory for captured graphs): where it fails the other kind is the rival, and the run says why. Times in seconds. Unproven: the second
was never run on a real GPU here. Source: Transformers 5.24, `_valid_auto_compile_criteria`, `_prepare_static_cache`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from transformers import GenerationConfig, StaticCache

from core.measured import PlainKind
from core.runs import RunSpec
from core.worker.calls import plain_arguments
from core.worker.generate import timed_generate
from core.worker.loading import first_line
from core.worker.models import Pair
from core.worker.room import forget_compiled, release_memory

TOKENS = 32
_WARM_UPS = 2


class Rival(NamedTuple):
    """The faster kind; compile_failed: why the compiled one could not be tried, "" where it was tried or is not offered."""

    plain: PlainKind
    compile_failed: str = ""


def fastest_plain(pair: Pair, prompts: Sequence[torch.Tensor], spec: RunSpec) -> Rival:
    """The faster kind for the first of `prompts` (1, P); there is one kind only outside CUDA."""
    if not offers_compiled(pair):
        return Rival("dynamic cache")
    dynamic_s, failed = seconds(pair, prompts, spec, "dynamic cache"), ""
    try:
        if seconds(pair, prompts, spec, "static cache, compiled") < dynamic_s:
            return Rival("static cache, compiled")
    except Exception as error:  # a compiler fails in many ways, and none of them is a reason not to measure
        failed = first_line(error)
    if failed:  # outside the except block, whose traceback would keep what was allocated
        forget_compiled()
        release_memory()
    return Rival("dynamic cache", failed)


def offers_compiled(pair: Pair) -> bool:
    """Whether the library itself would compile plain decoding of this target: not off CUDA, and not in fewer bits."""
    if pair.target.device.type != "cuda":
        return False
    cache = StaticCache(config=pair.target.config.get_text_config(decoder=True), max_cache_len=TOKENS)
    return bool(pair.target._valid_auto_compile_criteria({"cache": cache}, GenerationConfig()))  # pyright: ignore[reportCallIssue, reportArgumentType]


def warm_up(pair: Pair, prompts: Sequence[torch.Tensor], spec: RunSpec, kind: PlainKind) -> None:
    """Let a kind that is known from another draft be compiled before it is timed; its captured graphs are gone where weights were moved since."""
    if kind != "dynamic cache":
        seconds(pair, prompts, spec, kind)


def seconds(pair: Pair, prompts: Sequence[torch.Tensor], spec: RunSpec, kind: PlainKind) -> float:
    """A call of a few tokens after the first prompt, once it is warm: compiled, or its kernels chosen."""
    budget, how = min(TOKENS, spec.max_new_tokens), plain_arguments(kind, prompts, spec.max_new_tokens)
    calls = [timed_generate(pair, prompts[0], budget, spec.decoding, spec.seed, **how) for _ in range(_WARM_UPS + 1)]
    return calls[-1].total_s
