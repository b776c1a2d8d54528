"""`Heads`: what of a model can draft by itself, as its config says; read in `core.plan`, asked for by pages.

Source: Transformers 5.24, `MTPCandidateGenerator` (the target's `num_mtp_layers`) and `DFlashTokenCandidateGenerator` (the draft's
`target_layer_ids` and `block_size`). Units: layers and tokens. Not covered: whether the files hold the weights of these layers.
"""

from collections.abc import Mapping
from typing import Any

from core.record import Record


class Heads(Record):
    """layers: of the whole model. mtp_layers: that predict several tokens, 0 for none. problem: why these cannot be used, a sentence, or "".

    refusal: why nothing of the model can draft, neither its first layers nor heads; exit_problem: why its first layers cannot; "" where they may.
    """

    layers: int
    mtp_layers: int = 0
    problem: str = ""
    refusal: str = ""
    exit_problem: str = ""


def block_tokens(config: Mapping[str, Any]) -> int:
    """How many tokens a DFlash head with this config.json drafts at once; 0 for a model that is none. Its block begins with a token that is known."""
    found = config.get("block_size")
    return found - 1 if config.get("target_layer_ids") and isinstance(found, int) and found > 1 else 0
