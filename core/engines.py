"""Which engines take a pair with this verdict, and how they are told to.

What each engine checks was read at the date that the row states, Transformers in the installed 5.24 (and
tried in the tests), the others in copies of their sources that may be older than that date and were not
run. Engines change: a row is a dated fact and no promise. Units: tokens and ids. Not covered: whether an engine
can load the two models at all, and speed.
"""

from dataclasses import dataclass
from typing import Literal

from core import calls, numbers
from core.vocab import VocabVerdict

Answer = Literal["accepts", "accepts with a flag", "refuses", "not sure"]

READ = "2026-11-29"
TRANSFORMERS = "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/generation/utils.py"
CANDIDATES = "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/generation/candidate_generator.py"
VLLM = "https://github.com/vllm-project/vllm/blob/main/vllm/config/speculative.py"
VLLM_INTERSECTION = "https://github.com/vllm-project/vllm/blob/main/vllm/v1/spec_decode/vocab_mapping.py"
VLLM_INTERSECTION_READ = "2026-11-30"
SGLANG = "https://github.com/sgl-project/sglang/pull/23838"
LLAMA_CPP = "https://github.com/ggml-org/llama.cpp/blob/master/common/speculative.cpp"

LLAMA_CPP_MOST_ROWS = 128
LLAMA_CPP_FIRST_ID = 5
"""llama.cpp's SPEC_VOCAB_MAX_SIZE_DIFFERENCE and SPEC_VOCAB_CHECK_START_TOKEN_ID."""
LLAMA_CPP_ONCE_ROWS = 100
"""The former limit, which refused Qwen3 pairs 128 apart: https://github.com/QwenLM/Qwen3/issues/326."""
VLLM_FEW_SHARED = 100
"""Below this many shared tokens vLLM itself warns."""


@dataclass(frozen=True)
class EngineRow:
    """What one engine does with the pair, in one of its ways of drafting.

    advised: whether that is also worth doing: an engine may accept a pair whose drafts would hardly ever be right.
    call: the exact call or flags, "" where it refuses. source was read at the date `read`.
    """

    engine: str
    way: str
    answer: Answer
    advised: bool
    call: str
    reason: str
    source: str
    read: str = READ


def engines(verdict: VocabVerdict, target: str = "TARGET", draft: str = "DRAFT", gamma: int = 5) -> tuple[EngineRow, ...]:
    """One row per engine and way of drafting. target, draft and gamma only fill in the calls."""
    return (
        _transformers(verdict),
        _transformers_universal(verdict),
        _vllm(verdict, target, draft, gamma),
        _vllm_intersection(verdict, target, draft, gamma),
        _sglang(verdict, target, draft, gamma),
        _llama_cpp(verdict, target, draft, gamma),
    )


def _same_size(verdict: VocabVerdict) -> bool:
    return verdict.target_size == verdict.draft_size


def _sizes(verdict: VocabVerdict) -> str:
    return f"vocab_size is {verdict.target_size:,} for the target and {verdict.draft_size:,} for the draft"


def _by_size_only(verdict: VocabVerdict) -> str:
    """Why an engine that checks nothing but equal sizes takes the pair, and what comes of it."""
    if verdict.kind == "same_size_different_map":
        share = "almost every draft, slower than off" if verdict.mostly_other else f"every draft of the {verdict.different_ids:,} ids that differ"
        return f"It compares the sizes only, so it starts without a word; the target rejects {share}."
    if verdict.kind == "identical":
        return "The sizes are equal, and so are the maps."
    return "It compares the sizes only, and they are equal; drafts of the few ids that differ are rejected."


def _transformers(verdict: VocabVerdict) -> EngineRow:
    if _same_size(verdict):
        call = "target.generate(**inputs, assistant_model=draft)"
        return EngineRow("Transformers", "native", "accepts", verdict.native, call, _by_size_only(verdict), TRANSFORMERS)
    reason = f"{_sizes(verdict)}; unequal sizes raise ValueError unless both tokenizers are given."
    return EngineRow("Transformers", "native", "refuses", False, "", reason, TRANSFORMERS)


def _transformers_universal(verdict: VocabVerdict) -> EngineRow:
    """Universal assisted decoding."""
    if _same_size(verdict):
        reason = "With equal sizes it raises ValueError when it is given the draft's tokenizer."
        return EngineRow("Transformers", "universal", "refuses", False, "", reason, TRANSFORMERS)
    call = "target.generate(**inputs, assistant_model=draft, tokenizer=target_tokenizer, assistant_tokenizer=draft_tokenizer)"
    reason = (
        "Needs both tokenizers. Greedy decoding carries drafts over as text, encoded anew in every round. Sampling drafts only the "
        f"{_shared(verdict)}, and cuts the draft model's output layer down to them in place: load it anew for anything else."
    )
    return EngineRow("Transformers", "universal", "accepts with a flag", True, call, reason, CANDIDATES)


def _shared(verdict: VocabVerdict) -> str:
    return f"{verdict.translatable_tokens:,} of the draft's {verdict.draft_tokens:,} tokens that the target has too"


