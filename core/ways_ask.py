"""What a run in several ways can be asked for: the ways of a pair, which are refused and why, and how long it takes.

All of it is said before anything is loaded, from what is known of both models' files. Source of what the library refuses: Transformers
5.24, `_get_candidate_generator`. Units: tokens, layers, seconds. Not covered: what only the loaded models tell, such as whether a prompt
fits the draft's context; the worker says that. The estimate of time is a guess within a factor of two, and pages say so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

from core import theory
from core.advice import Advice
from core.estimate_time import LOAD_BYTES_S, LOAD_S, PREFILL_TOKENS, Speed
from core.measured import AnyPolicy
from core.own_heads import Heads
from core.policies import Drafting, EarlyExit, FixedGamma, Heuristic, PromptLookup, TransformersDefault, drafting_of
from core.runs import RunSpec
from core.side_ask import fit
from core.vocab import VocabVerdict

SETTINGS: dict[str, Drafting] = {
    "default": TransformersDefault(),
    **{str(gamma): FixedGamma(gamma) for gamma in (1, 2, 3, 4, 5, 6, 8, 10, 15, 20)},
    "heuristic": Heuristic(persistent=False),
}
"""Settings of a draft model that the form offers, by their name in the address."""
USUAL_SETTINGS = ("default", "5", "10")
LOOKUP = PromptLookup(10)
MOST_TURNS = 3
"""As `core.worker.ways`."""
GUESSED_ALPHA = 0.6
UNSURE_LIMIT = 5
EXIT_COST = 0.5
"""What the estimate of time takes a draft for: how often it is right, after how many tokens its confidence stops it, and c of early exit."""
NO_MTP = "Its config names no layers that predict several tokens (num_mtp_layers)."
LOSSY_SAMPLING = (
    "Transformers 5.24 confuses this draft's probabilities when it samples, so the text is not the target's: it is timed, marked as lossy, "
    "and never recommended. Decode greedily for an answer that can be used."
)
ALL_SHARED = (
    "Every token of the draft is the target's as well, and there Transformers 5.24 cannot sample with other tokens. Decode greedily, or choose a "
    "draft of the target's size."
)


@dataclass(frozen=True)
class Suit:
    """How a draft can be measured. replayed: from one trace; real: only by really running it; refused: not at all; the sentence says why.

    lossy: that its text would not be the target's, "" where it is.
    """

    kind: Literal["replayed", "real", "heads", "refused"]
    sentence: str = ""
    lossy: str = ""


def suit(verdict: VocabVerdict, *, sample: bool, refusals: Sequence[Advice] = ()) -> Suit:
    """What the vocabularies and the rules allow. refusals: of the rules for the pair, the vocabulary's own among them."""
    found = fit(verdict)
    if found.kind == "refused":
        return Suit("refused", found.sentence)
    if refusals:
        return Suit("refused", refusals[0].sentence)
    if found.kind == "native":
        return Suit("replayed", verdict.sentence)
    if sample and not verdict.translatable_tokens:
        return Suit("refused", "Both share no token, so nothing could be proposed when sampling. Decode greedily, or choose another draft.")
    if sample and verdict.translatable_tokens == verdict.draft_tokens:
        return Suit("refused", f"{verdict.sentence} {ALL_SHARED}")
    return Suit("real", verdict.sentence, LOSSY_SAMPLING if sample else "")


def exits(layers: int) -> tuple[int, ...]:
    """After which of its layers a model can leave early."""
    return tuple(range(1, layers))


def usual_exits(layers: int) -> tuple[int, ...]:
    """A quarter and half of the layers."""
    return tuple(sorted({max(1, layers // 4), max(1, layers // 2)} & set(exits(layers))))


def early_exit(layers: int) -> EarlyExit:
    """The library's own settings for it."""
    return EarlyExit(layers)


def mtp_refused(heads: Heads) -> str:
    """Why the target cannot draft with heads of its own; "" when it can."""
    return heads.refusal or (heads.problem if heads.mtp_layers else NO_MTP)


def exit_refused(heads: Heads) -> str:
    """Why the target cannot draft with its first layers; "" when it can."""
    return heads.refusal or heads.exit_problem or ("" if exits(heads.layers) else "The target has one layer only, so it cannot leave earlier.")


def seconds(spec: RunSpec, prompt_tokens: Sequence[int], speed: Speed) -> float:
    """About how long such a run takes: loading, then turns through all prompts, one at least and more while `confirm_s` lasts.

    Plain decoding is called after every two others, and once before them.
    """
    kind = spec.device.partition(":")[0]
    reading = sum(prompt_tokens) / PREFILL_TOKENS.get(kind, PREFILL_TOKENS["cpu"])
    steps = len(prompt_tokens) * spec.max_new_tokens
    c = speed.draft_s / speed.target_s
    others = spec.lanes[1:]
    plain = 1 + ceil(len(others) / 2)
    turn_s = ((plain + len(others)) * reading + steps * (plain + sum(_steps_per_token(lane.policy, c) for lane in others))) * speed.target_s
    turns = max(1, min(MOST_TURNS, int(spec.confirm_s / turn_s)))
    return LOAD_S + speed.load_bytes / LOAD_BYTES_S + turns * turn_s


def _steps_per_token(policy: AnyPolicy, c: float) -> float:
    """Plain steps that a token takes at a middling acceptance; 1 where no model drafts."""
    match policy:
        case Drafting():
            return 1 / float(theory.speedup(GUESSED_ALPHA, UNSURE_LIMIT if policy.threshold else policy.limit, c))
        case EarlyExit():
            return _steps_per_token(drafting_of(policy), EXIT_COST)
        case _:
            return 1.0
