"""The child of `tests.test_two_devices`: a tiny pair on one device and on two that are not there; what came of both as JSON.

Usage: python -m tests.two_devices FOLDER
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from core.decoding import Decoding
from core.measured import DeviceInfo
from core.policies import Drafting, FixedGamma, Plain, Policy, PromptLookup, TransformersDefault
from core.runs import Placement, RunSpec
from core.settings import Settings
from core.trace import PromptTrace
from core.worker import environment
from core.worker.generate import run_policy
from core.worker.inputs import encode_prompts
from core.worker.measure import measure
from tests.elsewhere import elsewhere
from tests.models import spec_of, write_pair
from tests.pairs import load_pair
from tests.test_measure import Kept

GREEDY, SAMPLED = Decoding(), Decoding(sample=True, temperature=0.8, top_k=20, top_p=0.9, repetition_penalty=1.1)
CALLS: dict[str, tuple[Policy, Decoding]] = {
    "plain": (Plain(), GREEDY),
    "fixed": (FixedGamma(4), GREEDY),
    "default": (TransformersDefault(), GREEDY),
    "heuristic": (Drafting(5, "heuristic"), Decoding(repetition_penalty=1.2)),
    "lookup": (PromptLookup(5), GREEDY),
    "sampled": (FixedGamma(4), SAMPLED),
}


def calls(spec: RunSpec) -> dict[str, list[list[int]]]:
    """Tokens and rounds of each call, on the spec's devices."""
    pair = load_pair(spec)
    prompt = encode_prompts(pair, spec)[0]
    found = {name: run_policy(pair, prompt, policy, spec.max_new_tokens, how, 3) for name, (policy, how) in CALLS.items()}
    return {name: [timed.tokens.tolist(), list(timed.rounds)] for name, timed in found.items()}


def measured(spec: RunSpec) -> dict[str, Any]:
    """What a whole measurement says that is no time."""
    kept = Kept()
    measure(spec, kept, Settings(threads=1))
    where = kept.environments[-1]
    return {
        "devices": [where.target_devices, where.draft_devices],
        "equal": [generation.equal for generation in kept.generations],
        "traces": [_rounded(kept.traces[index]) for index in sorted(kept.traces)],
    }


def _rounded(trace: PromptTrace) -> list[Any]:
    return [trace.answer.tolist(), trace.draft_choice.tolist(), np.round(trace.confidence, 3).tolist(), np.round(trace.accept, 3).tolist()]


def main() -> None:
    torch.set_num_threads(1)
    spec = spec_of(write_pair(Path(sys.argv[1])), prompts=1, max_new_tokens=12).model_copy(update={"confirm_s": 0.0})
    sampled = {"decoding": SAMPLED}
    one = {"calls": calls(spec), "greedy": measured(spec), "sampled": measured(spec.model_copy(update=sampled))}
    with elsewhere() as (first, second):
        environment.devices = lambda: [DeviceInfo(id=name, name=name) for name in (first, second)]
        apart = spec.model_copy(update={"device": first, "placement": Placement(draft_device=second)})
        two = {"calls": calls(apart), "greedy": measured(apart), "sampled": measured(apart.model_copy(update=sampled))}
    print(json.dumps({"one": one, "two": two}))


if __name__ == "__main__":
    main()