def _vllm(verdict: VocabVerdict, target: str, draft: str, gamma: int) -> EngineRow:
    if not _same_size(verdict):
        reason = f"{_sizes(verdict)}; unequal sizes raise ValueError at the start."
        return EngineRow("vLLM", "draft_model", "refuses", False, "", reason, VLLM)
    call = calls.vllm(target, calls.vllm_draft(draft, gamma))
    return EngineRow("vLLM", "draft_model", "accepts", verdict.native, call, _by_size_only(verdict), VLLM)


def _vllm_intersection(verdict: VocabVerdict, target: str, draft: str, gamma: int) -> EngineRow:
    """Token-level intersection: drafts are held to the tokens that both know, and renumbered (`core.vocab` counts them as vLLM does)."""
    call = calls.vllm(target, calls.vllm_draft(draft, gamma, use_heterogeneous_vocab=True))
    enough = verdict.intersection_tokens >= VLLM_FEW_SHARED
    needed = "It is not needed here. " if verdict.native else ""
    reason = (
        f"{needed}{intersection(verdict)} The draft decodes greedily, and each tokenizer needs an unknown or an end-of-text token. "
        "Versions without pull request 38174 do not know the flag."
    )
    advised, way = enough and not verdict.native, "draft_model, shared tokens"
    return EngineRow("vLLM", way, "accepts with a flag", advised, call, reason, VLLM_INTERSECTION, VLLM_INTERSECTION_READ)


def intersection(verdict: VocabVerdict) -> str:
    """What vLLM's token-level intersection would draft from, with its shares of both vocabularies as vLLM states them, in a sentence."""
    if not verdict.intersection_tokens:
        return "vLLM's token-level intersection would have nothing to draft from: no token is in both vocabularies."
    ours, theirs = 100 * verdict.intersection_of_target, 100 * verdict.intersection_of_draft
    shares = f"{ours:.1f} % of the target's {verdict.target_size:,} rows, {theirs:.1f} % of the draft's {verdict.draft_size:,}"
    few = "" if verdict.intersection_tokens >= VLLM_FEW_SHARED else " So few that vLLM warns of it."
    return f"vLLM's token-level intersection would draft from {numbers.counted(verdict.intersection_tokens, 'token')}: {shares}.{few}"


def _sglang(verdict: VocabVerdict, target: str, draft: str, gamma: int) -> EngineRow:
    older = "Versions without pull request 23838 check nothing."
    if verdict.kind != "identical":
        why = f"{_sizes(verdict)}, and it wants them equal." if not _same_size(verdict) else "It wants the two token maps equal, entry by entry."
        return EngineRow("SGLang", "STANDALONE", "refuses", False, "", f"{why} {older}", SGLANG)
    call = calls.sglang(target, *calls.sglang_draft(draft, gamma))
    return EngineRow("SGLang", "STANDALONE", "accepts", True, call, f"Sizes and token maps are equal, as it demands. {older}", SGLANG)


def _llama_cpp(verdict: VocabVerdict, target: str, draft: str, gamma: int) -> EngineRow:
    """Sizes within 128, the same token at every id from 5 to the end of the smaller, the same start and end tokens if it adds them."""
    refusal = _llama_cpp_refusal(verdict)
    if refusal:
        return EngineRow("llama.cpp", "draft-simple", "refuses", False, "", refusal, LLAMA_CPP)
    call = calls.llama_cpp(target, *calls.llama_cpp_draft(draft, gamma))
    unlike = [found.role for found in verdict.special if found.role in ("bos_token", "eos_token")]
    if unlike:
        reason = (
            f"The ids of {' and '.join(unlike)} differ: it refuses if the GGUF files say that these are added to prompts. The tokens themselves fit."
        )
        return EngineRow("llama.cpp", "draft-simple", "not sure", False, call, reason, LLAMA_CPP)
    apart = abs(verdict.target_size - verdict.draft_size)
    once = f", {LLAMA_CPP_ONCE_ROWS} in older builds, which refuse it" if apart > LLAMA_CPP_ONCE_ROWS else ""
    reason = (
        f"Sizes differ by {apart:,} (at most {LLAMA_CPP_MOST_ROWS}{once}) and the tokens from id {LLAMA_CPP_FIRST_ID} on are equal. "
        "Both GGUF files must be of one tokenizer type; older builds say --draft-max for --spec-draft-n-max."
    )
    return EngineRow("llama.cpp", "draft-simple", "accepts", True, call, reason, LLAMA_CPP)


def _llama_cpp_refusal(verdict: VocabVerdict) -> str:
    difference = abs(verdict.target_size - verdict.draft_size)
    if difference > LLAMA_CPP_MOST_ROWS:
        return f"{_sizes(verdict)}: {difference:,} apart, and it takes at most {LLAMA_CPP_MOST_ROWS}."
    end = min(verdict.target_size, verdict.draft_size)
    found = next((found for found in verdict.differences if LLAMA_CPP_FIRST_ID <= found.id < end), None)
    if found is None:
        return ""
    target, draft = (repr(token) if token is not None else "padding" for token in (found.target, found.draft))
    return f"It wants the same token at every id from {LLAMA_CPP_FIRST_ID} on; id {found.id} is {target} for the target and {draft} for the draft."
