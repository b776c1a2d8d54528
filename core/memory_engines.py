"""How much each engine keeps for one sequence, where engines differ: windows, page sizes, copies of running states, latents.

Units: tokens and bytes of one sequence on one GPU (a rank). Sources, read November 2026: vLLM vllm/v1/kv_cache_interface.py
(SlidingWindowSpec rounds up to pages of 16 tokens and one more; MambaSpec keeps 1 + num_speculative_blocks states), mamba_utils.py
(states in the model's dtype unless told otherwise) and deepseek_v2.py (an indexer's keys in fp8 with a scale); SGLang
srt/server_args.py (swa_full_tokens_ratio 0.8: window layers get a pool of 80 % of the tokens, whatever the window); llama.cpp
src/llama-kv-cache-iswa.cpp (window + n_ubatch of 512 cells, rounded up to 256). Not covered: prompt chunks that are under way
(vLLM keeps up to max_num_batched_tokens more of a window layer), prefix caches, offloading.
"""

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from core.memory_cache import CacheProfile, Engine, LayerCache, kv_rate

STATELESS_ONLY = "Transformers 5.24 cannot take back a rejected draft from a running state: it refuses to draft for this target."


@dataclass(frozen=True)
class Rule:
    """page_tokens: sequences are rounded up to it. beyond_window_tokens: kept besides the window. window_share: of all tokens, for
    window layers, instead of the window. states_per_draft_token: copies of the running states kept for each drafted token.
    """

    page_tokens: int = 1
    beyond_window_tokens: int = 0
    window_share: Fraction | None = None
    states_per_draft_token: int = 0


RULES: dict[Engine, Rule] = {
    "transformers": Rule(),
    "vLLM": Rule(page_tokens=16, beyond_window_tokens=16, states_per_draft_token=1),
    "SGLang": Rule(window_share=Fraction(4, 5)),
    "llama.cpp": Rule(page_tokens=256, beyond_window_tokens=512),
}


def kv_bytes(profile: CacheProfile, tokens: int, *, dtype: str, engine: Engine, ranks: int = 1) -> int:
    """Keys, values and encoder outputs of one sequence of `tokens` tokens, and as many of an encoder's input, on one of `ranks` GPUs."""
    hybrid = any(layer.window is None and layer.bytes_per_token for layer in profile.per_layer)
    rate = kv_rate(dtype)
    each = (
        count
        * (layer.token_bytes(engine) * _kept(layer, tokens, engine, hybrid) + layer.cross_bytes_per_source_token * tokens)
        * _share(layer, ranks)
        for layer, count in Counter(profile.per_layer).items()
    )
    return ceil(sum(each, Fraction(0)) * rate)


def state_bytes(profile: CacheProfile, *, engine: Engine, gamma: int = 0, ranks: int = 1) -> int:
    """Running states of one sequence on one of `ranks` GPUs, with the copies that `engine` keeps while `gamma` tokens are drafted."""
    return ceil(profile.fixed_bytes_per_sequence * (1 + RULES[engine].states_per_draft_token * gamma) / ranks)


def notes(profile: CacheProfile, name: str, *, engine: Engine, gamma: int) -> list[str]:
    """What a reader must know about `name` (target or draft) in this engine, sentence by sentence."""
    found = [f"{name}: {note}" for note in profile.notes]
    if any(layer.window for layer in profile.per_layer):
        found.append(f"{name}: {_WINDOWS[engine]}")
    if any(layer.kind == "latent" for layer in profile.per_layer):
        found.append(f"{name}: one latent per token and layer, whole on every rank. {_LATENTS[engine]}")
    if any(_indexed(layer) for layer in profile.per_layer):
        found.append(f"{name}: the keys of its indexer are counted in bf16, as in Transformers; vLLM and SGLang keep them in fp8, about half.")
    if gamma and profile.fixed_bytes_per_sequence and RULES[engine].states_per_draft_token:
        found.append(f"{name}: {engine} keeps 1 + {gamma} copies of the running state of each sequence while it drafts {gamma} tokens.")
    if profile.fixed_bytes_per_sequence and engine == "vLLM":
        found.append(f"{name}: {_VLLM_STATES}")
    return found


def dtype_notes(name: str, dtype: str, *, engine: Engine) -> list[str]:
    """Where `engine` does not offer the cache dtype whose size is counted. Raises InvalidInput for an unknown dtype."""
    rate = kv_rate(dtype)
    if rate == kv_rate("fp8") and engine in ("transformers", "llama.cpp"):
        return [f"{name}: {engine} offers no fp8 cache that a draft could share; the size is that of vLLM and SGLang, one byte per value."]
    if rate in (kv_rate("int8"), kv_rate("int4")) and engine != "llama.cpp":
        return [f"{name}: a cache in {dtype} is counted as llama.cpp keeps it (q8_0, q4_0: 34 or 18 bytes for 32 values); {engine} may not offer it."]
    return []


_VLLM_STATES = (
    "running states are counted as in Transformers, mostly fp32; vLLM keeps them in the weights' dtype, down to half of that, "
    "unless the config or --mamba-ssm-cache-dtype says float32."
)
_WINDOWS: dict[Engine, str] = {
    "transformers": "Transformers keeps no more than the window in window layers.",
    "vLLM": "vLLM keeps no more than the window in window layers, in pages of 16 tokens; with --disable-hybrid-kv-cache-manager it reserves all.",
    "SGLang": "SGLang reserves 80 % of the tokens for window layers (--swa-full-tokens-ratio 0.8), whatever the window.",
    "llama.cpp": "llama.cpp keeps the window and 512 cells more in window layers; with --swa-full it reserves all.",
}
_LATENTS: dict[Engine, str] = {
    "transformers": "Transformers 5.24 caches it as it is.",
    "vLLM": "vLLM caches it as it is.",
    "SGLang": "SGLang caches it as it is.",
    "llama.cpp": "llama.cpp does so since January 2026 (pull request 19067); before, almost twice as much.",
}


def _kept(layer: LayerCache, tokens: int, engine: Engine, hybrid: bool) -> int:
    """Tokens of a sequence that the layer has room for. hybrid: other layers of the model have no window."""
    rule = RULES[engine]
    if layer.window is None:
        return _pages(tokens, rule.page_tokens)
    if rule.window_share is not None:
        return ceil(tokens * rule.window_share) if hybrid else tokens
    return min(_pages(tokens, rule.page_tokens), _pages(layer.window + rule.beyond_window_tokens, rule.page_tokens))


def _indexed(layer: LayerCache) -> bool:
    """Whether the layer keeps keys of an indexer besides its own (DeepSeek sparse attention)."""
    return layer.window is None and layer.bytes_per_token > 2 * layer.kv_heads * (layer.key_width + layer.value_width)


def _pages(tokens: int, page: int) -> int:
    return -(-tokens // page) * page


def _share(layer: LayerCache, ranks: int) -> Fraction:
    """What one rank keeps: its heads; at least one whole head, and the whole latent."""
    if layer.kind == "latent" or layer.kv_heads == 0:
        return Fraction(1)
    return Fraction(-(-layer.kv_heads // ranks), layer.kv_heads)
