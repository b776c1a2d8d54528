"""The settings to deploy: what a run recommends, for each engine in its own words, with what does not carry over to it.

Transformers is where a run is measured, so its script repeats it; the tests run that script. The other engines were not run: their
flags and defaults were read in copies of their documentation and sources (`SEEN`), which may be older than that day. What an
engine has no name for is set to its nearest and said. alpha belongs to pair, prompts and decoding and carries over, unless the
engine drafts greedily under sampling; c, v and h belong to kernels and do not. Not covered: parallelism, quantised weights, trees.
"""

from dataclasses import dataclass
from typing import Literal

from core import calls, deploy_encoders, numbers, verdict
from core.analysis import Analysis
from core.deploy_notes import Situation, carries_over, request, transformers_notes
from core.policies import Drafting, Plain, Policy, PromptLookup, describe
from core.script import Service, script

SEEN = "2026-11-30"
TRANSFORMERS = "https://github.com/huggingface/transformers/blob/v5.24.0/docs/source/en/assisted_decoding.md"
VLLM = "https://docs.vllm.ai/en/latest/features/speculative_decoding/draft_model/"
VLLM_NGRAM = "https://docs.vllm.ai/en/latest/features/speculative_decoding/n_gram/"
SGLANG = "https://github.com/sgl-project/sglang/blob/main/docs/advanced_features/speculative_decoding.md"
LLAMA_CPP = "https://github.com/ggml-org/llama.cpp/blob/master/docs/speculative.md"
TGI = "https://huggingface.co/docs/text-generation-inference/conceptual/speculation"

Language = Literal["python", "bash"]


@dataclass(frozen=True)
class EngineSettings:
    """One engine's settings. does: what they are, in a sentence; code: "" where the engine cannot do it.

    off: how to switch drafting off, after "To switch it off,"; "" where nothing is on. notes: what does not carry over, a sentence
    or two each. source: the documentation they follow, read on the day `seen`. executed: whether this project's tests run the code
    as it stands.
    """

    engine: str
    does: str
    code: str
    language: Language
    off: str
    notes: tuple[str, ...]
    source: str
    seen: str = SEEN
    executed: bool = False


def settings_for(analysis: Analysis, policy: Policy | None = None) -> tuple[EngineSettings, ...]:
    """Transformers, vLLM, SGLang, llama.cpp and TGI, for the recommendation or another policy; plain decoding where that is to leave drafting off.

    Raises InvalidInput for the oracle, which cannot be run.
    """
    found = Situation(analysis, policy or (Plain() if analysis.advice.verdict == "leave_off" else analysis.advice.policy))
    if found.encoder_decoder:
        return (_transformers(found), *(EngineSettings(*without[:2], "", "bash", "", (), without.source) for without in deploy_encoders.ENGINES))
    return (_transformers(found), _vllm(found), _sglang(found), _llama_cpp(found), _tgi(found))


def answer(analysis: Analysis) -> str:
    """What the settings stand for, in a sentence: the recommendation, and whether it is one yet."""
    advice = analysis.advice
    best = f"{describe(advice.policy)}, {numbers.ratio(advice.speedup)}"
    match advice.verdict:
        case "leave_off":
            return f"These settings leave drafting off, as recommended: the best way of drafting is {best}."
        case "undecided":
            return f"Not decided yet whether drafting pays. These settings are for the best so far: {best}."
        case "use":
            return f"{verdict.instruction(advice.policy)}: {numbers.speed(advice.speedup)}, {'measured' if advice.confirmed else 'predicted'}."


def _transformers(found: Situation) -> EngineSettings:
    spec, where = found.run.spec, found.run.environment
    service = Service(
        spec.target,
        spec.draft,
        found.policy,
        decoding=spec.decoding,
        dtype=spec.dtype,
        device=spec.device,
        chat_template=spec.chat_template,
        stop=spec.stop,
        max_new_tokens=spec.max_new_tokens,
        static_cache=where is not None and where.plain != "dynamic cache",
        encoder_decoder=found.encoder_decoder,
        placement=spec.placement,
    )
    plain, known = isinstance(found.policy, Plain), "as measured" if found.confirmed else "as replayed, not run yet"
    does = f"{'Plain decoding' if plain else verdict.instruction(found.policy)}, {known}."
    off = "" if plain else f"leave out {'assistant_model' if isinstance(found.policy, Drafting) else found.lookup_names}"
    return EngineSettings("Transformers", does, script(service), "python", off, transformers_notes(found), TRANSFORMERS, executed=True)


def _vllm(found: Situation) -> EngineSettings:
    target, draft, spec = found.run.spec.target, found.run.spec.draft, found.run.spec
    more = (*(("--revision", target.revision) if target.revision else ()), "--dtype", spec.dtype)
    off = "" if isinstance(found.policy, Plain) else "leave out --speculative-config"
    match found.policy:
        case Drafting():
            pinned = {"revision": draft.revision} if draft.revision else {}
            config, does = calls.vllm_draft(draft.path, found.fixed, **pinned), found.fixed_words("vLLM")
        case PromptLookup(tokens=tokens, ngram=ngram):
            config = {"method": "ngram", "num_speculative_tokens": tokens, "prompt_lookup_max": ngram, "prompt_lookup_min": 1}
            does = f"Copies up to {tokens} tokens after a match of at most {ngram}; which of several matches it takes may differ."
        case _:
            config, does = {}, "Plain decoding: no --speculative-config."
    notes = (*carries_over(found, "vLLM"), request(found, "vLLM"))
    if found.drafts_by_chance:
        notes = (*notes, 'With "draft_sample_method": "probabilistic" in that configuration its draft samples too, for more memory.')
    source = VLLM_NGRAM if isinstance(found.policy, PromptLookup) else VLLM
    return EngineSettings("vLLM", does, calls.vllm(target.path, config, *more), "bash", off, notes, source)


