"""Rules on whether a pair runs in Transformers at all, and whether the draft can follow the target's text.

Read and tried in transformers 5.24: a stateful target is refused; a draft whose cache holds running states only fails; a draft
that mixes them with attention runs, but nothing takes rejected tokens out of its states. Sliding windows are rolled back in the default
dynamic cache, and refused in a static one. Units: tokens.
"""

from core.advice import Advice, Pair, Side, Traffic
from core.estimate import ALPHA_MIDDLE
from core.memory import LayerKind
from core.usable import ENCODER_DECODERS, encodes
from core.vocab import FEW_IDS

GENERATE = "transformers 5.24, generation/utils.py"
CACHES = "transformers 5.24, cache_utils.py"
CANDIDATES = "transformers 5.24, candidate_generator.py"

STATEFUL = frozenset(
    {
        "bailing_hybrid", "bamba", "deepseek_v4", "falcon_h1", "falcon_mamba", "glm5_next", "glm5_next_text", "granitemoehybrid", "jamba",
        "kimi_linear", "lara_mini", "mamba", "mamba2", "minicpm_ocr", "minicpmv4_6", "minicpmv4_7", "nemo_speechlm", "nemotron_h", "nemotron_h_omni",
        "olmo_hybrid", "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next", "qwen4_exp", "qwen4_exp_text",
        "recurrent_gemma", "rwkv", "xlstm", "zamba", "zamba2", "zaya",
    }
)  # fmt: skip
"""Model types that transformers 5.24 marks `_is_stateful`: refused as targets of assisted generation."""
OWN_CACHE = frozenset({"minimax"})
"""Model types whose own cache class says that it cannot be cropped."""
CONVOLUTIONS = frozenset(
    {"inkling2", "inkling2_loop", "inkling2_loop_text", "inkling2_text", "inkling_mm_model", "inkling_text", "lfm2", "lfm2_moe", "lfm3"}
)
"""Model types whose running states are those of short convolutions alone, which the library does roll back."""
LEARNED_POSITIONS = frozenset(
    {
        "bart", "biogpt", "blenderbot", "blenderbot-small", "codegen", "ctrl", "gpt2", "gpt_bigcode", "gpt_neo", "led", "marian", "mbart", "mvp",
        "openai-gpt", "opt", "pegasus", "plbart", "xglm",
    }
)  # fmt: skip
"""Model types with a table of positions: beyond its end there is nothing to look up."""
STATES: frozenset[LayerKind] = frozenset({"linear", "recurrent"})
TUNED = ("instruct", "-it", "-chat", "-sft", "-dpo", "assistant", "zephyr")


def refused(pair: Pair) -> Advice | None:
    """A model that cannot be used here at all."""
    for side, role in ((pair.target, "target"), (pair.draft, "draft")):
        if side.info.refusal:
            return Advice(
                "refusal", f"The {role} cannot be used: {side.info.refusal}", "Draftgauge reads safetensors and GGUF of decoders only.", side.name
            )
        if side.info.ref.source == "folder" and side.info.weights is None:
            sentence = f"{side.name} has no weights in its folder, so it cannot be measured; it can be timed from its config."
            return Advice("refusal", sentence, "What a pass costs depends on shapes alone; which tokens it writes does not.", side.name)
    return None


def vocabulary(pair: Pair) -> Advice | None:
    """What the comparison of the token maps means for running the pair."""
    verdict = pair.verdict
    if verdict is None or verdict.kind == "identical":
        return None
    why = "The draft's proposals reach the target as ids."
    if verdict.kind == "same_size_different_map":
        lossy = f"{why} The library compares sizes alone and would run this silently, slower than plain; nor does it re-encode between equal sizes."
        return Advice("refusal", verdict.sentence, lossy, f"{GENERATE}, _validate_generation_mode; sgl-project/sglang pull 23838")
    if verdict.kind == "different":
        return Advice(
            "refusal" if verdict.hopeless else "warning",
            verdict.hopeless or verdict.sentence,
            f"{why} The pair runs only by re-encoding text, at a higher c.",
            f"{GENERATE}; huggingface/transformers pull 35029",
        )
    if verdict.native:
        many = verdict.different_ids > FEW_IDS
        cost = f"{why} These ids cost a rejection when the draft proposes them; the answer stays right."
        return Advice("warning" if many else "note", verdict.sentence, cost, "lmstudio-bug-tracker issue 481")
    padded = f"{why} Transformers refuses unequal sizes unless it gets both tokenizers; it then translates between them at a higher c."
    return Advice("warning", verdict.sentence, padded, f"{GENERATE}, _validate_generation_mode; huggingface/transformers issue 45307")


