"""Rules on whether a pair pays: sizes, layers, the estimated c, experts, quantisation.

Ratios are of parameters that one token passes through. Nothing here is measured; a measurement overrules all of it.
"""

from core.advice import Advice, Pair

PAPER = "Leviathan et al. 2022, arXiv:2211.17192, section 4.1"
BLOG = "huggingface.co/blog/assisted-generation"
MOST_RATIO = 0.1
GOOD_RATIO = 0.02
DEEP_SHARE = 0.5
DEAR_C = 0.3
FEWEST_TIMES = 4


def same_or_larger(pair: Pair) -> Advice | None:
    """A draft that is its own target, or no smaller."""
    target, draft = pair.target, pair.draft
    if target.info.ref == draft.info.ref:
        why = "Every draft is accepted, and each costs as much as the token it saves. Good for checking that the library works, for nothing else."
        return Advice("warning", "Target and draft are the same model: this cannot be faster.", why, PAPER)
    if target.active is None or draft.active is None or draft.active < target.active:
        return None
    sentence = f"The draft is not the smaller one: {_count(draft.active)} parameters per token against the target's {_count(target.active)}."
    return Advice("warning", sentence, "A draft saves time only by being cheaper than its target.", PAPER)


def size_ratio(pair: Pair) -> Advice | None:
    """A tenth at most; near a hundredth is better."""
    target, draft = pair.target.active, pair.draft.active
    if target is None or draft is None or draft >= target:
        return None
    ratio = draft / target
    sentence = f"The draft has {_share(ratio)} of the target's active parameters."
    if ratio > MOST_RATIO:
        why = (
            "A tenth at most is the rule of thumb. Ten times the draft raised alpha by 0.07 and c by 5.5 times in the paper, and halved the speedup."
        )
        return Advice("warning", sentence, why, f"{BLOG}; {PAPER}")
    if ratio > GOOD_RATIO:
        return Advice("note", sentence, "Within a tenth; drafts about a hundred times smaller did best in the paper.", PAPER)
    return Advice("note", sentence, "More than fifty times smaller; drafts about a hundred times smaller did best in the paper.", PAPER)


def layer_count(pair: Pair) -> Advice | None:
    """Deep, narrow drafts."""
    if pair.target.profile is None or pair.draft.profile is None:
        return None
    target, draft = pair.target.profile.layers, pair.draft.profile.layers
    if draft <= DEEP_SHARE * target:
        return None
    depth = "deeper than" if draft > target else "as deep as" if draft == target else "more than half as deep as"
    sentence = f"The draft has {draft} layers, the target {target}: it is {depth} its target."
    why = (
        "On a GPU each layer costs about the same to start, however narrow it is, so that c is near the ratio of layers until a model is very large."
    )
    return Advice("warning", sentence, why, "Qwen's speed benchmarks, Transformers on A100 and H20: 0.9 and 0.6 ms per layer from 0.5B to 32B")


def expected_c(pair: Pair) -> Advice | None:
    """The estimated c, and whether anything can be gained at it."""
    made = pair.estimate
    if made is None:
        return None
    between = " Translating between the vocabularies comes on top." if pair.verdict is not None and not pair.verdict.native else ""
    why = " ".join(made.why) + between
    span = f"c is estimated at {made.c:.2f} ({made.low:.2f} to {made.high:.2f})"
    if made.speedup_high <= 1:
        return Advice(
            "warning",
            f"{span}: slower than plain even at an acceptance of 0.9. Leave it off, or choose a cheaper draft.",
            why,
            "estimate; see core/estimate.py for its errors",
        )
    if made.c > DEAR_C:
        return Advice(
            "warning",
            f"{span}: only a very high acceptance can pay for it.",
            why,
            "estimate; vllm-project/vllm issue 15025: 30 % slower at high acceptance",
        )
    return Advice("note", f"{span}. alpha must exceed c.", why, "estimate; Leviathan et al. 2022, Corollary 3.9")


def experts_target(pair: Pair) -> Advice | None:
    """A mixture of experts as the target: few active parameters, and more experts woken by each checked token."""
    profile = pair.target.profile
    if profile is None or profile.active_parameters > 0.8 * profile.parameters:
        return None
    draft = pair.draft.active
    why = "One token wakes few experts, so that plain is cheap; checking several wakes more, so that a round is dear."
    part = f"{_count(profile.active_parameters)} of {_count(profile.parameters)} parameters per token"
    if draft is not None and profile.active_parameters < FEWEST_TIMES * draft:
        sentence = f"The target uses {part}, less than {FEWEST_TIMES} times the draft's {_count(draft)}."
        return Advice("warning", sentence, why, "ml-explore/mlx-lm issue 1132: 35 % slower with 17B active and a 9B draft")
    sentence = f"The target is a mixture of experts, {part}: its verification must be measured."
    return Advice("note", sentence, why, "ikawrakow/ik_llama.cpp issue 1630: 170 tokens/s alone, 112 when checking two")


def experts_draft(pair: Pair) -> Advice | None:
    """A mixture of experts as the draft."""
    profile = pair.draft.profile
    if profile is None or profile.active_parameters > 0.8 * profile.parameters:
        return None
    part = f"{_count(profile.active_parameters)} of {_count(profile.parameters)} parameters per token"
    sentence = f"The draft is a mixture of experts, {part}."
    return Advice("note", sentence, "c follows the active parameters and the layers, memory follows all of them.", "core/estimate.py")


def quantised(pair: Pair) -> Advice | None:
    """Quantised weights on either side."""
    target, draft = pair.target.quantised, pair.draft.quantised
    if not target and not draft:
        return None
    sides = " and ".join(f"the {role} ({kind})" for role, kind in (("target", target), ("draft", draft)) if kind)
    if all(side.info.ref.source == "gguf" for side in (pair.target, pair.draft) if side.quantised):
        why = "Transformers unpacks the weights of GGUF files, so that c here is that of unpacked ones; llama.cpp runs them packed, at another c."
        return Advice("note", f"Quantised: {sides}. It is measured unpacked.", why, "transformers 5.24, modeling_gguf_pytorch_utils")
    if target and not draft:
        why = "A quantised target may be cheaper per step, so that c rises and less is left to gain; in Transformers it may also be dearer."
        return Advice(
            "warning",
            f"Quantised: {sides}. Expect another c than for 16-bit weights.",
            why,
            "bitsandbytes issue 6; Qwen2.5 speed benchmark: 7B GPTQ-Int8 31.6, BF16 40.4 tokens/s",
        )
    why = "Quantised kernels save memory and may add time. A measurement on other weights does not carry over."
    return Advice("note", f"Quantised: {sides}. Measure with exactly these weights.", why, "bitsandbytes issue 6")


def _count(parameters: int) -> str:
    return f"{parameters / 1e9:.1f}B" if parameters >= 1e9 else f"{parameters / 1e6:.0f}M"


def _share(ratio: float) -> str:
    return f"1/{1 / ratio:.0f}" if ratio < 0.5 else f"{ratio:.0%}"


RULES = (same_or_larger, size_ratio, layer_count, expected_c, experts_target, experts_draft, quantised)
