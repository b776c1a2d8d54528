"""Which plain decoding a draft has to beat: on CUDA the library may compile plain decoding over a static cache, assisted never.

Both are tried on one prompt and the faster one is the rival of the whole run. Unproven: the second was never run on a real GPU here.
"""

import torch

from core.measured import PlainKind
from core.runs import RunSpec
from core.worker.calls import PLAIN
from core.worker.generate import timed_generate
from core.worker.models import Pair

TOKENS = 32
_WARM_UPS = 2


def fastest_plain(pair: Pair, prompt: torch.Tensor, spec: RunSpec) -> PlainKind:
    """The faster kind for `prompt` (1, P); there is one kind only outside CUDA."""
    if pair.device.type != "cuda":
        return "dynamic cache"
    return min(PLAIN, key=lambda kind: _seconds(pair, prompt, spec, kind))


def _seconds(pair: Pair, prompt: torch.Tensor, spec: RunSpec, kind: PlainKind) -> float:
    budget = min(TOKENS, spec.max_new_tokens)
    calls = [timed_generate(pair, prompt, budget, spec.decoding, spec.seed, **PLAIN[kind]) for _ in range(_WARM_UPS + 1)]
    return calls[-1].total_s
