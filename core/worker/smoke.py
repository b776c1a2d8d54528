"""The smoke test: eight tokens of one prompt, plain and with the draft, to see that a pair runs before it is measured.

What came of it is read by `core.smoke`. Its times include first calls and stand for nothing.
"""

from collections.abc import Sequence

import torch

from core.measured import Generation
from core.policies import Plain, Policy
from core.runs import RunSpec
from core.sink import Sink
from core.smoke import POLICY, TOKENS
from core.worker.generate import first_difference, run_policy
from core.worker.models import Pair

_POLICIES: Sequence[Policy] = (Plain(), POLICY)


def shortened(spec: RunSpec) -> RunSpec:
    """What the test needs of `spec`: its first prompt and eight new tokens."""
    return spec.model_copy(update={"prompts": spec.prompts[:1], "max_new_tokens": TOKENS})


def smoke(pair: Pair, prompt: torch.Tensor, sink: Sink) -> None:
    """Report both answers to `prompt` (1, P); the plain one comes first and is what the other is compared with."""
    answers = []
    for done, policy in enumerate(_POLICIES):
        sink.stage("smoke", done, len(_POLICIES))
        timed = run_policy(pair, prompt, policy, TOKENS)
        answers.append(timed.tokens)
        difference = first_difference(timed.tokens, answers[0])
        sink.generation(
            Generation(
                purpose="smoke",
                block=0,
                prompt=0,
                policy=policy,
                tokens=len(timed.tokens),
                total_s=timed.total_s,
                first_token_s=timed.first_token_s,
                rounds=() if isinstance(policy, Plain) else timed.rounds,
                equal=difference is None,
                first_difference=difference,
            )
        )
    sink.stage("smoke", len(_POLICIES), len(_POLICIES))
