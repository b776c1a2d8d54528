"""What a run that is written lane by lane may ask for, side by side or in several ways; everything that can be said without loading a model.

Source of what the library refuses: Transformers 5.24, `_get_candidate_generator`. Not covered: whether vocabularies fit (`core.vocab`), and
what only a model's files tell: its layers, its heads (`core.worker.own_draft`).
"""

from core.errors import InvalidInput
from core.policies import Drafting, EarlyExit, Oracle, OwnHeads, Plain, describe, is_persistent
from core.runs import Lane, ModelRef, RunSpec

LANES = (2, 3)
MOST_WAYS = 6
"""Plain decoding included: every prompt is written by each of them, and plain decoding stands between every two others."""


def check(spec: RunSpec) -> None:
    """Raise InvalidInput when these lanes cannot be run side by side."""
    count = len(spec.lanes)
    if count not in LANES:
        raise InvalidInput(f"{count} columns cannot be shown side by side. Choose 2 or 3, plain decoding first.")
    if spec.lanes[0] != Lane(policy=Plain()):
        raise InvalidInput("The first column is plain decoding, which the others are compared with. Choose a draft for the second and third column.")
    if sorted(spec.order) != list(range(count)):
        raise InvalidInput(f"The order {spec.order} does not name each of the {count} columns once. Draw it anew.")
    if len(spec.prompts) != 1:
        raise InvalidInput(f"A side-by-side run writes one answer, and there are {len(spec.prompts)} prompts. Choose one.")
    if spec.stop:
        raise InvalidInput("A side-by-side run shows whole answers. Leave the stop strings out, and limit the new tokens instead.")
    for number, lane in enumerate(spec.lanes[1:], 2):
        if isinstance(lane.policy, EarlyExit | OwnHeads):
            raise InvalidInput(f"Column {number} asks for {describe(lane.policy)}, which is measured in several ways only. Choose a draft model.")
        _check_lane(f"Column {number}", lane)


def check_ways(spec: RunSpec) -> None:
    """Raise InvalidInput when the prompts cannot be written in these ways."""
    if not 2 <= len(spec.lanes) <= MOST_WAYS:
        raise InvalidInput(f"{len(spec.lanes)} ways cannot be measured together. Choose plain decoding and 1 to {MOST_WAYS - 1} others.")
    if spec.lanes[0] != Lane(policy=Plain()):
        raise InvalidInput("The first way is plain decoding, which the others are compared with. Put it first.")
    if not spec.prompts:
        raise InvalidInput("There is no prompt to measure. Add at least one; 8 or more give an interval for traffic like them.")
    if spec.max_new_tokens < 2:
        raise InvalidInput(f"{spec.max_new_tokens} new tokens leave nothing to decode after the first. Ask for at least 2; 40 is a good start.")
    if spec.stop:
        raise InvalidInput("In several ways whole answers are timed. Leave the stop strings out, and limit the new tokens instead.")
    if len(set(spec.lanes)) < len(spec.lanes):
        raise InvalidInput("Two of the ways are the same. Change one of them, or leave it out.")
    for number, lane in enumerate(spec.lanes[1:], 2):
        _check_way(f"Way {number}, {describe(lane.policy)},", lane)
    if spec.draft not in _drafts(spec.draft, spec.lanes) and spec.draft != spec.target:
        raise InvalidInput(f"The draft {spec.draft.name} is used by none of the ways. Leave it out, or choose a draft length.")


def ways_of(spec: RunSpec, lanes: tuple[Lane, ...]) -> RunSpec:
    """The spec of a run that writes its prompts in these ways. Its draft is one that they use, or the target itself where none does.

    Raises InvalidInput as `check_ways`.
    """
    drafts = _drafts(spec.draft, lanes)
    draft = spec.draft if spec.draft in drafts else drafts[0] if drafts else spec.target
    asked = spec.model_copy(update={"extent": "ways", "lanes": lanes, "order": (), "reference": "", "draft": draft, "group": "", "stop": ()})
    check_ways(asked)
    return asked


def uses_draft(lane: Lane) -> bool:
    """Whether the lane drafts with a model that stands beside the target."""
    return isinstance(lane.policy, Drafting) or (isinstance(lane.policy, OwnHeads) and lane.policy.method == "dflash")


def _drafts(own: ModelRef, lanes: tuple[Lane, ...]) -> list[ModelRef]:
    """Draft models for drafting, in order; a DFlash head is none, because it cannot write by itself."""
    return [lane.draft or own for lane in lanes if isinstance(lane.policy, Drafting)]


def _check_way(name: str, lane: Lane) -> None:
    policy = lane.policy
    if isinstance(policy, Plain):
        raise InvalidInput(f"{name} is plain decoding once more. Choose a way to draft, or leave it out.")
    if is_persistent(policy):
        raise InvalidInput(
            f"{name} carries its draft length from prompt to prompt, so its rounds depend on their order. Choose the one that is new in each call."
        )
    if isinstance(policy, OwnHeads) and policy.method == "dflash" and lane.draft is None:
        raise InvalidInput(f"{name} needs the model that was made for this target. Name it as this way's draft.")
    if isinstance(policy, OwnHeads) and policy.method == "dflash" and lane.ensemble_weight is None:
        return
    _check_lane(name.removesuffix(","), lane)


def _check_lane(name: str, lane: Lane) -> None:
    if isinstance(lane.policy, Oracle):
        raise InvalidInput(f"{name} asks for the oracle, which knows every outcome and cannot be run. Choose another policy.")
    if isinstance(lane.policy, Drafting):
        return
    if lane.draft is not None and not uses_draft(lane):
        raise InvalidInput(f"{name} names the draft {lane.draft.name} but drafts without a model. Choose a draft length, or leave the draft out.")
    if lane.ensemble_weight is not None:
        raise InvalidInput(f"{name} mixes in a draft's opinion but has no draft. Choose a draft length, or leave the ensemble weight out.")
