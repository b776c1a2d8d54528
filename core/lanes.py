"""What a side-by-side run may ask for; everything that can be said without loading a model.

Source of what the library refuses: Transformers 5.24, `_get_candidate_generator`. Not covered: whether vocabularies fit (`core.vocab`).
"""

from core.errors import InvalidInput
from core.policies import Drafting, Oracle, Plain
from core.runs import Lane, RunSpec

LANES = (2, 3)


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
        _check_lane(number, lane)


def _check_lane(number: int, lane: Lane) -> None:
    if isinstance(lane.policy, Oracle):
        raise InvalidInput(f"Column {number} asks for the oracle, which knows every outcome and cannot be run. Choose another policy.")
    if isinstance(lane.policy, Drafting):
        return
    if lane.draft is not None:
        raise InvalidInput(
            f"Column {number} names the draft {lane.draft.name} but drafts without a model. Choose a draft length, or leave the draft out."
        )
    if lane.ensemble_weight is not None:
        raise InvalidInput(f"Column {number} mixes in a draft's opinion but has no draft. Choose a draft length, or leave the ensemble weight out.")
