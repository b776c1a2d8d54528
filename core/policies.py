"""The ways to draft, as plain values.

`Drafting` has exactly the knobs of Transformers 5.24: how many tokens at most, how that limit
moves from round to round (the schedule), and the confidence below which drafting stops. The
presets are functions that return one. A `Policy` can be replayed and predicted; what is `MeasuredOnly` drafts with the target's
own states, which no trace holds, so that it is only ever really run. Not covered: adaptation of the threshold, which
Transformers adds when scikit-learn is installed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from core.errors import InvalidInput

Schedule = Literal["constant", "heuristic", "heuristic_transient"]
HeadsMethod = Literal["mtp", "dflash"]
Settings = dict[str, int | float | str]

DEFAULT_LIMIT = 20
DEFAULT_THRESHOLD = 0.4
DEFAULT_NGRAM = 2
HEADS: dict[HeadsMethod, str] = {"mtp": "the model's own heads (MTP)", "dflash": "a head made for the target (DFlash)"}
LOOKUP = "prompt lookup"
"""How names of that policy begin."""


@dataclass(frozen=True)
class Plain:
    """No draft: one target step per token."""

    kind: Literal["plain"] = "plain"


@dataclass(frozen=True)
class Drafting:
    """A draft model proposes up to `limit` tokens per round."""

    limit: int
    schedule: Schedule = "constant"
    threshold: float = 0.0
    kind: Literal["drafting"] = "drafting"

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise InvalidInput(f"A draft length of {self.limit} is not possible; use 1 or more, or no draft at all.")
        if not 0 <= self.threshold <= 1:
            raise InvalidInput(f"A confidence threshold of {self.threshold} is not possible; use a value from 0 to 1.")
        if self.schedule not in get_args(Schedule):
            raise InvalidInput(f"The schedule '{self.schedule}' is unknown; use one of {', '.join(get_args(Schedule))}.")


@dataclass(frozen=True)
class PromptLookup:
    """Copies up to `tokens` tokens that followed the last `ngram` tokens earlier in the text; no draft model."""

    tokens: int
    ngram: int = DEFAULT_NGRAM
    kind: Literal["lookup"] = "lookup"

    def __post_init__(self) -> None:
        if self.tokens < 1 or self.ngram < 1:
            raise InvalidInput(f"Prompt lookup of {self.tokens} tokens after {self.ngram} is not possible; both must be 1 or more.")


@dataclass(frozen=True)
class Oracle:
    """The cheapest schedule that knows every outcome of this draft beforehand: the upper limit for this draft. It cannot be run.

    limit: the most tokens of a round; None for as many as the answer has.
    """

    limit: int | None = None
    kind: Literal["oracle"] = "oracle"


Policy = Plain | Drafting | PromptLookup | Oracle
"""What can be replayed and predicted."""


@dataclass(frozen=True)
class EarlyExit:
    """The target's own first `layers` layers and its head propose; limit, schedule and threshold as in `Drafting`.

    The settings live in the target's own `generation_config`, because the target is its own draft.
    """

    layers: int
    limit: int = DEFAULT_LIMIT
    schedule: Schedule = "constant"
    threshold: float = DEFAULT_THRESHOLD
    kind: Literal["early_exit"] = "early_exit"

    def __post_init__(self) -> None:
        if self.layers < 1:
            raise InvalidInput(f"Drafting with the first {self.layers} layers is not possible; use 1 or more.")
        Drafting(self.limit, self.schedule, self.threshold)  # refuses what cannot be


@dataclass(frozen=True)
class OwnHeads:
    """Heads that were trained with the target propose; how many tokens is theirs to say, and nothing can be set.

    mtp: layers for multi-token prediction in the target's own files (`use_mtp`), one token each. dflash: a model of its own that was made
    for this target and reads its hidden states (`speculation_type="dflash"`), a block of tokens in one pass; it is named as the draft.
    """

    method: HeadsMethod
    kind: Literal["own_heads"] = "own_heads"

    def __post_init__(self) -> None:
        if self.method not in get_args(HeadsMethod):
            raise InvalidInput(f"Heads of the kind '{self.method}' are unknown; use one of {', '.join(get_args(HeadsMethod))}.")


MeasuredOnly = EarlyExit | OwnHeads
"""What can only be really run: it drafts with the target's own states."""


def FixedGamma(gamma: int) -> Drafting:
    """Always `gamma` tokens."""
    return Drafting(limit=gamma)


def Heuristic(start: int = 5, persistent: bool = True, threshold: float = 0.0) -> Drafting:
    """From `start` tokens, 2 more after a round in which all were right and else 1 less; kept from call to call if persistent."""
    return Drafting(limit=start, schedule="heuristic" if persistent else "heuristic_transient", threshold=threshold)