def _sglang(found: Situation) -> EngineSettings:
    target, draft, spec = found.run.spec.target, found.run.spec.draft, found.run.spec
    more = (*(("--revision", target.revision) if target.revision else ()), "--dtype", spec.dtype)
    off = "" if isinstance(found.policy, Plain) else "leave out every flag that begins with --speculative"
    notes = (*carries_over(found, "SGLang"), request(found, "SGLang"))
    match found.policy:
        case Drafting():
            pinned = ("--speculative-draft-model-revision", draft.revision) if draft.revision else ()
            flags, does = (*calls.sglang_draft(draft.path, found.fixed), *pinned), found.fixed_words("SGLang")
            notes = (*notes, "Since its pull request 23838 it wants both token maps equal, entry by entry; the pair's page says whether they are.")
        case PromptLookup(tokens=tokens, ngram=ngram):
            flags = ("--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", str(tokens + 1))
            does = f"Its nearest to copying {tokens} tokens: it matches n-grams of its own cache of earlier text."
            notes = (*notes, f"Its cache also holds other requests and it checks trees, so matches of {ngram} are not those that were measured.")
        case _:
            flags, does = (), "Plain decoding: no flag that begins with --speculative."
    return EngineSettings("SGLang", does, calls.sglang(target.path, *more, *flags), "bash", off, notes, SGLANG)


def _llama_cpp(found: Situation) -> EngineSettings:
    target, draft = found.run.spec.target, found.run.spec.draft
    own, other = (ref.path if ref.source == "gguf" else f"{role}.gguf" for ref, role in ((target, "TARGET"), (draft, "DRAFT")))
    off = "" if isinstance(found.policy, Plain) else "leave out -md and every flag that begins with --spec"
    notes = (*carries_over(found, "llama.cpp"), request(found, "llama.cpp"), *_gguf_notes(found))
    match found.policy:
        case Drafting(schedule="constant", limit=limit, threshold=threshold):
            flags = (*calls.llama_cpp_draft(other, limit), "--spec-draft-p-min", f"{threshold:g}")
            does = f"{verdict.instruction(found.policy)}."
            if threshold:
                notes = (*notes, _P_MIN)
        case Drafting():
            flags = (*calls.llama_cpp_draft(other, found.fixed), "--spec-draft-p-min", "0")
            does = found.fixed_words("llama.cpp")
        case PromptLookup(tokens=tokens, ngram=ngram):
            flags = ("--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", str(ngram), "--spec-ngram-simple-size-m", str(tokens))
            does = f"Copies {tokens} tokens after a match of {ngram}."
            notes = (*notes, "It takes the last match of exactly that length; measured was the first match, shorter ones included.")
        case _:
            flags, does = (), "Plain decoding: no draft model."
    if isinstance(found.policy, Drafting):
        notes = (*notes, "Older builds say --draft-max for --spec-draft-n-max and --draft-p-min for --spec-draft-p-min.")
    return EngineSettings("llama.cpp", does, calls.llama_cpp(own, *flags), "bash", off, notes, LLAMA_CPP)


_P_MIN = (
    "It throws the first token below the threshold away, Transformers still proposes it; and it takes the probability among the ten "
    "best candidates, not among all. Both make rounds a little different."
)


def _gguf_notes(found: Situation) -> tuple[str, ...]:
    """How to come by the files where the run was not measured on them."""
    spec = found.run.spec
    kinds = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}
    if spec.target.source == spec.draft.source == "gguf":
        return ("It computes with packed weights; here they were unpacked, so times differ, and texts may.",)
    return (
        f"It reads GGUF files only. Its convert_hf_to_gguf.py makes them, with --outtype {kinds[spec.dtype]} for the numbers that were measured; "
        "a file with fewer bits is another model, with another alpha.",
    )


def _tgi(found: Situation) -> EngineSettings:
    target = found.run.spec.target
    retired = "It has been in maintenance mode since December 2025 and itself points to vLLM, SGLang and llama.cpp for new services."
    off = "" if isinstance(found.policy, Plain) else "leave out --speculate"
    match found.policy:
        case Drafting():
            does = "It has no option for a draft model: it drafts with Medusa heads or n-grams only."
            return EngineSettings("TGI", does, "", "bash", "", (retired,), TGI)
        case PromptLookup(tokens=tokens):
            code, does = calls.tgi(target.path, "--speculate", str(tokens)), f"Its nearest: n-grams that copy {tokens} tokens."
        case _:
            code, does = calls.tgi(target.path), "Plain decoding: no --speculate."
    return EngineSettings("TGI", does, code, "bash", off, (retired, *carries_over(found, "TGI")), TGI)
