"""What it costs to compare a drafted token with a confidence threshold: the library's own criterion, timed by itself. Seconds.

It is a softmax over the vocabulary and one number read from the device, far too little to be told from the noise of whole calls. Source:
Transformers 5.24, `ConfidenceCriteria`.
"""

import statistics
import time

import torch
from transformers import PreTrainedModel
from transformers.generation.stopping_criteria import ConfidenceCriteria

from core.worker.timing import Quiet

_CHECKS = 25


@torch.no_grad()
def check_seconds(draft: PreTrainedModel, quiet: Quiet) -> float:
    """The median of some comparisons of scores as wide as the draft's vocabulary; the result is read, so that nothing is left to wait for."""
    check, token = ConfidenceCriteria(0.0), torch.zeros((1, 1), dtype=torch.long, device=draft.device)
    scores = torch.randn((1, draft.config.get_text_config(decoder=True).vocab_size), device=draft.device)

    def once() -> float:
        began = time.perf_counter()
        check(token, (scores,))  # pyright: ignore[reportArgumentType]
        return time.perf_counter() - began

    once()
    return statistics.median(quiet(lambda: [once() for _ in range(_CHECKS)])[0])