def beyond_the_embedding(pair: Pair) -> Advice | None:
    """Tokens of a tokenizer that its own model has no row for."""
    if pair.verdict is None:
        return None
    verdict = pair.verdict
    for side, beyond, size in ((pair.target, verdict.beyond_target, verdict.target_size), (pair.draft, verdict.beyond_draft, verdict.draft_size)):
        if beyond:
            sentence = f"{side.name}'s tokenizer has {beyond:,} {'id' if beyond == 1 else 'ids'} at or above its vocab_size of {size:,}."
            why = "The model has no embedding for them: a prompt that holds one ends with an index out of range."
            return Advice("refusal" if verdict.cut else "warning", sentence, why, "ggml-org/llama.cpp issue 17480")
    return None


def encoder_decoder(pair: Pair) -> Advice | None:
    """An encoder on either side: two of a kind that is known run, one alone does not."""
    encoders = [side for side in (pair.target, pair.draft) if encodes(side.info.config)]
    if not encoders:
        return None
    source = f"{CANDIDATES}, AssistedCandidateGenerator"
    if len(encoders) == 1:
        decoder = pair.draft if encoders[0] is pair.target else pair.target
        sentence = f"{encoders[0].name} is an encoder-decoder, {decoder.name} a decoder alone: a prompt would not reach both in the same way."
        return Advice("refusal", sentence, "Drafts for an encoder-decoder are encoder-decoders with the target's tokens.", source)
    for side in encoders:
        if not side.model_types & ENCODER_DECODERS:
            sentence = f"{side.name} is an encoder-decoder of a type that is not measured here."
            return Advice("refusal", sentence, f"Those that were tried: {', '.join(sorted(ENCODER_DECODERS))}.", source)
    if pair.verdict is not None and not pair.verdict.native:
        sentence = f"The encoder-decoders {pair.target.name} and {pair.draft.name} have different tokens, which nothing translates for encoders."
        why = "Transformers 5.24 would give the target's token ids to the draft's encoder."
        return Advice("refusal", sentence, why, source)
    sentence = "Both are encoder-decoders. Each reads the prompt with its own encoder, once per call; the decoders draft and check."
    why = (
        "So the encoders may differ in every size, and the draft's comes on top of each call's start. The call must give a decoder_attention_mask: "
        "without one Transformers 5.24 hands the draft its text twice from the second round on, and hardly anything is accepted."
    )
    return Advice("note", sentence, why, source)


def stateful_target(pair: Pair) -> Advice | None:
    """A target that cannot go back to an earlier point of the text."""
    if not _keeps_states(pair.target):
        return None
    sentence = f"{pair.target.name} keeps running states, and Transformers refuses assisted generation for it."
    return Advice(
        "refusal",
        sentence,
        "After a rejection the target must forget the rejected tokens; a running state has already mixed them in.",
        f"{GENERATE}, _validate_generation_mode and _assisted_decoding",
    )


def stateful_draft(pair: Pair) -> Advice | None:
    """A draft whose states are not rolled back."""
    if not _keeps_states(pair.draft):
        return None
    if pair.draft.profile and {layer.kind for layer in pair.draft.profile.per_layer} - {"none"} <= STATES:
        why = "The library asks the draft's cache for its length, which a cache of running states alone does not know."
        return Advice(
            "refusal", f"{pair.draft.name} keeps running states only; Transformers fails with it as a draft.", why, f"{CACHES}, get_seq_length"
        )
    why = "Its attention layers forget the rejected tokens, its running states do not, and the library does not check a draft."
    return Advice(
        "warning",
        f"{pair.draft.name} keeps running states that no rejection takes back: expect its acceptance to fall.",
        why,
        f"{CACHES}, LinearAttentionCacheLayerMixin.crop",
    )


def sliding_window(pair: Pair) -> Advice | None:
    """A window on either side, and whether the text is longer; the shorter window where both have one."""
    windows = {side.name: window for side in (pair.target, pair.draft) if (window := _window(side))}
    if not windows:
        return None
    name, window = min(windows.items(), key=lambda one: one[1])
    need = pair.traffic.tokens if pair.traffic else 0
    if need and window >= need:
        return None
    than = f", less than the {need:,} of your longest text" if need else "; it matters for longer texts"
    why = (
        "The default cache is rolled back rightly there; a static cache is refused. A draft with a short window may lose acceptance late in the text."
    )
    source = f"{CACHES}; huggingface/transformers pull 45745; AEON-7/Qwen3.6-27B-AEON-Ultimate-Uncensored-DFlash issue 6"
    return Advice("note", f"{name} sees {window:,} tokens back in some layers{than}.", why, source)


def length(pair: Pair) -> Advice | None:
    """Texts longer than a model was made for."""
    if pair.traffic is None:
        return None
    for side, role in ((pair.target, "target"), (pair.draft, "draft")):
        sentence = _too_long(side, role, pair.traffic)
        if sentence:
            if side.model_types & LEARNED_POSITIONS:
                return Advice(
                    "refusal", sentence, "It looks positions up in a table that ends there: generation fails.", f"{side.name}'s config.json"
                )
            why = (
                "Beyond it the target's answers become unreliable."
                if role == "target"
                else "Beyond it the draft guesses: acceptance falls, and each wrong draft is paid for."
            )
            return Advice("warning", sentence, why, f"{side.name}'s config.json")
    return None


