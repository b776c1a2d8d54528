"""What to do when no draft fits, or none pays: other ways to speculate with their exact calls in Transformers 5.24, and leaving it off.

Names in the calls: `target`, `draft`, their tokenizers `target_tokenizer` and `draft_tokenizer`, `inputs` from the target's.
"""

from typing import NamedTuple

from core.advice import Pair

DOCUMENTATION = "huggingface.co/docs/transformers/generation_strategies"


class Alternative(NamedTuple):
    """One other way: its name, when it is worth trying, what it takes, the call ("" where there is none), who says it."""

    name: str
    when: str
    takes: str
    call: str
    source: str


REENCODING = Alternative(
    "Universal assisted decoding",
    "The draft has another vocabulary, and no draft with the target's own exists.",
    "Both tokenizers. Text is re-encoded every round when greedy, so that c is higher; sampling needs tokens that both vocabularies know.",
    "target.generate(**inputs, assistant_model=draft, tokenizer=target_tokenizer, assistant_tokenizer=draft_tokenizer)",
    f"{DOCUMENTATION}#universal-assisted-decoding; huggingface/transformers pull 35029",
)
LOOKUP = Alternative(
    "Prompt lookup",
    "The answer repeats its prompt: summaries, edits, code, questions about a document.",
    "No draft and no memory. It may still be slower than plain on other texts, so measure it on your own.",
    "target.generate(**inputs, prompt_lookup_num_tokens=10, max_matching_ngram_size=2)",
    "huggingface/transformers pull 27775; vllm-project/vllm issue 8439: 61.8 against 69.8 tokens/s",
)
EARLY_EXIT = Alternative(
    "Early exit",
    "The target was trained to answer from its middle layers, such as facebook/layerskip-llama3.2-1B; other models draft nonsense there.",
    "No draft. The exit layer sets c: layer 4 of 16 is a c of about a quarter.",
    "target.generate(**inputs, assistant_early_exit=4)",
    "transformers 5.24, EarlyExitCandidateGenerator",
)
DISTILLING = Alternative(
    "Distil a draft",
    "The target is served for long, and every draft is refused too often or costs too much.",
    "The target's own answers to your prompts, and training a small, shallow model with the target's tokenizer on them by the distance between both "
    "distributions, partly on the draft's own text. DistillSpec gained 10-45 % over the undistilled draft.",
    "",
    "Zhou et al. 2023, DistillSpec, arXiv:2310.08461",
)
OFF = Alternative(
    "Leave it off",
    "c is near or above the acceptance, the target is small, or batches are full.",
    "Nothing, and no second model in memory.",
    "target.generate(**inputs)",
    "Leviathan et al. 2022, Corollary 3.9: no gain unless alpha exceeds c",
)


def alternatives(pair: Pair) -> tuple[Alternative, ...]:
    """The other ways that this pair leaves open, in the order to try them; leaving it off is always one.

    Re-encoding is offered where the sizes differ: Transformers refuses it between equal ones.
    """
    verdict = pair.verdict
    other = verdict is not None and not verdict.native and verdict.target_size != verdict.draft_size
    return (*([REENCODING] if other else []), LOOKUP, EARLY_EXIT, DISTILLING, OFF)
