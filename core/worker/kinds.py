"""Whether target and draft are of one kind, known from their configurations, before their weights are loaded.

Decoders go with decoders. Encoder-decoders go with each other: the library lets such a draft read the prompt with an encoder of its own. It
shares the target's encoder with a decoder alone only where that one is the other half of the same model (DistilWhisper, whose encoder's sizes
it compares), which is speech, and is refused here. Source: Transformers 5.24, `_validate_generation_mode`, `AssistedCandidateGenerator`.
"""

from collections.abc import Sequence

from transformers import PretrainedConfig

from core import encoders
from core.errors import ModelError
from core.runs import ModelRef
from core.usable import ENCODER_DECODERS


def check_kinds(refs: Sequence[ModelRef], configs: Sequence[PretrainedConfig], native: bool) -> None:
    """Raise ModelError when only one of target and draft has an encoder, or an encoder that is not known here, or nothing translates for it.

    refs, configs: the target's and the draft's. native: whether both number their tokens alike.
    """
    for ref, config in zip(refs, configs, strict=True):
        if config.is_encoder_decoder and ref.source == "gguf":
            raise ModelError(encoders.packed(ref.name, config.model_type))
        if config.is_encoder_decoder and config.model_type not in ENCODER_DECODERS:
            raise ModelError(
                f"{ref.name} is an encoder-decoder of the type {config.model_type!r}, which is not measured here. "
                f"Choose one of the types {', '.join(sorted(ENCODER_DECODERS))}, or a decoder."
            )
    target, draft = refs
    encode = [bool(config.is_encoder_decoder) for config in configs]
    if encode[0] != encode[1]:
        whole, alone = (target, draft) if encode[0] else (draft, target)
        raise ModelError(
            f"{whole.name} is an encoder-decoder and {alone.name} is a decoder alone, so a prompt would not reach both in the same way. "
            "Choose two of one kind."
        )
    if encode[0] and not native:
        raise ModelError(
            f"The encoder-decoders {target.name} and {draft.name} have different tokens, and Transformers 5.24 would give the target's token "
            "ids to the draft's encoder. Choose a draft with the target's tokens."
        )
