"""A draft with another vocabulary than the target's: what the library cannot do with it, and how its failures are told.

Greedy decoding goes through text and writes what the target writes, whatever is proposed. Under sampling the library cuts the draft's
output layer down to shared tokens, in the order in which the tokenizer's map happens to list them, but reads its scores in the order of
their ids (`AssistantToTargetTranslator`): it divides by the probabilities of other tokens, and the text is not drawn from
the target's distribution. So sampling is refused side by side; in several ways it is measured, and never recommended.
Source: Transformers 5.24, `candidate_generator.py`. Units: tokens.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from core.errors import InvalidInput, ModelError
from core.policies import Drafting
from core.runs import Lane, RunSpec
from core.worker.models import Pair
from core.worker.room import out_of_memory


def check(pair: Pair, prompt: torch.Tensor, lane: Lane, spec: RunSpec) -> None:
    """Raise InvalidInput for what the library refuses, or does silently otherwise, after `prompt` (1, P) with this pair."""
    if pair.draft_tokenizer is None or not isinstance(lane.policy, Drafting):
        return
    draft = f"The draft {(lane.draft or spec.draft).name} has other tokens than the target"
    if spec.decoding.sample and spec.extent != "ways":
        raise InvalidInput(
            f"{draft}, and Transformers 5.24 confuses the draft's probabilities then when it samples. Decode greedily, or choose another draft."
        )
    if lane.ensemble_weight is not None:
        raise InvalidInput(f"{draft}, so Transformers would ignore the ensemble weight. Leave it out, or choose another draft.")
    own, most = draft_ids(pair, prompt), _context(pair)
    tokens = len(own)
    if not tokens:
        raise InvalidInput(f"{draft}, and for it the prompt is empty. Write something.")
    rows = _rows(pair.draft)
    if max(own) >= rows:
        raise InvalidInput(f"{draft}, and its embedding, pruned to {rows:,} rows, lacks the prompt's token {max(own):,}. Choose the whole model.")
    if most is not None and tokens + spec.max_new_tokens > most:
        raise InvalidInput(
            f"{draft}: the prompt has {tokens:,} of its tokens, with {spec.max_new_tokens:,} new ones more than the {most:,} it can hold. "
            "Shorten it, or ask for fewer new tokens."
        )


def draft_ids(pair: Pair, prompt: torch.Tensor) -> list[int]:
    """The `prompt` (1, P) in the draft's own tokens, as it reads it."""
    if pair.draft_tokenizer is None:
        return prompt[0].tolist()
    text = str(pair.tokenizer.decode(prompt[0].tolist(), skip_special_tokens=True))
    return list(pair.draft_tokenizer(text)["input_ids"])


def _rows(model: Any) -> int:
    """Of the embedding."""
    return int(model.get_input_embeddings().weight.shape[0])


def _context(pair: Pair) -> int | None:
    return getattr(pair.draft.config.get_text_config(decoder=True), "max_position_embeddings", None)


@contextmanager
def translated(pair: Pair) -> Iterator[None]:
    """Turn a failure of the library's translation between two vocabularies into a ModelError with a sentence."""
    try:
        yield
    except (ValueError, IndexError, TypeError, AttributeError, RuntimeError) as error:
        if pair.draft_tokenizer is None or (isinstance(error, RuntimeError) and out_of_memory(error)):
            raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
        raise ModelError(
            f"Transformers could not translate between the two vocabularies: {reason}. What was written before is kept. "
            "Choose a draft with the target's tokens."
        ) from error