def devices(pair: Pair) -> Advice | None:
    """Two devices."""
    target, draft = pair.target.device, pair.draft.device
    if not target or not draft or target == draft:
        return None
    sentence = f"The target runs on {target}, the draft on {draft}."
    why = "Token ids cross over every round, and c depends on where the draft runs; Draftgauge measures both on one device."
    return Advice("warning", sentence, why, "huggingface/transformers issue 35099; lmstudio-bug-tracker issue 458")


def batch(pair: Pair) -> Advice | None:
    """More than one request at a time."""
    if pair.traffic is None or pair.traffic.batch == 1:
        return None
    sentence = f"You serve batches of {pair.traffic.batch}; measurements here are of one request at a time."
    batch, chance = pair.traffic.batch, ALPHA_MIDDLE**pair.traffic.batch
    why = (
        "Transformers refuses assisted batches, and in engines a fuller batch leaves less idle arithmetic for checking drafts: the gain "
        f"shrinks. Where a whole batch goes in step, a draft counts only if all accept it: {chance:.2g} at alpha {ALPHA_MIDDLE:g} "
        f"({ALPHA_MIDDLE:g}^{batch})."
    )
    return Advice("warning", sentence, why, f"{GENERATE}, _assisted_decoding; huggingface/transformers issue 29769; huggingface/blog pull 1704")


def base_against_instruct(pair: Pair) -> Advice | None:
    """A tuned model on one side only, by name."""
    tuned = [any(mark in side.name.lower() for mark in TUNED) for side in (pair.target, pair.draft)]
    if tuned[0] == tuned[1]:
        return None
    other = "a base model" if tuned[0] else "tuned for chat"
    sentence = f"By their names the target is {'tuned for chat' if tuned[0] else 'a base model'} and the draft is {other}."
    return Advice(
        "warning",
        sentence,
        "They continue the same prompt differently, above all at the start and the end of an answer: acceptance falls.",
        "measure both drafts",
    )


def chat_template(pair: Pair) -> Advice | None:
    """A chat template on one side only, or two different ones."""
    target, draft = bool(pair.target.info.chat_template), bool(pair.draft.info.chat_template)
    why = "Prompts are written in the target's template for both models; one that never saw it predicts its marks badly."
    if target != draft:
        missing = pair.draft if target else pair.target
        return Advice("warning", f"{missing.name} has no chat template, the other model has one.", why, "tokenizer_config.json of both models")
    if pair.verdict is not None and target and pair.verdict.chat_template == "differs":
        return Advice("note", "The chat templates differ; the target's is used for both.", why, "tokenizer_config.json of both models")
    return None


def licences(pair: Pair) -> Advice | None:
    """The licences that deployment depends on."""
    said = [
        f"{side.name}: {side.info.licence or 'no licence stated'}{', access on request' if side.info.gated else ''}"
        for side in (pair.target, pair.draft)
    ]
    return Advice(
        "note", f"Licences: {'; '.join(said)}.", "Both models are deployed together. Draftgauge does not judge licences.", "the models' own pages"
    )


def _keeps_states(side: Side) -> bool:
    """Whether its cache holds states that cannot be taken back."""
    if side.model_types & (STATEFUL | OWN_CACHE):
        return True
    held = side.profile is not None and any(layer.kind in STATES for layer in side.profile.per_layer)
    return held and not side.model_types & CONVOLUTIONS


def _too_long(side: Side, role: str, traffic: Traffic) -> str:
    """That the longest text does not fit, a sentence; behind an encoder prompt and answer are texts of their own. "" where all fits."""
    sizes = side.profile
    if sizes is None:
        return ""
    texts = [(f"The {role}", sizes.context, traffic.tokens, "prompt and answer take")]
    if sizes.cross_bytes_per_source_token:
        reads = (f"The {role}'s encoder", sizes.source_context, traffic.prompt_tokens, "prompt takes")
        texts = [reads, (f"The {role}'s decoder", sizes.context, traffic.output_tokens, "answer takes")]
    for whose, limit, need, what in texts:
        if limit is not None and limit < need:
            return f"{whose} was made for {limit:,} tokens; your longest {what} {need:,}."
    return ""


def _window(side: Side) -> int | None:
    windows = [layer.window for layer in side.profile.per_layer if layer.window] if side.profile else []
    return min(windows, default=None)


RULES = (
    refused,
    encoder_decoder,
    stateful_target,
    vocabulary,
    beyond_the_embedding,
    stateful_draft,
    length,
    sliding_window,
    devices,
    batch,
    base_against_instruct,
    chat_template,
    licences,
)
