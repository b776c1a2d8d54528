"""A fresh draft for every call that edits it: sampling with a draft that has other tokens than the target.

The library then cuts the draft's output layer down to the shared tokens and wraps its embedding, both in place and once for each pair of
tokenizers, which it remembers for good (`AssistantVocabTranslatorCache`). So each call gets a copy of the draft, which is cut before the call is
timed, as it would be in a service after its first call; and the library is made to forget it, because its memory would keep every copy.
Seconds. Source: Transformers 5.24, `candidate_generator.py`.
"""

import copy
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from transformers.generation.candidate_generator import AssistantToTargetTranslator, AssistantVocabTranslatorCache

from core.decoding import Decoding
from core.errors import InvalidInput
from core.worker.generate import synchronise
from core.worker.models import Pair


@contextmanager
def fresh(pair: Pair, decoding: Decoding) -> Iterator[tuple[Pair, float]]:
    """A pair whose draft may be edited inside, and the seconds that took; the pair itself and 0 where nothing would be edited."""
    if pair.draft_tokenizer is None or not decoding.sample:
        yield pair, 0.0
        return
    began_s = time.perf_counter()
    own = replace(pair, draft=copy.deepcopy(pair.draft))
    try:
        AssistantVocabTranslatorCache.get_translator(
            pair.tokenizer, pair.draft_tokenizer, target_tokens(pair), assistant_model=own.draft, assistant_prune_lm_head=True
        )
        synchronise(*own.devices)
        yield own, time.perf_counter() - began_s
    finally:
        AssistantVocabTranslatorCache._cache.get(pair.tokenizer, {}).pop(pair.draft_tokenizer, None)


def target_tokens(pair: Pair) -> int:
    """Rows of the target's output layer, by its config."""
    return int(pair.target.config.get_text_config().vocab_size)


def check_shared(pair: Pair, draft: str) -> None:
    """Raise InvalidInput where the library cannot sample with these two vocabularies. draft: how a sentence about it begins."""
    assert pair.draft_tokenizer is not None
    known = AssistantToTargetTranslator(pair.tokenizer, pair.draft_tokenizer, target_tokens(pair))
    shared = len(known.target_to_assistant_input_ids)
    if not shared:
        raise InvalidInput(f"{draft} and shares none with it, so nothing could be proposed when sampling. Decode greedily, or choose another draft.")
    if len(known._suppress_input_ids) == 0:
        raise InvalidInput(
            f"{draft}, but every one of its {shared:,} is the target's as well, and there Transformers 5.24 cannot sample with it "
            "(it looks for a list that it makes only when some are missing). Decode greedily, or choose a draft of the target's size."
        )