def Confidence(threshold: float = DEFAULT_THRESHOLD, limit: int = DEFAULT_LIMIT) -> Drafting:
    """Draft until the draft's own probability falls below `threshold`, at most `limit` tokens."""
    return Drafting(limit=limit, threshold=threshold)


def TransformersDefault() -> Drafting:
    """What Transformers does when nothing is set: up to 20 tokens, stop below a confidence of 0.4."""
    return Confidence()


def is_persistent(policy: Policy | MeasuredOnly) -> bool:
    """Whether the draft length goes over from call to call, so that rounds depend on the order of the prompts."""
    return isinstance(policy, Drafting | EarlyExit) and policy.schedule == "heuristic"


def to_transformers(policy: Policy | MeasuredOnly) -> Settings:
    """The policy under the names of Transformers; empty for plain decoding.

    Drafting: attributes of the *draft's* `generation_config` (as arguments of `generate` they are
    silently ignored); early exit: of the target's, but for `assistant_early_exit`. That, prompt lookup and heads: arguments of
    `generate`. Raises InvalidInput for the oracle.
    """
    match policy:
        case Plain():
            return {}
        case PromptLookup():
            return {"prompt_lookup_num_tokens": policy.tokens, "max_matching_ngram_size": policy.ngram}
        case Drafting():
            return _drafting_settings(policy)
        case EarlyExit():
            return {"assistant_early_exit": policy.layers} | _drafting_settings(drafting_of(policy))
        case OwnHeads():
            return {"use_mtp": True} if policy.method == "mtp" else {"speculation_type": "dflash"}
        case Oracle():
            raise InvalidInput("The oracle is an upper limit and cannot be set in Transformers; choose another policy.")


def _drafting_settings(policy: Drafting) -> Settings:
    return {
        "num_assistant_tokens": policy.limit,
        "num_assistant_tokens_schedule": policy.schedule,
        "assistant_confidence_threshold": policy.threshold,
    }


def drafting_of(policy: EarlyExit) -> Drafting:
    """How many tokens the first layers propose, as if they were a draft model."""
    return Drafting(policy.limit, policy.schedule, policy.threshold)


def from_transformers(settings: Mapping[str, int | float | str | None]) -> Policy:
    """The policy that these settings of Transformers mean; unset or None takes the library's default.

    An empty mapping is plain decoding; a draft with nothing set is `TransformersDefault()`.
    Raises InvalidInput for values Transformers would not take.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    try:
        if "prompt_lookup_num_tokens" in given:
            return PromptLookup(int(given["prompt_lookup_num_tokens"]), int(given.get("max_matching_ngram_size", DEFAULT_NGRAM)))
        if not settings:
            return Plain()
        return Drafting(
            limit=int(given.get("num_assistant_tokens", DEFAULT_LIMIT)),
            schedule=_schedule(str(given.get("num_assistant_tokens_schedule", "constant"))),
            threshold=float(given.get("assistant_confidence_threshold", DEFAULT_THRESHOLD)),
        )
    except ValueError as error:
        raise InvalidInput(f"The settings {dict(settings)} are not ones of Transformers: {error}.") from error


def _schedule(name: str) -> Schedule:
    for schedule in get_args(Schedule):
        if schedule == name:
            return schedule
    raise InvalidInput(f"The schedule '{name}' is unknown; use one of {', '.join(get_args(Schedule))}.")


def describe(policy: Policy | MeasuredOnly) -> str:
    """What a policy is called everywhere, such as "fixed gamma 3"."""
    match policy:
        case Plain():
            return "plain"
        case Oracle():
            return "oracle"
        case PromptLookup():
            return f"{LOOKUP} of {policy.tokens}, n-gram {policy.ngram}"
        case Drafting():
            return _describe_drafting(policy)
        case EarlyExit():
            return f"early exit after {policy.layers} {'layer' if policy.layers == 1 else 'layers'}, {_describe_drafting(drafting_of(policy))}"
        case OwnHeads():
            return HEADS[policy.method]


def _describe_drafting(policy: Drafting) -> str:
    if policy == TransformersDefault():
        return f"the library's default ({policy.limit}, {policy.threshold:g})"
    if policy.schedule == "constant":
        return f"up to {policy.limit}, stop below {policy.threshold:g}" if policy.threshold else f"fixed gamma {policy.limit}"
    stop = f", stop below {policy.threshold:g}" if policy.threshold else ""
    reset = ", new in each call" if policy.schedule == "heuristic_transient" else ""
    return f"heuristic from {policy.limit}{stop}{reset}"
